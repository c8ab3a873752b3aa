//! Tests of `redrive`, `cancel`, `purge` and `operations`: changes of many items.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::command_line::both_ways::both;
use crate::command_line::terminal::Terminal;
use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database;
use crate::support::process::{BrokerProcess, CommandOutput, program};
use crate::support::signal;
use crate::support::timeout::wait_until_blocking;

/// Makes items dead with this error, without the broker.
fn add_dead(workspace: &Workspace, items: u32, error: &str) {
    let fill = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {items})
        INSERT INTO work (payload, lease_state, lease_state_time, lease_attempt, lease_error)
        SELECT 'x', 4, unixepoch() * 1000 - 7200000, 1, '{error}' FROM n"
    );
    workspace.database().execute_batch(&fill).expect(&fill);
}

fn count(workspace: &Workspace, condition: &str) -> i64 {
    let query = format!("SELECT count(*) FROM work WHERE {condition}");
    database::query_value(&workspace.database(), &query)
}

/// Starts a command whose output goes into pipes.
fn spawn(workspace: &Workspace, arguments: &str) -> Child {
    let mut command = program();
    command
        .args(arguments.split_whitespace())
        .current_dir(workspace.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Waits for the end of a command, and returns its exit code and its messages.
fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("it ends");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), messages)
}

/// Returns the id of the only operation that runs, once it has changed an item.
fn running_operation(workspace: &Workspace) -> String {
    wait_until_blocking("an item is ready", || {
        count(workspace, "lease_state = 0") > 0
    });
    let running = workspace.store("operations --running --output json").json();
    let id = running[0]["operation_id"].as_str();
    id.expect("an id").to_owned()
}

/// Asserts the exit code, and that the error message contains all parts.
fn fails(printed: &CommandOutput, code: i32, named: &[&str]) {
    assert_eq!(printed.code, code, "{printed:?}");
    for part in named {
        assert!(printed.err.contains(part), "{part:?} is not in {printed:?}");
    }
}

#[test]
fn redrive_changes_what_the_filter_selects_both_ways() {
    let workspace = Workspace::serving();
    for way in 0..2 {
        add_dead(&workspace, 3, "timeout");
        add_dead(&workspace, 2, "broken");
        let [service, database] = both(&workspace, "redrive work --error time --dry-run");
        let text = "3 dead items of queue work fit\n";
        assert_eq!((service.code, &*service.out), (0, text), "{service:?}");
        assert_eq!((database.code, &*database.out), (0, text), "{database:?}");
        let command = "redrive work --error time --yes --wait --output json";
        let redriven = match way {
            0 => workspace.call("redrive work --error time --yes --wait"),
            _ => workspace.store(command),
        };
        let ended = &redriven.json()[0];
        assert_eq!(ended["changed"], json!(3), "{redriven:?}");
        assert_eq!(
            (&ended["state"], &ended["action"], &ended["filter"]),
            (&json!("done"), &json!("redrive"), &json!({"error": "time"}))
        );
        assert_eq!(
            count(&workspace, "lease_state = 0 AND lease_attempt = 0"),
            3
        );
        let [service, database] = both(&workspace, "redrive work --error time --yes --wait");
        for none in [service, database] {
            fails(&none, 2, &["no item of queue work fits"]);
        }
        workspace
            .database()
            .execute_batch("DELETE FROM work")
            .expect("no items");
    }
}

/// A broker changes the indexes of its managed tables. The configuration of an operator can be another.
#[test]
fn change_with_another_configuration_builds_no_index() {
    let workspace = Workspace::serving();
    let indexes = || -> String {
        let read = "SELECT group_concat(sql) FROM sqlite_schema WHERE type = 'index'";
        database::query_value(&workspace.database(), read)
    };
    let before = indexes();
    let other = QUEUES.replacen("[queues.work]", "[queues.work]\ncompleted_index = true", 1);
    assert_ne!(other, QUEUES);
    workspace.write("other.toml", &other);
    let refused = workspace.run("pause work --config other.toml --store q.db");
    fails(
        &refused,
        64,
        &["work_lease_completed", "configuration of the broker"],
    );
    assert_eq!(indexes(), before);
}

