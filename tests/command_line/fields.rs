//! The fields of each command's output for programs are those of the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;
use serde_json::Value;

use crate::command_line::workspace::Workspace;
use crate::support::process::CommandOutput;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text NOT NULL' }
group = { column = 'payload', run = 2 }
on_complete = { archive = 'done' }
keep_for = { archive = '30d' }
";

/// Returns the fields of each command in the table of the documentation.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observability.md");
    let text = std::fs::read_to_string(path).expect("a file of the project");
    let (_, table) = text
        .split_once("\n| command | fields |\n|---|---|\n")
        .expect("the table");
    let quoted = Regex::new("`([^`]+)`").expect("a pattern");
    let quoted = |cell: &str| -> BTreeSet<String> {
        let found = quoted.captures_iter(cell);
        found.map(|found| found[1].to_owned()).collect()
    };
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let rows = rows.filter_map(|row| row.trim_matches(['|', ' ']).split_once(" | "));
    rows.flat_map(|(commands, fields)| {
        let fields = quoted(fields);
        let commands = quoted(commands).into_iter();
        commands.map(move |command| (command, fields.clone()))
    })
    .collect()
}

/// Removes a command from the table, after it has printed its fields.
fn check(
    documented: &mut BTreeMap<String, BTreeSet<String>>,
    command: &str,
    printed: &CommandOutput,
) {
    let rows = printed.json();
    let row = rows.first().and_then(|row| row.as_object());
    let row = row.unwrap_or_else(|| panic!("{command}: {printed:?}"));
    let expected = documented.remove(command);
    let expected = expected.unwrap_or_else(|| panic!("{command} is not documented"));
    let fields: BTreeSet<String> = row.keys().cloned().collect();
    assert_eq!(fields, expected, "{command}");
}

#[test]
fn fields_are_those_of_the_documentation() {
    let mut workspace = Workspace::with(QUEUES);
    workspace.serve();
    workspace.write("items.csv", "payload\nx\nx\n");
    let mut documented = documented();
    let mut call = |command: &str, arguments: &str| {
        let printed = workspace.call(arguments);
        check(&mut documented, command, &printed);
        printed.json()
    };
    let lease = |row: &Value| row["lease_id"].as_str().expect("an id").to_owned();
    call("enqueue", "enqueue work --set payload=x");
    call("enqueue --file", "enqueue work --file items.csv");
    let id = lease(&call("claim", "claim work --lease 1h")[0]);
    call("heartbeat", &format!("heartbeat work {id}"));
    call("release", &format!("release work {id}"));
    let run = call("claim --max-run", "claim work --max-run 2 --limit 2");
    call("complete", &format!("complete work {}", lease(&run[0])));
    workspace.call(&format!("release work {}", lease(&run[1])));
    let id = lease(&workspace.call("claim work").json()[0]);
    call(
        "fail",
        &format!("fail work {id} --error broken --dead-letter"),
    );
    call("stats", "stats");
    call("list", "list work --state dead");
    call("show", "show work 3");
    call("groups list", "groups list work");
    call("groups pause", "groups pause work x");
    call("groups resume", "groups resume work x");
    call("pause", "pause work");
    call("resume", "resume work");
    call("limits", "limits work");
    call("redrive --dry-run", "redrive work --dry-run");
    let started = call("redrive", "redrive work --yes --wait");
    let operation = started[0]["operation_id"].as_str().expect("an id");
    call("operations", "operations");
    call(
        "operations cancel",
        &format!("operations cancel {operation}"),
    );
    workspace.call("claim work --lease 1h");
    let cancel = "cancel work --reason test";
    call("cancel --dry-run", &format!("{cancel} --dry-run"));
    call("cancel QUEUE", &format!("{cancel} --yes --wait"));
    let row = workspace.call("claim work --lease 1h").json()[0].clone();
    let key = row["key"].as_str().expect("a key");
    let cancel = format!("cancel work {key} --reason test --dead-letter");
    call("cancel QUEUE KEY", &cancel);
    let purge = "purge work --state dead";
    call("purge --dry-run", &format!("{purge} --dry-run"));
    call("purge", &format!("{purge} --yes --wait"));
    call("health", "health");
    let id = call("brokers", "brokers")[0]["broker_id"].clone();
    let id = id.as_str().expect("an id").to_owned();
    let mut store = |command: &str, arguments: &str| {
        let printed = workspace.store(arguments);
        check(&mut documented, command, &printed);
    };
    store("why", "why work 3 --output json");
    let continued = format!("operations continue {operation} --output json");
    store("operations continue", &continued);
    store("doctor", "doctor --side broker --json");
    let purge = "purge work --state archive --before 0s --output json";
    store(
        "purge --state archive --dry-run",
        &format!("{purge} --dry-run"),
    );
    store("purge --state archive", &format!("{purge} --yes"));
    let drained = workspace.call(&format!("drain {id}"));
    check(&mut documented, "drain", &drained);
    let left: Vec<_> = documented.into_keys().collect();
    // These need a service with identities, and one that ends.
    assert_eq!(left, ["auth check", "drain --wait"]);
}
