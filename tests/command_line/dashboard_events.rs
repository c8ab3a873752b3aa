//! The events of the dashboard's live pages: their cost, their viewers, and their end.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::command_line::dashboard::{form_of, post, serving, serving_an_observer};
use crate::support::event_stream::{Event, EventStream};
use crate::support::http::{get, send_with_headers};
use crate::support::timeout::wait_until_blocking;

const QUEUES: &str = "/events?page=queues";

fn open(admin: SocketAddr) -> EventStream {
    EventStream::open(admin, QUEUES, "")
}

/// Reads events until this one has come. Returns it.
fn until(viewer: &mut EventStream, is_meant: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = viewer.next().expect("another event");
        if is_meant(&event) {
            return event;
        }
    }
}

#[test]
fn hundred_viewers_cost_one_reading_a_second() {
    let (_workspace, admin) = serving("", |_| ());
    let mut viewers: Vec<EventStream> = (0..100).map(|_| open(admin)).collect();
    for viewer in &mut viewers {
        assert_eq!(viewer.status, 200, "{}", viewer.head);
        assert!(viewer.head.contains("content-type: text/event-stream"));
        assert_eq!(viewer.retry().as_deref(), Some("retry: 2000"));
    }
    // The next one is told why it gets no events. Other requests have other places.
    let refused = get(admin, QUEUES);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(
        refused.body.starts_with("100 live pages are open"),
        "{refused:?}"
    );
    assert_eq!(get(admin, "/").status, 200);
    assert_eq!(get(admin, "/livez").status, 200);
    // All of them see the same readings. The ids count these, and two of them are a second apart.
    let first = viewers[0].next().expect("an event").id;
    let begin = Instant::now();
    let last = until(&mut viewers[0], |event| event.id >= first + 3).id;
    let took = begin.elapsed();
    let minimum = Duration::from_millis(900) * u32::try_from(last - first).expect("few");
    assert!(took >= minimum, "{} readings in {took:?}", last - first);
    for viewer in &mut viewers[1..] {
        let whole = viewer.next().expect("an event");
        assert!(whole.data.contains("outbox"), "{whole:?}");
        until(viewer, |event| event.id >= last);
    }
    // A place that becomes free can be taken.
    viewers.pop();
    wait_until_blocking("a place is free", || open(admin).status == 200);
}

#[test]
fn later_events_hold_the_rows_that_have_changed() {
    let (workspace, admin) = serving("", |_| ());
    let mut viewer = EventStream::open(admin, &format!("{QUEUES}&rows"), "");
    let whole = viewer.next().expect("an event");
    assert!(whole.data.contains("<h1>"), "{whole:?}");
    let is_empty = |event: &Event| event.name == "rows" && event.data.is_empty();
    until(&mut viewer, is_empty);
    let added = workspace.call("enqueue work --set payload=x");
    assert_eq!(added.code, 0, "{added:?}");
    let changed = until(&mut viewer, |event| !event.data.is_empty());
    assert_eq!(changed.name, "rows", "{changed:?}");
    assert!(changed.data.contains(">work<"), "{changed:?}");
    assert!(!changed.data.contains(">outbox<"), "{changed:?}");
}

#[test]
fn viewer_that_reads_nothing_holds_one_snapshot() {
    const COUNT: usize = 60;
    let mut toml = String::new();
    for number in 0..COUNT {
        let queue = format!("[queues.q{number}]\nmanaged_columns = {{ payload = 'text' }}\n");
        toml.push_str(&queue);
    }
    let (workspace, admin) = serving(&toml, |_| ());
    let form = form_of(&get(admin, "/")).to_owned();
    let database = workspace.database();
    // Each `&` is drawn as `&amp;`, so an event has more bytes than a connection takes.
    let reason = "%26".repeat(1_000);
    for number in 0..COUNT {
        let mut body = format!("form={form}&queue=q{number}&mode=claims");
        write!(body, "&reason={reason}").expect("text");
        assert_eq!(post(admin, "/pause", "", &body).status, 303);
        // The age of an item changes its row each second.
        let insert = format!("INSERT INTO q{number} (payload) VALUES ('x')");
        database.execute(&insert, []).expect("an item");
    }
    let mut reading = open(admin);
    let size = reading.next().expect("an event").data.len();
    assert!(size > 300_000, "{size} bytes");
    let mut silent = EventStream::narrow(admin, QUEUES);
    let begin = reading.next().expect("an event").id;
    let newest = until(&mut reading, |event| event.id >= begin + 8).id;
    // The network has taken at most a few, and one more was drawn. All others are left out.
    let mut old = 0;
    let next = loop {
        let id = silent.next().expect("an event").id;
        if id >= newest {
            break id;
        }
        old += 1;
    };
    assert!(
        old <= 4,
        "{old} old events before {next}, of {}",
        newest - begin
    );
}

