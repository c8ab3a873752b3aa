//! Leases that nobody ended.

use lease_broker::item_state::State;
use lease_broker::store::NewItem;
use lease_broker::value::Value;

use crate::harness::Harness;
use crate::harness::bench::{Bench, HOUR, MINUTE, about, call, fail, keys, new_item};

pub(crate) async fn an_expired_items_lease_is_reported_and_the_item_is_ready<H: Harness>() {
    let bench = Bench::<H>::items(1).await;
    let mut short = call("the lost one", 1);
    short.duration = MINUTE;
    let lease = bench.claim_by(short).await.remove(0).lease;
    bench.advance(2 * MINUTE).await;
    let expired = bench.reap(9).await.expired.remove(0);
    assert_eq!(expired.lease, lease);
    assert_eq!(expired.owner.as_deref(), Some("the lost one"));
    assert_eq!(expired.state, State::Ready);
    let listed = bench.list(State::Ready).await.remove(0);
    assert_eq!((listed.owner, listed.attempt, listed.fence), (None, 1, 1));
    assert!(
        listed
            .error
            .is_some_and(|error| error.contains("the lost one"))
    );
    assert_eq!(listed.due_in, None);
}

pub(crate) async fn an_item_whose_last_attempt_expired_is_dead<H: Harness>() {
    let bench = Bench::<H>::with(1, |spec| spec.retry.max_attempts = Some(2)).await;
    for expected in [State::Ready, State::Dead] {
        bench.claim_for(1, MINUTE).await;
        bench.advance(2 * MINUTE).await;
        assert_eq!(bench.reap(9).await.expired[0].state, expected);
    }
    assert_eq!(bench.claim(1).await, []);
    assert_eq!(bench.counts().await, [0, 0, 0, 0, 1]);
}

pub(crate) async fn without_a_maximum_an_item_expires_for_ever<H: Harness>() {
    let bench = Bench::<H>::with(1, |spec| spec.retry.max_attempts = None).await;
    for attempt in 1..=20 {
        let lease = bench.claim_for(1, MINUTE).await.remove(0).lease;
        assert_eq!(lease.attempt, attempt);
        bench.advance(2 * MINUTE).await;
        assert_eq!(bench.reap(9).await.expired[0].state, State::Ready);
    }
}

pub(crate) async fn a_lease_that_is_held_is_left_alone<H: Harness>() {
    let bench = Bench::<H>::items(2).await;
    let lease = bench.claim_for(1, HOUR).await.remove(0).lease;
    let before = bench.snapshot().await;
    assert_eq!(bench.reap(9).await.expired.len(), 0);
    assert_eq!(bench.snapshot().await, before);
    assert_eq!(bench.complete(&lease).await, Some(State::Completed));
}

pub(crate) async fn an_expired_item_is_not_claimed_before_it_is_reaped<H: Harness>() {
    let bench = Bench::<H>::items(1).await;
    bench.claim_for(1, MINUTE).await;
    bench.advance(2 * MINUTE).await;
    assert_eq!(bench.claim(1).await, []);
    bench.reap(9).await;
    assert_eq!(bench.one().await.lease.fence, 2);
}

pub(crate) async fn a_reaper_ends_no_more_than_its_limit_the_longest_due_first<H: Harness>() {
    for filtered in [true, false] {
        let bench = Bench::<H>::with(5, |spec| spec.filtered_indexes = filtered).await;
        for minutes in [5, 1, 4, 2, 3] {
            bench.claim_for(1, minutes * MINUTE).await;
        }
        // A delayed item is between them.
        let item = NewItem {
            delay: MINUTE + MINUTE / 2,
            ..new_item(&[("id", Value::Int(6))])
        };
        bench.enqueue(item).await;
        bench.advance(HOUR).await;
        let mut ended = Vec::new();
        for (expired, promoted) in [(1, 1), (2, 0), (2, 0), (0, 0)] {
            let reaped = bench.reap(2).await;
            assert_eq!((reaped.expired.len(), reaped.promoted), (expired, promoted));
            let mut keys: Vec<_> = reaped
                .expired
                .iter()
                .map(|e| e.lease.key.to_string())
                .collect();
            keys.sort_unstable();
            ended.extend(keys);
        }
        assert_eq!(ended, ["2", "4", "5", "1", "3"]);
    }
}

pub(crate) async fn promotions_count_towards_the_reapers_limit<H: Harness>() {
    let bench = Bench::<H>::items(4).await;
    let items = bench.claim_for(4, 2 * MINUTE).await;
    for item in &items[..2] {
        bench.settle(&item.lease, fail(Some(MINUTE))).await;
    }
    bench.advance(HOUR).await;
    let mut done = 0;
    for expected in [3, 1, 0] {
        let reaped = bench.reap(3).await;
        let now = reaped.expired.len() + reaped.promoted;
        assert_eq!(now, expected);
        done += now;
    }
    assert_eq!(done, 4);
    assert_eq!(bench.counts().await, [4, 0, 0, 0, 0]);
}

pub(crate) async fn the_reaper_tells_when_to_come_again<H: Harness>() {
    let bench = Bench::<H>::items(3).await;
    assert_eq!(bench.reap(9).await.next_due, None);
    bench.claim_for(1, HOUR).await;
    bench.claim_for(1, 10 * MINUTE).await;
    let next = bench.reap(9).await.next_due.expect("a lease");
    assert!(about(next, 10 * MINUTE));
    let delayed = bench.one().await.lease;
    bench.settle(&delayed, fail(Some(5 * MINUTE))).await;
    let next = bench.reap(9).await.next_due.expect("a delay");
    assert!(about(next, 5 * MINUTE));
    bench.advance(20 * MINUTE).await;
    let left_over = bench.reap(1).await.next_due.expect("some are due");
    assert!(left_over.is_zero(), "what the limit left over is due now");
    let next = bench.reap(9).await.next_due.expect("a lease");
    assert!(about(next, 40 * MINUTE));
    bench.advance(HOUR).await;
    assert_eq!(bench.reap(9).await.next_due, None);
}

pub(crate) async fn two_reapers_end_a_lease_once<H: Harness>() {
    let bench = Bench::<H>::items(50).await;
    let other = bench.another().await;
    bench.claim_for(50, MINUTE).await;
    bench.advance(HOUR).await;
    let (a, b) = tokio::join!(bench.reap(1_000), other.reap(1_000));
    let mut keys: Vec<_> = [a.expired, b.expired]
        .concat()
        .iter()
        .map(|expired| expired.lease.key.to_string())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let twice = bench.reap(1_000).await.expired.len();
    assert_eq!((keys.len(), twice), (50, 0));
}

pub(crate) async fn a_reaper_that_may_do_nothing_only_looks<H: Harness>() {
    let bench = Bench::<H>::items(1).await;
    bench.claim_for(1, MINUTE).await;
    bench.advance(HOUR).await;
    let reaped = bench.reap(0).await;
    assert_eq!(reaped.expired.len(), 0);
    assert_eq!(reaped.next_due, Some(std::time::Duration::ZERO));
    bench.reap(1).await;
    assert_eq!(keys(&bench.claim(1).await), ["1"]);
}
