//! Rows whose values make a statement of a trigger or of a generated column fail while it runs, with the error that SQLite also has for a
//! statement that does not fit the schema. Only these rows stay as they are.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{
    ArchiveCutoff, Cancelled, NewItem, Renewal, Renewed, Settled, StoreError,
};
use lease_broker_value::Value;

use crate::conformance::cancel::{because, cancel};
use crate::harness::errors::{misconfigured, rejected};
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, call, complete, fail, keys, new_item, queue, release, text,
};
use crate::harness::sqlite::SqliteHarness;

/// Fails for a payload that is no JSON.
const AUDIT: &str = "CREATE TABLE audit (total);
    CREATE TRIGGER audited AFTER UPDATE ON item BEGIN
        INSERT INTO audit VALUES (json_extract(new.payload, '$.total'));
    END;
    CREATE TRIGGER audited_new AFTER INSERT ON item BEGIN
        INSERT INTO audit VALUES (json_extract(new.payload, '$.total'));
    END;";

/// Creates a queue with four rows. The payload of row 2 is no JSON.
async fn four_rows() -> Fixture<SqliteHarness> {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    let change = "UPDATE item SET payload = iif(id = 2, 'oops', '{}')";
    fixture.harness.execute(change);
    fixture
}

async fn claim_one(broker: &Broker) -> Result<Vec<String>, StoreError> {
    let calls = vec![call("a", 1)].into();
    let claimed = broker.store.claim(broker.queue, calls, usize::MAX).await?;
    Ok(keys(&claimed[0].items))
}

fn is_malformed(problem: &str) -> bool {
    problem.ends_with("malformed JSON")
}

#[tokio::test]
async fn claim_passes_over_a_row_on_which_a_trigger_fails() {
    let fixture = four_rows().await;
    fixture.harness.execute(AUDIT);
    assert_eq!(keys(&fixture.claim(9).await), ["1", "3", "4"]);
    let rejection = rejected(claim_one(&fixture).await);
    assert_eq!(rejection.item, Some(0));
    assert_eq!(
        rejection.problem.text,
        "item 2 cannot be leased: malformed JSON"
    );
}

#[tokio::test]
async fn leases_end_beside_a_row_on_which_a_trigger_fails() {
    let fixture = four_rows().await;
    let items = fixture.claim(9).await;
    fixture.harness.execute(AUDIT);
    let completions = items[..3].iter().map(|item| (&item.lease, complete()));
    let settled = fixture.try_settle(completions.collect()).await;
    let settled = settled.expect("settlements");
    let completed = Settled::Ended(State::Completed);
    assert_eq!([&settled[0], &settled[2]], [&completed, &completed]);
    let Settled::Refused(refusal) = &settled[1] else {
        panic!("{:?}", settled[1]);
    };
    assert!(is_malformed(&refusal.problem.text), "{refusal}");
    fixture.advance(HOUR).await;
    let reaped = fixture.reap(9).await;
    assert_eq!(reaped.expired.len(), 1);
    let refused: Vec<_> = reaped.refused.iter().map(|row| row.0.to_string()).collect();
    assert_eq!(refused, ["2"]);
}

#[tokio::test]
async fn new_item_on_which_a_trigger_fails_is_named() {
    let fixture = four_rows().await;
    fixture.harness.execute(AUDIT);
    let item = |id, payload| new_item(&[("id", Value::Int(id)), ("payload", text(payload))]);
    let items: Vec<NewItem> = vec![item(5, "{}"), item(6, "oops")];
    let rejection = rejected(fixture.try_enqueue(items).await);
    assert_eq!(rejection.item, Some(1));
    assert!(is_malformed(&rejection.problem.text), "{rejection:?}");
}

#[tokio::test]
async fn heartbeat_of_a_row_that_refuses_concerns_it_only() {
    for (time, action) in [
        ("BEFORE", "ABORT, 'stay'"),
        ("BEFORE", "FAIL, 'stay'"),
        ("AFTER", "FAIL, 'stay'"),
        ("BEFORE", "ROLLBACK, 'stay'"),
    ] {
        let fixture = four_rows().await;
        let items = fixture.claim(9).await;
        let trigger = format!(
            "CREATE TRIGGER frozen {time} UPDATE ON item WHEN old.id IN (2, 3)
             BEGIN SELECT RAISE({action}); END"
        );
        fixture.harness.execute(&trigger);
        let renewals = items.iter();
        let renewals = renewals.map(|item| Renewal::new(item.lease.clone(), 2 * HOUR));
        let renewed = fixture.store.heartbeat(fixture.queue, renewals.collect());
        let renewed = renewed.await.expect(action);
        let has_refused = |renewed: &Renewed| match renewed {
            Renewed::Refused(refusal) => refusal.problem.text == "stay",
            _ => false,
        };
        let refused: Vec<_> = renewed.iter().map(has_refused).collect();
        assert_eq!(refused, [false, true, true, false], "{action}");
        fixture.advance(30 * MINUTE).await;
        assert_eq!(
            fixture.complete(&items[0].lease).await,
            Some(State::Completed)
        );
        // The leases of the refused rows were not extended.
        fixture.advance(HOUR).await;
        assert_eq!(fixture.reap(9).await.refused.len(), 2, "{time} {action}");
    }
}

