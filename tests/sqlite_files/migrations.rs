//! Tables of the broker that another build created or that were changed.

use std::sync::Barrier;

use lease_broker::key::hex;
use lease_broker::lease_id::LeaseOwner;
use lease_broker::store::sqlite::{SqliteStore, system_clock};
use lease_broker::store::{Facts as _, StoreError};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use crate::harness::Harness as _;
use crate::harness::fixture::Fixture;
use crate::harness::sqlite::SqliteHarness;

/// The migration that version 0.1.0 knew. It never changes.
const FIRST_MIGRATION: &str = include_str!("../../sql/sqlite/migrations/0001_broker.sql");
const FIRST_CHECKSUM: &str = "f3705e2bb66fc3ed1bbe2aa7181820407f02e7000d19e12bf29c8829f87622fc";

/// Returns a fixture with one item, after this change of a valid file.
async fn changed(change: &str) -> Fixture<SqliteHarness> {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let connection = fixture.harness.connect();
    connection.execute_batch(change).expect(change);
    fixture
}

/// Runs this change on a valid file and returns the text of the error with which the store refuses it.
async fn refusal(change: &str) -> String {
    let fixture = changed(change).await;
    match fixture.harness.open(&fixture.queues).await {
        Err(StoreError::Misconfigured(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

fn text(connection: &Connection, sql: &str) -> String {
    let text = connection.query_row(sql, [], |row| row.get(0));
    text.expect(sql)
}

#[tokio::test]
async fn changed_migration_is_refused() {
    let text = refusal("UPDATE lease_broker_migration SET checksum = 'abc'").await;
    assert!(
        text.contains("0001_broker") && text.contains("another text"),
        "{text}"
    );
}

#[tokio::test]
async fn unknown_migration_for_newer_versions_is_refused() {
    for oldest_reader in ["'99.0.0'", "NULL", "'soon'"] {
        let newer = format!(
            "INSERT INTO lease_broker_migration (name, checksum, oldest_reader) VALUES ('9999_future', '', {oldest_reader})"
        );
        let text = refusal(&newer).await;
        assert!(
            text.contains("9999_future") && text.contains("newer"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn unknown_migration_for_this_version_is_accepted() {
    let newer = "INSERT INTO lease_broker_migration (name, checksum, oldest_reader) VALUES ('9999_future', '', '0.2.0')";
    let fixture = changed(newer).await;
    let another = fixture.another().await;
    assert_eq!(another.claim(1).await.len(), 1);
}

#[tokio::test]
async fn damaged_secret_is_refused() {
    let short = "UPDATE lease_broker_secret SET secret = x'00' WHERE id = 0";
    let text = refusal(short).await;
    assert!(text.contains("lease_broker_secret"), "{text}");
    let text = refusal("DELETE FROM lease_broker_secret WHERE id = 0").await;
    assert!(text.contains("lease_broker_secret"), "{text}");
}

#[tokio::test]
async fn file_of_version_0_1_0_keeps_its_secret() {
    let harness = SqliteHarness::start().await;
    let connection = harness.connect();
    let history = "CREATE TABLE lease_broker_migration (name TEXT PRIMARY KEY NOT NULL, checksum TEXT NOT NULL,
        apply_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)";
    connection.execute_batch(history).expect(history);
    let checksum = hex(&Sha256::digest(FIRST_MIGRATION.as_bytes()));
    assert_eq!(checksum, FIRST_CHECKSUM);
    connection
        .execute_batch(FIRST_MIGRATION)
        .expect("the migration");
    let record = "INSERT INTO lease_broker_migration (name, checksum) VALUES ('0001_broker', ?1)";
    connection.execute(record, [checksum]).expect(record);
    let old = "SELECT hex(value) FROM lease_broker_meta WHERE name = 'secret'";
    let old_secret = text(&connection, old);

    for _ in 0..2 {
        drop(harness.open(&[]).await.expect("open"));
        let new = "SELECT hex(secret) FROM lease_broker_secret WHERE id = 0";
        assert_eq!(text(&connection, new), old_secret);
        assert_eq!(text(&connection, old), old_secret);
    }
    let history =
        "SELECT group_concat(name || ' ' || oldest_reader, ', ') FROM lease_broker_migration";
    let history = text(&connection, history);
    assert!(history.starts_with("0002_secret 0.2.0"), "{history}");
}

#[test]
fn first_starts_at_one_moment_agree_on_one_secret() {
    const BROKERS: usize = 8;

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queue.db");
    let barrier = Barrier::new(BROKERS);
    let start = || {
        barrier.wait();
        let store = SqliteStore::open(&path, &[], system_clock()).expect("open");
        store.secret().token_of_request(
            "queue",
            &LeaseOwner::default(),
            "worker",
            uuid::Uuid::nil(),
        )
    };
    let tokens = std::thread::scope(|scope| {
        let brokers: Vec<_> = (0..BROKERS).map(|_| scope.spawn(start)).collect();
        let tokens = brokers.into_iter().map(std::thread::ScopedJoinHandle::join);
        tokens
            .map(|token| token.expect("no panic"))
            .collect::<Vec<_>>()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
}

#[tokio::test]
async fn state_names_can_be_joined() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let names = "SELECT name FROM item JOIN lease_broker_state USING (lease_state)";
    assert_eq!(text(&fixture.harness.connect(), names), "ready");
}
