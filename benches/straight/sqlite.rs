//! The measurement on SQLite. Each worker is a thread with its own connection; commits are durable.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use tokio::task::JoinSet;

use crate::database::{Database, Plan};
use crate::design::{Access, Design};
use crate::run_window::{RunWindow, WorkerCounts};

/// Temporary SQLite files, a new one per run.
pub(crate) struct File {
    folder: tempfile::TempDir,
    path: PathBuf,
    files: u32,
}

impl File {
    pub(crate) fn new() -> Self {
        let folder = tempfile::TempDir::with_prefix("lease-broker-straight-");
        Self {
            folder: folder.expect("a temporary folder"),
            path: PathBuf::new(),
            files: 0,
        }
    }
}

impl Database for File {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn access_modes(&self) -> &'static [Access] {
        // SQLite has one writer at a time, so separate ranges of rows change nothing.
        &[Access::Direct, Access::Broker, Access::BrokerNext]
    }

    fn store(&self) -> String {
        format!("[store]\npath = '{}'\n", self.path.display())
    }

    async fn fill(&mut self, design: Design, access: Access, rows: i64) {
        self.files += 1;
        self.path = self.folder.path().join(format!("{}.db", self.files));
        let create = match (design, access) {
            (Design::SoftLocks, Access::Broker | Access::BrokerNext) => {
                "CREATE TABLE Rainfall_Events (Event_ID INTEGER PRIMARY KEY, Rainfall_ID bigint NOT NULL,
                    Processed bit NOT NULL DEFAULT 0)"
            }
            (Design::SoftLocks, _) => {
                "CREATE TABLE Rainfall_Events (Event_ID INTEGER PRIMARY KEY, Rainfall_ID bigint NOT NULL,
                    Processed bit NOT NULL DEFAULT 0, Process_ID int, Locked_Time datetime);
                CREATE INDEX Next_Events ON Rainfall_Events (Event_ID) WHERE Processed = 0 AND Process_ID IS NULL"
            }
            (Design::Delete, _) => {
                "CREATE TABLE Queue (QueueID INTEGER PRIMARY KEY, SomeAction varchar(100))"
            }
        };
        let column = match design {
            Design::SoftLocks => "Rainfall_ID",
            Design::Delete => "SomeAction",
        };
        let fill = format!(
            "{create}; WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows})
                INSERT INTO {} ({column}) SELECT n FROM n; PRAGMA wal_checkpoint(TRUNCATE)",
            design.table()
        );
        open(&self.path).execute_batch(&fill).expect("a full table");
    }

    async fn work(&mut self, plan: Plan) -> Vec<WorkerCounts> {
        let mut threads = JoinSet::new();
        for worker in 0..plan.workers {
            let connection = open(&self.path);
            threads.spawn_blocking(move || match plan.design {
                Design::SoftLocks => work_with_soft_locks(&connection, worker, plan.window),
                Design::Delete => delete(&connection, plan.window),
            });
        }
        threads.join_all().await
    }

    async fn unprocessed(&mut self, design: Design) -> Vec<i64> {
        let connection = open(&self.path);
        let mut statement = connection
            .prepare(&design.unprocessed())
            .expect("a statement");
        let keys = statement.query_map([], |row| row.get(0)).expect("rows");
        keys.collect::<Result<_, _>>().expect("keys")
    }
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a database");
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        .expect("a write-ahead log");
    connection
        .busy_timeout(Duration::from_secs(60))
        .expect("a busy timeout");
    connection
}

fn work_with_soft_locks(connection: &Connection, worker: u32, window: RunWindow) -> WorkerCounts {
    let mut counts = WorkerCounts::default();
    let prepared = |sql| connection.prepare(sql).expect("a statement");
    let mut begin = prepared("BEGIN IMMEDIATE");
    let mut lock = prepared(
        "UPDATE Rainfall_Events SET Process_ID = ?1, Locked_Time = datetime('now')
        WHERE Event_ID = (SELECT Event_ID FROM Rainfall_Events WHERE Processed = 0 AND Process_ID IS NULL
            ORDER BY Event_ID LIMIT 1)
        RETURNING Event_ID, Rainfall_ID",
    );
    let mut commit = prepared("COMMIT");
    let mut settle = prepared(
        "UPDATE Rainfall_Events SET Processed = 1 WHERE Event_ID = ?1 AND Process_ID = ?2 AND Processed = 0",
    );
    while !window.is_over() {
        begin.execute([]).expect("a transaction");
        let event = lock.query_row([worker], |row| Ok((row.get(0)?, row.get(1)?)));
        let event: Option<(i64, i64)> = event.optional().expect("a lock");
        commit.execute([]).expect("a commit");
        let Some((key, _)) = event else { break };
        match settle.execute((key, worker)).expect("processed") {
            1 => counts.record_settled(key, window),
            _ => counts.record_wasted(window),
        }
    }
    counts
}

fn delete(connection: &Connection, window: RunWindow) -> WorkerCounts {
    let mut counts = WorkerCounts::default();
    let prepared = |sql| connection.prepare(sql).expect("a statement");
    let mut begin = prepared("BEGIN IMMEDIATE");
    let mut read = prepared("SELECT QueueID, SomeAction FROM Queue ORDER BY QueueID LIMIT 1");
    let mut delete = prepared("DELETE FROM Queue WHERE QueueID = ?1");
    let mut commit = prepared("COMMIT");
    while !window.is_over() {
        begin.execute([]).expect("a transaction");
        let row = read.query_row([], |row| Ok((row.get(0)?, row.get(1)?)));
        let row: Option<(i64, String)> = row.optional().expect("a row");
        let deleted = row.map(|(key, _)| (key, delete.execute([key]).expect("deleted")));
        commit.execute([]).expect("a commit");
        match deleted {
            None => break,
            Some((key, 1)) => counts.record_settled(key, window),
            Some(_) => counts.record_wasted(window),
        }
    }
    counts
}
