//! The measurement on a T-SQL server. Each worker has its own session.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures_util::future::join_all;
use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};
use uuid::Uuid;

use crate::database::{Database, Plan};
use crate::design::{Access, Design};
use crate::run_window::{RunWindow, WorkerCounts};

type Session = Client<Compat<TcpStream>>;

/// A temporary database, and the workers' sessions, which all runs share.
pub(crate) struct Server {
    connection_string: String,
    name: String,
    sessions: Vec<Arc<Mutex<Session>>>,
}

impl Server {
    pub(crate) async fn connect(server: &str, workers: u32) -> Self {
        let name = format!("lb_test_{}", Uuid::new_v4().simple());
        let mut first = log_in(server).await;
        run(&mut first, &format!("CREATE DATABASE [{name}]")).await;
        let own = format!("{server};database={name}");
        let sessions = join_all((0..workers).map(|_| log_in(&own))).await;
        let shared = |session| Arc::new(Mutex::new(session));
        Self {
            connection_string: server.to_owned(),
            name,
            sessions: sessions.into_iter().map(shared).collect(),
        }
    }

    pub(crate) async fn close(self) {
        drop(self.sessions);
        let mut session = log_in(&self.connection_string).await;
        // The server may still be ending the closed sessions, and refuses to drop the database until then.
        for _ in 0..100 {
            let dropped = session.simple_query(format!("DROP DATABASE [{}]", self.name));
            let dropped = async { dropped.await?.into_results().await };
            if Box::pin(dropped).await.is_ok() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        eprintln!("the database {} is left behind", self.name);
    }
}

impl Database for Server {
    fn name(&self) -> &'static str {
        "T-SQL server"
    }

    fn access_modes(&self) -> &'static [Access] {
        &[
            Access::Direct,
            Access::DirectPartitioned,
            Access::Broker,
            Access::BrokerNext,
        ]
    }

    fn store(&self) -> String {
        let connection_string = format!("{};database={}", self.connection_string, self.name);
        format!(
            "[store]\nkind = \"mssql\"\nconnection_string = {connection_string:?}\ncommand_timeout = \"1m\"\n"
        )
    }

    async fn fill(&mut self, design: Design, access: Access, rows: i64) {
        let (table, locks) = (design.table(), !access.has_broker());
        let (create, column) = match design {
            Design::SoftLocks => (
                format!(
                    "CREATE TABLE Rainfall_Events (Event_ID bigint IDENTITY(1, 1) PRIMARY KEY,
                        Rainfall_ID bigint NOT NULL, Processed bit NOT NULL DEFAULT 0{});",
                    if locks { ", Process_ID int, Locked_Time datetime" } else { "" }
                ),
                "Rainfall_ID",
            ),
            Design::Delete => (
                "CREATE TABLE Queue (QueueID int IDENTITY(1, 1) PRIMARY KEY, SomeAction varchar(100));"
                    .to_owned(),
                "SomeAction",
            ),
        };
        let fill = format!(
            "IF OBJECT_ID(N'{table}') IS NOT NULL DROP TABLE {table};
            {create}
            WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 99),
                all_of AS (SELECT a.i AS i FROM n AS a CROSS JOIN n AS b CROSS JOIN n AS c)
            INSERT {table} ({column}) SELECT TOP ({rows}) i FROM all_of;"
        );
        let mut session = self.sessions[0].lock().await;
        run(&mut session, &fill).await;
        if locks && design == Design::SoftLocks {
            let index = "CREATE INDEX Next_Events ON Rainfall_Events (Event_ID)
                WHERE Processed = 0 AND Process_ID IS NULL";
            run(&mut session, index).await;
        }
    }

    async fn work(&mut self, plan: Plan) -> Vec<WorkerCounts> {
        let mut workers = JoinSet::new();
        for (at, session) in (0..plan.workers).zip(&self.sessions) {
            let session = session.clone();
            let share = plan.rows / i64::from(plan.workers);
            let first = i64::from(at) * share + 1;
            let rows = match plan.access {
                Access::DirectPartitioned => Some(first..=first + share - 1),
                _ => None,
            };
            workers.spawn(async move {
                let mut session = session.lock().await;
                match plan.design {
                    Design::SoftLocks => {
                        work_with_soft_locks(&mut session, at, rows, plan.window).await
                    }
                    Design::Delete => delete(&mut session, rows, plan.window).await,
                }
            });
        }
        workers.join_all().await
    }

    async fn unprocessed(&mut self, design: Design) -> Vec<i64> {
        let key = design.key();
        let keys = design
            .unprocessed()
            .replace(key, &format!("CONVERT(bigint, {key})"));
        let mut session = self.sessions[0].lock().await;
        let rows = run(&mut session, &keys).await;
        rows.iter().filter_map(|row| row.get::<i64, _>(0)).collect()
    }
}

