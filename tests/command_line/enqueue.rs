//! Tests of `enqueue`: single items, CSV files and files of JSON lines.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};

use crate::command_line::workspace::Workspace;
use crate::support::process::program;
use crate::support::timeout::wait_until_blocking;
use crate::support::{database, signal};

fn payloads(workspace: &Workspace) -> Vec<(Option<String>, Option<i64>)> {
    let database = workspace.database();
    let mut statement = database
        .prepare("SELECT payload, number FROM work ORDER BY id")
        .expect("a query");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.expect("rows")
        .collect::<Result<_, _>>()
        .expect("values")
}

fn row(payload: &str, number: impl Into<Option<i64>>) -> (Option<String>, Option<i64>) {
    (Some(payload.to_owned()), number.into())
}

#[test]
fn key_of_added_item_is_printed() {
    let workspace = Workspace::serving();
    let added = workspace
        .call("enqueue work --set payload=a=b --set number=7")
        .json();
    assert_eq!(added, [serde_json::json!({"key": "1"})]);
    assert_eq!(payloads(&workspace), [row("a=b", 7)]);
}

#[test]
fn delayed_item_is_not_ready() {
    let workspace = Workspace::serving();
    workspace
        .call("enqueue work --set payload=a --delay 1h")
        .json();
    let state: i64 = database::query_value(&workspace.database(), "SELECT lease_state FROM work");
    assert_eq!(state, 2);
}

#[test]
fn empty_csv_value_keeps_column_default() {
    let workspace = Workspace::serving();
    workspace.write(
        "items.csv",
        "number,payload\n1,one\n,\"two, \"\"quoted\"\"\nand more\"\n3,\n",
    );
    let added = workspace
        .call("enqueue work --file items.csv --batch 2")
        .json();
    assert_eq!(added[0]["items"], 3, "{added:?}");
    let expected = [
        row("one", 1),
        row("two, \"quoted\"\nand more", None),
        (None, Some(3)),
    ];
    assert_eq!(payloads(&workspace), expected);
}

#[test]
fn json_lines_are_read_from_standard_input() {
    let workspace = Workspace::serving();
    let lines = "{\"payload\": \"one\", \"number\": 1}\n\n{\"payload\": null}\n";
    let command = "enqueue work --file - --format jsonl";
    let added = workspace.call_with_input(command, lines).json();
    assert_eq!(added[0]["items"], 2, "{added:?}");
    assert_eq!(payloads(&workspace), [row("one", 1), (None, None)]);
}

#[test]
fn standard_input_requires_format() {
    let workspace = Workspace::serving();
    let refused = workspace.call_with_input("enqueue work --file -", "");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("--format"), "{refused:?}");
}

#[test]
fn skip_continues_after_refused_line() {
    let workspace = Workspace::serving();
    let line = |n: i64, column: &str| format!("{{\"payload\": \"p\", \"{column}\": {n}}}\n");
    let mut lines: Vec<String> = (1..=7).map(|n| line(n, "number")).collect();
    lines[4] = line(5, "nothing");
    workspace.write("items.jsonl", &lines.concat());
    let stopped = workspace.call("enqueue work --file items.jsonl --batch 2");
    assert_eq!(stopped.code, 1, "{stopped:?}");
    for named in ["line 5", "nothing", "4 items were added", "--skip 4"] {
        assert!(stopped.err.contains(named), "{named}: {stopped:?}");
    }
    lines[4] = line(5, "number");
    workspace.write("items.jsonl", &lines.concat());
    let added = workspace
        .call("enqueue work --file items.jsonl --batch 2 --skip 4")
        .json();
    assert_eq!(added[0]["items"], 3, "{added:?}");
    let numbers: Vec<_> = payloads(&workspace).into_iter().map(|row| row.1).collect();
    assert_eq!(numbers, (1..=7).map(Some).collect::<Vec<_>>());
}

#[test]
fn unreadable_line_is_named() {
    let workspace = Workspace::serving();
    for (name, text, line) in [
        (
            "bad.jsonl",
            "{\"payload\": \"a\"}\n\n{\"payload\": \n",
            "bad.jsonl:3",
        ),
        ("list.jsonl", "[1]\n", "list.jsonl:1"),
        ("bad.csv", "payload,number\na,1\nb,2,3\n", "line: 3"),
    ] {
        workspace.write(name, text);
        let stopped = workspace.call(&format!("enqueue work --file {name}"));
        assert_eq!(stopped.code, 64, "{stopped:?}");
        for named in [line, "0 items were added", "--skip 0"] {
            assert!(stopped.err.contains(named), "{named}: {stopped:?}");
        }
    }
    assert_eq!(payloads(&workspace), []);
}

#[test]
fn refused_csv_value_is_named_by_line() {
    let workspace = Workspace::serving();
    workspace.write("items.csv", "payload,nothing\na,\nb,\nc,1\n");
    let stopped = workspace.call("enqueue work --file items.csv");
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(stopped.err.contains("line 4"), "{stopped:?}");
    assert_eq!(payloads(&workspace), []);
}

#[test]
fn byte_order_mark_is_skipped() {
    let workspace = Workspace::serving();
    workspace.write("items.csv", "\u{feff}payload,number\none,1\n");
    workspace.call("enqueue work --file items.csv").json();
    workspace.write(
        "items.jsonl",
        "\u{feff}{\"payload\": \"two\"}\r\n{\"payload\": \"three\"}\r\n",
    );
    workspace.call("enqueue work --file items.jsonl").json();
    assert_eq!(
        payloads(&workspace),
        [row("one", 1), row("two", None), row("three", None)]
    );
}

