//! Tables of the broker that another build created or that were changed.

use std::sync::Barrier;

use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_store::sqlite::{SqliteStore, system_clock};
use lease_broker_store::{Facts as _, StoreError};
use rusqlite::Connection;

use crate::harness::Harness as _;
use crate::harness::fixture::Fixture;
use crate::harness::sqlite::SqliteHarness;

/// Returns a fixture with one item, after this change of a valid file.
async fn changed(change: &str) -> Fixture<SqliteHarness> {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    fixture.harness.execute(change);
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

/// The error of a changed migration tells to do this.
#[tokio::test]
async fn dropped_tables_of_the_broker_are_created_again() {
    let fixture = changed("UPDATE lease_broker_migration SET checksum = 'abc'").await;
    let connection = fixture.harness.connect();
    let tables = "SELECT group_concat('DROP TABLE ' || name, '; ') FROM sqlite_schema
        WHERE name GLOB 'lease_broker_*' AND type = 'table' AND name NOT IN ('lease_broker_added', 'lease_broker_fence')";
    let tables = text(&connection, tables);
    connection.execute_batch(&tables).expect(&tables);
    let another = fixture.another().await;
    assert_eq!(another.claim(1).await.len(), 1);
}

#[tokio::test]
async fn unknown_migration_for_newer_versions_is_refused() {
    for oldest_reader in ["'99.0.0'", "'soon'"] {
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