#[tokio::test]
async fn heartbeat_of_a_row_on_which_a_trigger_fails_is_refused() {
    let fixture = four_rows().await;
    let items = fixture.claim(9).await;
    fixture.harness.execute(AUDIT);
    let Renewed::Refused(refusal) = fixture.renew(&items[1].lease, HOUR).await else {
        panic!("the lease was extended");
    };
    assert!(is_malformed(&refusal.problem.text), "{refusal}");
}

#[tokio::test]
async fn row_whose_generated_column_fails_is_passed_over() {
    for has_large_items in [false, true] {
        let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT);
            INSERT INTO item (payload) VALUES ('{}'), ('oops'), ('{}'), ('{}');
            ALTER TABLE item ADD COLUMN total AS (json_extract(payload, '$.total'))";
        let harness = SqliteHarness::with(table).await;
        let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
        if has_large_items {
            let mut small = call("a", 1);
            small.max_bytes = 1;
            assert_eq!(keys(&fixture.claim_by(small).await).len(), 0);
        }
        assert_eq!(keys(&fixture.claim(9).await), ["1", "3", "4"]);
        assert_eq!(fixture.counts().await, [1, 3, 0, 0, 0]);
        let refused = claim_one(&fixture).await;
        rejected(refused);
    }
}

#[tokio::test]
async fn item_is_shown_without_a_generated_column_that_fails() {
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, payload TEXT);
        INSERT INTO item (payload) VALUES ('oops');
        ALTER TABLE item ADD COLUMN total AS (json_extract(payload, '$.total'));
        ALTER TABLE item ADD COLUMN length AS (length(payload))";
    let harness = SqliteHarness::with(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let key = || fixture.reads.parse_key(fixture.queue, "1").expect("a key");
    let shown = fixture.reads.read_item(fixture.queue, key()).await;
    let columns = shown.expect("an answer").expect("an item").columns;
    let names: Vec<&str> = columns.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["id", "payload", "length"]);
    let facts = fixture.reads.item_facts(fixture.queue, key()).await;
    let row = facts.expect("facts").row.expect("a row");
    assert_eq!(row.state, Some(State::Ready));
}

#[tokio::test]
async fn trigger_that_does_not_fit_the_schema_refuses_no_row() {
    let fixture = four_rows().await;
    fixture.harness.execute(AUDIT);
    assert_eq!(claim_one(&fixture).await, Ok(vec!["1".to_owned()]));
    fixture.harness.execute("DROP TABLE audit");
    let refused = claim_one(&fixture).await;
    misconfigured(refused);
}

#[tokio::test]
async fn cancellation_that_a_row_refuses_concerns_it_only() {
    for action in ["ABORT, 'stay'", "ROLLBACK, 'stay'"] {
        let fixture = four_rows().await;
        fixture.claim(9).await;
        let trigger = format!(
            "CREATE TRIGGER frozen AFTER UPDATE ON item WHEN old.id IN (2, 3)
             BEGIN SELECT RAISE({action}); END"
        );
        fixture.harness.execute(&trigger);
        let cancelled = cancel(&fixture, &["1", "2", "3", "4"], because("stuck")).await;
        let is_refused = |result: &Cancelled| matches!(result, Cancelled::Refused(_));
        let refused: Vec<_> = cancelled.iter().map(is_refused).collect();
        assert_eq!(refused, [false, true, true, false], "{action}");
        assert_eq!(fixture.counts().await, [2, 2, 0, 0, 0], "{action}");
    }
}

#[tokio::test]
async fn release_of_a_claim_leaves_a_row_that_refuses() {
    for action in ["ABORT, 'stay'", "ROLLBACK, 'stay'"] {
        let fixture = four_rows().await;
        let tokens = [1, 2].map(uuid::Uuid::from_u128);
        for token in tokens {
            fixture.request(token, 2).await;
        }
        let trigger = format!(
            "CREATE TRIGGER frozen AFTER UPDATE ON item WHEN old.id IN (2, 3)
             BEGIN SELECT RAISE({action}); END"
        );
        fixture.harness.execute(&trigger);
        let released = fixture.store.release_claims(fixture.queue, tokens.into());
        let released = released.await.expect(action);
        assert_eq!(released.counts, [1, 1], "{action}");
        let ended = released.ended.iter();
        let ended: Vec<_> = ended.map(|ended| ended.lease.key.to_string()).collect();
        assert_eq!(ended, ["1", "4"], "{action}");
        assert_eq!(fixture.counts().await, [2, 2, 0, 0, 0], "{action}");
    }
}

