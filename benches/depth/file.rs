//! An SQLite file with a number of rows, and a store on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use lease_broker::config::Sources;
use lease_broker_store::schema::Schema as _;
use lease_broker_store::sqlite::{SqliteSchema, SqliteStore, system_clock};

/// Fills the table. The delayed items are due in a month or later, so that no reap changes them.
const FILL: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
    INSERT INTO \"default\" (payload, lease_state, lease_state_time, lease_due_time, lease_fence, lease_attempt)
    SELECT printf('%.100c', 'x'), CASE WHEN n <= ?1 * 4 / 10 THEN 3 WHEN n <= ?1 * 6 / 10 THEN 2 ELSE 0 END,
        ?2, CASE WHEN n > ?1 * 4 / 10 AND n <= ?1 * 6 / 10 THEN ?2 + 2592000000 + n END, n <= ?1 * 4 / 10,
        n <= ?1 * 4 / 10
    FROM n";

pub(crate) struct File {
    path: PathBuf,
    pub(crate) store: SqliteStore,
}

impl File {
    /// Creates the table as the store would, fills it without a journal, and opens a store on it.
    pub(crate) fn fill(path: &Path, rows: u64) -> Self {
        create_table(path);
        let start = Instant::now();
        let connection = connect(path);
        // The file is temporary, so a crash may damage it.
        let fast =
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144";
        connection.execute_batch(fast).expect(fast);
        let count = i64::try_from(rows).expect("a number of rows");
        let filled = connection.execute(FILL, (count, system_clock()()));
        filled.expect(FILL);
        connection.close().expect("closed");
        let size = path.metadata().expect("a file").len() / 1_000_000;
        let took = start.elapsed().as_secs_f64();
        println!("{rows} rows: {size} MB, filled in {took:.1} s");
        Self {
            path: path.to_owned(),
            store: open(path),
        }
    }

    /// Sets the due time of every lease to the past, as if the workers had died long ago.
    pub(crate) fn expire(&self) {
        let sql = "UPDATE \"default\" INDEXED BY default_lease_token SET lease_due_time = 1 WHERE lease_state = 1";
        connect(&self.path).execute_batch(sql).expect(sql);
    }
}

fn create_table(path: &Path) {
    let config = Sources::default().load().expect("the defaults");
    let mut schema = SqliteSchema::open(path).expect("a file");
    for step in schema.plan(&config.queues[0]).expect("a plan") {
        schema.apply(&step, &mut |_| ()).expect(&step.sql);
    }
}

fn open(path: &Path) -> SqliteStore {
    let config = Sources::default().load().expect("the defaults");
    SqliteStore::open(path, &config.queues, system_clock()).expect("a store")
}

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a file");
    let timeout = Duration::from_secs(20);
    connection.busy_timeout(timeout).expect("busy_timeout");
    connection
}
