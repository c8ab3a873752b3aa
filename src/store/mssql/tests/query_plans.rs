//! Which index each statement uses, as a server tells of the batches as they are shipped: what a claim, a settlement, a
//! heartbeat and the reaper cost does not depend on how many rows the table has.
//!
//! The session profiles what it runs, so that each statement of a batch is followed by its plan.

use serde_json::json;
use tiberius::{ColumnData, Row, ToSql};
use uuid::Uuid;

use super::super::adopt::{apply, plan};
use super::super::connection::Connection;
use super::super::decode;
use super::super::list_parameters::{ListEntry, ListParameters};
use super::super::queue_statements::QueueStatements;
use super::super::{MssqlOperations, Pool, Settings};
use super::spec;
use crate::lease_id::LeaseRef;
use crate::store::{Ending, Settlement};

/// Rows enough that to read them all is no way to find a few.
const ROWS: u32 = 100_000;
/// Calls of a claim, and what each asks for: one, as Babelfish has no statistics of a table that was filled just now, takes
/// its leases for few, and would rather read them all than seek several.
const CALLS: usize = 1;
const ITEMS: usize = 1;

/// A statement of a batch, found by how it begins and by what it has, and the indexes of which it must use one.
type Expected = (&'static str, &'static str, &'static [&'static str]);

/// What finds a row by its key; in a queue that is in the key's order, a ready row is found by the ready index as well.
const BY_KEY: &[&str] = &["item_key", "item_lease_ready"];
const READY: &[&str] = &["item_lease_ready"];
const TOKEN: &[&str] = &["item_lease_token"];
const DUE: &[&str] = &["item_lease_due"];

/// A database with a queue of many rows in every state, and a session that tells the plans.
struct Desk {
    connection: Connection,
    mssql: MssqlOperations,
}

impl Desk {
    fn table(&self) -> &QueueStatements {
        &self.mssql.queues[0]
    }

