//! Tables that cannot be a queue, with the reason, and unusual tables that can.

use std::collections::BTreeSet;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec, SoftLockColumn};
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::errors::{self, misconfigured, rejected};
use crate::harness::fixture::{
    Fixture, by, call, complete, item_table, keys, new_item, queue, text,
};
use crate::harness::sqlite::SqliteHarness;
use crate::support::database::query_value;

/// Creates tables and returns the problems for which the queue over `item` is refused.
async fn problems(sql: &str, spec: &QueueSpec) -> Vec<String> {
    errors::problems(&SqliteHarness::with(sql).await, spec).await
}

#[tokio::test]
async fn refused_type_of_a_managed_column_names_the_queue() {
    let harness = SqliteHarness::start().await;
    let spec = QueueSpec {
        managed_columns: Some(vec![("payload".to_owned(), "text default".to_owned())]),
        ..queue("item")
    };
    let text = misconfigured(harness.open(&[spec]).await);
    assert!(text.starts_with("queue \"item\": "), "{text}");
    assert!(text.contains("managed_columns"), "{text}");
    assert!(!text.contains("CREATE TABLE"), "{text}");
}

fn keyed_by(column: &str) -> QueueSpec {
    QueueSpec {
        key: vec![column.to_owned()],
        ..queue("item")
    }
}

#[tokio::test]
async fn every_missing_column_and_index_is_named() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, LEASE_OWNER TEXT)";
    let problems = problems(table, &queue("item")).await;
    let mut expected: Vec<String> = SoftLockColumn::ALL
        .map(SoftLockColumn::default_name)
        .into_iter()
        // The table has the first. The second is needed only by a queue with checkpoints.
        .filter(|name| !["lease_owner", "lease_checkpoint"].contains(name))
        .map(|name| format!("table \"item\" lacks the column {name}"))
        .collect();
    for role in ["ready", "due", "token", "dead"] {
        expected.push(format!("table \"item\" lacks the index item_lease_{role}"));
    }
    assert_eq!(problems, expected);
}

#[tokio::test]
async fn view_is_refused() {
    let view = "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE VIEW item AS SELECT * FROM t";
    let problems = problems(view, &queue("item")).await;
    assert_eq!(
        problems,
        ["\"item\" is a view: only the rows of a table can be leased"]
    );
}

#[tokio::test]
async fn virtual_table_is_refused() {
    let table = "CREATE VIRTUAL TABLE item USING fts5 (body)";
    let problems = problems(table, &queue("item")).await;
    assert_eq!(
        problems,
        ["\"item\" is a virtual: only the rows of a table can be leased"]
    );
}

#[tokio::test]
async fn table_without_a_key_is_asked_for_one() {
    let problems = problems("CREATE TABLE item (id INTEGER)", &queue("item")).await;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("no primary key"), "{problems:?}");
}

#[tokio::test]
async fn key_that_is_not_unique_is_refused() {
    for table in [
        "CREATE TABLE item (id INTEGER, code TEXT)",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT); CREATE INDEX i ON item (code)",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT);
         CREATE UNIQUE INDEX i ON item (code) WHERE id > 0",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT);
         CREATE UNIQUE INDEX i ON item (lower(code))",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT, UNIQUE (code, id))",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT COLLATE NOCASE);
         CREATE UNIQUE INDEX i ON item (code COLLATE BINARY)",
        "CREATE TABLE item (code TEXT COLLATE NOCASE, PRIMARY KEY (code COLLATE BINARY))",
    ] {
        let problems = problems(table, &keyed_by("code")).await;
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].contains("does not identify a row"),
            "{problems:?}"
        );
    }
}

#[tokio::test]
async fn key_with_the_collation_of_its_column_is_accepted() {
    for table in [
        "CREATE TABLE item (code TEXT PRIMARY KEY COLLATE NOCASE)",
        "CREATE TABLE item (code TEXT COLLATE NOCASE, PRIMARY KEY (code)) WITHOUT ROWID",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT);
         CREATE UNIQUE INDEX i ON item (code COLLATE BINARY)",
    ] {
        let harness = SqliteHarness::with(table).await;
        Fixture::adopt(harness, vec![keyed_by("code")]).await;
    }
}