#[test]
fn change_is_in_the_next_events() {
    let (_workspace, admin) = serving("", |_| ());
    let mut viewer = open(admin);
    let before = viewer.next().expect("an event");
    assert_eq!(before.name, "message");
    assert!(!before.data.contains("at night"), "{before:?}");
    let form = form_of(&get(admin, "/")).to_owned();
    let body = format!("form={form}&queue=work&mode=claims&reason=at%0D%0Anight");
    assert_eq!(post(admin, "/pause", "", &body).status, 303);
    // A line break of the reason does not end the event.
    let after = until(&mut viewer, |event| event.data.contains("atnight"));
    assert!(after.data.contains("1 paused"), "{after:?}");
    for page in ["queue&queue=work", "operations", "brokers"] {
        let mut viewer = EventStream::open(admin, &format!("/events?page={page}"), "");
        let event = viewer.next().expect("an event");
        assert_eq!(event.name, "message", "{page}: {event:?}");
        assert!(event.data.contains("<h1>"), "{page}: {event:?}");
    }
    let mut unknown = EventStream::open(admin, "/events?page=queue&queue=other", "");
    let problem = unknown.next().expect("an event");
    assert_eq!(problem.name, "problem", "{problem:?}");
    assert!(problem.data.contains("other"), "{problem:?}");
    assert_eq!(get(admin, "/events?page=other").status, 400);
}

#[test]
fn events_end_with_the_session_and_show_its_queues() {
    let (_workspace, admin, token) = serving_an_observer();
    assert_eq!(get(admin, QUEUES).status, 303, "to the login");
    let login = post(admin, "/login", "", &format!("token={token}"));
    let (_, cookie) = login.head.split_once("set-cookie: ").expect("a cookie");
    let cookie = cookie.split_once(';').expect("an end").0;
    let cookie = format!("Cookie: {cookie}\r\n");
    let mut viewer = EventStream::open(admin, QUEUES, &cookie);
    let event = viewer.next().expect("an event");
    assert!(event.data.contains(">work<"), "{event:?}");
    assert!(!event.data.contains("outbox"), "{event:?}");
    assert!(!event.data.contains("<form"), "{event:?}");
    let foreign = EventStream::open(admin, "/events?page=queue&queue=outbox", &cookie);
    assert_eq!(foreign.status, 403);
    let headers = format!("Host: {admin}\r\n{cookie}");
    let page = send_with_headers(admin, "GET", "/", &headers, "");
    let body = format!("form={}", form_of(&page));
    assert_eq!(post(admin, "/logout", &cookie, &body).status, 303);
    while viewer.next().is_some() {}
}

#[test]
fn events_end_when_the_viewer_loses_the_role() {
    let (workspace, admin, token) = serving_an_observer();
    let header = format!("Authorization: Bearer {token}\r\n");
    let mut viewers = ["queue&queue=work", "brokers"].map(|page| {
        let mut viewer = EventStream::open(admin, &format!("/events?page={page}"), &header);
        assert_eq!(viewer.next().expect("an event").name, "message", "{page}");
        viewer
    });
    let toml = std::fs::read_to_string(workspace.path("queues.toml")).expect("text");
    let changed = toml.replace("observer = ['work']", "producer = ['outbox']");
    workspace.write("queues.toml", &changed);
    let process = workspace.process.as_ref().expect("a service");
    process.signal("HUP");
    wait_until_blocking("the change is read", || {
        process.log().contains("configuration read again")
    });
    for viewer in &mut viewers {
        // Some events may have been on their way.
        let ended = (0..5).any(|_| viewer.next().is_none());
        assert!(ended, "the events go on");
    }
}

#[test]
fn events_end_when_the_configuration_is_replaced() {
    let (workspace, admin) = serving("", |_| ());
    let mut viewer = open(admin);
    assert_eq!(viewer.status, 200);
    let toml = std::fs::read_to_string(workspace.path("queues.toml")).expect("text");
    let added = "[queues.added]\nmanaged_columns = { payload = 'text' }\n";
    workspace.write("queues.toml", &format!("{toml}{added}"));
    workspace.process.as_ref().expect("a service").signal("HUP");
    while viewer.next().is_some() {}
    let event = open(admin).next().expect("an event");
    assert!(event.data.contains(">added<"), "{event:?}");
}
