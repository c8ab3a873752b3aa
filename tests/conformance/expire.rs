//! Expired leases and the reaper.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::MirrorValue;
use lease_broker_store::{LatestTime, NewItem, ProblemKind};
use lease_broker_value::Value;
use tokio::time::Instant;

use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, about, call, fail, item_table, keys, mirror, new_item, queue, text,
};
use crate::harness::table::Kind;

pub(crate) async fn expired_lease_is_reported_and_its_item_ready<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let mut short = call("the lost one", 1);
    short.duration = MINUTE;
    let lease = fixture.claim_by(short).await.remove(0).lease;
    fixture.advance(2 * MINUTE).await;
    let expired = fixture.reap(9).await.expired.remove(0);
    assert_eq!(expired.lease, lease);
    assert_eq!(expired.owner.as_deref(), Some("the lost one"));
    assert_eq!(expired.state, State::Ready);
    let listed = fixture.list(State::Ready).await.remove(0);
    assert_eq!((listed.owner, listed.attempt, listed.fence), (None, 1, 1));
    assert!(
        listed
            .error
            .is_some_and(|error| error.contains("the lost one"))
    );
    assert_eq!(listed.due_in, None);
}

pub(crate) async fn item_is_dead_after_its_last_attempt_expired<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.retry.max_attempts = Some(2)).await;
    for expected in [State::Ready, State::Dead] {
        fixture.claim_for(1, MINUTE).await;
        fixture.advance(2 * MINUTE).await;
        assert_eq!(fixture.reap(9).await.expired[0].state, expected);
    }
    assert_eq!(fixture.claim(1).await, []);
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 1]);
}

/// A reap can wait for a lock, or for a broker that was stopped. The time since the clock was read is no step.
pub(crate) async fn time_that_a_reap_has_waited_is_no_clock_step<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.retry.max_attempts = Some(1)).await;
    let item = fixture.claim_for(1, MINUTE).await.remove(0);
    fixture.advance(2 * MINUTE).await;
    let claim_time = item.expiry.expire_time - 60_000;
    let read = Instant::now().checked_sub(3 * MINUTE);
    let latest = LatestTime::new(claim_time, read.expect("a machine that runs for minutes"));
    let reaped = fixture.store.reap(fixture.queue, 9, Some(latest)).await;
    let expired = reaped.expect("reap").expired;
    assert_eq!(expired[0].state, State::Dead);
}

/// Retention needs it: the broker notices a step of the clock by it.
pub(crate) async fn reap_of_an_idle_queue_returns_the_time<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let reaped = fixture.reap(9).await;
    assert!(reaped.time.is_some(), "{reaped:?}");
    assert_eq!(reaped.next_due, None);
}

pub(crate) async fn lease_that_a_clock_step_ends_is_no_attempt<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.retry.max_attempts = Some(1)).await;
    let item = fixture.claim_for(1, MINUTE).await.remove(0);
    let claim_time = item.expiry.expire_time - 60_000;
    let latest = Some(LatestTime::new(i64::MAX, Instant::now()));
    let no_step = fixture.store.reap(fixture.queue, 9, latest).await;
    let time = no_step.expect("reap").time.expect("the time of the store");
    assert!((claim_time..claim_time + 60_000).contains(&time));
    fixture.advance(2 * MINUTE).await;
    // The clock cannot show more than the time before the claim, unless it was stepped.
    let latest = Some(LatestTime::new(claim_time - 1_000, Instant::now()));
    let reaped = fixture.store.reap(fixture.queue, 9, latest).await;
    let expired = reaped.expect("reap").expired;
    assert_eq!(expired[0].state, State::Ready);
    assert_eq!(fixture.complete(&item.lease).await, None);
    let again = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    assert_eq!((again.attempt, again.fence), (1, 2));
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.reap(9).await.expired[0].state, State::Dead);
}

pub(crate) async fn item_without_max_attempts_never_dies<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.retry.max_attempts = None).await;
    for attempt in 1..=20 {
        let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
        assert_eq!(lease.attempt, attempt);
        fixture.advance(2 * MINUTE).await;
        assert_eq!(fixture.reap(9).await.expired[0].state, State::Ready);
    }
}

pub(crate) async fn held_lease_is_not_reaped<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let lease = fixture.claim_for(1, HOUR).await.remove(0).lease;
    let before = fixture.snapshot().await;
    assert_eq!(fixture.reap(9).await.expired.len(), 0);
    assert_eq!(fixture.snapshot().await, before);
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
}

pub(crate) async fn expired_item_is_not_claimed_before_it_is_reaped<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    fixture.claim_for(1, MINUTE).await;
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.claim(1).await, []);
    fixture.reap(9).await;
    assert_eq!(fixture.one().await.lease.fence, 2);
}

