//! SQL injection: names of tables, columns, queues and workers, and values, that are built from fragments of SQL.
//!
//! Each name must work as a name and each value as a value. A second table, `witness`, must stay unchanged.

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, MINUTE, by, call, mirror, new_item, queue, text};
use crate::harness::table::{Kind, Table};
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, QueueSpec, SoftLockColumn};
use lease_broker_store::{Ending, NewItem};
use lease_broker_value::Value;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

/// Fragments of SQL and of statement templates, with all kinds of quotation marks. A conversion to a narrow character
/// set turns some of them into plain quotation marks.
const FRAGMENTS: [&str; 32] = [
    "'",
    "''",
    "\"",
    "\"\"",
    "[",
    "]",
    "]]",
    "`",
    "--",
    "/*",
    "*/",
    ";",
    "GO",
    "\n",
    "\\",
    "\\u0027",
    "%",
    "_",
    "{table}",
    "{key}",
    "}",
    "@P1",
    "$1",
    "?",
    ":a",
    "N'",
    "\u{2019}",
    "\u{ff07}",
    "\u{2bc}",
    "🦀",
    "DROP TABLE witness",
    "' OR 1=1",
];

/// Names and values of one test case.
#[derive(Clone, Debug)]
struct HostileNames {
    table: String,
    columns: [String; 4],
    soft_lock: String,
    queue: String,
    worker: String,
    values: [String; 2],
}

fn fragments(max: usize) -> impl Strategy<Value = String> {
    vec(select(&FRAGMENTS[..]), 1..max).prop_map(|fragments| fragments.concat())
}

/// Generates a name of at most 40 characters, so that an identifier has room for a prefix or suffix.
fn name() -> impl Strategy<Value = String> {
    let cut = |name: String| name.chars().take(40).collect();
    fragments(6).prop_map(cut)
}

fn hostile() -> impl Strategy<Value = HostileNames> {
    let columns = [name(), name(), name(), name()];
    let values = [fragments(12).boxed(), "\\PC{0,40}".boxed()];
    let parts = (name(), columns, name(), name(), name(), values);
    parts.prop_map(
        |(table, columns, soft_lock, queue, worker, values)| HostileNames {
            table,
            columns,
            soft_lock,
            queue,
            worker,
            values,
        },
    )
}

/// Builds the table and the queue of a case. Returns them with the names of the four columns.
fn table_and_queue<H: Harness>(case: &HostileNames) -> (Table, QueueSpec, [String; 4]) {
    // A number in front makes the column names distinct.
    let mut number = 0;
    let columns = case.columns.clone().map(|name| {
        number += 1;
        format!("{number}{name}")
    });
    let [key, payload, rank, mirrored] = columns.each_ref().map(String::as_str);
    let name = format!("t{}", case.table);
    let table = Table::new(&name)
        .required(key, Kind::Text)
        .column(payload, Kind::LongText)
        .column(rank, Kind::Int)
        .column(mirrored, Kind::Text)
        .key(&[key]);
    let mut spec = queue(&name);
    spec.name.clone_from(&case.queue);
    spec.table = H::table_name(&name);
    spec.key = vec![key.to_owned()];
    spec.order = by(&[rank]);
    spec.on_complete = OnComplete::Archive(H::table_name(&format!("a{}", case.table)));
    spec.mirror = [State::Ready, State::Leased, State::Completed]
        .map(|state| mirror(state, mirrored, MirrorValue::Literal(text(&case.table))))
        .into();
    for part in SoftLockColumn::ALL {
        let name = format!("{}{}", part.default_name(), case.soft_lock);
        spec.soft_lock.map(part, name);
    }
    (table, spec, columns)
}

/// Runs one case through enqueue, claim, fail, heartbeat, complete and list, and compares the stored values with the
/// given ones.
async fn check<H: Harness>(case: HostileNames) {
    let witness = Table::new("witness").column("id", Kind::Int);
    let (table, spec, [key, payload, rank, mirror]) = table_and_queue::<H>(&case);
    let fixture = Fixture::<H>::over(&[witness, table.clone()], vec![spec]).await;
    fixture
        .harness
        .insert("witness", &[("id", Value::Int(1))])
        .await;

    let items: Vec<NewItem> = (0..)
        .zip(&case.values)
        .map(|(number, value)| NewItem {
            columns: vec![
                (key.clone(), text(&format!("{number}{}", case.worker))),
                (payload.clone(), text(value)),
                (rank.clone(), Value::Int(number)),
            ],
            ..new_item(&[])
        })
        .collect();
    fixture
        .try_enqueue(items)
        .await
        .expect("the items are added");
    let mut claim = call(&case.worker, 9);
    claim.has_request_id = true;
    let claimed = fixture.claim_by(claim).await;
    let values: Vec<&Value> = claimed.iter().map(|item| &item.columns[1]).collect();
    let sent = case.values.each_ref().map(|value| text(value));
    assert_eq!(values, sent.iter().collect::<Vec<_>>());
    let failure = Ending::Fail {
        error: case.values[0].clone(),
        retry: Some(MINUTE),
    };
    let failed = fixture.settle(&claimed[0].lease, failure).await;
    assert_eq!(failed, Some(State::Delayed));
    assert!(fixture.heartbeat(&claimed[1].lease, MINUTE).await.is_some());
    assert_eq!(
        fixture.complete(&claimed[1].lease).await,
        Some(State::Completed)
    );

    let error_column = fixture.queues[0]
        .soft_lock
        .name(SoftLockColumn::Error)
        .to_owned();
    let owner_column = fixture.queues[0]
        .soft_lock
        .name(SoftLockColumn::Owner)
        .to_owned();
    let rows = fixture
        .harness
        .rows(&table.name, &[&error_column, &owner_column, &mirror])
        .await;
    let expected = [text(&case.values[0]), text(&case.worker), text(&case.table)];
    assert_eq!(rows, [expected]);
    let listed = fixture.reads.list(fixture.queue, State::Delayed, 9).await;
    assert_eq!(
        listed.expect("the list succeeds")[0].error.as_ref(),
        Some(&case.values[0])
    );
    let witness = fixture.harness.rows("witness", &["id"]).await;
    assert_eq!(witness, [[Value::Int(1)]]);
}

/// Checks this number of random cases on one store.
fn check_cases<H: Harness>(cases: u32) {
    if !crate::harness::can_run::<H>() {
        return;
    }
    let runtime = Runtime::new().expect("the runtime starts");
    let mut runner = TestRunner::new(Config {
        cases,
        // Each case is slow, and a failing case is small already, so few steps of shrinking are enough.
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&hostile(), |case| {
        runtime.block_on(Box::pin(check::<H>(case)));
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn sqlite_never_runs_input_as_sql() {
    check_cases::<crate::harness::sqlite::SqliteHarness>(24);
}

#[test]
fn t_sql_server_never_runs_input_as_sql() {
    check_cases::<crate::harness::mssql::MssqlHarness>(8);
}
