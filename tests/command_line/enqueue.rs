//! `enqueue`: single items, CSV and JSON lines.

use crate::desk::Desk;
use crate::support::database;

fn payloads(desk: &Desk) -> Vec<(Option<String>, Option<i64>)> {
    let database = desk.database();
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
fn one_item_is_added_and_its_key_printed() {
    let desk = Desk::serving();
    let added = desk
        .call("enqueue work --set payload=a=b --set number=7")
        .json();
    assert_eq!(added, [serde_json::json!({"key": "1"})]);
    assert_eq!(payloads(&desk), [row("a=b", 7)]);
}

#[test]
fn a_delay_keeps_items_back() {
    let desk = Desk::serving();
    desk.call("enqueue work --set payload=a --delay 1h").json();
    let state: i64 = database::value(&desk.database(), "SELECT lease_state FROM work");
    assert_eq!(state, 2);
}

#[test]
fn csv_names_its_columns_and_leaves_empty_values_out() {
    let desk = Desk::serving();
    desk.write(
        "items.csv",
        "number,payload\n1,one\n,\"two, \"\"quoted\"\"\nand more\"\n3,\n",
    );
    let added = desk.call("enqueue work --file items.csv --batch 2").json();
    assert_eq!(added, [serde_json::json!({"added": 3})]);
    let expected = [
        row("one", 1),
        row("two, \"quoted\"\nand more", None),
        (None, Some(3)),
    ];
    assert_eq!(payloads(&desk), expected);
}

#[test]
fn json_lines_are_read_from_standard_input() {
    let desk = Desk::serving();
    let lines = "{\"payload\": \"one\", \"number\": 1}\n\n{\"payload\": null}\n";
    let command = "enqueue work --file - --format jsonl";
    let added = desk.call_with_input(command, lines).json();
    assert_eq!(added, [serde_json::json!({"added": 2})]);
    assert_eq!(payloads(&desk), [row("one", 1), (None, None)]);
}

#[test]
fn standard_input_needs_a_format() {
    let desk = Desk::serving();
    let refused = desk.call_with_input("enqueue work --file -", "");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("--format"), "{refused:?}");
}

#[test]
fn a_line_that_is_wrong_is_named_and_skip_goes_on_behind_what_was_added() {
    let desk = Desk::serving();
    let line = |n: i64, column: &str| format!("{{\"payload\": \"p\", \"{column}\": {n}}}\n");
    let mut lines: Vec<String> = (1..=7).map(|n| line(n, "number")).collect();
    lines[4] = line(5, "nothing");
    desk.write("items.jsonl", &lines.concat());
    let stopped = desk.call("enqueue work --file items.jsonl --batch 2");
    assert_eq!(stopped.code, 1, "{stopped:?}");
    for named in ["line 5", "nothing", "4 items were added", "--skip 4"] {
        assert!(stopped.err.contains(named), "{named}: {stopped:?}");
    }
    lines[4] = line(5, "number");
    desk.write("items.jsonl", &lines.concat());
    let added = desk
        .call("enqueue work --file items.jsonl --batch 2 --skip 4")
        .json();
    assert_eq!(added, [serde_json::json!({"added": 3})]);
    let numbers: Vec<_> = payloads(&desk).into_iter().map(|row| row.1).collect();
    assert_eq!(numbers, (1..=7).map(Some).collect::<Vec<_>>());
}

#[test]
fn a_line_that_can_not_be_read_is_named_too() {
    let desk = Desk::serving();
    for (name, text, line) in [
        (
            "bad.jsonl",
            "{\"payload\": \"a\"}\n\n{\"payload\": \n",
            "bad.jsonl:3",
        ),
        ("list.jsonl", "[1]\n", "list.jsonl:1"),
        ("bad.csv", "payload,number\na,1\nb,2,3\n", "line: 3"),
    ] {
        desk.write(name, text);
        let stopped = desk.call(&format!("enqueue work --file {name}"));
        assert_eq!(stopped.code, 1, "{stopped:?}");
        for named in [line, "0 items were added", "--skip 0"] {
            assert!(stopped.err.contains(named), "{named}: {stopped:?}");
        }
    }
    assert_eq!(payloads(&desk), []);
}

#[test]
fn a_refused_csv_value_is_named_by_its_line() {
    let desk = Desk::serving();
    desk.write("items.csv", "payload,nothing\na,\nb,\nc,1\n");
    let stopped = desk.call("enqueue work --file items.csv");
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(stopped.err.contains("line 4"), "{stopped:?}");
    assert_eq!(payloads(&desk), []);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_name() {
    let desk = Desk::serving();
    desk.write("items.csv", "\u{feff}payload,number\none,1\n");
    desk.call("enqueue work --file items.csv").json();
    desk.write(
        "items.jsonl",
        "\u{feff}{\"payload\": \"two\"}\r\n{\"payload\": \"three\"}\r\n",
    );
    desk.call("enqueue work --file items.jsonl").json();
    assert_eq!(
        payloads(&desk),
        [row("one", 1), row("two", None), row("three", None)]
    );
}

#[test]
fn a_file_that_is_not_there_exits_74() {
    let desk = Desk::serving();
    let failed = desk.call("enqueue work --file missing.csv");
    assert_eq!(failed.code, 74, "{failed:?}");
    assert!(failed.err.contains("missing.csv"), "{failed:?}");
}
