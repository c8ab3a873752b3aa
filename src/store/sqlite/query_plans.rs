//! Which index each statement uses: a claim costs the same however many rows the table has.

use std::time::Duration;

use rusqlite::Connection;

use super::adopt::SqliteSchema;
use super::table::QueueTable;
use crate::item_state::{Backoff, RetryPolicy, State};
use crate::queue::{LeaseBounds, OnComplete, Order, OrderColumn, QueueSpec, SoftLock};
use crate::store::schema::Schema as _;

/// Tables, and how the plan of a statement on one row finds it.
const TABLES: [(&str, &str); 4] = [
    (
        "CREATE TABLE item (a INTEGER PRIMARY KEY, b TEXT, rank INTEGER)",
        "SEARCH item USING INTEGER PRIMARY KEY (rowid=?)",
    ),
    (
        "CREATE TABLE item (a INTEGER, b TEXT PRIMARY KEY NOT NULL, rank INTEGER)",
        "SEARCH item USING INDEX sqlite_autoindex_item_1 (b=?)",
    ),
    (
        "CREATE TABLE item (a INTEGER, b TEXT, rank INTEGER, PRIMARY KEY (b, a))",
        "SEARCH item USING INDEX sqlite_autoindex_item_1 (b=? AND a=?)",
    ),
    (
        "CREATE TABLE item (a INTEGER, b TEXT, rank INTEGER, PRIMARY KEY (b, a)) WITHOUT ROWID",
        "SEARCH item USING PRIMARY KEY (b=? AND a=?)",
    ),
];

/// 2,000 rows, three quarters of them completed.
const FILL: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
    INSERT INTO item (a, b, rank, lease_state, lease_due_time, lease_token)
    SELECT n, 'text ' || n, n % 10, CASE WHEN n % 20 > 4 THEN 3 ELSE n % 20 END, n, randomblob(16) FROM n";

fn spec(order: Order, filtered_indexes: bool) -> QueueSpec {
    QueueSpec {
        name: "item".to_owned(),
        table: "item".to_owned(),
        key: Vec::new(),
        columns: None,
        order,
        lease: LeaseBounds {
            default: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(1),
        },
        retry: RetryPolicy {
            max_attempts: None,
            backoff: Backoff {
                initial: Duration::ZERO,
                factor: 1.0,
                max: Duration::ZERO,
                jitter: 0.0,
            },
        },
        on_complete: OnComplete::Archive("done".to_owned()),
        soft_lock: SoftLock::default(),
        mirror: Vec::new(),
        managed: None,
        filtered_indexes,
        claim_strategy: crate::queue::ClaimStrategy::default(),
    }
}

fn queue(create: &str, spec: &QueueSpec, statistics: bool) -> (Connection, QueueTable) {
    let connection = Connection::open_in_memory().expect("open");
    connection.execute_batch(create).expect(create);
    let mut schema = SqliteSchema::over(connection);
    for step in schema.plan(spec).expect("plan") {
        schema.apply(&step, &mut |_| ()).expect(&step.sql);
    }
    let connection = schema.into_connection();
    connection.execute_batch(FILL).expect(FILL);
    if statistics {
        connection.execute_batch("ANALYZE").expect("ANALYZE");
    }
    let table = QueueTable::new(&connection, spec).expect("a queue");
    (connection, table)
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .expect(sql);
    let mut rows = explain.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().expect(sql) {
        steps.push(row.get(3).expect(sql));
    }
    steps
}

/// Calls `check` for every kind of table, order and index, with statistics and without.
fn each(check: impl Fn(&Connection, &QueueTable, &str)) {
    let by_rank = |descending| {
        let column = "rank".to_owned();
        Order::By(vec![OrderColumn { column, descending }])
    };
    for (create, row) in TABLES {
        for order in [
            Order::None,
            Order::By(vec![]),
            by_rank(false),
            by_rank(true),
        ] {
            for filtered in [true, false] {
                for statistics in [false, true] {
                    let spec = spec(order.clone(), filtered);
                    let (connection, table) = queue(create, &spec, statistics);
                    check(&connection, &table, row);
                }
            }
        }
    }
}

#[test]
fn a_claim_reads_the_first_rows_of_the_ready_index() {
    each(|connection, table, _| {
        let steps = plan(connection, &table.sql.pick);
        assert_eq!(steps.len(), 1, "nothing is sorted: {steps:?}");
        assert!(steps[0].contains("INDEX item_lease_ready"), "{steps:?}");
        if !table.spec.filtered_indexes {
            assert!(steps[0].contains("(lease_state=?"), "{steps:?}");
        }
    });
}

#[test]
fn a_repeated_request_seeks_its_token() {
    each(|connection, table, _| {
        let steps = plan(connection, &table.sql.held);
        assert!(
            steps[0].contains("USING INDEX item_lease_token (lease_token=?"),
            "{steps:?}"
        );
    });
}

