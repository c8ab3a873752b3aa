//! Tests of `stats`, `list`, `redrive` and `purge`, the commands for operators.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use lease_broker_model::text::is_hidden;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::command_line::dashboard::serving;
use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database;
use crate::support::http::get;
use crate::support::process::{program, run};

#[test]
fn stats_count_items_by_state() {
    let workspace = Workspace::serving();
    let leased = workspace.lease();
    let id = workspace.lease();
    workspace.call(&format!("fail work {id} --dead-letter"));
    workspace.call("enqueue work --set payload=x --delay 1h");
    workspace.call("enqueue work --set payload=x");
    let stats = workspace.store("stats --output json").json();
    assert_eq!(stats.len(), 2);
    let work = stats
        .iter()
        .find(|row| row["queue"] == "work")
        .expect("a row");
    for (state, count) in [
        ("ready", 1),
        ("leased", 1),
        ("delayed", 1),
        ("completed", 0),
        ("dead", 1),
    ] {
        assert_eq!(work[state], json!(count), "{state}");
    }
    for age in ["oldest_ready_seconds", "oldest_lease_seconds"] {
        assert!(work[age].as_f64().is_some_and(|age| age >= 0.0), "{work}");
    }
    assert_eq!(work["at_least"], json!([]));
    workspace.call(&format!("release work {leased}"));
    let table = workspace.store("stats");
    assert_eq!(table.out.lines().count(), 3, "{table:?}");
}

#[test]
fn queue_whose_table_does_not_fit_does_not_hide_the_others() {
    let workspace = Workspace::serving();
    let other = "DROP TABLE outbox; CREATE TABLE outbox (id INTEGER PRIMARY KEY)";
    workspace.database().execute_batch(other).expect(other);
    let stats = workspace.store("stats --output json");
    let rows = stats.json();
    assert_eq!((rows.len(), &rows[0]["queue"]), (1, &json!("work")));
    assert!(
        stats.err.contains("queue outbox is left out: "),
        "{stats:?}"
    );
    for command in ["brokers", "operations", "pause work", "resume work"] {
        let done = workspace.store(command);
        assert_eq!(done.code, 0, "{done:?}");
    }
}

/// A text that moves the cursor, rings, forges a line and turns the direction of the text around.
const HOSTILE: &str = "a\u{1b}[2J\u{7}\r\n\u{9b}31m\u{202e}\u{200b}\\z";

#[test]
fn hostile_texts_are_escaped_in_every_output() {
    let workspace = Workspace::serving();
    workspace.lease();
    let hostile = "UPDATE work SET payload = ?1, lease_owner = ?1, lease_error = ?1";
    let database = workspace.database();
    database.execute(hostile, [HOSTILE]).expect(hostile);
    let is_shown = |character: char| character == '\n' || !is_hidden(character);
    let table = workspace.store("list work").out;
    assert!(table.chars().all(is_shown), "{table:?}");
    assert_eq!(table.lines().count(), 2, "{table:?}");
    assert!(
        table.contains(r"a\u{1b}[2J\u{7}\u{d}\u{a}\u{9b}31m\u{202e}\u{200b}\\z"),
        "{table}"
    );
    let json = workspace.store("list work --output json");
    assert!(json.out.chars().all(is_shown), "{json:?}");
    assert_eq!(json.json()[0]["owner"], HOSTILE);
    database
        .execute_batch("UPDATE work SET lease_state = 0")
        .expect("the item is ready");
    let claimed = workspace.call("claim work");
    assert!(claimed.out.chars().all(is_shown), "{claimed:?}");
    assert_eq!(claimed.json()[0]["columns"]["payload"], HOSTILE);
    let folder = workspace.folder.path();
    for arguments in [
        &[
            "list",
            HOSTILE,
            "--config",
            "queues.toml",
            "--store",
            "q.db",
        ][..],
        &["list", "work", "--config", HOSTILE],
    ] {
        let refused = run(folder, arguments);
        assert_eq!(refused.code, 64, "{refused:?}");
        assert!(refused.err.chars().all(is_shown), "{refused:?}");
    }
}

