//! Tests of `claim`, `heartbeat`, `complete`, `fail`, `release` and `cancel`.

use serde_json::json;

use crate::command_line::workspace::Workspace;
use crate::support::database;

#[test]
fn claim_prints_all_fields_as_json() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=hello --set number=5");
    let leases = workspace.call("claim work --worker me --lease 5m").json();
    assert_eq!(leases.len(), 1);
    let lease = &leases[0];
    assert_eq!(lease["key"], "1");
    assert_eq!(lease["attempt"], 1);
    assert_eq!(lease["fencing_token"], 1);
    assert_eq!(lease["time_left_seconds"], 300.0);
    let expiry = lease["expire_time"].as_str().expect("a moment");
    assert!(expiry.ends_with('Z') && expiry.contains('T'), "{expiry}");
    assert_eq!(
        lease["columns"],
        json!({"id": 1, "payload": "hello", "number": 5})
    );
    assert_eq!(lease["trace_parent"], "");
    let owner: String =
        database::query_value(&workspace.database(), "SELECT lease_owner FROM work");
    assert_eq!(owner, "me");
    assert_eq!(
        workspace.call("claim work --wait 10ms").json(),
        [] as [serde_json::Value; 0]
    );
}

#[test]
fn repeated_request_id_returns_same_leases() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=hello");
    let command = "claim work --request-id 0d3adb33-f000-4000-8000-000000000001";
    let first = workspace.call(command).json();
    let again = workspace.call(command).json();
    assert_eq!(first[0]["lease_id"], again[0]["lease_id"]);
}

#[test]
fn settlement_prints_outcome_and_state() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let mut beat = workspace
        .call(&format!("heartbeat work {id} --lease 10m"))
        .json();
    let expiry = beat[0]
        .as_object_mut()
        .and_then(|beat| beat.remove("expire_time"));
    assert!(expiry.is_some_and(|expiry| expiry.is_string()));
    assert_eq!(
        beat,
        [json!({
            "lease_id": id, "outcome": "applied", "time_left_seconds": 600.0, "state": "leased", "cancel_reason": ""
        })]
    );
    let applied = |state: &str, id: &str| json!({"lease_id": id, "outcome": "applied", "state": state, "problem": ""});
    let done = workspace.call(&format!("complete work {id}")).json();
    assert_eq!(done, [applied("completed", &id)]);
    let id = workspace.lease();
    let given_back = workspace.call(&format!("release work {id}")).json();
    assert_eq!(given_back, [applied("ready", &id)]);
    workspace.call("claim work");
    let id = workspace.lease();
    let failed = workspace
        .call(&format!("fail work {id} --error broken --dead-letter"))
        .json();
    assert_eq!(failed, [applied("dead", &id)]);
    let error: String = database::query_value(
        &workspace.database(),
        "SELECT lease_error FROM work WHERE lease_state = 4",
    );
    assert_eq!(error, "broken");
    let id = workspace.lease();
    let later = workspace
        .call(&format!("release work {id} --delay 1h"))
        .json();
    assert_eq!(later, [applied("delayed", &id)]);
}

#[test]
fn cancel_takes_leases_away() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let reason = "--reason hangs";
    let printed = workspace.call(&format!("cancel work 1 --dead-letter {reason}"));
    let gone =
        json!({"key": "1", "cancelled": true, "state": "dead", "fencing_token": 1, "problem": ""});
    assert_eq!(printed.json(), [gone]);
    let beat = workspace.call(&format!("heartbeat work {id}"));
    assert_eq!(beat.code, 1, "{beat:?}");
    assert!(beat.out.contains("\"cancel_reason\":\"hangs\""), "{beat:?}");
    // The lease with this token is cancelled already, and the item was not claimed since.
    let again = workspace.call(&format!("cancel work 1 --fencing-token 1 {reason}"));
    assert_eq!(again.code, 0, "{again:?}");
    for (arguments, problem) in [
        ("1", "1 item had no lease"),
        ("2", "no item has the key 2"),
        (
            "1 2 3 --yes",
            "no item has the key 2, 3; 1 item had no lease",
        ),
        ("1 --fencing-token 7", "no lease with the fencing token 7"),
    ] {
        let lost = workspace.call(&format!("cancel work {arguments} {reason}"));
        assert_eq!(lost.code, 1, "{lost:?}");
        assert!(lost.err.contains(problem), "{lost:?}");
    }
    for wrong in [
        "cancel work 1",
        "cancel work 1 --reason x --owner me",
        "cancel work 1 --reason x --delay 1s --dead-letter",
        "cancel work 1 2 --reason x --fencing-token 1",
    ] {
        let refused = workspace.call(wrong);
        assert_eq!(refused.code, 64, "{refused:?}");
    }
}

