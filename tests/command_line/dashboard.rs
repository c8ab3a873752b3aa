//! The dashboard on the admin port: its pages, its forms, and its login.

use std::net::SocketAddr;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::http::{HttpResponse, get, send, send_with_headers};
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until_blocking;

/// Starts a broker with more configuration, with its admin port on a free port.
pub(crate) fn serving(toml: &str, prepare: impl FnOnce(&Workspace)) -> (Workspace, SocketAddr) {
    let mut workspace = Workspace::with("");
    let tokens = workspace.path("tokens").display().to_string();
    let toml = toml.replace("'tokens'", &format!("'{tokens}'"));
    let toml = format!("admin.listen = '127.0.0.1:0'\n{QUEUES}\n{toml}");
    workspace.write("queues.toml", &toml);
    prepare(&workspace);
    workspace.serve();
    let process: &mut BrokerProcess = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    (workspace, admin)
}

/// Starts a broker whose only identity is an observer. Returns also the observer's token.
pub(crate) fn serving_an_observer() -> (Workspace, SocketAddr, String) {
    serving_an_observer_with(|_| ())
}

/// Does the same. `prepare` can change the files before the broker starts.
fn serving_an_observer_with(prepare: impl FnOnce(&Workspace)) -> (Workspace, SocketAddr, String) {
    let auth = "
[auth]
tokens_file = 'tokens'
[[auth.identities]]
name = 'eye'
token = 'eye'
roles = { observer = ['work'] }
";
    let mut token = String::new();
    let (workspace, admin) = serving(auth, |workspace| {
        let made = workspace.run("token new eye --tokens-file tokens");
        made.out.trim().clone_into(&mut token);
        prepare(workspace);
    });
    (workspace, admin, token)
}

/// Sends a form.
pub(crate) fn post(admin: SocketAddr, path: &str, cookie: &str, body: &str) -> HttpResponse {
    let headers = format!(
        "Host: {admin}\r\nOrigin: http://{admin}\r\n{cookie}Content-Type: application/x-www-form-urlencoded\r\n"
    );
    send_with_headers(admin, "POST", path, &headers, body)
}

/// Returns the token of the first form on a page.
pub(crate) fn form_of(page: &HttpResponse) -> &str {
    field_of(&page.body, "form")
}

/// Returns the value of the first hidden field with this name.
pub(crate) fn field_of<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("name=\"{name}\" value=\""))
        .expect(name);
    rest.split_once('"').expect("an end").0
}

/// Adds an item and makes it dead.
pub(crate) fn add_dead(workspace: &Workspace, payload: &str) {
    let database = workspace.database();
    let sql = "INSERT INTO work (payload, lease_state, lease_state_time, lease_error) VALUES (?1, 4, 1000, ?1)";
    database.execute(sql, [payload]).expect("a dead item");
}