#[test]
fn stats_of_a_deep_queue_are_lower_bounds() {
    let workspace = Workspace::serving();
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10001)
        INSERT INTO work (payload) SELECT 'x' FROM n";
    workspace.database().execute_batch(fill).expect(fill);
    let work = |text: &str| -> Vec<String> {
        let row = text.lines().find(|line| line.starts_with("work"));
        let cells = row.expect("a row").split_whitespace();
        cells.map(str::to_owned).collect()
    };
    let table = work(&workspace.store("stats").out);
    assert_eq!(table[..6], ["work", "10000+", "0", "0", "0+", "0"]);
    let exact = work(&workspace.store("stats --exact").out);
    assert_eq!(exact[..6], ["work", "10001", "0", "0", "0", "0"]);
    let json = |command: &str| {
        let rows = workspace.store(command).json();
        let row = rows.into_iter().find(|row| row["queue"] == "work");
        row.expect("a row")
    };
    let stats = json("stats --output json");
    assert_eq!(stats["ready"], json!(10_000));
    assert_eq!(stats["at_least"], json!(["ready", "completed"]));
    let exact = json("stats --exact --output json");
    assert_eq!(exact["ready"], json!(10_001));
    assert_eq!(exact["at_least"], json!([]));
}

#[test]
fn list_shows_owners_and_errors() {
    let workspace = Workspace::serving();
    let empty = workspace.store("list work");
    assert_eq!((empty.code, &*empty.out), (0, "no items in this state\n"));
    workspace.call("enqueue work --set payload=x");
    workspace.call("claim work --worker somebody --lease 1h");
    let leased = workspace.store("list work --output json").json();
    assert_eq!(leased[0]["owner"], "somebody");
    assert_eq!(
        (&leased[0]["key"], &leased[0]["attempt"]),
        (&json!("1"), &json!(1))
    );
    let left = leased[0]["due_in_seconds"].as_f64().expect("a number");
    assert!(left > 3_000.0 && left <= 3_600.0, "{left}");
    assert!(leased[0]["age_seconds"].is_number(), "{leased:?}");
    for moment in ["state_time", "due_time"] {
        let moment = leased[0][moment].as_str().expect("a moment");
        let parsed = time::OffsetDateTime::parse(moment, &Rfc3339);
        assert!(parsed.is_ok(), "{moment}");
    }
    for _ in 0..3 {
        let id = workspace.lease();
        workspace.call(&format!("fail work {id} --error broken"));
    }
    let dead = workspace
        .store("list work --state dead --limit 2 --output json")
        .json();
    assert_eq!(dead.len(), 2);
    assert_eq!(dead[0]["error"], "broken");
}

/// Inserts ready items, without the broker.
fn fill(workspace: &Workspace, items: u32) {
    let fill = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {items})
        INSERT INTO work (payload) SELECT 'x' FROM n"
    );
    workspace.database().execute_batch(&fill).expect(&fill);
}

#[test]
fn list_tells_that_there_are_more_items() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    fill(&workspace, 50);
    let list = |more: &str| workspace.store(&format!("list work --state ready {more}"));
    let all = list("");
    assert_eq!((all.out.lines().count(), &*all.err), (51, ""), "{all:?}");
    fill(&workspace, 1);
    let first = list("--output json");
    assert_eq!(first.json().len(), 50);
    let remark =
        "the list ends here, and there are more items: --limit N lists N, --limit all lists all";
    assert!(first.err.contains(remark), "{first:?}");
    let two = list("--limit 2");
    assert_eq!(two.out.lines().count(), 3);
    assert!(two.err.contains(remark), "{two:?}");
    for everything in ["--limit 51", "--limit all"] {
        let all = list(&format!("{everything} --output json"));
        assert_eq!((all.json().len(), &*all.err), (51, ""));
    }
    assert_eq!(list("--limit some").code, 64);
}

#[test]
fn list_of_all_items_reads_page_by_page() {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    fill(&workspace, 11_000);
    let all = workspace.store("list work --state ready --limit all --output csv");
    let mut keys = all
        .out
        .lines()
        .map(|line| line.split_once(',').expect("cells").0);
    assert_eq!(keys.next(), Some("key"));
    let expected: Vec<String> = (1..=11_000).map(|key| key.to_string()).collect();
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    let table = workspace.store("list work --state ready --limit all").out;
    let headers = table.lines().filter(|line| line.starts_with("key")).count();
    assert_eq!((headers, table.lines().count()), (11, 11_011));
}

