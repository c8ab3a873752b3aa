//! Rows that a trigger or a constraint does not let a claim lease.

use lease_broker_model::group::GroupOrder;
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, QueueSpec};
use lease_broker_store::{ClaimCall, StoreError};

use crate::conformance::groups::{PARALLEL, STRICT, groups};
use crate::harness::Harness as _;
use crate::harness::errors::rejected;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, SECOND, call, item_table, keys, mirror, queue,
};
use crate::harness::sqlite::SqliteHarness;

/// Makes a trigger refuse the lease of each row whose payload begins with `bad`.
fn refuse(harness: &SqliteHarness) {
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON item WHEN NEW.lease_state = 1
        BEGIN SELECT RAISE(ABORT, 'bad stays') WHERE old.payload LIKE 'bad%'; END";
    harness.execute(trigger);
}

fn name(harness: &SqliteHarness, ids: &str, payload: &str) {
    let update = format!("UPDATE item SET payload = '{payload}' WHERE id IN ({ids})");
    harness.execute(&update);
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
    let rejection = rejected(claim(&fixture, vec![call("a", 1)]).await);
    assert_eq!(rejection.item, Some(0));
    assert_eq!(rejection.problem.text, "item 1 cannot be leased: bad stays");
}

/// Creates a queue with groups whose items have these groups and payloads, and refuses those whose payload begins with `bad`.
async fn groups_of(order: GroupOrder, rows: &str) -> Fixture<SqliteHarness> {
    let harness = SqliteHarness::start().await;
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, customer TEXT, payload TEXT);
        INSERT INTO item (customer, payload) VALUES";
    let table = format!("{table} {rows}");
    harness.execute(&table);
    let spec = QueueSpec {
        groups: Some(groups(order)),
        ..queue("item")
    };
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    refuse(&fixture.harness);
    fixture
}