#[test]
fn every_page_is_served_with_its_headers() {
    let (workspace, admin) = serving("", |_| ());
    add_dead(&workspace, "x");
    for path in [
        "/",
        "/queues/work",
        "/queues/work/items?state=dead",
        "/queues/work/items?state=ready&owner=a&error=b&since=2027-01-31T02:00:00Z&attempts=1",
        "/queues/work/item?key=1",
        "/operations",
        "/brokers",
    ] {
        let page = get(admin, path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(page.body.contains("<main"), "{path}");
        for header in [
            "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'",
            "referrer-policy: same-origin",
            "x-content-type-options: nosniff",
        ] {
            assert!(page.head.contains(header), "{path}: {header}");
        }
    }
    assert_eq!(get(admin, "/queues/other").status, 404);
    assert_eq!(get(admin, "/queues/work/item?key=99").status, 404);
    assert_eq!(get(admin, "/queues/work/items?since=yesterday").status, 400);
    for file in ["/style.css", "/live.js"] {
        assert_eq!(get(admin, file).status, 200, "{file}");
    }
}

#[test]
fn markup_in_a_row_is_shown_as_text() {
    let (workspace, admin) = serving("", |_| ());
    add_dead(&workspace, "<img src=x onerror=alert(1)>");
    for path in [
        "/queues/work",
        "/queues/work/items?state=dead",
        "/queues/work/item?key=1",
    ] {
        let page = get(admin, path);
        assert!(
            page.body.contains("&lt;img src=x onerror=alert(1)&gt;"),
            "{path}"
        );
        assert!(!page.body.contains("<img src=x"), "{path}");
    }
}

#[test]
fn pause_and_redrive_by_forms() {
    let (workspace, admin) = serving("", |_| ());
    add_dead(&workspace, "a");
    let page = get(admin, "/");
    let form = form_of(&page).to_owned();
    let paused = post(
        admin,
        "/pause",
        "",
        &format!("form={form}&queue=work&mode=claims&reason=night"),
    );
    assert_eq!(paused.status, 303, "{paused:?}");
    assert!(get(admin, "/").body.contains("night"));
    let resumed = post(admin, "/resume", "", &format!("form={form}&queue=work"));
    assert_eq!(resumed.status, 303, "{resumed:?}");
    let asked = post(
        admin,
        "/queues/work/confirm",
        "",
        &format!("form={form}&change=redrive&state=dead"),
    );
    assert_eq!(asked.status, 200, "{asked:?}");
    assert!(asked.body.contains("Redrive 1"), "{}", asked.body);
    let id = field_of(&asked.body, "request_id");
    let started = post(
        admin,
        "/queues/work/start",
        "",
        &format!("form={form}&change=redrive&state=dead&request_id={id}&reason=fixed"),
    );
    assert_eq!(started.status, 303, "{started:?}");
    let operations = get(admin, "/operations");
    assert!(operations.body.contains("fixed"), "{}", operations.body);
}

#[test]
pub(crate) fn form_of_another_page_is_refused() {
    let (workspace, admin) = serving("", |_| ());
    let forged = post(admin, "/pause", "", "form=0&queue=work&mode=claims");
    assert_eq!(forged.status, 403, "{forged:?}");
    let foreign = format!(
        "Host: {admin}\r\nOrigin: http://evil.example\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    );
    let foreign = send_with_headers(
        admin,
        "POST",
        "/pause",
        &foreign,
        "form=0&queue=work&mode=claims",
    );
    assert_eq!(foreign.status, 403, "{foreign:?}");
    assert!(!get(admin, "/").body.contains("class=\"paused\""));
    let process = workspace.process.as_ref().expect("a service");
    wait_until_blocking("the audit has both", || {
        let log = process.log();
        log.contains("dashboard.form_refused") && log.contains("dashboard.host_refused")
    });
}

#[test]
fn reverse_proxy_sends_the_token_of_the_viewer_in_its_header() {
    let (_workspace, admin, token) = serving_an_observer_with(|workspace| {
        let toml = std::fs::read_to_string(workspace.path("queues.toml")).expect("text");
        let header = "admin.token_header = 'X-Forwarded-Access-Token'";
        workspace.write("queues.toml", &format!("{header}\n{toml}"));
    });
    let page = |header: &str, token: &str| {
        let headers = format!("Host: {admin}\r\n{header}: {token}\r\n");
        send_with_headers(admin, "GET", "/", &headers, "").status
    };
    assert_eq!(page("x-forwarded-access-token", &token), 200);
    assert_eq!(page("x-forwarded-access-token", "wrong"), 303);
    assert_eq!(page("x-other", &token), 303);
    assert_eq!(page("authorization", &format!("Bearer {token}")), 200);
}

#[test]
fn header_for_tokens_needs_identities_and_a_name() {
    for setting in ["X-Token", "not a name"] {
        let workspace = Workspace::with(&format!("admin.token_header = '{setting}'\n{QUEUES}"));
        let refused = workspace.run("serve --config queues.toml --store q.db");
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.err.contains("admin.token_header"), "{refused:?}");
    }
}

#[test]
fn groups_are_listed_paused_and_resumed() {
    let toml = "
[queues.orders]
managed_columns = { customer = 'text' }
group = 'customer'
";
    let (workspace, admin) = serving(toml, |_| ());
    for customer in ["ada", "ada", "<grace>"] {
        workspace.call(&format!("enqueue orders --set customer={customer}"));
    }
    let queue = get(admin, "/queues/orders");
    assert!(queue.body.contains(">&lt;grace&gt;"), "{}", queue.body);
    assert!(!get(admin, "/queues/work").body.contains("Groups"));
    let list = "/queues/orders/groups";
    let form = format!("form={}&group=ada", form_of(&get(admin, list)));
    let stranger = post(admin, &format!("{list}/pause"), "", "form=x&group=ada");
    assert_eq!(stranger.status, 403, "{stranger:?}");
    let paused = post(
        admin,
        &format!("{list}/pause"),
        "",
        &format!("{form}&reason=audit"),
    );
    assert_eq!(paused.status, 303, "{paused:?}");
    let shown = get(admin, &format!("{list}?state=paused")).body;
    assert!(
        shown.contains("audit") && !shown.contains("grace"),
        "{shown}"
    );
    assert!(
        get(admin, &format!("{list}?state=ready"))
            .body
            .contains("grace")
    );
    let resumed = post(admin, &format!("{list}/resume?group=ada"), "", &form);
    assert_eq!(resumed.status, 303, "{resumed:?}");
    let shown = get(admin, &format!("{list}?state=paused")).body;
    assert!(shown.contains("No group is in this state"), "{shown}");
    let unknown = get(admin, "/queues/work/groups");
    assert_eq!(unknown.status, 400, "{unknown:?}");
    let long = "x".repeat(300);
    workspace.call(&format!("enqueue orders --set customer={long}"));
    let shown = get(admin, list).body;
    assert!(shown.contains("xxx…") && !shown.contains(&long), "{shown}");
}

#[test]
fn page_needs_a_login_where_callers_have_identities() {
    let (_workspace, admin, token) = serving_an_observer();
    let unknown = get(admin, "/");
    assert_eq!(unknown.status, 303, "{unknown:?}");
    assert!(unknown.head.contains("location: /login"));
    let wrong = post(admin, "/login", "", "token=wrong");
    assert_eq!(wrong.status, 403, "{wrong:?}");
    let login = post(admin, "/login", "", &format!("token={token}"));
    assert_eq!(login.status, 303, "{login:?}");
    let (_, cookie) = login.head.split_once("set-cookie: ").expect("a cookie");
    assert!(cookie.contains("httponly; samesite=strict"), "{cookie}");
    let cookie = cookie.split_once(';').expect("an end").0;
    // Browsers send the cookies of all programs on a host, also those that are not ASCII.
    let headers = format!("Host: {admin}\r\nCookie: name=Zoë; {cookie}\r\n");
    let page = send_with_headers(admin, "GET", "/", &headers, "");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains(">work<"), "{}", page.body);
    // The observer sees its queue only, and no button that changes one.
    assert!(!page.body.contains("outbox"), "{}", page.body);
    assert!(!page.body.contains("action=\"/pause\""), "{}", page.body);
    let form = form_of(&page).to_owned();
    let cookie = format!("Cookie: {cookie}\r\n");
    let denied = post(
        admin,
        "/pause",
        &cookie,
        &format!("form={form}&queue=work&mode=claims"),
    );
    assert_eq!(denied.status, 403, "{denied:?}");
    let out = post(admin, "/logout", &cookie, &format!("form={form}"));
    assert_eq!(out.status, 303, "{out:?}");
    let gone = send_with_headers(admin, "GET", "/", &headers, "");
    assert_eq!(gone.status, 303, "{gone:?}");
    assert_eq!(send(admin, "GET", "/queues/work", "").status, 303);
}

