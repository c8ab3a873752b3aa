//! The dashboard's pages of items: their filters, and the changes of the items that they show.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::command_line::dashboard::{add_dead, field_of, post, serving};
use crate::command_line::workspace::Workspace;
use crate::support::http::{HttpResponse, get};
use crate::support::timeout::wait_until_blocking;

/// Gets a page as a browser does, which follows redirects.
fn open(admin: SocketAddr, path: &str) -> HttpResponse {
    let mut page = get(admin, path);
    while let Some(location) = &page.location {
        page = get(admin, location);
    }
    page
}

/// Returns the text of an attribute.
fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// Returns the texts between each `start` and the next quotation mark.
fn attributes<'a>(html: &'a str, start: &'a str) -> impl Iterator<Item = String> + 'a {
    let parts = html.split(start).skip(1);
    parts.map(|part| unescaped(part.split('"').next().unwrap_or_default()))
}

/// Sends the last form of a page that has a button with this text, as a browser does.
fn press(admin: SocketAddr, page: &HttpResponse, button: &str) -> HttpResponse {
    let mut forms = page.body.rsplit("<form");
    let form = forms.find_map(|form| {
        let form = form.split("</form>").next()?;
        form.contains(&format!(">{button}")).then_some(form)
    });
    let form = form.unwrap_or_else(|| panic!("no button {button}: {}", page.body));
    let (before, _) = form.split_once(&format!(">{button}")).expect("a button");
    let pressed = before.rsplit_once("<button").expect("its start").1;
    let mut body = form_urlencoded::Serializer::new(String::new());
    let inputs = form.split("<input type=\"hidden\" ").skip(1);
    for part in inputs.chain([pressed]) {
        let tag = part.split('>').next().unwrap_or_default();
        let name = attributes(tag, "name=\"").next();
        let value = attributes(tag, "value=\"").next();
        if let (Some(name), Some(value)) = (name, value) {
            body.append_pair(&name, &value);
        }
    }
    let action = attributes(form, "action=\"").next().expect("an action");
    post(admin, &action, "", &body.finish())
}

/// Returns how many items of the queue `work` are in a state.
fn count(workspace: &Workspace, state: u8) -> i64 {
    let sql = "SELECT count(*) FROM work WHERE lease_state = ?1";
    let database = workspace.database();
    let count = database.query_row(sql, [state], |row| row.get(0));
    count.expect(sql)
}

#[test]
fn next_page_of_a_filter_by_age_has_the_next_items() {
    let (workspace, admin) = serving("", |_| ());
    for _ in 0..101 {
        add_dead(&workspace, "x");
    }
    let first = open(admin, "/queues/work/items?state=dead&before=1s");
    assert!(first.body.contains("100 items shown"), "{first:?}");
    let next = attributes(&first.body, "rel=\"next\" href=\"").next();
    let path = format!("/queues/work/items{}", next.expect("a link"));
    let next = get(admin, &path);
    assert_eq!(next.status, 200, "{next:?}");
    assert!(next.body.contains("1 item shown"), "{next:?}");
}

#[test]
fn change_by_age_concerns_the_items_that_were_counted() {
    let (workspace, admin) = serving("", |_| ());
    add_dead(&workspace, "counted");
    let list = open(admin, "/queues/work/items?state=dead&before=1ms");
    let question = press(admin, &list, "Redrive …");
    assert!(question.body.contains("Redrive 1"), "{question:?}");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = || i64::try_from(now().expect("a time").as_millis()).expect("a time");
    let died = millis();
    let sql = "INSERT INTO work (payload, lease_state, lease_state_time) VALUES ('later', 4, ?1)";
    workspace.database().execute(sql, [died]).expect(sql);
    wait_until_blocking("the item is older than the age", || millis() > died + 1);
    let started = press(admin, &question, "Redrive 1");
    assert_eq!(started.status, 303, "{started:?}");
    // The second press of the button is the same change.
    let again = press(admin, &question, "Redrive 1");
    assert_eq!(again.status, 303, "{again:?}");
    wait_until_blocking("the change is done", || {
        open(admin, "/operations").body.contains(">done<")
    });
    assert_eq!(count(&workspace, 4), 1, "the later item stays dead");
}

/// Claims an item as this worker. Returns the id of the lease.
fn claim(workspace: &Workspace, worker: &str) -> String {
    let claimed = workspace.call(&format!("claim work --worker {worker}"));
    let lease: serde_json::Value = serde_json::from_str(claimed.out.trim()).expect("a lease");
    lease["lease_id"].as_str().expect("an id").to_owned()
}