#[test]
fn csv_has_a_header_and_escapes_its_cells() {
    let workspace = Workspace::serving();
    workspace.lease();
    let awkward = "UPDATE work SET lease_owner = 'a, \"b\"', lease_error = 'one\ntwo'";
    workspace.database().execute_batch(awkward).expect(awkward);
    let printed = workspace.store("list work --output csv");
    let mut lines = csv::Reader::from_reader(printed.out.as_bytes());
    let names = lines.headers().expect("a header").clone();
    let row = lines.records().next().expect("a row").expect("cells");
    let cell = |name| &row[names.iter().position(|other| other == name).expect(name)];
    assert_eq!((cell("key"), cell("owner")), ("1", "a, \"b\""));
    assert_eq!(cell("error"), r"one\u{a}two");
    assert!(cell("due_in_seconds").parse::<f64>().is_ok());
    let stats = workspace.store("stats --output csv").out;
    assert!(stats.starts_with("queue,ready,leased,"), "{stats}");
    assert_eq!(stats.lines().count(), 3);
    let empty = workspace.store("list work --state dead --output csv");
    assert_eq!((empty.code, &*empty.out), (0, ""));
    workspace.call("enqueue work --set payload=x,y");
    let url = workspace.process.as_ref().expect("a service").url();
    let claimed = workspace.run(&format!("claim work --output csv --address {url}"));
    let names = "key,attempt,fencing_token,time_left_seconds,expire_time,columns,checkpoint,trace_parent,lease_id";
    assert_eq!(claimed.out.lines().next(), Some(names), "{claimed:?}");
    assert!(
        claimed
            .out
            .contains(r#""{""id"":2,""number"":null,""payload"":""x,y""}""#)
    );
}

/// Returns a workspace whose queue `work` has 1,200 items that were completed two hours ago, and one that is ready.
fn with_old_items() -> Workspace {
    let workspace = Workspace::with(QUEUES);
    assert_eq!(workspace.store("schema apply").code, 0);
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
        INSERT INTO work (lease_state, lease_state_time) SELECT 3, unixepoch() * 1000 - 7200000 FROM n;
        INSERT INTO work (payload) VALUES ('x')";
    workspace.database().execute_batch(fill).expect(fill);
    workspace
}

fn rows(workspace: &Workspace) -> i64 {
    database::query_value(&workspace.database(), "SELECT count(*) FROM work")
}

#[test]
fn purge_deletes_old_items() {
    let workspace = with_old_items();
    let purge = |arguments: &str| {
        let printed = workspace.store(&format!("purge work --state {arguments}"));
        (printed.code, printed.out)
    };
    let count = purge("completed --before 1h --dry-run");
    let fit = "1200 completed items of queue work fit\n".to_owned();
    assert_eq!(count, (0, fit));
    for none in ["completed --before 3h --yes", "dead --before 1h --yes"] {
        assert_eq!(purge(none), (2, "0 items were deleted\n".to_owned()));
    }
    assert_eq!(rows(&workspace), 1_201);
    let deleted = purge("completed --before 1h --yes");
    assert_eq!(deleted, (0, "1200 items were deleted\n".to_owned()));
    assert_eq!(rows(&workspace), 1);
}

#[test]
fn purge_of_an_adopted_table_needs_permission() {
    let workspace = Workspace::with("[queues.work]\ntable = 'item'");
    let create = "CREATE TABLE item (id INTEGER PRIMARY KEY)";
    workspace.database().execute_batch(create).expect(create);
    assert_eq!(workspace.store("schema apply").code, 0);
    let arguments = "purge work --state completed --before 1h --yes";
    let refused = workspace.store(arguments);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("purge = true"), "{refused:?}");
    let archive = "purge work --state archive --before 1h --dry-run";
    workspace.write("queues.toml", "[queues.work]\ntable = 'item'\npurge = true");
    assert_eq!(workspace.store(arguments).code, 2);
    let refused = workspace.store(archive);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("no archive"), "{refused:?}");
}

#[test]
fn purge_deletes_old_archived_rows() {
    let workspace = Workspace::with(
        "[queues.work]
        managed_columns = { payload = 'text' }
        on_complete = { archive = 'done' }
        keep_for = { archive = '30d' }
        [queues.other]
        table = 'missing'",
    );
    assert_eq!(workspace.store("schema apply work").code, 0);
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 700)
        INSERT INTO done (id, lease_state_time) SELECT n, unixepoch() * 1000 - 7200000 FROM n;
        INSERT INTO done (id, lease_state_time) VALUES (701, unixepoch() * 1000), (702, NULL)";
    workspace.database().execute_batch(fill).expect(fill);
    let arguments = "purge work --state archive --before 1h";
    let count = workspace.store(&format!("{arguments} --dry-run"));
    assert_eq!(count.out, "700 rows in the archive of queue work fit\n");
    let deleted = workspace.store(&format!("{arguments} --yes"));
    assert_eq!(deleted.out, "700 rows were deleted\n");
    let none = workspace.store(&format!("{arguments} --yes"));
    assert_eq!(none.code, 2, "{none:?}");
    for wrong in [
        "--yes",
        "--before 1h --limit 1",
        "--before 1h --error x",
        "1 --before 1h",
    ] {
        let refused = workspace.store(&format!("purge work --state archive {wrong}"));
        assert_eq!(refused.code, 64, "{refused:?}");
    }
    let left: i64 = database::query_value(&workspace.database(), "SELECT count(*) FROM done");
    assert_eq!(left, 2);
}