/// SQLite reads a name in double quotes that no column has as a text, and workers would get the name as the value.
#[tokio::test]
async fn column_that_was_renamed_is_a_misconfiguration() {
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    let fixture = Fixture::<SqliteHarness>::over(&[item_table("item")], vec![spec]).await;
    fixture.insert(1..=2).await;
    let held = fixture.one().await;
    let change = "ALTER TABLE item RENAME COLUMN payload TO content";
    fixture.harness.execute(change);
    let settled = fixture.try_settle(vec![(&held.lease, complete())]).await;
    let claim = [call("worker", 1)].into();
    let claimed = fixture.store.claim(fixture.queue, claim, usize::MAX).await;
    for error in [settled.map(drop), claimed.map(drop)] {
        let error = misconfigured(error);
        assert!(error.contains("no such column: payload"), "{error}");
    }
}

#[tokio::test]
async fn trigger_with_a_text_in_double_quotes_runs() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let trigger = r#"CREATE TABLE log (event TEXT);
        CREATE TRIGGER note AFTER UPDATE ON item BEGIN INSERT INTO log VALUES ("changed"); END"#;
    fixture.harness.execute(trigger);
    fixture.one().await;
    let log = fixture.harness.rows("log", &["event"]).await;
    assert_eq!(log, [[text("changed")]]);
}

#[tokio::test]
async fn key_of_more_than_three_columns_is_refused() {
    let table = "CREATE TABLE item (a INT, b INT, c INT, d INT, PRIMARY KEY (a, b, c, d))";
    let problems = problems(table, &queue("item")).await;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("three is the most"), "{problems:?}");
}

#[tokio::test]
async fn strict_table_names_the_column_of_a_wrong_type() {
    let table =
        "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, size ANY, digest BLOB) STRICT";
    let harness = SqliteHarness::with(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let good = new_item(&[
        ("name", text("a")),
        ("size", text("12")),
        ("digest", Value::Bytes(vec![])),
    ]);
    fixture.enqueue(good).await;
    let bad = new_item(&[("digest", text("no bytes"))]);
    let rejection = rejected(fixture.try_enqueue(vec![bad]).await);
    assert_eq!(
        rejection.column.as_deref(),
        Some("digest"),
        "{}",
        rejection.problem
    );
    let item = fixture.one().await;
    assert_eq!(item.columns[2], text("12"));
    assert_eq!(fixture.complete(&item.lease).await, Some(State::Completed));
}

#[tokio::test]
async fn order_by_the_state_column_is_harmless() {
    for filtered in [true, false] {
        let harness = SqliteHarness::with("CREATE TABLE item (id INTEGER PRIMARY KEY)").await;
        let mut spec = queue("item");
        spec.order = by(&["lease_state"]);
        spec.filtered_indexes = filtered;
        let fixture = Fixture::adopt(harness, vec![spec]).await;
        fixture.enqueue(new_item(&[])).await;
        assert_eq!(keys(&fixture.claim(9).await), ["1"]);
    }
}

#[tokio::test]
async fn names_are_found_in_any_case() {
    let table = "CREATE TABLE Item (Id INTEGER PRIMARY KEY, Rank INT);
        INSERT INTO Item (Rank) VALUES (1), (2)";
    let harness = SqliteHarness::with(table).await;
    let mut spec = queue("ITEM");
    spec.key = vec!["ID".to_owned()];
    spec.order = by(&["-RANK"]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    assert_eq!(keys(&fixture.claim(9).await), ["2", "1"]);
    assert_eq!(*fixture.store.columns(fixture.queue), ["Id", "Rank"]);
}

#[tokio::test]
async fn row_with_a_text_in_a_number_column_is_shown_with_the_others() {
    let fixture = Fixture::<SqliteHarness>::items(2).await;
    for column in [
        "lease_state_time",
        "lease_due_time",
        "lease_fence",
        "lease_attempt",
    ] {
        let sql = format!("UPDATE item SET {column} = 'yesterday' WHERE id = 1");
        fixture.harness.execute(&sql);
        let listed = fixture.list(State::Ready).await;
        let listed = listed.iter().map(|item| item.key.to_string());
        assert_eq!(listed.collect::<BTreeSet<_>>().len(), 2, "{column}");
        fixture
            .reads
            .stats(fixture.queue)
            .await
            .expect("statistics");
    }
}

#[tokio::test]
async fn archive_of_a_strict_table_keeps_values_of_any_kind() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, v ANY) STRICT;
        INSERT INTO item (v) VALUES ('007'), ('1e3'), ('12345678901234567890123'), (x'31'), (1.0)";
    let harness = SqliteHarness::with(table).await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let values = |table: &str| {
        let sql = format!("SELECT group_concat(quote(v)) FROM (SELECT v FROM {table} ORDER BY id)");
        query_value::<String>(&fixture.harness.connect(), &sql)
    };
    let before = values("item");
    for item in fixture.claim(9).await {
        fixture.complete(&item.lease).await;
    }
    assert_eq!(values("done"), before);
}

