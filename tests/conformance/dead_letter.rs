//! Dead items and redrive.

use lease_broker_model::item_state::State;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, SECOND, fail, keys};

pub(crate) async fn dead_item_is_not_claimed<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.settle(&lease, fail(None)).await, Some(State::Dead));
    fixture.advance(100 * HOUR).await;
    let reaped = fixture.reap(9).await;
    assert_eq!((reaped.expired.len(), reaped.promoted), (0, 0));
    assert_eq!(fixture.claim(9).await, []);
}

pub(crate) async fn redriven_item_has_all_attempts_again<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.retry.max_attempts = Some(1)).await;
    fixture.claim_for(1, MINUTE).await;
    fixture.advance(HOUR).await;
    assert_eq!(fixture.reap(9).await.expired[0].state, State::Dead);
    assert_eq!(fixture.redrive(9).await, 1);
    let listed = fixture.list(State::Ready).await.remove(0);
    assert_eq!((listed.owner, listed.attempt, listed.fence), (None, 0, 1));
    let lease = fixture.one().await.lease;
    assert_eq!((lease.attempt, lease.fence), (1, 2));
}

pub(crate) async fn redrive_changes_only_dead_items_up_to_its_limit<H: Harness>() {
    let fixture = Fixture::<H>::items(7).await;
    let items = fixture.claim(6).await;
    for at in [3, 1, 0, 2] {
        fixture.settle(&items[at].lease, fail(None)).await;
        fixture.advance(SECOND).await;
    }
    fixture.complete(&items[4].lease).await;
    assert_eq!(fixture.redrive(3).await, 3);
    assert_eq!(fixture.counts().await, [4, 1, 0, 1, 1]);
    let dead: Vec<_> = fixture.list(State::Dead).await;
    assert_eq!(
        dead[0].key.to_string(),
        "3",
        "redrive did not start with the item that died first"
    );
    assert_eq!(fixture.redrive(9).await, 1);
    assert_eq!(fixture.redrive(9).await, 0);
    assert_eq!(keys(&fixture.claim(9).await), ["1", "2", "3", "4", "7"]);
}
