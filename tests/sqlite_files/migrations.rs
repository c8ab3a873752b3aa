//! Tables of the broker that another build created or that were changed.

use lease_broker::store::StoreError;

use crate::harness::Harness as _;
use crate::harness::fixture::Fixture;
use crate::harness::sqlite::SqliteHarness;

/// Runs this change on a valid file and returns the text of the error with which the store refuses it.
async fn refusal(change: &str) -> String {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    fixture
        .harness
        .connect()
        .execute_batch(change)
        .expect(change);
    match fixture.harness.open(&fixture.queues).await {
        Err(StoreError::Misconfigured(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("not refused"),
    }
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
async fn newer_migration_is_refused() {
    let newer = "INSERT INTO lease_broker_migration (name, checksum) VALUES ('9999_future', '')";
    let text = refusal(newer).await;
    assert!(
        text.contains("9999_future") && text.contains("newer"),
        "{text}"
    );
}

#[tokio::test]
async fn damaged_secret_is_refused() {
    let short = "UPDATE lease_broker_meta SET value = x'00' WHERE name = 'secret'";
    let text = refusal(short).await;
    assert!(text.contains("secret"), "{text}");
    let text = refusal("DELETE FROM lease_broker_meta WHERE name = 'secret'").await;
    assert!(text.contains("secret"), "{text}");
}

#[tokio::test]
async fn state_names_can_be_joined() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let names = "SELECT name FROM item JOIN lease_broker_state USING (lease_state)";
    let name: String = fixture
        .harness
        .connect()
        .query_row(names, [], |row| row.get(0))
        .expect(names);
    assert_eq!(name, "ready");
}
