//! Retention: the broker deletes old items beside its other work.

use std::sync::Arc;
use std::time::Duration;

use lease_broker::broker::{Broker, BrokerConfig};
use lease_broker_store::sqlite::{SqliteStore, system_clock};
use rusqlite::Connection;

use crate::support::database;
use crate::support::server::Server;
use crate::support::timeout::wait_until;

const QUEUE: &str = "
[queues.work]
managed_columns = { payload = \"text\" }
keep_for = { completed = \"1h\", dead = \"2h\" }
";

/// Adds 1,200 items completed 90 minutes ago, and 3 items each that died 90 minutes and 3 hours ago, are completed, and are
/// ready.
const FILL: &str = "
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
INSERT INTO work (payload, lease_state, lease_state_time) SELECT 'old', 3, unixepoch() * 1000 - 5400000 FROM n;
INSERT INTO work (payload, lease_state, lease_state_time) VALUES
    ('dead', 4, unixepoch() * 1000 - 5400000), ('dead', 4, unixepoch() * 1000 - 5400000),
    ('dead', 4, unixepoch() * 1000 - 5400000), ('old', 4, unixepoch() * 1000 - 10800000),
    ('old', 4, unixepoch() * 1000 - 10800000), ('old', 4, unixepoch() * 1000 - 10800000),
    ('completed', 3, unixepoch() * 1000), ('completed', 3, unixepoch() * 1000), ('completed', 3, unixepoch() * 1000),
    ('ready', 0, 1), ('ready', 0, 1), ('ready', 0, 1)";

/// Waits until a broker has walked through the table of `work`. It has the turn then until the next walk is due.
async fn wait_for_walk(connection: &Connection) {
    let turn = "SELECT count(*) FROM lease_broker_retention
        WHERE queue = 'work' AND until_time > unixepoch() * 1000 + 120000";
    wait_until("a walk has ended", async || {
        database::query_value::<i64>(connection, turn) == 1
    })
    .await;
}

/// Changes the table of a server, and starts another broker, which trusts the clock from its start.
fn start_after(server: &Server, change: &str) -> Broker {
    server.database().execute_batch(change).expect(change);
    let store = SqliteStore::open(&server.file(), &server.config.queues, system_clock());
    let config = BrokerConfig {
        clock_trust: Duration::ZERO,
        ..BrokerConfig::from(&server.config)
    };
    Broker::start(
        Arc::new(store.expect("the store opens")),
        &server.config.queues,
        config,
    )
}

#[tokio::test]
async fn broker_deletes_old_items_and_no_others() {
    let server = Server::with_config(QUEUE).await;
    let broker = start_after(&server, FILL);
    let connection = server.database();
    wait_for_walk(&connection).await;
    let left: String = database::query_value(
        &connection,
        "SELECT group_concat(payload || ' ' || n) FROM
            (SELECT payload, count(*) AS n FROM work GROUP BY payload ORDER BY payload)",
    );
    assert_eq!(left, "completed 3,dead 3,ready 3");
    broker.stop().await;
}

#[tokio::test]
async fn queue_without_keep_for_takes_no_turn() {
    let server = Server::start().await;
    server.client().await.claim(1).await;
    let turns = "SELECT count(*) FROM lease_broker_retention";
    assert_eq!(database::query_value::<i64>(&server.database(), turns), 0);
}

#[tokio::test]
async fn referenced_row_alone_is_kept_from_deletion() {
    let toml = "
        [queues.work]
        purge = true
        keep_for = { completed = '1h' }";
    let sql = "
        CREATE TABLE work (id INTEGER PRIMARY KEY);
        CREATE TABLE part (work_id INTEGER NOT NULL REFERENCES work (id));
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200) INSERT INTO work SELECT n FROM n;
        INSERT INTO part VALUES (7);";
    let server = Server::with_tables(toml, sql).await;
    let end = "UPDATE work SET lease_state = 3, lease_state_time = unixepoch() * 1000 - 7200000";
    let broker = start_after(&server, end);
    let connection = server.database();
    wait_for_walk(&connection).await;
    let rows = "SELECT count(*) || ' ' || max(id) FROM work";
    assert_eq!(database::query_value::<String>(&connection, rows), "1 7");
    broker.stop().await;
}