#[test]
fn change_without_a_terminal_needs_a_flag() {
    let workspace = Workspace::serving();
    add_dead(&workspace, 2, "x");
    for (command, question) in [
        (
            "redrive work",
            "Make 2 dead items of queue work ready again?",
        ),
        (
            "purge work --state dead",
            "Delete 2 dead items of queue work?",
        ),
        ("redrive work 1 2", "Make 2 dead items"),
    ] {
        for refused in both(&workspace, command) {
            fails(&refused, 64, &[question, "--yes", "--dry-run"]);
        }
    }
    assert_eq!(count(&workspace, "lease_state = 4"), 2);
    // One item needs no confirmation.
    let one = workspace.store("redrive work 1");
    assert_eq!(
        (one.code, &*one.out),
        (0, "1 item is ready again\n"),
        "{one:?}"
    );
    let other = workspace.store("purge work --state dead --limit 1");
    assert_eq!(
        (other.code, &*other.out),
        (0, "1 item was deleted\n"),
        "{other:?}"
    );
    let [service, database] = both(&workspace, "redrive work");
    for none in [service, database] {
        fails(&none, 2, &["no dead item of queue work fits"]);
    }
}

#[test]
fn terminal_shows_the_number_and_asks() {
    let workspace = Workspace::serving();
    add_dead(&workspace, 1_200, "x");
    let url = workspace.process.as_ref().expect("a service").url();
    let arguments = ["redrive", "work", "--address", &url];
    let mut terminal = Terminal::run(workspace.folder.path(), &arguments);
    terminal.answer("Make 1200 dead items of queue work ready again?", "n\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(3), "{screen}");
    assert!(screen.contains("nothing was changed"), "{screen}");
    assert_eq!(count(&workspace, "lease_state = 4"), 1_200);
    let mut terminal = Terminal::run(workspace.folder.path(), &arguments);
    terminal.answer("ready again?", "y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    for part in ["lease-broker operations", "1200 items are ready again"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert_eq!(count(&workspace, "lease_state = 0"), 1_200);
}

#[test]
fn cancel_by_filter_takes_leases_of_one_worker() {
    let workspace = Workspace::serving();
    for worker in ["gone", "gone", "here", "gone", "gone", "here"] {
        workspace.call("enqueue work --set payload=x");
        workspace.call(&format!("claim work --worker {worker} --lease 1h"));
    }
    let cancel = "cancel work --owner gone --reason lost --yes --wait --dead-letter";
    let cancelled = workspace.call(&format!("{cancel} --limit 3")).json();
    assert_eq!(
        (&cancelled[0]["changed"], &cancelled[0]["reason"]),
        (&json!(3), &json!("lost"))
    );
    let rest = workspace.store(cancel);
    assert_eq!(
        (rest.code, &*rest.out),
        (0, "1 lease was cancelled\n"),
        "{rest:?}"
    );
    assert_eq!(
        count(&workspace, "lease_state = 4 AND lease_error = 'lost'"),
        4
    );
    assert_eq!(
        count(&workspace, "lease_state = 1 AND lease_owner = 'here'"),
        2
    );
}

#[test]
fn cancel_by_key_works_on_the_database_too() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let cancel = "cancel work 1 --reason hangs --output json";
    let wrong = workspace.store(&format!("{cancel} --fencing-token 7"));
    fails(&wrong, 1, &["no lease with the fencing token 7"]);
    let cancelled = workspace.store(&format!("{cancel} --fencing-token 1 --dead-letter"));
    let expected =
        json!({"key": "1", "cancelled": true, "state": "dead", "fencing_token": 1, "problem": ""});
    assert_eq!(cancelled.json(), [expected]);
    let beat = workspace.call(&format!("heartbeat work {id}"));
    assert!(beat.out.contains("\"cancel_reason\":\"hangs\""), "{beat:?}");
    let several = workspace.store("cancel work 1 2 --reason x --limit 1 --yes");
    fails(&several, 64, &["--limit"]);
    workspace.write("queues.toml", &format!("limits.max_items = 1\n{QUEUES}"));
    let several = workspace.store("cancel work 1 2 --reason x --yes");
    fails(&several, 1, &["limit of 1 items"]);
}

#[test]
fn refused_items_end_part_way() {
    let workspace = Workspace::serving();
    add_dead(&workspace, 3, "x");
    let refer = "CREATE TABLE child (work_id REFERENCES work (id)); INSERT INTO child VALUES (2)";
    workspace.database().execute_batch(refer).expect(refer);
    let purged = workspace.call("purge work --state dead --yes --wait");
    fails(&purged, 4, &["refused 1 item:", "2 items were deleted"]);
    assert_eq!(count(&workspace, "id = 2"), 1);
}

#[test]
fn cancelled_operation_ends_part_way() {
    let workspace = Workspace::serving();
    add_dead(&workspace, 500, "x");
    let url = workspace.process.as_ref().expect("a service").url();
    let mut command = program();
    let arguments = format!("redrive work --rate 1/s --yes --wait --output json --address {url}");
    command.args(arguments.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let redrive = command.spawn().expect("the program starts");
    wait_until_blocking("an item is ready", || {
        count(&workspace, "lease_state = 0") > 0
    });
    let running = workspace.call("operations --running").json();
    let id = running[0]["operation_id"].as_str().expect("an id");
    for second in both(&workspace, "redrive work --yes --limit 1") {
        fails(&second, 1, &["OPERATION_RUNNING", id]);
    }
    let cancelled = workspace.store(&format!("operations cancel {id}"));
    assert!(cancelled.out.contains("is cancelled"), "{cancelled:?}");
    let output = redrive.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("was cancelled part-way"), "{error}");
    let watched = workspace.call(&format!("operations {id} --watch"));
    fails(&watched, 4, &["cancelled part-way"]);
    let last = watched.out.lines().last().expect("a line");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(last["state"], json!("cancelled"));
    let shown = workspace.store(&format!("operations {id}"));
    assert!(shown.out.contains("action        redrive"), "{shown:?}");
    assert!(count(&workspace, "lease_state = 4") > 400);
}

#[test]
fn operation_without_waiting_is_run_by_the_broker() {
    let workspace = Workspace::serving();
    add_dead(&workspace, 10, "x");
    let started = workspace.call("redrive work --yes --delay 1h --reason later");
    let id = started.json()[0]["operation_id"].clone();
    let id = id.as_str().expect("an id");
    let watched = workspace.call(&format!("operations {id} --watch"));
    assert_eq!(watched.code, 0, "{watched:?}");
    let last = watched.json().pop().expect("a line");
    assert_eq!(
        (&last["state"], &last["changed"]),
        (&json!("done"), &json!(10))
    );
    assert_eq!(count(&workspace, "lease_state = 2"), 10);
    let listed = workspace
        .store("operations --queue work --output json")
        .json();
    assert_eq!((listed.len(), &listed[0]["reason"]), (1, &json!("later")));
}

#[test]
fn database_alone_runs_operations() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    add_dead(&workspace, 1_100, "x");
    let redriven = workspace.store("redrive work --yes");
    assert_eq!(redriven.out, "1100 items are ready again\n", "{redriven:?}");
    let refused = workspace.store("redrive work --yes --wait=false");
    fails(&refused, 64, &["--wait=false"]);
}

