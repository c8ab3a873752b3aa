//! An `SQLite` file with ready items, and a store on it.

use std::path::Path;

use rusqlite::Connection;

use lease_broker::config::Sources;
use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::schema::Schema as _;
use lease_broker_store::sqlite::{SqliteSchema, SqliteStore, system_clock};

/// How the items are divided into groups.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// This number of groups, all of one size. Their rows lie mixed.
    Even(u64),
    /// This number of groups. The first has half of all rows.
    Burst(u64),
}

/// The rules of the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    Plain,
    Strict,
    /// Strict, and claims ask for runs of up to [`RUN`] items.
    Runs,
    /// Without groups, with a limit of leases that is never reached.
    Capped,
}

const RUN: u32 = 10;

pub(crate) struct File {
    pub(crate) store: SqliteStore,
    /// The maximum number of items of a run for which claims ask.
    pub(crate) max_run: usize,
}

impl File {
    /// Creates the table as the store would, fills it without a journal, and opens a store on it.
    pub(crate) fn fill(path: &Path, rows: u64, shape: Shape, rules: Rules) -> Self {
        let spec = spec(rules);
        let max_run = spec.max_run();
        let mut schema = SqliteSchema::open(path).expect("a file");
        for step in schema.plan(&spec).expect("a plan") {
            schema.apply(&step, &mut |_| ()).expect(&step.sql);
        }
        drop(schema);
        let connection = Connection::open(path).expect("a file");
        // The file is temporary, so a crash may damage it.
        let fast =
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144";
        connection.execute_batch(fast).expect(fast);
        let fill = fill_statement(shape);
        let rows = i64::try_from(rows).expect("a number of rows");
        connection
            .execute(&fill, (rows, system_clock()()))
            .expect(&fill);
        connection.execute_batch("ANALYZE").expect("ANALYZE");
        connection.close().expect("closed");
        let store = SqliteStore::open(path, &[spec], system_clock());
        Self {
            store: store.expect("a store"),
            max_run,
        }
    }
}

fn spec(rules: Rules) -> QueueSpec {
    let config = Sources::default().load().expect("the defaults");
    let mut spec = config.queues[0].clone();
    let column = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    spec.managed_columns = Some(vec![
        column("payload", "TEXT NOT NULL"),
        column("customer", "INTEGER NOT NULL"),
    ]);
    if matches!(rules, Rules::Strict | Rules::Runs) {
        spec.groups = Some(Groups {
            column: "customer".to_owned(),
            order: GroupOrder::Strict {
                halts: false,
                run: if rules == Rules::Runs { RUN } else { 1 },
            },
            rate: None,
        });
    }
    if rules == Rules::Capped {
        spec.limits.max_leases = Some(QueueLimits::MAX_LEASES);
    }
    spec
}

fn fill_statement(shape: Shape) -> String {
    let group = match shape {
        Shape::Even(groups) => format!("n % {groups}"),
        Shape::Burst(groups) => format!("CASE WHEN n <= ?1 / 2 THEN 0 ELSE n % {groups} END"),
    };
    format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
        INSERT INTO \"default\" (payload, customer, lease_state, lease_state_time, lease_fence, lease_attempt)
        SELECT printf('%.100c', 'x'), {group}, 0, ?2, 0, 0 FROM n"
    )
}
