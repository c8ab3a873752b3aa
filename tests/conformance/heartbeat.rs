//! Heartbeats: extended, shortened and lost leases.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_store::{Renewal, Renewed};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, SECOND, about, fail, release};

pub(crate) async fn heartbeat_extends_the_lease_from_now<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    for _ in 0..5 {
        fixture.advance(45 * SECOND).await;
        let held = fixture.heartbeat(&lease, MINUTE).await.expect("held");
        assert!(about(held.time_left, MINUTE));
    }
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
}

pub(crate) async fn heartbeat_can_shorten_the_lease<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.claim_for(1, HOUR).await.remove(0).lease;
    fixture.heartbeat(&lease, MINUTE).await.expect("held");
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.heartbeat(&lease, MINUTE).await, None);
}

pub(crate) async fn lease_past_its_due_time_is_lost_before_it_is_reaped<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(MINUTE).await;
    let before = fixture.snapshot().await;
    assert_eq!(fixture.heartbeat(&lease, HOUR).await, None);
    assert_eq!(fixture.snapshot().await, before);
}

pub(crate) async fn each_lease_has_its_own_result_in_request_order<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let items = fixture.claim(3).await;
    fixture.complete(&items[1].lease).await;
    let renewals = [(2, MINUTE), (1, MINUTE), (0, HOUR), (2, 2 * HOUR)];
    let renewals = renewals
        .map(|(at, duration): (usize, Duration)| Renewal::new(items[at].lease.clone(), duration));
    let held = fixture
        .store
        .heartbeat(fixture.queue, renewals.into())
        .await;
    let held = held.expect("heartbeat");
    let held: Vec<_> = held.iter().map(Renewed::expiry).collect();
    assert_eq!(held.len(), 4);
    assert!(about(held[0].expect("held").time_left, MINUTE));
    assert_eq!(held[1], None);
    assert!(about(held[2].expect("held").time_left, HOUR));
    assert!(about(held[3].expect("held").time_left, 2 * HOUR));
}

/// Returns leases that differ from `lease` in one field. None of them exists.
pub(crate) fn similar_leases(lease: &LeaseRef) -> Vec<LeaseRef> {
    let with = |change: &dyn Fn(&mut LeaseRef)| {
        let mut other = lease.clone();
        change(&mut other);
        other
    };
    let key = |values: Vec<Value>| Key(values.into());
    vec![
        with(&|lease| lease.token = Uuid::new_v4()),
        with(&|lease| lease.token = Uuid::nil()),
        with(&|lease| lease.fence += 1),
        with(&|lease| lease.fence -= 1),
        with(&|lease| lease.key = key(vec![Value::Int(999)])),
        with(&|lease| lease.key = key(vec![])),
        with(&|lease| lease.key = key(vec![Value::Null])),
        with(&|lease| lease.key = key(vec![Value::Int(1), Value::Int(1)])),
        with(&|lease| lease.key = key(vec![Value::Int(1); 4])),
    ]
}

pub(crate) async fn unknown_lease_is_lost<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let before = fixture.snapshot().await;
    for similar in similar_leases(&lease) {
        let held = fixture.heartbeat(&similar, 2 * HOUR).await;
        assert_eq!(held, None, "{similar:?}");
    }
    assert_eq!(fixture.snapshot().await, before);
    assert!(fixture.heartbeat(&lease, HOUR).await.is_some());
}

pub(crate) async fn heartbeat_through_another_broker_counts<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    let other = fixture.another().await;
    assert!(other.heartbeat(&lease, HOUR).await.is_some());
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
}

pub(crate) async fn heartbeat_keeps_the_state_time<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.advance(10 * MINUTE).await;
    fixture.heartbeat(&lease, HOUR).await.expect("held");
    let age = fixture.list(State::Leased).await[0].age.expect("an age");
    assert!(age >= 10 * MINUTE);
}

pub(crate) async fn lost_lease_has_the_state_of_its_item<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    let items = fixture.claim(5).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, fail(None)).await;
    fixture.settle(&items[2].lease, fail(Some(MINUTE))).await;
    fixture
        .settle(&items[3].lease, release(Duration::ZERO))
        .await;
    let id = ("id", Value::Int(5));
    fixture.harness.delete("item", id).await;
    for (item, state) in items.iter().zip([
        Some(State::Completed),
        Some(State::Dead),
        Some(State::Delayed),
        Some(State::Ready),
        None,
    ]) {
        let lost = Renewed::Lost {
            state,
            cancel_reason: None,
        };
        assert_eq!(fixture.renew(&item.lease, HOUR).await, lost);
    }
    let again = fixture.one().await;
    fixture.advance(2 * HOUR).await;
    // The lease has expired, and the reaper has not seen it yet.
    let expired = Renewed::Lost {
        state: Some(State::Leased),
        cancel_reason: None,
    };
    assert_eq!(fixture.renew(&again.lease, HOUR).await, expired);
}
