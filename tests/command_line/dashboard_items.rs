//! The dashboard's pages of items: their filters, and the changes of the items that they show.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::command_line::dashboard::{add_dead, post, serving};
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