#[tokio::test]
async fn refused_item_holds_back_its_group_only() {
    let rows = "('a', 'bad'), ('a', 'good'), ('b', 'good')";
    let fixture = groups_of(STRICT, rows).await;
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
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN SELECT RAISE(FAIL, 'no'); END",
            &["1", "3", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN DELETE FROM item WHERE id = 2; END",
            &["1", "3", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN DELETE FROM item WHERE id = 3; END",
            &["1", "2", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN UPDATE item SET lease_state = 4 WHERE id = 2; END",
            &["1", "3", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN UPDATE item SET lease_state = 0 WHERE id = 2; END",
            &["1", "3", "4"],
        ),
        (
            "AFTER UPDATE ON item WHEN old.id = 2 BEGIN UPDATE item SET lease_token = NULL, lease_state = 3 WHERE id = 2; END",
            &["1", "3", "4"],
        ),
    ] {
        let fixture = Fixture::<SqliteHarness>::items(5).await;
        let create = format!("CREATE TRIGGER odd {trigger}");
        fixture.harness.execute(&create);
        assert_eq!(keys(&fixture.claim(3).await), leased, "{trigger}");
        assert_eq!(fixture.counts().await[1], 3, "{trigger}");
    }
}

#[tokio::test]
async fn lease_that_a_trigger_ends_for_another_row_is_withheld() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    let trigger = "CREATE TRIGGER odd AFTER UPDATE ON item WHEN old.id = 3
        BEGIN UPDATE item SET lease_state = 4, lease_due_time = NULL, lease_token = NULL WHERE id = 1; END";
    fixture.harness.execute(trigger);
    let claimed = claim(&fixture, vec![call("a", 2), call("b", 2)]).await;
    let expected = [vec!["2"], vec!["3", "4"]];
    let expected = expected.map(|keys| keys.into_iter().map(str::to_owned).collect());
    assert_eq!(claimed, Ok(expected.to_vec()));
}

#[tokio::test]
async fn only_item_that_a_trigger_cancels_when_leased_stays_cancelled() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let trigger = "CREATE TRIGGER odd AFTER UPDATE ON item WHEN new.lease_state = 1
        BEGIN UPDATE item SET lease_state = 4, lease_due_time = NULL, lease_token = NULL WHERE id = 1; END";
    fixture.harness.execute(trigger);
    assert_eq!(claim(&fixture, vec![call("a", 1)]).await, Ok(vec![vec![]]));
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn claim_of_one_item_gets_past_groups_that_are_refused() {
    for order in [STRICT, PARALLEL] {
        let rows = "('a', 'bad'), ('b', 'bad'), ('b', 'good'), ('c', 'good'), (NULL, 'bad'), (NULL, 'good')";
        let fixture = groups_of(order, rows).await;
        for expected in [["4"], ["6"]] {
            assert_eq!(keys(&fixture.claim(1).await), expected);
        }
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

#[tokio::test]
async fn refusal_in_a_queue_of_large_items_hides_none_behind_it() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    name(&fixture.harness, "1", &"x".repeat(1_000));
    name(&fixture.harness, "2, 3", "bad");
    refuse(&fixture.harness);
    let mut small = call("a", 1);
    small.max_bytes = 900;
    assert_eq!(keys(&fixture.claim_by(small).await), ["4"]);
    assert_eq!(keys(&fixture.claim(9).await), ["1"]);
}

#[tokio::test]
async fn suspect_whose_lease_is_refused_stops_nobody() {
    for has_groups in [false, true] {
        let rows = "('a', 'good'), ('a', 'good'), ('b', 'good'), ('c', 'good'), ('d', 'good')";
        let mut fixture = groups_of(STRICT, rows).await;
        if !has_groups {
            fixture = Fixture::<SqliteHarness>::items(5).await;
            refuse(&fixture.harness);
        }
        fixture.claim_for(1, SECOND).await;
        fixture.advance(MINUTE).await;
        assert_eq!(fixture.reap(9).await.expired.len(), 1);
        name(&fixture.harness, "1", "bad");
        assert_eq!(keys(&fixture.claim_by(call("a", 1)).await).len(), 1);
        fixture.advance(HOUR).await;
        assert_eq!(keys(&fixture.claim_by(call("b", 1)).await).len(), 1);
        // The item is ready as before.
        name(&fixture.harness, "1", "good");
        let rest = keys(&fixture.claim_by(call("c", 9)).await);
        assert!(rest.contains(&"1".to_owned()), "{rest:?}");
    }
}

/// The rows 1 and 2 cannot be leased: they are too large, or their counter is full. A trigger keeps row 1 from becoming dead.
#[tokio::test]
async fn row_that_cannot_become_dead_is_passed_over() {
    for (unfit, action) in [
        ("payload = printf('%.*c', 70000, 'x')", "ABORT"),
        ("lease_attempt = 2147483647", "ABORT"),
        ("payload = printf('%.*c', 70000, 'x')", "ROLLBACK"),
        ("lease_attempt = 2147483647", "ROLLBACK"),
    ] {
        let fixture = Fixture::<SqliteHarness>::with(4, |spec| spec.max_item_bytes = 65_536).await;
        let sql = format!(
            "UPDATE item SET {unfit} WHERE id IN (1, 2);
             CREATE TRIGGER frozen BEFORE UPDATE ON item WHEN old.id = 1
             BEGIN SELECT RAISE({action}, 'stay'); END"
        );
        fixture.harness.execute(&sql);
        assert_eq!(keys(&fixture.claim(9).await), ["3", "4"], "{sql}");
        assert_eq!(fixture.counts().await, [1, 2, 0, 0, 1], "{sql}");
    }
}

#[tokio::test]
async fn refused_row_of_a_queue_that_shows_workers_is_passed_over() {
    for action in ["ABORT", "ROLLBACK"] {
        let mut spec = queue("item");
        spec.mirror
            .push(mirror(State::Leased, "payload", MirrorValue::Worker));
        let fixture = Fixture::<SqliteHarness>::over(&[item_table("item")], vec![spec]).await;
        fixture.insert(1..=4).await;
        let trigger = format!(
            "CREATE TRIGGER frozen BEFORE UPDATE ON item WHEN old.id = 2
             BEGIN SELECT RAISE({action}, 'stay'); END"
        );
        fixture.harness.execute(&trigger);
        for expected in ["1", "3", "4"] {
            assert_eq!(keys(&fixture.claim(1).await), [expected], "{action}");
        }
    }
}
