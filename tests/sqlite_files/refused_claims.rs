//! Rows that a trigger or a constraint does not let a claim lease.

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{ClaimCall, StoreError};

use crate::conformance::groups::{STRICT, groups};
use crate::harness::Harness as _;
use crate::harness::fixture::{Broker, Fixture, call, keys, queue};
use crate::harness::sqlite::SqliteHarness;

/// Makes a trigger refuse the lease of each row whose payload begins with `bad`.
fn refuse(harness: &SqliteHarness) {
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON item WHEN NEW.lease_state = 1
        BEGIN SELECT RAISE(ABORT, 'bad stays') WHERE old.payload LIKE 'bad%'; END";
    harness.connect().execute_batch(trigger).expect("a trigger");
}

fn name(harness: &SqliteHarness, ids: &str, payload: &str) {
    let update = format!("UPDATE item SET payload = '{payload}' WHERE id IN ({ids})");
    harness.connect().execute_batch(&update).expect("changed");
}

async fn claim(broker: &Broker, calls: Vec<ClaimCall>) -> Result<Vec<Vec<String>>, StoreError> {
    let claimed = broker
        .store
        .claim(broker.queue, calls.into(), usize::MAX)
        .await?;
    Ok(claimed.iter().map(|claimed| keys(&claimed.items)).collect())
}

#[tokio::test]
async fn claim_gets_the_items_behind_those_that_are_refused() {
    let fixture = Fixture::<SqliteHarness>::items(8).await;
    name(&fixture.harness, "1, 2, 3, 6", "bad");
    refuse(&fixture.harness);
    let claimed = claim(&fixture, vec![call("a", 1), call("b", 2)]).await;
    assert_eq!(
        claimed,
        Ok(vec![
            vec!["4".to_owned()],
            vec!["5".to_owned(), "7".to_owned()]
        ])
    );
    assert_eq!(keys(&fixture.claim(9).await), ["8"]);
    let refused = claim(&fixture, vec![call("a", 1)]).await;
    let Err(StoreError::Rejected(rejection)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(rejection.item, Some(0));
    assert_eq!(rejection.problem.text, "item 1 cannot be leased: bad stays");
}

#[tokio::test]
async fn refused_item_holds_back_its_group_only() {
    let harness = SqliteHarness::start().await;
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, customer TEXT, payload TEXT);
        INSERT INTO item (customer, payload) VALUES ('a', 'bad'), ('a', 'good'), ('b', 'good')";
    harness.connect().execute_batch(table).expect("a table");
    let spec = QueueSpec {
        groups: Some(groups(STRICT)),
        ..queue("item")
    };
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    refuse(&fixture.harness);
    assert_eq!(keys(&fixture.claim(9).await), ["3"]);
}

/// The trigger of each case concerns row 2, and row 3 in the last one.
#[tokio::test]
async fn claim_passes_over_a_row_that_a_trigger_does_not_lease() {
    for (trigger, leased) in [
        (
            "BEFORE UPDATE ON item WHEN old.id = 2 BEGIN SELECT RAISE(IGNORE); END",
            &["1", "3", "4"][..],
        ),
        (
            "BEFORE UPDATE ON item WHEN old.id = 2 BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
            &["1", "3", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id IN (2, 4) BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
            &["1", "3", "5"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN DELETE FROM item WHERE id = 2; END",
            &["1", "3", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN DELETE FROM item WHERE id = 3; END",
            &["1", "2", "4"],
        ),
    ] {
        let fixture = Fixture::<SqliteHarness>::items(5).await;
        let create = format!("CREATE TRIGGER odd {trigger}");
        let connection = fixture.harness.connect();
        connection.execute_batch(&create).expect(&create);
        assert_eq!(keys(&fixture.claim(3).await), leased, "{trigger}");
    }
}

#[tokio::test]
async fn refused_item_among_large_ones_is_passed_over() {
    let fixture = Fixture::<SqliteHarness>::items(3).await;
    name(&fixture.harness, "1", "large");
    let mut small = call("a", 1);
    small.max_bytes = 1;
    // From now on the queue counts as one with large items.
    assert_eq!(claim(&fixture, vec![small]).await, Ok(vec![vec![]]));
    name(&fixture.harness, "1", "bad");
    refuse(&fixture.harness);
    let claimed = claim(&fixture, vec![call("a", 1)]).await;
    assert_eq!(claimed, Ok(vec![vec!["2".to_owned()]]));
}