#[test]
fn the_reaper_reads_the_due_index() {
    each(|connection, table, _| {
        let filtered = table.spec.filtered_indexes;
        for sql in [&table.sql.due, &table.sql.next] {
            let steps = plan(connection, sql);
            let range = if filtered {
                "(lease_due_time"
            } else {
                "(lease_state=? AND lease_due_time"
            };
            assert!(steps[0].starts_with("SEARCH item USING"), "{steps:?}");
            assert!(steps[0].contains("INDEX item_lease_due"), "{steps:?}");
            assert!(steps[0].contains(range), "{steps:?}");
            assert!(
                steps.len() == 1 || !filtered,
                "nothing is sorted: {steps:?}"
            );
        }
    });
}

/// The index of each state's rows.
fn index_of(state: State, table: &QueueTable) -> Option<&'static str> {
    let filtered = table.spec.filtered_indexes;
    match state {
        State::Ready => Some("INDEX item_lease_ready"),
        State::Leased if filtered => Some("INDEX item_lease_token"),
        State::Leased | State::Delayed => Some("INDEX item_lease_due"),
        State::Completed if !filtered => Some("INDEX item_lease_due"),
        State::Completed => None,
        State::Dead => Some("INDEX item_lease_dead"),
    }
}

/// Returns the one step of a plan that reads the table.
fn reads(steps: &[String]) -> &str {
    let reads: Vec<&String> = steps.iter().filter(|step| step.contains("item")).collect();
    assert_eq!(reads.len(), 1, "{steps:?}");
    reads[0]
}

fn sorts(steps: &[String]) -> bool {
    steps.iter().any(|step| step.contains("TEMP B-TREE"))
}

#[test]
fn every_count_reads_one_index_and_sorts_nothing() {
    each(|connection, table, _| {
        let counts = &table.sql.counts;
        let seek = |steps: &[String]| {
            let read = reads(steps);
            assert!(!sorts(steps), "{steps:?}");
            let seeks = read.contains("(lease_state=?");
            assert!(table.spec.filtered_indexes || seeks, "{steps:?}");
        };
        for (state, entries) in State::ALL.into_iter().zip(&counts.of_state) {
            let Some(entries) = entries else {
                let of_several = matches!(state, State::Delayed | State::Completed);
                assert!(of_several && table.spec.filtered_indexes);
                continue;
            };
            let index = index_of(state, table).expect("an index");
            for sql in [&entries.beyond, &entries.count] {
                let steps = plan(connection, sql);
                assert!(reads(&steps).contains(index), "{steps:?}");
                seek(&steps);
            }
        }
        for sql in [&counts.due.beyond, &counts.due.count] {
            let steps = plan(connection, sql);
            assert!(reads(&steps).contains("INDEX item_lease_due"), "{steps:?}");
            seek(&steps);
        }
    });
}

#[test]
fn what_no_index_counts_is_looked_for_among_rows_that_are_not_sorted() {
    each(|connection, table, _| {
        if table.spec.filtered_indexes {
            let steps = plan(connection, &table.sql.counts.delayed_among);
            assert!(reads(&steps).contains("INDEX item_lease_due"), "{steps:?}");
            assert!(!sorts(&steps), "{steps:?}");
            let steps = plan(connection, &table.sql.counts.completed_among);
            assert_eq!(reads(&steps), "SCAN item", "{steps:?}");
            assert!(!sorts(&steps), "{steps:?}");
        }
    });
}

#[test]
fn the_oldest_are_looked_for_in_the_index_of_their_state() {
    each(|connection, table, _| {
        for (state, sql) in [
            (State::Ready, &table.sql.oldest_ready),
            (State::Leased, &table.sql.oldest_lease),
        ] {
            let steps = plan(connection, sql);
            let index = index_of(state, table).expect("an index");
            assert!(reads(&steps).contains(index), "{steps:?}");
            assert!(!sorts(&steps), "{steps:?}");
        }
    });
}

#[test]
fn lists_read_the_index_of_their_state_and_no_more_of_it_than_a_limit() {
    each(|connection, table, _| {
        for state in [State::Ready, State::Leased, State::Delayed] {
            let steps = plan(connection, &table.sql.list[state as usize]);
            let index = index_of(state, table).expect("an index");
            assert!(reads(&steps).contains(index), "{steps:?}");
            assert!(
                steps[0].contains("CO-ROUTINE"),
                "the limit stands before the sort: {steps:?}"
            );
        }
    });
}

#[test]
fn the_dead_are_read_in_their_order() {
    each(|connection, table, _| {
        let sql = &table.sql;
        for sql in [&sql.list[State::Dead as usize], &sql.dead] {
            let steps = plan(connection, sql);
            assert_eq!(steps.len(), 1, "nothing is sorted: {steps:?}");
            assert!(steps[0].contains("INDEX item_lease_dead"), "{steps:?}");
        }
    });
}

#[test]
fn what_touches_one_row_seeks_its_key() {
    each(|connection, table, row| {
        let sql = &table.sql;
        for sql in [
            &sql.take,
            &sql.leased,
            &sql.extend,
            &sql.complete,
            &sql.delete,
            &sql.archived,
            &sql.fail,
            &sql.release,
            &sql.settled,
            &sql.expire,
            &sql.promote,
            &sql.redrive,
            sql.archive.as_ref().expect("an archive"),
        ] {
            let steps = plan(connection, sql);
            assert_eq!(steps, [row], "{sql}");
        }
    });
}