pub(crate) async fn reaper_ends_the_longest_due_up_to_its_limit<H: Harness>() {
    for filtered in [true, false] {
        let fixture = Fixture::<H>::with(5, |spec| spec.filtered_indexes = filtered).await;
        for minutes in [5, 1, 4, 2, 3] {
            fixture.claim_for(1, minutes * MINUTE).await;
        }
        // The due time of a delayed item lies between those of the leases.
        let item = NewItem {
            delay: MINUTE + MINUTE / 2,
            ..new_item(&[("id", Value::Int(6))])
        };
        fixture.enqueue(item).await;
        fixture.advance(HOUR).await;
        let mut ended = Vec::new();
        for (expired, promoted) in [(1, 1), (2, 0), (2, 0), (0, 0)] {
            let reaped = fixture.reap(2).await;
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

pub(crate) async fn promotions_count_towards_the_reaper_limit<H: Harness>() {
    let fixture = Fixture::<H>::items(4).await;
    let items = fixture.claim_for(4, 2 * MINUTE).await;
    for item in &items[..2] {
        fixture.settle(&item.lease, fail(Some(MINUTE))).await;
    }
    fixture.advance(HOUR).await;
    let mut done = 0;
    for expected in [3, 1, 0] {
        let reaped = fixture.reap(3).await;
        let now = reaped.expired.len() + reaped.promoted;
        assert_eq!(now, expected);
        done += now;
    }
    assert_eq!(done, 4);
    assert_eq!(fixture.counts().await, [4, 0, 0, 0, 0]);
}

pub(crate) async fn reaper_returns_the_next_due_time<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    assert_eq!(fixture.reap(9).await.next_due, None);
    fixture.claim_for(1, HOUR).await;
    fixture.claim_for(1, 10 * MINUTE).await;
    let next = fixture.reap(9).await.next_due.expect("a lease");
    assert!(about(next, 10 * MINUTE));
    let delayed = fixture.one().await.lease;
    fixture.settle(&delayed, fail(Some(5 * MINUTE))).await;
    let next = fixture.reap(9).await.next_due.expect("a delay");
    assert!(about(next, 5 * MINUTE));
    fixture.advance(20 * MINUTE).await;
    let left_over = fixture.reap(1).await.next_due.expect("some are due");
    assert!(
        left_over.is_zero(),
        "items that the limit left over are due immediately"
    );
    let next = fixture.reap(9).await.next_due.expect("a lease");
    assert!(about(next, 40 * MINUTE));
    fixture.advance(HOUR).await;
    assert_eq!(fixture.reap(9).await.next_due, None);
}

pub(crate) async fn two_reapers_end_a_lease_once<H: Harness>() {
    let fixture = Fixture::<H>::items(50).await;
    let other = fixture.another().await;
    fixture.claim_for(50, MINUTE).await;
    fixture.advance(HOUR).await;
    let (a, b) = tokio::join!(fixture.reap(1_000), other.reap(1_000));
    let mut keys: Vec<_> = [a.expired, b.expired]
        .concat()
        .iter()
        .map(|expired| expired.lease.key.to_string())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let twice = fixture.reap(1_000).await.expired.len();
    assert_eq!((keys.len(), twice), (50, 0));
}

pub(crate) async fn reaper_with_limit_zero_changes_nothing<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    fixture.claim_for(1, MINUTE).await;
    fixture.advance(HOUR).await;
    let reaped = fixture.reap(0).await;
    assert_eq!(reaped.expired.len(), 0);
    assert_eq!(reaped.next_due, Some(std::time::Duration::ZERO));
    fixture.reap(1).await;
    assert_eq!(keys(&fixture.claim(1).await), ["1"]);
}

/// Another program can add a row that has the place of an expired one.
pub(crate) async fn refused_rows_do_not_stop_the_reaper<H: Harness>() {
    for filtered in [true, false] {
        let table = item_table("item").column("status", Kind::Text);
        let mut spec = queue("item");
        spec.filtered_indexes = filtered;
        for (state, status) in [
            (State::Ready, "new"),
            (State::Leased, "busy"),
            (State::Delayed, "later"),
        ] {
            spec.mirror
                .push(mirror(state, "status", MirrorValue::Literal(text(status))));
        }
        let tables = [table.unique(&["payload", "status"])];
        let fixture = Fixture::<H>::over(&tables, vec![spec]).await;
        let insert = async |id: i64, payload: &str| {
            let row = [
                ("id", Value::Int(id)),
                ("payload", text(payload)),
                ("status", text("new")),
            ];
            fixture.harness.insert("item", &row).await;
        };
        for id in 1..=6 {
            insert(id, &format!("customer {id}")).await;
        }
        for item in fixture.claim_for(6, MINUTE).await.split_off(4) {
            fixture.settle(&item.lease, fail(Some(MINUTE / 2))).await;
        }
        for id in [1, 3, 5] {
            insert(10 + id, &format!("customer {id}")).await;
        }
        fixture.advance(2 * MINUTE).await;
        let reaped = fixture.reap(2).await;
        assert_eq!((reaped.expired.len(), reaped.promoted), (1, 1));
        let reaped = fixture.reap(9).await;
        assert_eq!(reaped.expired[0].lease.key.to_string(), "4");
        let (refused, problems): (Vec<_>, Vec<_>) = reaped.refused.into_iter().unzip();
        let mut refused: Vec<_> = refused.iter().map(Key::to_string).collect();
        refused.sort_unstable();
        assert_eq!(refused, ["1", "3", "5"]);
        assert_eq!(problems[0].kind, ProblemKind::AlreadyExists);
        // The refused rows wait for the next run.
        assert_eq!(reaped.next_due, None);
        assert_eq!(fixture.counts().await, [6, 2, 1, 0, 0]);
        fixture.harness.delete("item", ("id", Value::Int(13))).await;
        let reaped = fixture.reap(9).await;
        assert_eq!(reaped.expired[0].lease.key.to_string(), "3");
        assert_eq!(reaped.refused.len(), 2);
    }
}
