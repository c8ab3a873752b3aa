//! Settlements that are sent again, and different settlements of an already settled lease.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{Ending, Settled};

use super::settle::endings;
use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, complete, fail, release};

const NO_DELAY: Duration = Duration::ZERO;

fn is_completion(ending: &Ending) -> bool {
    matches!(ending, Ending::Complete { .. })
}

pub(crate) async fn repeated_settlement_answers_again_and_changes_nothing<H: Harness>() {
    let fixture = Fixture::<H>::with(5, |spec| spec.retry.max_attempts = None).await;
    let other = fixture.another().await;
    for ending in endings() {
        let lease = fixture.claim(9).await.remove(0).lease;
        let state = fixture.settle(&lease, ending.clone()).await;
        assert!(state.is_some());
        let before = fixture.snapshot().await;
        for broker in [&*fixture, &other, &*fixture] {
            assert_eq!(
                broker.settle(&lease, ending.clone()).await,
                state,
                "{ending:?}"
            );
        }
        assert_eq!(fixture.snapshot().await, before);
        // The row is deleted, so the next iteration uses another item.
        let row = ("id", lease.key.0[0].clone());
        fixture.harness.delete("item", row).await;
        fixture.advance(2 * HOUR).await;
        fixture.reap(9).await;
    }
}

pub(crate) async fn completion_differs_from_failure_and_release<H: Harness>() {
    for (at, first) in endings().into_iter().enumerate() {
        let fixture = Fixture::<H>::items(1).await;
        let lease = fixture.one().await.lease;
        fixture.settle(&lease, first.clone()).await.expect("held");
        let before = fixture.snapshot().await;
        for second in endings() {
            let answer = fixture.settle(&lease, second.clone()).await;
            if is_completion(&first) != is_completion(&second) {
                assert_eq!(answer, None, "{at}: {first:?}, then {second:?}");
            }
            // The row may not tell a failure from a release. In any case the second settlement changes nothing.
            assert_eq!(fixture.snapshot().await, before);
        }
    }
}

pub(crate) async fn repeat_is_recognised_after_the_item_became_ready<H: Harness>() {
    for ending in [fail(Some(MINUTE)), release(MINUTE)] {
        let fixture = Fixture::<H>::items(1).await;
        let lease = fixture.one().await.lease;
        let settled = fixture.settle(&lease, ending.clone()).await;
        assert_eq!(settled, Some(State::Delayed));
        fixture.advance(2 * MINUTE).await;
        assert_eq!(fixture.reap(9).await.promoted, 1);
        let before = fixture.snapshot().await;
        assert_eq!(fixture.settle(&lease, ending).await, Some(State::Ready));
        assert_eq!(fixture.complete(&lease).await, None);
        assert_eq!(fixture.snapshot().await, before);
    }
}

pub(crate) async fn repeat_after_another_claim_is_lost<H: Harness>() {
    for ending in [fail(Some(MINUTE)), release(MINUTE), release(NO_DELAY)] {
        let fixture = Fixture::<H>::items(1).await;
        let lease = fixture.one().await.lease;
        fixture.settle(&lease, ending.clone()).await.expect("held");
        fixture.advance(2 * MINUTE).await;
        fixture.reap(9).await;
        let next = fixture.one().await.lease;
        let before = fixture.snapshot().await;
        assert_eq!(fixture.settle(&lease, ending.clone()).await, None);
        assert_eq!(fixture.snapshot().await, before);
        fixture.settle(&next, complete()).await.expect("held");
        assert_eq!(fixture.settle(&lease, ending).await, None);
        assert_eq!(fixture.complete(&lease).await, None);
    }
}

pub(crate) async fn completion_without_a_row_is_gone<H: Harness>() {
    for on_complete in [
        OnComplete::Delete,
        OnComplete::Archive("done".to_owned()),
        OnComplete::Keep,
    ] {
        let is_kept = on_complete == OnComplete::Keep;
        let fixture = Fixture::<H>::with(2, |spec| spec.on_complete = on_complete).await;
        let items = fixture.claim(2).await;
        let (lease, other) = (&items[0].lease, &items[1].lease);
        assert_eq!(fixture.complete(lease).await, Some(State::Completed));
        if is_kept {
            let row = ("id", lease.key.0[0].clone());
            fixture.harness.delete("item", row).await;
        }
        let repeats = vec![
            (lease, complete()),
            (other, complete()),
            (lease, complete()),
        ];
        let results = fixture.try_settle(repeats).await.expect("settle");
        let expected = [
            Settled::Gone,
            Settled::Ended(State::Completed),
            Settled::Gone,
        ];
        assert_eq!(results, expected);
        for ending in [fail(None), fail(Some(MINUTE)), release(NO_DELAY)] {
            assert_eq!(fixture.settle(lease, ending).await, None);
        }
        assert_eq!(fixture.heartbeat(lease, HOUR).await, None);
    }
}

pub(crate) async fn completion_of_a_later_lease_makes_it_gone<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.on_complete = OnComplete::Delete).await;
    let expired = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(HOUR).await;
    fixture.reap(9).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.complete(&expired).await, None);
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
    let repeat = fixture.outcome(&expired, complete()).await;
    assert_eq!(repeat, Settled::Gone);
}

pub(crate) async fn repeated_completion_of_a_recurring_item_is_recognised<H: Harness>() {
    let every = OnComplete::Recur(HOUR);
    let fixture = Fixture::<H>::with(1, |spec| spec.on_complete = every).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.complete(&lease).await, Some(State::Delayed));
    assert_eq!(fixture.complete(&lease).await, Some(State::Delayed));
    for ending in [fail(None), fail(Some(MINUTE)), release(NO_DELAY)] {
        assert_eq!(fixture.settle(&lease, ending).await, None);
    }
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    assert_eq!(fixture.complete(&lease).await, Some(State::Ready));
    fixture.one().await;
    assert_eq!(fixture.complete(&lease).await, None);
}

pub(crate) async fn failure_of_a_recurring_item_is_no_completion<H: Harness>() {
    let every = OnComplete::Recur(HOUR);
    let fixture = Fixture::<H>::with(2, |spec| spec.on_complete = every).await;
    let items = fixture.claim(2).await;
    fixture.settle(&items[0].lease, fail(Some(MINUTE))).await;
    fixture.settle(&items[1].lease, release(MINUTE)).await;
    for item in items {
        assert_eq!(fixture.complete(&item.lease).await, None);
    }
}

pub(crate) async fn expired_lease_cannot_be_repeated<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    let before = fixture.snapshot().await;
    for ending in endings() {
        assert_eq!(fixture.settle(&lease, ending).await, None);
    }
    assert_eq!(fixture.heartbeat(&lease, HOUR).await, None);
    assert_eq!(fixture.snapshot().await, before);
}

pub(crate) async fn redriven_lease_cannot_be_repeated<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, fail(None)).await.expect("held");
    assert_eq!(fixture.settle(&lease, fail(None)).await, Some(State::Dead));
    assert_eq!(fixture.redrive(9).await, 1);
    let before = fixture.snapshot().await;
    for ending in endings() {
        assert_eq!(fixture.settle(&lease, ending).await, None);
    }
    assert_eq!(fixture.snapshot().await, before);
}

pub(crate) async fn release_after_failure_does_not_return_the_attempt<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, fail(Some(MINUTE))).await;
    for _ in 0..3 {
        fixture.settle(&lease, release(MINUTE)).await;
    }
    assert_eq!(fixture.list(State::Delayed).await[0].attempt, 1);
}
