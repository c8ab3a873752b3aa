//! Names and values that would be SQL if anybody took them for it: tables, columns, queues, workers and payloads made of
//! its pieces. Each is a name or a value and nothing else, and a table beside the queue's stays as it is.

#[path = "harness/harness.rs"]
mod harness;

use harness::Harness;
use harness::bench::{Bench, MINUTE, by, call, new_item, queue, text};
use harness::table::{Kind, Table};
use lease_broker::item_state::State;
use lease_broker::queue::{Mirror, MirrorValue, OnComplete, QueueSpec, SoftLockColumn};
use lease_broker::store::{Ending, NewItem};
use lease_broker::value::Value;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

/// Pieces of SQL and of templates, with quotation marks of every kind: among them those that a conversion to a narrow
/// character set would make plain ones.
const PIECES: [&str; 32] = [
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

#[derive(Clone, Debug)]
struct Hostile {
    table: String,
    columns: [String; 4],
    soft_lock: String,
    queue: String,
    worker: String,
    values: [String; 2],
}

fn pieces(most: usize) -> impl Strategy<Value = String> {
    vec(select(&PIECES[..]), 1..most).prop_map(|pieces| pieces.concat())
}

/// A name of at most 40 characters: what is added to it has room in an identifier.
fn name() -> impl Strategy<Value = String> {
    let cut = |name: String| name.chars().take(40).collect();
    pieces(6).prop_map(cut)
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let columns = [name(), name(), name(), name()];
    let values = [pieces(12).boxed(), "\\PC{0,40}".boxed()];
    let parts = (name(), columns, name(), name(), name(), values);
    parts.prop_map(
        |(table, columns, soft_lock, queue, worker, values)| Hostile {
            table,
            columns,
            soft_lock,
            queue,
            worker,
            values,
        },
    )
}

fn lay_out<H: Harness>(case: &Hostile) -> (Table, QueueSpec, [String; 4]) {
    // Told apart whatever else they have in common.
    let mut at = 0;
    let columns = case.columns.clone().map(|name| {
        at += 1;
        format!("{at}{name}")
    });
    let [key, payload, rank, mirror] = columns.each_ref().map(String::as_str);
    let name = format!("t{}", case.table);
    let table = Table::new(&name)
        .required(key, Kind::Text)
        .column(payload, Kind::LongText)
        .column(rank, Kind::Int)
        .column(mirror, Kind::Text)
        .key(&[key]);
    let mut spec = queue(&name);
    spec.name.clone_from(&case.queue);
    spec.table = H::table_name(&name);
    spec.key = vec![key.to_owned()];
    spec.order = by(&[rank]);
    spec.on_complete = OnComplete::Archive(H::table_name(&format!("a{}", case.table)));
    spec.mirror = [State::Ready, State::Leased, State::Completed]
        .map(|state| Mirror {
            state,
            column: mirror.to_owned(),
            value: MirrorValue::Literal(text(&case.table)),
        })
        .into();
    for part in SoftLockColumn::ALL {
        let own = format!("{}{}", part.default_name(), case.soft_lock);
        spec.soft_lock.rename(part, own);
    }
    (table, spec, columns)
}

async fn check<H: Harness>(case: Hostile) {
    let witness = Table::new("witness").column("id", Kind::Int);
    let (table, spec, [key, payload, rank, mirror]) = lay_out::<H>(&case);
    let bench = Bench::<H>::over(&[witness, table.clone()], vec![spec]).await;
    bench
        .harness
        .insert("witness", &[("id", Value::Int(1))])
        .await;

    let items: Vec<NewItem> = (0..)
        .zip(&case.values)
        .map(|(at, value)| NewItem {
            columns: vec![
                (key.clone(), text(&format!("{at}{}", case.worker))),
                (payload.clone(), text(value)),
                (rank.clone(), Value::Int(at)),
            ],
            ..new_item(&[])
        })
        .collect();
    bench.try_enqueue(items).await.expect("added");
    let mut claim = call(&case.worker, 9);
    claim.has_request_id = true;
    let claimed = bench.claim_by(claim).await;
    let values: Vec<&Value> = claimed.iter().map(|item| &item.columns[1]).collect();
    let sent = case.values.each_ref().map(|value| text(value));
    assert_eq!(values, sent.iter().collect::<Vec<_>>());
    let failure = Ending::Fail {
        error: case.values[0].clone(),
        retry: Some(MINUTE),
    };
    let failed = bench.settle(&claimed[0].lease, failure).await;
    assert_eq!(failed, Some(State::Delayed));
    assert!(bench.heartbeat(&claimed[1].lease, MINUTE).await.is_some());
    assert_eq!(
        bench.complete(&claimed[1].lease).await,
        Some(State::Completed)
    );

    let errors = bench.queues[0]
        .soft_lock
        .name(SoftLockColumn::Error)
        .to_owned();
    let owners = bench.queues[0]
        .soft_lock
        .name(SoftLockColumn::Owner)
        .to_owned();
    let rows = bench
        .harness
        .rows(&table.name, &[&errors, &owners, &mirror])
        .await;
    let kept = [text(&case.values[0]), text(&case.worker), text(&case.table)];
    assert_eq!(rows, [kept]);
    let listed = bench.store.list(bench.queue, State::Delayed, 9).await;
    assert_eq!(
        listed.expect("listed")[0].error.as_ref(),
        Some(&case.values[0])
    );
    let witness = bench.harness.rows("witness", &["id"]).await;
    assert_eq!(witness, [[Value::Int(1)]]);
}

fn prove<H: Harness>(cases: u32) {
    if !harness::can_run::<H>() {
        return;
    }
    let runtime = Runtime::new().expect("a runtime");
    let mut runner = TestRunner::new(Config {
        cases,
        // A case takes long enough; the first that fails is small.
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    });
    let proved = runner.run(&hostile(), |case| {
        runtime.block_on(Box::pin(check::<H>(case)));
        Ok(())
    });
    proved.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn names_and_values_never_run_on_sqlite() {
    prove::<harness::sqlite::SqliteHarness>(24);
}

#[test]
fn names_and_values_never_run_on_t_sql() {
    prove::<harness::mssql::MssqlHarness>(8);
}