    async fn run(&mut self, sql: &str, parameters: &[&dyn ToSql]) -> Vec<Vec<Row>> {
        let results = self.connection.query(sql, parameters).await;
        results.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// Claims, and checks how; `again`, calls that may be repeated.
    async fn claim(&mut self, again: bool) -> Vec<LeaseRef> {
        let list = (0..CALLS).map(|at| {
            let mut entry = ListEntry::default();
            for (name, value) in [
                ("o", json!(at)),
                ("n", json!(ITEMS)),
                ("w", json!("worker")),
                ("t", json!(Uuid::new_v4().to_string())),
                ("d", json!(60_000)),
                ("r", json!(again)),
            ] {
                entry.insert(name, value);
            }
            entry
        });
        let statements = &self.table().sql;
        let (sql, wire) = (
            if again {
                statements.claim_with_retries.clone()
            } else {
                statements.claim.clone()
            },
            ListParameters::new(vec![list.collect()]),
        );
        let results = self.run(&sql, &wire.parameters()).await;
        let leases = results.iter().flatten().filter(|row| is_own(row, "lb_t"));
        let lease = |row: &Row| LeaseRef {
            key: self.table().read_key(row, 2).expect("a key"),
            token: decode::token(row, 0).expect("a token"),
            fence: decode::integer(row, 3).expect("a fence"),
            attempt: 1,
        };
        let leases: Vec<LeaseRef> = leases.map(lease).collect();
        assert_eq!(leases.len(), CALLS * ITEMS);
        expect(
            &results,
            &[
                ("INSERT", "@picked", READY),
                ("UPDATE", "lease_attempt", BY_KEY),
                ("SELECT", "@picked", BY_KEY),
            ],
        );
        if again {
            expect(
                &results,
                &[
                    ("SELECT", "ORDER BY r.lb_o", TOKEN),
                    ("INSERT", "@answered", TOKEN),
                ],
            );
        }
        leases
    }

    async fn heartbeat(&mut self, leases: &[LeaseRef]) {
        let list = leases.iter().enumerate().map(|(at, lease)| {
            let mut entry = QueueStatements::lease_entry(at, lease);
            entry.insert("d", json!(60_000));
            entry
        });
        let (sql, wire) = (
            self.table().sql.extend.clone(),
            ListParameters::new(vec![list.collect()]),
        );
        let results = self.run(&sql, &wire.parameters()).await;
        let by_key = [
            ("UPDATE", "lease_due_time", BY_KEY),
            ("SELECT", "lb_due", BY_KEY),
        ];
        expect(&results, &by_key);
    }

    /// Completes; `again`, what was completed before.
    async fn complete(&mut self, leases: &[LeaseRef], again: bool) {
        let settlement = |lease: &LeaseRef| Settlement {
            lease: lease.clone(),
            ending: Ending::Complete {
                follow_ups: Vec::new(),
            },
        };
        let settlements: Vec<Settlement> = leases.iter().map(settlement).collect();
        let places: Vec<usize> = (0..settlements.len()).collect();
        let batch = self.mssql.render_settlement(
            self.table(),
            &settlements,
            &places,
            "COMMIT TRANSACTION;",
        );
        let (sql, wire) = batch.expect("a batch");
        let results = self.run(&sql, &wire.parameters()).await;
        let settled = results.iter().flatten().filter(|row| is_own(row, "lb_i"));
        assert_eq!(settled.count(), settlements.len());
        expect(
            &results,
            &[
                ("SELECT", "lb_i", BY_KEY),
                ("UPDATE", "lease_attempt", BY_KEY),
            ],
        );
        if again {
            expect(&results, &[("SELECT", "lease_owner", BY_KEY)]);
        }
    }

    async fn reap(&mut self) {
        let sql = self.table().sql.reap.clone();
        let results = self.run(&sql, &[&1, &3]).await;
        expect(
            &results,
            &[
                ("INSERT", "@due", DUE),
                ("UPDATE", "lease_error", BY_KEY),
                ("SELECT", "lb_now", DUE),
            ],
        );
    }
}

#[tokio::test]
async fn claims_heartbeats_settlements_and_the_reaper_use_the_indexes_that_their_files_name() {
    let Ok(server) = std::env::var("LEASE_BROKER_TEST_MSSQL") else {
        eprintln!("skipped: LEASE_BROKER_TEST_MSSQL names no server");
        return;
    };
    let name = format!("lb_test_{}", Uuid::new_v4().simple());
    let mut first = connect(&Settings::new(server.clone())).await;
    batch(&mut first, &format!("CREATE DATABASE [{name}]")).await;
    let mut desk = set_up(&Settings::new(format!("{server};database={name}"))).await;
    desk.claim(true).await;
    let leases = desk.claim(false).await;
    desk.heartbeat(&leases).await;
    desk.complete(&leases, false).await;
    desk.complete(&leases, true).await;
    desk.reap().await;
    drop(desk);
    // Its session may still be ending; what a failed test leaves, a later test run drops.
    for _ in 0..100 {
        if first
            .batch(&format!("DROP DATABASE [{name}]"))
            .await
            .is_ok()
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the database {name} is left behind");
}

async fn set_up(settings: &Settings) -> Desk {
    let mut connection = connect(settings).await;
    let create = "CREATE TABLE item (id int NOT NULL CONSTRAINT item_key PRIMARY KEY)";
    batch(&mut connection, create).await;
    let spec = spec("item");
    for step in plan(&mut connection, &spec).await.expect("plan") {
        let applied = apply(&mut connection, &step, &mut |_| ()).await;
        applied.expect(&step.sql);
    }
    // One in twenty is leased, one delayed, half of them due; two are ready; the others are completed.
    let fill = format!(
        "WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 99),
            ids AS (SELECT a.i + 100 * b.i + 10000 * c.i + 1 AS id FROM n AS a CROSS JOIN n AS b CROSS JOIN n AS c
                WHERE c.i < {ROWS} / 10000)
        INSERT item (id, lease_state, lease_due_time, lease_token)
        SELECT id, CASE id % 20 WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 3 THEN 0 WHEN 4 THEN 0 ELSE 3 END,
            CASE WHEN id % 20 IN (1, 2) THEN DATEADD(second, id - {ROWS} / 2, SYSUTCDATETIME()) END,
            CASE WHEN id % 20 = 1 THEN NEWID() END
        FROM ids"
    );
    batch(&mut connection, &fill).await;
    let table = QueueStatements::read(&mut connection, &spec)
        .await
        .expect("a queue");
    let profile = if connection.server_info.babelfish {
        "SET BABELFISH_STATISTICS PROFILE ON"
    } else {
        "SET STATISTICS PROFILE ON"
    };
    batch(&mut connection, profile).await;
    Desk {
        connection,
        mssql: MssqlOperations {
            pool: Pool::new(settings).expect("a pool"),
            queues: vec![table].into(),
        },
    }
}

async fn connect(settings: &Settings) -> Connection {
    let server = settings.server().expect("a connection string");
    Box::pin(Connection::open(&server, settings))
        .await
        .expect("a server")
}

async fn batch(connection: &mut Connection, sql: &str) {
    let ran = connection.batch(sql).await;
    ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
}

/// Returns whether a row is of a result of the broker's that begins with this column.
fn is_own(row: &Row, first: &str) -> bool {
    row.columns()
        .first()
        .is_some_and(|column| column.name() == first)
}

fn expect(results: &[Vec<Row>], expected: &[Expected]) {
    let plans = plans(results);
    for (begins, has, indexes) in expected {
        let mut found = plans
            .iter()
            .filter(|plan| plan.trim_start().starts_with(begins) && plan.contains(has));
        let plan = found
            .next()
            .unwrap_or_else(|| panic!("no plan of {begins} … {has}: {plans:#?}"));
        let used = indexes.iter().any(|index| plan.contains(index));
        assert!(used, "none of {indexes:?} is used: {plan}");
        let scanned = plan.lines().find(|line| {
            line.contains("Seq Scan on item")
                || line.contains("Index Scan") && line.contains("[item_key]")
        });
        assert_eq!(scanned, None, "the whole table is read: {plan}");
    }
}

/// Returns each statement with its plan. SQL Server answers a result for each, whose rows have its text and then its
/// operators; Babelfish answers lines, of which one that begins with "Query Text: " begins a statement.
fn plans(results: &[Vec<Row>]) -> Vec<String> {
    const BEGIN: &str = "Query Text: ";

    let mut plans: Vec<String> = Vec::new();
    for rows in results {
        let columns = rows.first().map_or(&[][..], Row::columns);
        let profile = columns
            .iter()
            .position(|column| column.name() == "StmtText");
        if profile.is_some() {
            plans.push(String::new());
        }
        for row in rows {
            let line = row.cells().nth(profile.unwrap_or(0)).map(|(_, data)| data);
            let Some(ColumnData::String(Some(line))) = line else {
                continue;
            };
            if let Some(begin) = line.strip_prefix(BEGIN) {
                plans.push(begin.to_owned());
            } else if let Some(plan) = plans.last_mut() {
                plan.extend([line, "\n"]);
            }
        }
    }
    plans
}
