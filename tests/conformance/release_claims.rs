//! Releases of all leases that a claim got, by the token of the claim.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::MirrorValue;
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR, MINUTE, call, keys, mirror, new_item, text};

/// Claims with this token, for an hour.
async fn claim(broker: &Broker, token: Uuid, max_items: usize) -> Vec<String> {
    let mut call = call("worker", max_items);
    call.token = token;
    keys(&broker.claim_by(call).await)
}

async fn release(broker: &Broker, tokens: &[Uuid]) -> Vec<usize> {
    let released = broker.store.release_claims(broker.queue, tokens.into());
    let released = released.await.expect("the claims are released");
    assert_eq!(released.ended.len(), released.counts.iter().sum::<usize>());
    released.counts
}

pub(crate) async fn all_leases_of_a_claim_are_released<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let token = Uuid::new_v4();
    assert_eq!(claim(&fixture, token, 2).await, ["1", "2"]);
    assert_eq!(release(&fixture, &[token]).await, [2]);
    let ready = fixture.list(State::Ready).await;
    assert_eq!(ready.len(), 3);
    assert!(
        ready
            .iter()
            .all(|item| item.attempt == 0 && item.owner.is_none())
    );
    let again = fixture.claim(3).await;
    let attempts = again
        .iter()
        .map(|item| (item.lease.attempt, item.lease.fence));
    assert_eq!(attempts.collect::<Vec<_>>(), [(1, 2), (1, 2), (1, 1)]);
}

pub(crate) async fn claims_are_released_once<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let token = Uuid::new_v4();
    claim(&fixture, token, 2).await;
    let tokens = [token, Uuid::new_v4(), token];
    assert_eq!(release(&fixture, &tokens).await, [2, 0, 0]);
    assert_eq!(release(&fixture, &tokens).await, [0, 0, 0]);
    assert_eq!(release(&fixture, &[]).await.len(), 0);
}

pub(crate) async fn leases_of_other_claims_stay<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let other = fixture.another().await;
    let tokens: Vec<Uuid> = (0..3).map(|_| Uuid::new_v4()).collect();
    for token in &tokens {
        claim(&fixture, *token, 1).await;
    }
    assert_eq!(release(&other, &[tokens[2], tokens[0]]).await, [1, 1]);
    assert_eq!(keys(&fixture.claim(3).await), ["1", "3"]);
    assert_eq!(release(&other, &tokens[1..2]).await, [1]);
}

pub(crate) async fn settled_and_expired_leases_stay<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let mut claim = call("worker", 2);
    claim.duration = MINUTE;
    let token = claim.token;
    let items = fixture.claim_by(claim).await;
    fixture.complete(&items[0].lease).await;
    fixture.advance(2 * MINUTE).await;
    let before = fixture.snapshot().await;
    assert_eq!(release(&fixture, &[token]).await, [0]);
    assert_eq!(fixture.snapshot().await, before);
}

pub(crate) async fn lease_released_by_its_claim_is_lost<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let item = fixture.one().await;
    release(&fixture, &[item.lease.token]).await;
    assert_eq!(fixture.heartbeat(&item.lease, HOUR).await, None);
    assert_eq!(fixture.complete(&item.lease).await, None);
    // A release of the same lease by its id has the same effect, so it counts as a repetition.
    let released = crate::harness::fixture::release(std::time::Duration::ZERO);
    let state = fixture.settle(&item.lease, released).await;
    assert_eq!(state, Some(State::Ready));
}

pub(crate) async fn released_claim_sets_the_ready_mirror<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |queue| {
        let mirror =
            |state, value: &str| mirror(state, "payload", MirrorValue::Literal(text(value)));
        queue.mirror = vec![mirror(State::Ready, "open"), mirror(State::Leased, "busy")];
    })
    .await;
    let item = fixture.one().await;
    release(&fixture, &[item.lease.token]).await;
    let rows = fixture.harness.rows("item", &["payload"]).await;
    assert_eq!(rows, [[text("open")]]);
}

pub(crate) async fn more_than_1000_leases_are_released<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let tokens = [Uuid::new_v4(), Uuid::new_v4()];
    for (token, ids) in tokens.into_iter().zip([1..=600, 601..=1_200]) {
        let items = ids.map(|id| new_item(&[("id", Value::Int(id))]));
        let added = fixture.try_enqueue(items.collect()).await;
        added.expect("the items are added");
        assert_eq!(claim(&fixture, token, 600).await.len(), 600);
    }
    assert_eq!(release(&fixture, &tokens).await, [600, 600]);
    assert_eq!(fixture.counts().await, [1_200, 0, 0, 0, 0]);
}