#[test]
fn purge_keeps_rows_that_were_archived_after_the_moment() {
    let workspace = Workspace::with(
        "[queues.work]
        managed_columns = { payload = 'text' }
        on_complete = { archive = 'done' }
        keep_for = { archive = '30d' }",
    );
    assert_eq!(workspace.store("schema apply").code, 0);
    let fill = "INSERT INTO done (id, lease_state_time) SELECT value, unixepoch('2026-11-20T22:15:20Z') * 1000 + value
        FROM json_each('[-1, 0, 1]')";
    workspace.database().execute_batch(fill).expect(fill);
    let purge = "purge work --state archive --before 2026-11-20T22:15:20Z --yes";
    assert_eq!(workspace.store(purge).out, "1 row was deleted\n");
    let left: String = database::query_value(
        &workspace.database(),
        "SELECT group_concat(id) FROM (SELECT id FROM done ORDER BY id)",
    );
    assert_eq!(left, "0,1");
}

#[test]
fn each_change_of_an_operator_is_a_line_of_the_audit() {
    let mut workspace = Workspace::with("");
    let audit = workspace.path("audit");
    let toml = format!(
        "log.audit_file = '{}'\nlog.level = 'error'\n{QUEUES}",
        audit.display()
    );
    workspace.write("queues.toml", &toml);
    workspace.serve();
    let held = workspace.lease();
    workspace.call("cancel work 1 --reason gone");
    assert_eq!(workspace.call(&format!("complete work {held}")).code, 1);
    for _ in 0..2 {
        let held = workspace.lease();
        workspace.call(&format!("fail work {held} --dead-letter"));
    }
    for key in [1, 2, 3] {
        workspace.call(&format!("redrive work {key} --wait"));
    }
    for _ in 0..2 {
        workspace.call("pause work --reason lunch");
        workspace.call("resume work");
    }
    // A caller that does not wait for the answer hides nothing.
    let lock = workspace.database();
    lock.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    workspace.call("pause outbox --timeout 200ms");
    lock.execute_batch("ROLLBACK").expect("the lock is free");
    drop(workspace.process.take());
    let text = std::fs::read_to_string(audit).expect("a file");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    let of = |rpc: &str| {
        let lines = lines.iter().filter(|line| line["rpc"] == rpc);
        let details = lines.map(|line| line["detail"].as_str().expect("a text"));
        details.collect::<Vec<_>>()
    };
    assert_eq!(of("CancelLeases"), ["1"]);
    let redrives = of("StartOperation");
    assert_eq!(redrives.len(), 3, "{redrives:?}");
    for (redrive, key) in redrives.iter().zip([1, 2, 3]) {
        assert!(redrive.starts_with("redrive, operation "), "{redrive}");
        assert!(redrive.ends_with(&format!(": items {key}")), "{redrive}");
    }
    assert_eq!((of("PauseQueue").len(), of("ResumeQueue").len()), (3, 2));
    let perhaps = lines.iter().filter(|line| line["queue"] == "outbox");
    let perhaps: Vec<_> = perhaps.map(|line| line["message"].as_str()).collect();
    assert_eq!(perhaps, [Some("perhaps changed by an operator")]);
}

#[test]
fn long_list_ends_when_nobody_reads_it() {
    let (workspace, admin) = serving("", |_| ());
    fill(&workspace, 100_000);
    let url = workspace.process.as_ref().expect("a service").url();
    let list = "list work --state ready --limit all --output json --address";
    let mut child = program()
        .args(list.split(' '))
        .arg(&url)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    lines.read_line(&mut String::new()).expect("a line");
    drop(lines);
    assert!(child.wait().expect("it ends").success());
    let metrics = get(admin, "/metrics").body;
    let calls: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("rpc_server_call_duration_seconds_count"))
        .filter(|line| line.contains("AdminService/ListItems"))
        .collect();
    let count = calls[0].rsplit(' ').next().expect("a count");
    let count: u32 = count.parse().expect("a number");
    // The whole list has 100 pages.
    assert!(count < 50, "{calls:?}");
}
