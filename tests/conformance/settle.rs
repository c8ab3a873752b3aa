//! Settlements: complete, fail and release.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{LeaseOrigin, LeaseRef};
use lease_broker_model::lease_trace::LeaseTrace;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{Ending, Settled, Settlement};
use lease_broker_value::Value;

use super::heartbeat::similar_leases;
use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, SECOND, complete, fail, keys, release};

/// Returns one ending of each kind.
pub(crate) fn endings() -> [Ending; 5] {
    [
        complete(),
        fail(None),
        fail(Some(MINUTE)),
        release(Duration::ZERO),
        release(MINUTE),
    ]
}

pub(crate) async fn each_settlement_leads_to_its_state<H: Harness>() {
    use State::{Completed, Dead, Delayed, Ready};
    let fixture = Fixture::<H>::items(5).await;
    let items = fixture.claim(5).await;
    let settlements = items.iter().map(|item| &item.lease).zip(endings());
    let states = fixture.try_settle(settlements.collect()).await;
    let expected = [Completed, Dead, Delayed, Ready, Delayed].map(Settled::Ended);
    assert_eq!(states.expect("settle"), expected);
    assert_eq!(fixture.counts().await, [1, 0, 2, 1, 1]);
}

pub(crate) async fn settlement_returns_the_worker_if_it_is_asked<H: Harness>() {
    for on_complete in [OnComplete::Keep, OnComplete::Delete] {
        let fixture = Fixture::<H>::with(6, |spec| spec.on_complete = on_complete).await;
        let items = fixture.claim(6).await;
        let settlements = items.iter().map(|item| &item.lease).zip(endings());
        let mut settlements: Vec<Settlement> = settlements
            .map(|(lease, ending)| {
                let mut settlement = Settlement::new(lease.clone(), ending);
                let mut trace = LeaseTrace::new(LeaseOrigin::new(0, HOUR, None));
                trace.wants_owner = true;
                settlement.trace = Some(Box::new(trace));
                settlement
            })
            .collect();
        let silent = Settlement::new(items[5].lease.clone(), complete());
        settlements.push(silent);
        let settlements: Arc<[Settlement]> = settlements.into();
        for owner in [Some("worker".to_owned()), None] {
            let settled = fixture.store.settle(fixture.queue, settlements.clone());
            // The second time, no settlement ends a lease.
            let owners = settled.await.expect("settle").owners;
            assert_eq!(owners[..5], vec![owner; 5]);
            assert_eq!(owners[5..], [None]);
        }
    }
}

pub(crate) async fn completed_item_is_never_claimed_again<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
    fixture.advance(24 * HOUR).await;
    let reaped = fixture.reap(9).await;
    assert_eq!((reaped.expired.len(), reaped.promoted), (0, 0));
    assert_eq!(fixture.claim(9).await, []);
}

pub(crate) async fn released_item_is_ready_immediately<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let released = fixture.settle(&lease, release(Duration::ZERO)).await;
    assert_eq!(released, Some(State::Ready));
    let listed = fixture.list(State::Ready).await.remove(0);
    assert_eq!((listed.owner, listed.attempt), (None, 0));
    assert_eq!(fixture.another().await.one().await.lease.fence, 2);
}

pub(crate) async fn failure_stores_its_error_and_worker<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let items = fixture.claim(2).await;
    fixture.settle(&items[0].lease, fail(None)).await;
    fixture.settle(&items[1].lease, fail(Some(MINUTE))).await;
    for state in [State::Dead, State::Delayed] {
        let listed = fixture.list(state).await.remove(0);
        assert_eq!(listed.error.as_deref(), Some("no luck"));
        assert_eq!(listed.owner.as_deref(), Some("worker"));
        assert_eq!(listed.attempt, 1);
    }
}

pub(crate) async fn completion_clears_an_earlier_error<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, fail(Some(SECOND))).await;
    fixture.advance(2 * SECOND).await;
    fixture.reap(9).await;
    let lease = fixture.one().await.lease;
    fixture.complete(&lease).await;
    assert_eq!(fixture.list(State::Completed).await[0].error, None);
}

pub(crate) async fn settlement_past_the_due_time_changes_nothing<H: Harness>() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Delete,
        OnComplete::Archive("done".to_owned()),
        OnComplete::Recur(HOUR),
    ] {
        let fixture = Fixture::<H>::with(1, |spec| spec.on_complete = on_complete).await;
        let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
        fixture.advance(MINUTE).await;
        let before = fixture.snapshot().await;
        for ending in endings() {
            assert_eq!(fixture.settle(&lease, ending).await, None);
        }
        assert_eq!(fixture.snapshot().await, before);
    }
}

pub(crate) async fn unknown_lease_cannot_be_settled<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let before = fixture.snapshot().await;
    let has_no_row = |lease: &LeaseRef| lease.key == Key([Value::Int(999)].into());
    for similar in similar_leases(&lease) {
        for ending in endings() {
            let expected = match ending {
                Ending::Complete { .. } if has_no_row(&similar) => Settled::Gone,
                _ => Settled::Lost,
            };
            let result = fixture.outcome(&similar, ending).await;
            assert_eq!(result, expected, "{similar:?}");
        }
    }
    assert_eq!(fixture.snapshot().await, before);
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
    for similar in similar_leases(&lease) {
        let result = fixture.outcome(&similar, complete()).await;
        let is_repeat = matches!(result, Settled::Ended(_));
        assert!(!is_repeat, "{similar:?} was taken for a repeat");
    }
}

pub(crate) async fn lost_lease_in_a_list_leaves_the_others_intact<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let items = fixture.claim(3).await;
    let lost = similar_leases(&items[1].lease).remove(0);
    let settlements = vec![
        (&items[2].lease, complete()),
        (&lost, complete()),
        (&items[0].lease, fail(None)),
    ];
    let states = fixture.try_settle(settlements).await.expect("settle");
    let expected = [
        Settled::Ended(State::Completed),
        Settled::Lost,
        Settled::Ended(State::Dead),
    ];
    assert_eq!(states, expected);
    assert_eq!(fixture.counts().await, [0, 1, 0, 1, 1]);
}

pub(crate) async fn any_broker_can_settle_a_lease<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let other = fixture.another().await;
    assert_eq!(other.complete(&lease).await, Some(State::Completed));
    assert_eq!(fixture.counts().await, [0, 0, 0, 1, 0]);
}

pub(crate) async fn lease_named_twice_is_settled_once<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let settlements = vec![
        (&lease, complete()),
        (&lease, complete()),
        (&lease, fail(None)),
    ];
    let states = fixture.try_settle(settlements).await.expect("settle");
    let completed = Settled::Ended(State::Completed);
    let repeated = Settled::Repeated(State::Completed);
    assert_eq!(states, [completed, repeated, Settled::Lost]);
}

pub(crate) async fn empty_list_settles_nothing<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    assert_eq!(fixture.try_settle(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(keys(&fixture.claim(9).await), ["1"]);
}
