//! Checks the query plan of each statement: which index it uses, and that it does not sort.
//!
//! With these plans the cost of an operation does not grow with the table.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, Order, QueueSpec};
use rusqlite::Connection;

use super::super::adopt::SqliteSchema;
use super::super::operations;
use super::super::queue_statements::QueueStatements;
use super::super::search::statement;
use crate::schema::Schema as _;
use crate::template::render;
use crate::test_queue::{self, by};
use crate::{Checkpoints, ItemFilter, ItemSearch};

/// Kinds of tables, and the line of the query plan with which SQLite finds one row by its key.
pub(super) const TABLES: [(&str, &str); 4] = [
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

/// Inserts 2,000 rows, three quarters of them completed.
const INSERT_ROWS: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
    INSERT INTO item (a, b, rank, lease_state, lease_due_time, lease_token)
    SELECT n, 'text ' || n, n % 10, CASE WHEN n % 20 > 4 THEN 3 ELSE n % 20 END, n, randomblob(16) FROM n";

pub(super) fn spec(order: Order, filtered_indexes: bool) -> QueueSpec {
    QueueSpec {
        order,
        filtered_indexes,
        on_complete: OnComplete::Archive("done".to_owned()),
        ..test_queue::spec("item")
    }
}

/// Creates a table with rows and adopts it. With `statistics`, the query planner knows the number of rows.
pub(super) fn open_queue(
    create: &str,
    spec: &QueueSpec,
    statistics: bool,
) -> (Connection, QueueStatements) {
    let connection = Connection::open_in_memory().expect("open");
    connection.execute_batch(create).expect(create);
    let mut schema = SqliteSchema::over(connection);
    for step in schema.plan(spec).expect("plan") {
        schema.apply(&step, &mut |_| ()).expect(&step.sql);
    }
    let connection = schema.into_connection();
    connection.execute_batch(INSERT_ROWS).expect(INSERT_ROWS);
    if statistics {
        connection.execute_batch("ANALYZE").expect("ANALYZE");
    }
    let queue = QueueStatements::new(&connection, spec, &lease_broker_sql::sqlite::LEASE_SQL)
        .expect("a queue");
    (connection, queue)
}

/// Returns the lines of the query plan of a statement.
pub(super) fn query_plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .expect(sql);
    let steps = explain.raw_query().mapped(|row| row.get(3));
    steps.collect::<Result<_, _>>().expect(sql)
}

/// Calls `check` for every kind of table, with every kind of order, with filtered indexes and without, with statistics
/// and without. `check` gets the plan line that finds a row of this table by its key.
fn for_each_queue(check: impl Fn(&Connection, &QueueStatements, &str)) {
    for (create, row) in TABLES {
        for order in [Order::None, by(&[]), by(&["rank"]), by(&["-rank"])] {
            for filtered in [true, false] {
                for statistics in [false, true] {
                    let spec = spec(order.clone(), filtered);
                    let (connection, queue) = open_queue(create, &spec, statistics);
                    check(&connection, &queue, row);
                }
            }
        }
    }
}

#[test]
fn claim_reads_ready_index_in_order() {
    for_each_queue(|connection, queue, _| {
        let steps = query_plan(connection, &queue.sql.pick_ready.keys);
        assert_eq!(steps.len(), 1, "must not sort: {steps:?}");
        assert!(steps[0].contains("INDEX item_lease_ready"), "{steps:?}");
        if !queue.spec.filtered_indexes {
            assert!(steps[0].contains("(lease_state=?"), "{steps:?}");
        }
    });
}

#[test]
fn suspects_are_found_by_the_list_and_the_key() {
    for_each_queue(|connection, queue, row| {
        let broker_tables = lease_broker_sql::sqlite::MIGRATION_0001_BROKER;
        connection.execute_batch(broker_tables).expect("the list");
        let sql = &queue.sql.suspects;
        let list = "lease_broker_suspect_wait (queue=?";
        for listed in [&sql.has_any, &sql.find_held, &sql.find_waiting] {
            let steps = query_plan(connection, listed);
            assert!(steps[0].contains(list), "{steps:?}");
            let seeks = steps[1..].iter().all(|step| step.starts_with("SEARCH t "));
            assert!(seeks && steps.len() <= 2, "must not sort: {steps:?}");
        }
        let picked = query_plan(connection, &sql.pick_suspect.keys);
        assert_eq!(picked, [row]);
        let others = query_plan(connection, &sql.pick_others.keys);
        assert!(others[0].contains("INDEX item_lease_ready"), "{others:?}");
        let held = query_plan(connection, &sql.holds_lease);
        assert!(held[0].contains("INDEX item_lease_due"), "{held:?}");
    });
}

#[test]
fn retried_claim_seeks_its_token() {
    for_each_queue(|connection, queue, _| {
        let steps = query_plan(connection, &queue.sql.find_retried_leases);
        assert!(
            steps[0].contains("USING INDEX item_lease_token (lease_token=?"),
            "{steps:?}"
        );
    });
}