#[tokio::test]
async fn table_that_accepts_no_deletion_is_refused() {
    let tables = "CREATE TABLE item (id INTEGER PRIMARY KEY, v TEXT);
        CREATE TABLE part (v TEXT REFERENCES item (v))";
    let harness = SqliteHarness::with(tables).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Delete;
    let problems = fixture.harness.check(&spec).await.expect("check");
    assert_eq!(problems.len(), 1, "{problems:?}");
    for part in ["remove rows of table \"item\"", "foreign key mismatch"] {
        assert!(problems[0].contains(part), "{problems:?}");
    }
}

#[tokio::test]
async fn table_with_a_trigger_that_does_not_compile_is_refused() {
    let harness = SqliteHarness::with("CREATE TABLE item (id INTEGER PRIMARY KEY)").await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let trigger = "CREATE TRIGGER told AFTER UPDATE OF lease_state ON item
        BEGIN SELECT of_another_program(new.id); END";
    fixture.harness.execute(trigger);
    let problems = fixture.harness.check(&queue("item")).await.expect("check");
    assert_eq!(problems.len(), 1, "{problems:?}");
    for part in ["triggers (told)", "no such function: of_another_program"] {
        assert!(problems[0].contains(part), "{problems:?}");
    }
}

#[tokio::test]
async fn key_that_sqlite_gives_again_is_warned_of() {
    for (key, warned) in [
        ("INTEGER PRIMARY KEY AUTOINCREMENT", 0),
        ("INTEGER PRIMARY KEY", 1),
    ] {
        let table = format!("CREATE TABLE item (id {key})");
        let harness = SqliteHarness::with(&table).await;
        let mut spec = queue("item");
        assert_eq!(harness.warnings(&spec).await, [""; 0]);
        spec.on_complete = OnComplete::Delete;
        let warnings = harness.warnings(&spec).await;
        assert_eq!(warnings.len(), warned, "{warnings:?}");
        assert!(
            warnings
                .iter()
                .all(|warning| warning.contains("AUTOINCREMENT"))
        );
    }
}

#[tokio::test]
async fn constraint_that_replaces_rows_is_warned_of() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY ON CONFLICT REPLACE)";
    let harness = SqliteHarness::with(table).await;
    let warnings = harness.warnings(&queue("item")).await;
    let [warning] = &*warnings else {
        panic!("{warnings:?}");
    };
    assert!(warning.contains("ON CONFLICT REPLACE"), "{warning}");
}

#[tokio::test]
async fn rows_without_a_key_are_warned_of_and_not_counted() {
    for filtered in [true, false] {
        let table = "CREATE TABLE item (id TEXT PRIMARY KEY, payload TEXT);
            INSERT INTO item (id) VALUES (NULL), ('a'), (NULL)";
        let harness = SqliteHarness::with(table).await;
        let mut spec = queue("item");
        spec.filtered_indexes = filtered;
        let fixture = Fixture::adopt(harness, vec![spec.clone()]).await;
        assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
        let exact = fixture
            .reads
            .exact_stats(fixture.queue)
            .await
            .expect("stats");
        assert_eq!(exact.count, [1, 0, 0, 0, 0]);
        let warnings = fixture.harness.warnings(&spec).await;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("NULL in a column of the key"),
            "{warnings:?}"
        );
    }
}
