//! Tests of `why`: the paragraph and the fields for each cause.

use serde_json::json;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database::WriteLock;

/// Returns the paragraph about an item.
fn why(workspace: &Workspace, key: &str) -> String {
    let printed = workspace.store(&format!("why work {key}"));
    assert_eq!(
        (printed.code, printed.out.lines().count()),
        (0, 1),
        "{printed:?}"
    );
    printed.out
}

fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn ready_items_have_their_place() {
    let workspace = Workspace::serving();
    for _ in 0..3 {
        workspace.call("enqueue work --set payload=x");
    }
    let first = why(&workspace, "1");
    has_all(
        &first,
        &[
            "Item 1 of queue work is ready since 2",
            "0 of 1 attempts are used",
        ],
    );
    has_all(
        &first,
        &["first of the ready items", "no worker claims from work"],
    );
    has_all(&why(&workspace, "2"), &["1 ready item comes before it"]);
    has_all(&why(&workspace, "3"), &["2 ready items come before it"]);
    let fields = workspace.store("why work 3 --output json").json();
    let fields = &fields[0];
    assert_eq!(
        (&fields["queue"], &fields["key"]),
        (&json!("work"), &json!("3"))
    );
    assert_eq!(fields["causes"], json!(["behind"]));
    assert_eq!(
        (&fields["ahead"], &fields["ahead_is_lower_bound"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(
        (&fields["attempt"], &fields["max_attempts"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        (&fields["locked"], &fields["brokers"]),
        (&json!(null), &json!(1))
    );
    assert!(
        fields["age_seconds"].is_number() && fields["text"].is_string(),
        "{fields}"
    );
}

#[test]
fn lease_names_its_worker_and_the_command_to_cancel() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    workspace.call("claim work --worker night-7 --lease 1h");
    let leased = why(&workspace, "1");
    has_all(
        &leased,
        &[
            "is leased since",
            "Worker night-7 holds it.",
            "1 of 1 attempts are used",
        ],
    );
    has_all(
        &leased,
        &["lasts for 59m ", "lease-broker cancel work 1 --reason TEXT"],
    );
    let expire = "UPDATE work SET lease_due_time = lease_due_time - 7200000";
    // Without a broker the lease stays expired.
    let mut workspace = workspace;
    workspace.process.take().expect("a service").kill();
    workspace.database().execute_batch(expire).expect(expire);
    has_all(
        &why(&workspace, "1"),
        &["Its lease has expired", "no broker has ended it yet"],
    );
}

#[test]
fn dead_delayed_and_completed_items_are_explained() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    workspace.call(&format!("fail work {id} --error broken"));
    let id = workspace.lease();
    workspace.call(&format!("release work {id} --delay 2h"));
    let id = workspace.lease();
    workspace.call(&format!("complete work {id}"));
    let dead = why(&workspace, "1");
    has_all(
        &dead,
        &[
            "is dead",
            "1 of 1 attempts are used",
            "The last error was: \"broken\".",
        ],
    );
    has_all(&dead, &["lease-broker redrive work"]);
    has_all(
        &why(&workspace, "2"),
        &["is delayed", "becomes ready in 1h 59m"],
    );
    has_all(
        &why(&workspace, "3"),
        &["is completed", "completed it", "not claimed again"],
    );
}

#[test]
fn command_before_another_sentence_ends_with_a_full_stop() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    workspace.call("enqueue work --set payload=x");
    workspace.call("pause work");
    let sentences = "to end the pause: lease-broker resume work. 1 ready item comes before it";
    has_all(&why(&workspace, "2"), &[sentences]);
}

#[test]
fn missing_row_exits_1_and_malformed_key_64() {
    let workspace = Workspace::serving();
    let missing = workspace.store("why work 99");
    assert_eq!(missing.code, 1, "{missing:?}");
    has_all(
        &missing.out,
        &[
            "Item 99 of queue work does not exist.",
            "No row has this key",
        ],
    );
    let malformed = workspace.store("why work x");
    assert_eq!(malformed.code, 64, "{malformed:?}");
    has_all(&malformed.err, &["KEY", "an integer"]);
    assert_eq!(workspace.store("why work -1").code, 1);
}

#[test]
fn missing_broker_is_named() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let insert = "INSERT INTO work (payload) VALUES ('x')";
    workspace.database().execute_batch(insert).expect(insert);
    has_all(
        &why(&workspace, "1"),
        &["No broker has announced itself", "lease-broker serve"],
    );
    let csv = workspace.store("why work 1 --output csv").out;
    assert!(csv.starts_with("queue,key,state,causes,text,"), "{csv}");
    has_all(&csv, &["\nwork,1,ready,no_broker,"]);
}

#[test]
fn foreign_write_lock_is_named() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    let lock = WriteLock::acquire(&workspace.path("q.db"));
    has_all(
        &why(&workspace, "1"),
        &["held the write lock of the SQLite file"],
    );
    let fields = workspace.store("why work 1 --output json").json();
    assert_eq!(fields[0]["causes"], json!(["locked"]));
    assert_eq!(fields[0]["locked"], "file");
    drop(lock);
    let fields = workspace.store("why work 1 --output json").json();
    assert_eq!(fields[0]["causes"], json!(["first"]));
}

#[test]
fn hostile_error_stays_on_its_line() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=x");
    let hostile = "UPDATE work SET lease_error = 'a' || char(27) || '[2J' || char(10) || 'forged', lease_owner = 'w' || char(8238)";
    workspace.database().execute_batch(hostile).expect(hostile);
    has_all(
        &why(&workspace, "1"),
        &[
            r#""a\u{1b}[2J\u{a}forged""#,
            r"Worker w\u{202e} had it last.",
        ],
    );
}