#[test]
fn lost_lease_exits_1_and_others_are_settled() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let (lost, other) = ("A".repeat(64), "B".repeat(64));
    for command in ["heartbeat", "release"] {
        let printed = workspace.call(&format!("{command} work {lost}"));
        assert_eq!(printed.code, 1, "{printed:?}");
        assert!(
            printed.out.contains("\"outcome\":\"lease lost\""),
            "{printed:?}"
        );
        assert!(printed.err.contains("1 lease was lost"), "{printed:?}");
    }
    let printed = workspace.call(&format!("complete work {lost} {id} {other}"));
    assert_eq!(printed.code, 1, "{printed:?}");
    assert!(printed.err.contains("2 leases were lost"), "{printed:?}");
    let state: i64 = database::query_value(&workspace.database(), "SELECT lease_state FROM work");
    assert_eq!(state, 3);
}

#[test]
fn lease_ids_are_read_from_standard_input() {
    let workspace = Workspace::serving();
    workspace.write("items.csv", "payload\na\nb\nc\n");
    workspace.call("enqueue work --file items.csv");
    let claimed = workspace.call("claim work --limit 2");
    let beats = workspace
        .call_with_input("heartbeat work -", &claimed.out)
        .json();
    assert_eq!(beats.len(), 2);
    let third = workspace.call("claim work").json();
    let third = third[0]["lease_id"].as_str().expect("an id");
    let input = format!("{}\n{third}\n", claimed.out);
    let done = workspace.call_with_input("complete work -", &input).json();
    assert!(
        done.iter().all(|result| result["outcome"] == "applied"),
        "{done:?}"
    );
    assert_eq!(done.len(), 3);
    let refused = workspace.call_with_input("complete work -", "{\"key\": \"1\"}");
    assert_eq!(refused.code, 64, "{refused:?}");
}

#[test]
fn text_that_is_no_lease_id_exits_64_and_nothing_is_settled() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let input = format!("{id}\nlease_id,key\n");
    for command in ["heartbeat", "complete", "fail", "release"] {
        let refused = workspace.call_with_input(&format!("{command} work -"), &input);
        assert_eq!(refused.code, 64, "{refused:?}");
        let problem = "\"lease_id,key\" is no lease id";
        assert!(refused.err.contains(problem), "{refused:?}");
    }
    workspace.call(&format!("complete work {id}")).json();
}

#[test]
fn completion_adds_follow_up() {
    let workspace = Workspace::serving();
    let id = workspace.lease();
    let done = workspace.call(&format!(
        "complete work {id} --follow-up outbox={{\"payload\":\"shipped\"}}"
    ));
    done.json();
    let payload: String =
        database::query_value(&workspace.database(), "SELECT payload FROM outbox");
    assert_eq!(payload, "shipped");
    for wrong in ["outbox", "outbox={", "outbox=[1]"] {
        let refused = workspace.call(&format!("complete work {id} --follow-up {wrong}"));
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.err.contains("--follow-up"), "{refused:?}");
    }
}

#[test]
fn settlement_sets_columns_of_its_row() {
    let workspace = Workspace::serving();
    let (completed, failed) = (workspace.lease(), workspace.lease());
    for settle in [
        format!("complete work {completed}"),
        format!("fail work {failed}"),
    ] {
        let refused = workspace.call(&format!("{settle} --set payload=y"));
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(
            refused.out.contains("\"outcome\":\"refused\""),
            "{refused:?}"
        );
        let wrong = workspace.call(&format!("{settle} --set number"));
        assert_eq!(wrong.code, 64, "{wrong:?}");
        assert!(wrong.err.contains("--set number"), "{wrong:?}");
        workspace.call(&format!("{settle} --set number=7")).json();
    }
    let rows = "SELECT group_concat(payload || number || lease_state) FROM work";
    let rows: String = database::query_value(&workspace.database(), rows);
    assert_eq!(rows, "x73,x74");
}

#[test]
fn table_output_has_one_line_per_lease() {
    let workspace = Workspace::serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let empty = workspace.run(&format!("claim work --address {url}"));
    assert_eq!((empty.code, &*empty.out), (0, "no item is ready\n"));
    workspace.call("pause work");
    let paused = workspace.run(&format!("claim work --address {url}"));
    let reason = "no lease: the queue is paused\n";
    assert_eq!((paused.code, &*paused.out), (0, reason));
    workspace.call("resume work");
    workspace.call("enqueue work --set payload=hello");
    let table = workspace.run(&format!("claim work --address {url}"));
    let lines: Vec<&str> = table.out.lines().collect();
    assert_eq!(lines.len(), 2, "{table:?}");
    assert!(
        lines[0].contains("lease_id") && lines[1].contains("payload=hello"),
        "{table:?}"
    );
}