#[test]
fn waiting_command_goes_on_with_another_broker() {
    let mut workspace = Workspace::serving();
    let second = BrokerProcess::second(&workspace.path("q.db"), &workspace.path("queues.toml"));
    add_dead(&workspace, 500, "x");
    let first = workspace.process.as_ref().expect("a service").url();
    let addresses = format!("{first},{}", second.url());
    let redrive = format!("redrive work --rate 1/s --yes --wait --address {addresses}");
    let redrive = spawn(&workspace, &redrive);
    let id = running_operation(&workspace);
    workspace.process.as_mut().expect("a service").kill();
    let cancelled = workspace.store(&format!("operations cancel {id}"));
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    let (code, messages) = end(redrive);
    assert_eq!(code, Some(4), "{messages}");
    assert!(messages.contains("was cancelled part-way"), "{messages}");
}

#[test]
fn reader_that_leaves_does_not_fail_a_running_operation() {
    let workspace = Workspace::serving();
    add_dead(&workspace, 500, "x");
    workspace.call("redrive work --rate 1/s --yes");
    let id = running_operation(&workspace);
    let url = workspace.process.as_ref().expect("a service").url();
    let watch = format!("operations {id} --watch --output json --address {url}");
    let mut watch = spawn(&workspace, &watch);
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe"));
    lines.read_line(&mut String::new()).expect("a line");
    drop(lines);
    let (code, messages) = end(watch);
    assert_eq!((code, &*messages), (Some(0), ""));
}