#[test]
fn everybody_has_the_rights_of_callers_without_credentials() {
    let auth = "[auth]\nanonymous = ['observer']";
    let listen = "admin.listen = '127.0.0.1:0'";
    for (setting, status) in [
        ("admin.listen = '0.0.0.0:0'", 303),
        (
            "admin.listen = '0.0.0.0:0'\nadmin.allow_changes = true",
            200,
        ),
        (&*format!("{listen}\nadmin.token_header = 'x-token'"), 303),
    ] {
        let (_workspace, admin) = serving(auth, |workspace| {
            let text = std::fs::read_to_string(workspace.path("queues.toml")).expect("a file");
            workspace.write("queues.toml", &text.replace(listen, setting));
        });
        assert_eq!(get(admin, "/").status, status, "{setting}");
    }
    let worker = "[auth]\nanonymous = ['worker']";
    let (_workspace, admin) = serving(worker, |_| ());
    assert_eq!(get(admin, "/").status, 303, "a worker sees no page");
    let (_workspace, admin) = serving(auth, |_| ());
    let page = get(admin, "/");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains(">work<"), "{}", page.body);
    assert!(page.body.contains("href=\"/login\""), "{}", page.body);
    assert!(!page.body.contains("action=\"/pause\""), "{}", page.body);
}

#[test]
fn slow_database_is_reported_on_a_page() {
    let (workspace, admin) = serving("", |_| ());
    let form = form_of(&get(admin, "/")).to_owned();
    let other = workspace.database();
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let body = format!("form={form}&queue=work&mode=claims");
    let late = post(admin, "/pause", "", &body);
    assert_eq!(late.status, 503, "{late:?}");
    assert!(late.body.contains("may still be made"), "{}", late.body);
}

#[test]
fn hundred_marked_items_have_keys_of_any_length() {
    let toml = "[queues.orders]\ntable = 'orders'\nkey = 'id'\n";
    let (workspace, admin) = serving(toml, |workspace| {
        let table = "CREATE TABLE orders (id TEXT PRIMARY KEY)";
        workspace.database().execute_batch(table).expect(table);
        let applied = workspace.store("schema apply");
        assert_eq!(applied.code, 0, "{applied:?}");
    });
    let insert = "INSERT INTO orders (id, lease_state, lease_state_time) VALUES (?1, 4, 1000)";
    let mut filter = "state=dead".to_owned();
    for number in 0..100 {
        let key = format!("{number:03}{}", "я".repeat(500));
        workspace.database().execute(insert, [&key]).expect(insert);
        let encoded: String = form_urlencoded::byte_serialize(key.as_bytes()).collect();
        filter.push_str("&key=");
        filter.push_str(&encoded);
    }
    let filter: String = form_urlencoded::byte_serialize(filter.as_bytes()).collect();
    let form = form_of(&get(admin, "/")).to_owned();
    let body = format!("form={form}&change=redrive&marked=1&filter={filter}");
    let asked = post(admin, "/queues/orders/confirm", "", &body);
    assert_eq!(asked.status, 200, "{asked:?}");
    assert!(asked.body.contains("Redrive 100"), "{}", asked.body);
    let id = field_of(&asked.body, "request_id");
    let started = post(
        admin,
        "/queues/orders/start",
        "",
        &format!("{body}&request_id={id}"),
    );
    assert_eq!(started.status, 303, "{started:?}");
}