#[test]
fn release_of_a_claim_seeks_its_token() {
    for_each_queue(|connection, queue, _| {
        let steps = query_plan(connection, &queue.sql.find_claim);
        assert_eq!(steps.len(), 1, "{steps:?}");
        assert!(
            steps[0].contains("USING INDEX item_lease_token (lease_token=?"),
            "{steps:?}"
        );
    });
}

#[test]
fn reaper_reads_due_index() {
    for_each_queue(|connection, queue, _| {
        let filtered = queue.spec.filtered_indexes;
        for sql in [&queue.sql.find_due, &queue.sql.next_due] {
            let steps = query_plan(connection, sql);
            let range = if filtered {
                "(lease_due_time"
            } else {
                "(lease_state=? AND lease_due_time"
            };
            assert!(steps[0].starts_with("SEARCH item USING"), "{steps:?}");
            assert!(steps[0].contains("INDEX item_lease_due"), "{steps:?}");
            assert!(steps[0].contains(range), "{steps:?}");
            assert!(steps.len() == 1 || !filtered, "must not sort: {steps:?}");
        }
    });
}

/// Returns the plan's name for the index that holds the rows of `state`, or `None` if no index does.
fn index_of(state: State, queue: &QueueStatements) -> Option<&'static str> {
    let filtered = queue.spec.filtered_indexes;
    match state {
        State::Ready => Some("INDEX item_lease_ready"),
        State::Leased if filtered => Some("INDEX item_lease_token"),
        State::Leased | State::Delayed => Some("INDEX item_lease_due"),
        State::Completed if !filtered => Some("INDEX item_lease_due"),
        State::Completed => None,
        State::Dead => Some("INDEX item_lease_dead"),
    }
}

/// Returns the only line of a plan that reads the table.
fn table_read(steps: &[String]) -> &str {
    let reads: Vec<&String> = steps.iter().filter(|step| step.contains("item")).collect();
    assert_eq!(reads.len(), 1, "{steps:?}");
    reads[0]
}

/// Returns true if the plan sorts rows.
fn sorts(steps: &[String]) -> bool {
    steps.iter().any(|step| step.contains("TEMP B-TREE"))
}

#[test]
fn each_count_reads_one_index_without_sorting() {
    for_each_queue(|connection, queue, _| {
        let counts = &queue.sql.counts;
        let seek = |steps: &[String]| {
            let read = table_read(steps);
            assert!(!sorts(steps), "{steps:?}");
            let seeks = read.contains("(lease_state=?");
            assert!(queue.spec.filtered_indexes || seeks, "{steps:?}");
        };
        for (state, index_count) in State::ALL.into_iter().zip(&counts.of_state) {
            let Some(index_count) = index_count else {
                let is_mixed = matches!(state, State::Delayed | State::Completed);
                assert!(is_mixed && queue.spec.filtered_indexes);
                continue;
            };
            let index = index_of(state, queue).expect("an index");
            for sql in [&index_count.over_limit, &index_count.count] {
                let steps = query_plan(connection, sql);
                assert!(table_read(&steps).contains(index), "{steps:?}");
                seek(&steps);
            }
        }
        for sql in [&counts.due.over_limit, &counts.due.count] {
            let steps = query_plan(connection, sql);
            assert!(
                table_read(&steps).contains("INDEX item_lease_due"),
                "{steps:?}"
            );
            seek(&steps);
        }
    });
}

#[test]
fn states_without_index_are_counted_in_unsorted_samples() {
    for_each_queue(|connection, queue, _| {
        if queue.spec.filtered_indexes {
            let steps = query_plan(connection, &queue.sql.counts.delayed_in_sample);
            assert!(
                table_read(&steps).contains("INDEX item_lease_due"),
                "{steps:?}"
            );
            assert!(!sorts(&steps), "{steps:?}");
            let steps = query_plan(connection, &queue.sql.counts.completed_in_sample);
            assert_eq!(table_read(&steps), "SCAN item", "{steps:?}");
            assert!(!sorts(&steps), "{steps:?}");
        }
    });
}

#[test]
fn oldest_item_is_read_from_index_of_its_state() {
    for_each_queue(|connection, queue, _| {
        // The oldest ready item is searched at both ends of the index.
        for (state, sql, reads) in [
            (State::Ready, &queue.sql.oldest_ready, 2),
            (State::Leased, &queue.sql.oldest_lease, 1),
        ] {
            let steps = query_plan(connection, sql);
            let index = index_of(state, queue).expect("an index");
            let from_index = steps.iter().filter(|step| step.contains(index));
            assert_eq!(from_index.count(), reads, "{steps:?}");
            let of_table = steps.iter().filter(|step| step.contains("item"));
            assert_eq!(of_table.count(), reads, "{steps:?}");
            assert!(!sorts(&steps), "{steps:?}");
        }
    });
}