#[test]
fn missing_file_exits_74() {
    let workspace = Workspace::serving();
    let failed = workspace.call("enqueue work --file missing.csv");
    assert_eq!(failed.code, 74, "{failed:?}");
    assert!(failed.err.contains("missing.csv"), "{failed:?}");
}

/// Returns lines of JSON with these numbers.
fn numbers(numbers: std::ops::RangeInclusive<i64>) -> String {
    let lines = numbers.map(|number| format!("{{\"number\": {number}}}\n"));
    lines.collect()
}

/// Returns the number of rows and of different numbers in them.
fn counts(workspace: &Workspace) -> (i64, i64) {
    let database = workspace.database();
    let sql = "SELECT count(*), count(DISTINCT number) FROM work";
    let counts = database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    counts.expect("the table exists")
}

/// Starts a command that calls the service.
fn start(workspace: &Workspace, arguments: &str) -> Child {
    let process = workspace.process.as_ref().expect("a service");
    let mut command = program();
    command
        .args(arguments.split(' '))
        .args(["--address", &process.url()]);
    command.current_dir(workspace.folder.path());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Sends SIGINT, and returns standard error.
fn interrupt(mut child: Child) -> String {
    signal::send(&child, "INT");
    let mut text = String::new();
    let mut pipe = child.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{text}");
    text
}

#[test]
fn second_run_of_a_file_adds_nothing() {
    let workspace = Workspace::serving();
    workspace.write("items.jsonl", &numbers(1..=5));
    let run = "enqueue work --file items.jsonl --batch 2";
    let first = workspace.call(run);
    assert_eq!(first.err, "");
    let first = first.json();
    let second = workspace.call(run);
    assert_eq!(second.json(), first);
    let note = "an earlier call of this run has added all of the items";
    assert!(second.err.contains(note), "{second:?}");
    assert_eq!(counts(&workspace), (5, 5));
    let id = first[0]["run_id"].as_str().expect("a name").to_owned();
    assert_eq!(
        workspace.call(&format!("{run} --run-id {id}")).json(),
        first
    );
    assert_eq!(counts(&workspace), (5, 5));
    workspace.call(&format!("{run} --run-id second")).json();
    assert_eq!(counts(&workspace), (10, 5));
    // Another file has another name.
    workspace.write("items.jsonl", &numbers(1..=6));
    workspace.call(run).json();
    assert_eq!(counts(&workspace), (16, 6));
}

#[test]
fn standard_input_is_added_by_each_run() {
    let workspace = Workspace::serving();
    let run = "enqueue work --file - --format jsonl";
    for _ in 0..2 {
        workspace.call_with_input(run, &numbers(1..=3)).json();
    }
    assert_eq!(counts(&workspace), (6, 3));
}

#[test]
fn run_with_another_batch_size_is_refused() {
    let workspace = Workspace::serving();
    workspace.write("items.jsonl", &numbers(1..=4));
    let run = "enqueue work --file items.jsonl";
    workspace.call(&format!("{run} --batch 2")).json();
    let refused = workspace.call(&format!("{run} --batch 3"));
    assert_eq!(refused.code, 1, "{refused:?}");
    for part in ["line 1", "--batch", "--run-id"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    // Nothing in the file has to be corrected.
    assert!(!refused.err.contains("--skip"), "{refused:?}");
    assert_eq!(counts(&workspace), (4, 4));
}

#[test]
fn interrupted_file_continues_without_doubles() {
    let workspace = Workspace::serving();
    workspace.write("items.jsonl", &numbers(1..=1_000));
    let run = "enqueue work --file items.jsonl --batch 1";
    let child = start(&workspace, run);
    wait_until_blocking("an item is added", || counts(&workspace).0 > 0);
    let process = workspace.process.as_ref().expect("a service");
    // The command cannot end before the signal.
    process.signal("STOP");
    let text = interrupt(child);
    process.signal("CONT");
    for part in ["interrupted: ", "added; run the same command again"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(workspace.call(run).json()[0]["items"], 1_000);
    assert_eq!(counts(&workspace), (1_000, 1_000));
}

#[test]
fn interrupted_standard_input_continues_by_its_name() {
    let workspace = Workspace::serving();
    let run = "enqueue work --file - --format jsonl --batch 2";
    let mut child = start(&workspace, run);
    let input = child.stdin.as_mut().expect("a pipe");
    input.write_all(numbers(1..=5).as_bytes()).expect("written");
    wait_until_blocking("four items are added", || counts(&workspace).0 == 4);
    let text = interrupt(child);
    let (_, name) = text.split_once("--run-id ").expect("a name");
    let name = name.split(' ').next().expect("a name");
    let continued = format!("{run} --run-id {name}");
    workspace
        .call_with_input(&continued, &numbers(1..=7))
        .json();
    assert_eq!(counts(&workspace), (7, 7));
}

#[test]
fn file_with_a_column_twice_is_refused() {
    let workspace = Workspace::serving();
    workspace.write("items.CSV", "payload,payload\nhello,1\n");
    let refused = workspace.call("enqueue work --file items.CSV");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("\"payload\" twice"), "{refused:?}");
    workspace.write("items.jsonl", "{\"payload\": \"x\", \"payload\": \"y\"}\n");
    let refused = workspace.call("enqueue work --file items.jsonl");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(
        refused.err.contains("\"payload\" appears twice"),
        "{refused:?}"
    );
    assert_eq!(counts(&workspace).0, 0);
}