/// Returns a condition that limits a statement to a worker's range of rows.
fn range_condition(key: &str, rows: Option<RangeInclusive<i64>>) -> String {
    rows.map_or_else(String::new, |rows| {
        format!(" AND {key} BETWEEN {} AND {}", rows.start(), rows.end())
    })
}

const SETTLE: &str = "UPDATE Rainfall_Events SET Processed = 1 WHERE Event_ID = @P1 AND Process_ID = @P2 AND Processed = 0";

async fn work_with_soft_locks(
    session: &mut Session,
    worker: u32,
    rows: Option<RangeInclusive<i64>>,
    window: RunWindow,
) -> WorkerCounts {
    let mut counts = WorkerCounts::default();
    // An engine that ignores the hints returns the same row to several workers. The condition of the update lets one
    // of them lock it, and the others try again.
    let lock = format!(
        "UPDATE TOP (1) Rainfall_Events SET Process_ID = @P1, Locked_Time = SYSUTCDATETIME()
        OUTPUT inserted.Event_ID, inserted.Rainfall_ID
        WHERE Event_ID = (SELECT TOP (1) Event_ID FROM Rainfall_Events WITH (UPDLOCK, READPAST, ROWLOCK)
            WHERE Processed = 0 AND Process_ID IS NULL{} ORDER BY Event_ID)
        AND Process_ID IS NULL",
        range_condition("Event_ID", rows)
    );
    let worker = i32::try_from(worker).unwrap_or(i32::MAX);
    while !window.is_over() {
        let event = async { session.query(&lock, &[&worker]).await?.into_row().await };
        let event = Box::pin(event).await.expect("a lock");
        let key = event.and_then(|event| event.get::<i64, _>(0));
        let Some(key) = key else {
            counts.record_wasted(window);
            continue;
        };
        let settled = Box::pin(session.execute(SETTLE, &[&key, &worker])).await;
        match settled.expect("processed").total() {
            1 => counts.record_settled(key, window),
            _ => counts.record_wasted(window),
        }
    }
    counts
}

async fn delete(
    session: &mut Session,
    rows: Option<RangeInclusive<i64>>,
    window: RunWindow,
) -> WorkerCounts {
    let mut counts = WorkerCounts::default();
    let read = format!(
        "BEGIN TRANSACTION;
        SELECT TOP (1) QueueID, SomeAction FROM Queue WITH (UPDLOCK, READPAST) WHERE 1 = 1{} ORDER BY QueueID;",
        range_condition("QueueID", rows)
    );
    while !window.is_over() {
        let found = run(session, &read).await;
        let key = found.first().and_then(|row| row.get::<i32, _>(0));
        let key = key.unwrap_or_default();
        let end = format!(
            "DELETE FROM Queue WHERE QueueID = {key}; SELECT @@ROWCOUNT AS deleted; COMMIT TRANSACTION;"
        );
        let deleted = run(session, &end).await;
        // If the engine ignores the hints, another worker may have read and deleted the same row.
        match deleted.first().and_then(|row| row.get::<i32, _>(0)) {
            Some(1) => counts.record_settled(i64::from(key), window),
            _ => counts.record_wasted(window),
        }
    }
    counts
}

async fn log_in(connection_string: &str) -> Session {
    let config = Config::from_ado_string(connection_string).expect("a connection string");
    let stream = TcpStream::connect(config.get_addr())
        .await
        .expect("a server");
    stream.set_nodelay(true).expect("a socket");
    // Boxed, because the driver's futures are large.
    let session = Box::pin(Client::connect(config, stream.compat_write())).await;
    session.expect("a login")
}

/// Runs a batch and returns the rows of its first result.
async fn run(session: &mut Session, sql: &str) -> Vec<tiberius::Row> {
    let rows = async { session.simple_query(sql).await?.into_first_result().await };
    let rows = Box::pin(rows).await;
    rows.unwrap_or_else(|error| panic!("{error}: {sql}"))
}
