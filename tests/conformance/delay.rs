//! Delayed items: new items with a delay, retries after failures, and releases with a delay.

use lease_broker_model::item_state::State;
use lease_broker_store::NewItem;
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, about, fail, keys, new_item, release};

fn delayed_by_an_hour(id: i64) -> NewItem {
    NewItem {
        delay: HOUR,
        ..new_item(&[("id", Value::Int(id))])
    }
}

pub(crate) async fn delayed_item_is_claimed_after_its_delay<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    fixture.enqueue(delayed_by_an_hour(1)).await;
    let listed = fixture.list(State::Delayed).await.remove(0);
    assert!(about(listed.due_in.expect("a due time"), HOUR));
    assert_eq!((listed.attempt, listed.fence), (0, 0));
    fixture.advance(HOUR / 2).await;
    assert_eq!(fixture.reap(9).await.promoted, 0);
    assert_eq!(fixture.claim(1).await, []);
    fixture.advance(HOUR / 2).await;
    assert_eq!(fixture.reap(9).await.promoted, 1);
    let item = fixture.one().await;
    assert_eq!((item.lease.fence, item.lease.attempt), (1, 1));
}

pub(crate) async fn failed_item_waits_for_its_retry<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, fail(Some(10 * MINUTE))).await;
    assert_eq!(fixture.reap(9).await.promoted, 0);
    assert_eq!(fixture.claim(1).await, []);
    fixture.advance(10 * MINUTE).await;
    assert_eq!(fixture.reap(9).await.promoted, 1);
    assert_eq!(fixture.one().await.lease.attempt, 2);
}

pub(crate) async fn failed_item_without_delay_is_ready_immediately<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let settled = fixture
        .settle(&lease, fail(Some(std::time::Duration::ZERO)))
        .await;
    assert!(matches!(settled, Some(State::Delayed | State::Ready)));
    fixture.reap(9).await;
    assert_eq!(fixture.one().await.lease.attempt, 2);
}

pub(crate) async fn item_released_with_a_delay_keeps_its_attempt<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let settled = fixture.settle(&lease, release(MINUTE)).await;
    assert_eq!(settled, Some(State::Delayed));
    let listed = fixture.list(State::Delayed).await.remove(0);
    assert_eq!((listed.owner, listed.attempt), (None, 0));
    fixture.advance(2 * MINUTE).await;
    fixture.reap(9).await;
    assert_eq!(fixture.one().await.lease.attempt, 1);
}

pub(crate) async fn delayed_items_become_ready_by_due_time<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    for (id, hours) in [(1, 3), (2, 1), (3, 2)] {
        let item = NewItem {
            delay: hours * HOUR,
            ..delayed_by_an_hour(id)
        };
        fixture.enqueue(item).await;
    }
    for expected in ["2", "3", "1"] {
        fixture.advance(HOUR).await;
        fixture.reap(9).await;
        let items = fixture.claim(9).await;
        assert_eq!(keys(&items), [expected]);
        fixture.complete(&items[0].lease).await;
    }
}

pub(crate) async fn promoted_item_keeps_its_error_and_gets_a_new_state_time<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, fail(Some(HOUR))).await;
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    let listed = fixture.list(State::Ready).await.remove(0);
    assert_eq!(listed.error.as_deref(), Some("no luck"));
    assert!(listed.age.expect("an age") < MINUTE);
    assert_eq!(listed.due_in, None);
}