#[test]
fn interrupted_operation_of_a_database_is_continued() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    add_dead(&workspace, 4, "x");
    let database = "--config queues.toml --store q.db";
    let redrive = format!("redrive work --rate 2/s --yes {database}");
    let redrive = spawn(&workspace, &redrive);
    let id = running_operation(&workspace);
    signal::send(&redrive, "INT");
    let (code, messages) = end(redrive);
    assert_eq!(code, Some(4), "{messages}");
    let ways = [
        format!("operations continue {id}"),
        format!("operations cancel {id}"),
    ];
    for way in &ways {
        assert!(messages.contains(way), "{messages}");
    }
    let second = workspace.store("redrive work --yes");
    fails(&second, 1, &["OPERATION_RUNNING", &ways[0]]);
    break_table(&workspace, "outbox");
    let continued = workspace.store(&ways[0]);
    assert_eq!(continued.code, 0, "{continued:?}");
    assert_eq!(count(&workspace, "lease_state = 0"), 4);
}

#[test]
fn operation_of_a_newer_version_is_not_continued() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let id = uuid::Uuid::from_u128(7);
    let teleport = format!(
        "INSERT INTO lease_broker_operation (id, queue, kind, slot, definition, actor, reason, create_time)
        VALUES (X'{}', 'work', 'teleport', 'teleport', '{{}}', '', '', 1)",
        id.simple()
    );
    workspace
        .database()
        .execute_batch(&teleport)
        .expect("stored");
    let refused = workspace.store(&format!("operations continue {id}"));
    let cancel = format!("operations cancel {id}");
    fails(&refused, 64, &["newer version", &cancel]);
    assert_eq!(workspace.store(&cancel).code, 0);
}

/// Replaces a table by one that does not fit its queue.
fn break_table(workspace: &Workspace, table: &str) {
    let other = format!("DROP TABLE {table}; CREATE TABLE {table} (id INTEGER PRIMARY KEY)");
    workspace.database().execute_batch(&other).expect(&other);
}

#[test]
fn operations_and_brokers_need_no_table_of_a_queue() {
    let mut workspace = Workspace::serving();
    add_dead(&workspace, 500, "x");
    workspace.call("redrive work --rate 1/s --yes");
    let id = running_operation(&workspace);
    for table in ["outbox", "work"] {
        break_table(&workspace, table);
    }
    let listed = workspace.store("operations --queue work --output json");
    assert_eq!(listed.json()[0]["operation_id"], json!(id), "{listed:?}");
    let brokers = workspace.store("brokers --output json").json();
    let broker = brokers[0]["broker_id"].as_str().expect("an id");
    for command in [
        format!("operations {id}"),
        format!("operations cancel {id}"),
        "secret rotate".to_owned(),
        format!("drain {broker}"),
    ] {
        let done = workspace.store(&command);
        assert_eq!((done.code, &*done.err), (0, ""), "{command}: {done:?}");
    }
    let process = workspace.process.as_mut().expect("a service");
    assert!(process.wait().success());
}

#[test]
fn command_that_does_not_wait_reports_that_no_item_fits() {
    let workspace = Workspace::serving();
    workspace.lease();
    for command in [
        "redrive work --yes",
        "cancel work --owner other --reason x --yes",
        "purge work --state dead --yes",
    ] {
        fails(&workspace.call(command), 2, &["item of queue work fits"]);
    }
    let operations = workspace.call("operations");
    assert_eq!(operations.out, "", "{operations:?}");
}

#[test]
fn interrupted_question_leaves_the_cursor_visible() {
    const HIDE: &str = "\u{1b}[?25l";

    let workspace = Workspace::serving();
    add_dead(&workspace, 2, "x");
    let url = workspace.process.as_ref().expect("a service").url();
    let arguments = ["redrive", "work", "--address", &url];
    let mut terminal = Terminal::run(workspace.folder.path(), &arguments);
    let question = terminal.answer("[y/N]", "");
    // A shell can have made the tests ignore SIGINT.
    terminal.signal(Signal::TERM);
    let (code, rest) = terminal.end();
    assert_eq!(code, None, "{rest}");
    let screen = format!("{question}{rest}");
    assert!(!screen.contains(HIDE), "{screen:?}");
}