#[tokio::test]
async fn change_that_a_trigger_ignores_is_a_refusal() {
    let fixture = four_rows().await;
    let token = uuid::Uuid::from_u128(1);
    let items = fixture.request(token, 4).await;
    let triggers = "CREATE TRIGGER kept BEFORE UPDATE ON item WHEN old.id = 2 BEGIN SELECT RAISE(IGNORE); END;
        CREATE TRIGGER stays BEFORE DELETE ON item WHEN old.id = 2 BEGIN SELECT RAISE(IGNORE); END;";
    fixture.harness.execute(triggers);
    let lease = &items[1].lease;
    let renewed = fixture.renew(lease, HOUR).await;
    assert!(matches!(renewed, Renewed::Refused(_)), "{renewed:?}");
    for ending in [complete(), fail(None), release(Duration::ZERO)] {
        let settled = fixture.try_settle(vec![(lease, ending)]).await;
        assert!(
            matches!(settled.as_deref(), Ok([Settled::Refused(_)])),
            "{settled:?}"
        );
    }
    let cancelled = cancel(&fixture, &["1", "2"], because("stuck")).await;
    let is_refused = |result: &Cancelled| matches!(result, Cancelled::Refused(_));
    let refused: Vec<_> = cancelled.iter().map(is_refused).collect();
    assert_eq!(refused, [false, true]);
    let released = fixture.store.release_claims(fixture.queue, [token].into());
    assert_eq!(released.await.expect("released").counts, [2]);
    assert_eq!(fixture.counts().await, [3, 1, 0, 0, 0]);
}

#[tokio::test]
async fn completion_whose_deletion_a_trigger_ignores_is_refused() {
    let fixture =
        Fixture::<SqliteHarness>::with(2, |spec| spec.on_complete = OnComplete::Delete).await;
    let items = fixture.claim(2).await;
    let trigger = "CREATE TRIGGER stays BEFORE DELETE ON item WHEN old.id = 2 BEGIN SELECT RAISE(IGNORE); END";
    fixture.harness.execute(trigger);
    let completions = items.iter().map(|item| (&item.lease, complete()));
    let settled = fixture.try_settle(completions.collect()).await;
    assert!(
        matches!(
            settled.as_deref(),
            Ok([Settled::Ended(_), Settled::Refused(_)])
        ),
        "{settled:?}"
    );
}

/// A table with a trigger that keeps row 2, and one without row ids, from which nothing can be deleted by age.
#[tokio::test]
async fn archived_row_that_stays_keeps_no_other() {
    for (archive, expected) in [
        (
            "CREATE TABLE done (id BIGINT, payload TEXT, lease_state_time INTEGER)",
            Ok(3),
        ),
        (
            "CREATE TABLE done (id BIGINT PRIMARY KEY, payload TEXT, lease_state_time INTEGER) WITHOUT ROWID",
            Err("WITHOUT ROWID"),
        ),
    ] {
        for action in ["IGNORE", "ABORT, 'legal hold'", "ROLLBACK, 'legal hold'"] {
            let tables = format!(
                "CREATE TABLE item (id BIGINT PRIMARY KEY NOT NULL, payload TEXT); {archive};
                 CREATE TRIGGER hold BEFORE DELETE ON done WHEN old.id = 2
                 BEGIN SELECT RAISE({action}); END"
            );
            let harness = SqliteHarness::with(&tables).await;
            let mut spec = queue("item");
            spec.on_complete = OnComplete::Archive("done".to_owned());
            spec.keep_for.archive = Some(HOUR);
            let fixture = Fixture::adopt(harness, vec![spec]).await;
            fixture.insert(1..=4).await;
            for item in fixture.claim(9).await {
                fixture.complete(&item.lease).await;
            }
            fixture.advance(HOUR + MINUTE).await;
            let deleted = fixture
                .store
                .purge_archive(fixture.queue, ArchiveCutoff::Time(i64::MAX), 3)
                .await;
            match expected {
                Ok(count) => assert_eq!(deleted, Ok(count), "{action}"),
                Err(reason) => {
                    let error = deleted.expect_err(reason).to_string();
                    assert!(error.contains(reason), "{error}");
                }
            }
        }
    }
}
