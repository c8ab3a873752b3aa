//! The database of a run, as another program has it. The statements are the same for both stores.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;

use crate::chaos::history::Row;
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start};
use crate::support::database::open;

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Mssql,
}

pub(crate) enum Database {
    Sqlite(PathBuf),
    Mssql {
        program: Box<Program>,
        /// Kept, so that no other test gets the database.
        _harness: Box<MssqlHarness>,
    },
}

impl Database {
    /// Returns `None` and writes a line if there is no such database.
    pub(crate) async fn create(kind: Kind, folder: &Path) -> Option<Self> {
        match kind {
            Kind::Sqlite => Some(Self::Sqlite(folder.join("queues.db"))),
            Kind::Mssql => {
                let (harness, program) = start().await?;
                Some(Self::Mssql {
                    program: program.into(),
                    _harness: harness.into(),
                })
            }
        }
    }

    /// Returns the type of a column for texts.
    pub(crate) fn text_type(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "text",
            Self::Mssql { .. } => "nvarchar(100)",
        }
    }

    /// Runs a statement. It waits up to 20 s for a lock.
    pub(crate) async fn try_run(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Sqlite(file) => {
                let run = || open(file).execute_batch(sql);
                tokio::task::block_in_place(run).map_err(|error| error.to_string())
            }
            Self::Mssql { program, .. } => program.try_run(sql).await,
        }
    }

    /// Reads rows as texts.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Sqlite(file) => tokio::task::block_in_place(|| read(file, sql)),
            Self::Mssql { program, .. } => program.rows(sql).await,
        }
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let rows = self.rows(sql).await;
        rows[0][0].parse().expect("a number")
    }

    /// Locks the store for other programs: the whole file, or all leased rows of the table on a server.
    pub(crate) async fn hold_lock(&self, time: Duration) {
        match self {
            Self::Sqlite(file) => {
                let connection = open(file);
                tokio::task::block_in_place(|| connection.execute_batch("BEGIN IMMEDIATE"))
                    .expect("the write lock within 20 seconds");
                tokio::time::sleep(time).await;
                connection.execute_batch("ROLLBACK").expect("the end");
            }
            Self::Mssql { program, .. } => {
                let other = program.another().await;
                let lock =
                    "BEGIN TRANSACTION; UPDATE work SET payload = payload WHERE lease_state = 1";
                // If the server ends it as a deadlock victim, the lock has ended too.
                if other.try_run(lock).await.is_ok() {
                    tokio::time::sleep(time).await;
                    let _ = other.try_run("ROLLBACK TRANSACTION").await;
                }
            }
        }
    }

    pub(crate) async fn queue_rows(&self) -> Vec<Row> {
        let sql = "SELECT id, payload, lease_state, lease_fence, lease_attempt FROM work";
        let rows = self.rows(sql).await.into_iter();
        let number = |text: &str| text.parse().expect("a number");
        rows.map(|row| Row {
            key: number(&row[0]),
            payload: row[1].clone(),
            state: number(&row[2]),
            fence: number(&row[3]),
            attempt: number(&row[4]),
        })
        .collect()
    }

    pub(crate) async fn follow_ups(&self) -> Vec<String> {
        let rows = self.rows("SELECT payload FROM outbox").await;
        rows.into_iter().map(|mut row| row.remove(0)).collect()
    }
}

fn read(file: &Path, sql: &str) -> Vec<Vec<String>> {
    let connection = open(file);
    let mut statement = connection.prepare(sql).expect(sql);
    let columns = statement.column_count();
    let text = |value: Value| match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        other => panic!("neither a number nor a text: {other:?}"),
    };
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|index| row.get(index).map(text))
            .collect::<rusqlite::Result<Vec<String>>>()
    });
    rows.expect(sql).collect::<Result<_, _>>().expect(sql)
}