#[test]
fn lists_limit_rows_of_state_index_before_sorting() {
    for_each_queue(|connection, queue, _| {
        for state in [State::Ready, State::Leased, State::Delayed] {
            let steps = query_plan(connection, &queue.sql.list[state as usize]);
            let index = index_of(state, queue).expect("an index");
            assert!(table_read(&steps).contains(index), "{steps:?}");
            assert!(
                steps[0].contains("CO-ROUTINE"),
                "the limit must apply before the sort: {steps:?}"
            );
        }
    });
}

#[test]
fn place_of_an_item_is_counted_as_claims_read() {
    for_each_queue(|connection, queue, row| {
        let why = &queue.sql.why;
        assert_eq!(query_plan(connection, &why.read_row), [row]);
        let claim = query_plan(connection, &queue.sql.pick_ready.keys);
        let count = query_plan(connection, &why.find_ready);
        let index = |steps: &[String]| steps[0].replace("COVERING ", "");
        assert_eq!((count.len(), index(&count)), (1, index(&claim)));
    });
}

#[test]
fn dead_items_are_read_in_index_order() {
    for_each_queue(|connection, queue, _| {
        let search = ItemSearch {
            state: State::Dead,
            filter: ItemFilter::default(),
            not_since: None,
            after: None,
            newest_first: false,
            limit: 10,
            max_examined: 10,
        };
        let (found, _) = statement(queue, &search).expect("a search");
        for sql in [&queue.sql.list[State::Dead as usize], &found] {
            let steps = query_plan(connection, sql);
            assert!(steps[0].contains("INDEX item_lease_dead"), "{steps:?}");
            // A search sorts the items of one moment by their keys.
            let sorts_all = |step: &String| !step.contains("TEMP B-TREE FOR LAST");
            assert!(
                !steps[1..].iter().any(sorts_all),
                "must not sort: {steps:?}"
            );
        }
    });
}

#[test]
fn retention_walks_in_key_order_without_sorting() {
    for_each_queue(|connection, queue, row| {
        let purge = &queue.sql.purge;
        for sql in [&purge.visit_first, &purge.visit_next] {
            let steps = query_plan(connection, sql);
            assert_eq!(steps.len(), 1, "must not sort: {steps:?}");
        }
        let steps = query_plan(connection, &purge.visit_next);
        assert!(steps[0].starts_with("SEARCH item USING"), "{steps:?}");
        assert_eq!(query_plan(connection, &purge.delete_old), [row]);
    });
}

#[test]
fn retention_finds_old_items_by_index_without_sorting() {
    let mut spec = spec(Order::None, true);
    spec.completed_index = true;
    let (connection, queue) = open_queue(TABLES[0].0, &spec, false);
    let purge = &queue.sql.purge;
    for sql in [&purge.visit_first, &purge.visit_next] {
        let steps = query_plan(&connection, sql);
        for index in [
            "item_lease_completed (lease_state_time",
            "item_lease_dead (lease_state_time",
        ] {
            assert!(steps.iter().any(|step| step.contains(index)), "{steps:?}");
        }
        assert!(!sorts(&steps), "{steps:?}");
    }
}

#[test]
fn retention_finds_old_archived_rows_by_index() {
    let mut spec = spec(Order::None, true);
    spec.keep_for.archive = Some(Duration::from_secs(60));
    let (connection, queue) = open_queue(TABLES[0].0, &spec, false);
    let archive = queue.sql.purge.archive.as_ref().expect("an archive");
    for sql in [&archive.find, &archive.count] {
        let steps = query_plan(&connection, sql);
        let range = |step: &String| {
            step.contains("INDEX done_lease_state_time (lease_state_time>? AND lease_state_time<?)")
        };
        assert!(steps.iter().any(range), "{steps:?}");
    }
}

#[test]
fn single_row_statements_seek_by_key() {
    for_each_queue(|connection, queue, row| {
        let sql = &queue.sql;
        for sql in [
            &sql.lease_row,
            &sql.read_lease,
            &sql.extend,
            &sql.read_lost,
            &sql.find_held,
            &sql.read_item,
            &sql.cancel,
            &sql.release_claim,
            &sql.complete,
            &sql.delete,
            &sql.delete_archived,
            &sql.fail,
            &sql.release,
            &sql.find_owner,
            &sql.find_earlier_settlement,
            &sql.expire,
            &sql.promote,
            &operations::render_redrive(queue, false, Checkpoints::Keep),
            &render(queue.lease_sql.operation, "purge_item", &queue.placeholders),
            &render(
                queue.lease_sql.operation,
                "find_unchanged",
                &queue.placeholders,
            ),
            sql.copy_to_archive.as_ref().expect("an archive"),
        ] {
            let steps = query_plan(connection, sql);
            assert_eq!(steps, [row], "{sql}");
        }
    });
}