#[test]
fn lease_of_a_later_worker_is_not_taken_away() {
    let (workspace, admin) = serving("", |_| ());
    workspace.call("enqueue work --set payload=x");
    let lease = claim(&workspace, "pc-7");
    let page = get(admin, "/queues/work/item?key=1");
    let question = press(admin, &page, "Take the lease away …");
    assert!(question.body.contains("pc-7"), "{question:?}");
    let released = workspace.call(&format!("release work {lease}"));
    assert_eq!(released.code, 0, "{released:?}");
    claim(&workspace, "pc-8");
    let late = press(admin, &question, "Take away 1");
    assert_eq!(late.status, 409, "{late:?}");
    assert!(late.body.contains("another worker"), "{late:?}");
    assert_eq!(count(&workspace, 1), 1);
    // The page of before leads to the same answer.
    let late = press(admin, &page, "Take the lease away …");
    assert_eq!(late.status, 409, "{late:?}");
    let page = get(admin, "/queues/work/item?key=1");
    let question = press(admin, &page, "Take the lease away …");
    assert!(question.body.contains("pc-8"), "{question:?}");
    let taken = press(admin, &question, "Take away 1");
    assert_eq!(taken.status, 303, "{taken:?}");
    assert_eq!(count(&workspace, 1), 0);
}

#[test]
fn lease_that_is_taken_away_is_counted_as_cancelled() {
    let (workspace, admin) = serving("", |_| ());
    workspace.call("enqueue work --set payload=x");
    claim(&workspace, "pc-7");
    let page = get(admin, "/queues/work/item?key=1");
    let question = press(admin, &page, "Take the lease away …");
    let taken = press(admin, &question, "Take away 1");
    assert_eq!(taken.status, 303, "{taken:?}");
    let metrics = get(admin, "/metrics").body;
    let ended = "lease_broker_lease_ended_total{lease_broker_lease_outcome=\"cancelled\",lease_broker_queue_name=\"work\"} 1";
    assert!(metrics.lines().any(|line| line == ended), "{metrics}");
}

#[test]
fn marked_leases_of_later_workers_are_not_taken_away() {
    let (workspace, admin) = serving("", |_| ());
    for _ in 0..2 {
        workspace.call("enqueue work --set payload=x");
    }
    let leases = ["pc-7", "pc-8"].map(|worker| claim(&workspace, worker));
    let list = get(admin, "/queues/work/items?state=leased");
    let boxes = list.body.split("<input type=\"checkbox\" ").skip(1);
    let marked: Vec<String> = boxes
        .map(|tag| attributes(tag, "value=\"").next().expect("a value"))
        .collect();
    assert_eq!(marked.len(), 2, "{list:?}");
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.append_pair("form", field_of(&list.body, "form"));
    for lease in marked {
        body.append_pair("lease", &lease);
    }
    let question = post(admin, "/queues/work/leases/confirm", "", &body.finish());
    assert!(question.body.contains("Take away 2"), "{question:?}");
    assert!(question.body.contains("pc-8"), "{question:?}");
    workspace.call(&format!("release work {}", leases[0]));
    claim(&workspace, "pc-9");
    let late = press(admin, &question, "Take away 2");
    assert_eq!(late.status, 409, "{late:?}");
    assert!(late.body.contains("1 of 2 leases taken away"), "{late:?}");
    assert_eq!(count(&workspace, 1), 1);
    let none = format!("form={}", field_of(&list.body, "form"));
    let none = post(admin, "/queues/work/leases/confirm", "", &none);
    assert_eq!(none.status, 400, "{none:?}");
}

#[test]
fn odd_keys_have_a_link_with_a_visible_text() {
    let toml = "[queues.orders]\ntable = 'orders'\nkey = 'id'\n";
    let (workspace, admin) = serving(toml, |workspace| {
        let table = "CREATE TABLE orders (id TEXT PRIMARY KEY)";
        workspace.database().execute_batch(table).expect(table);
        let applied = workspace.store("schema apply");
        assert_eq!(applied.code, 0, "{applied:?}");
    });
    let insert = "INSERT INTO orders (id, lease_state, lease_state_time) VALUES (?1, 4, 1000)";
    for key in ["", " ", "a\u{202e}b"] {
        workspace.database().execute(insert, [key]).expect(insert);
    }
    let list = get(admin, "/queues/orders/items?state=dead");
    for text in ["&quot;&quot;", "&quot; &quot;", r"a\u{202e}b"] {
        assert!(list.body.contains(&format!(">{text}</a>")), "{list:?}");
    }
    let item = get(admin, "/queues/orders/item?key=a%E2%80%AEb");
    assert_eq!(item.status, 200, "{item:?}");
    for page in [list, item] {
        assert!(!page.body.contains('\u{202e}'), "{page:?}");
    }
}
