//! Claims: rows, leases, fences and attempts.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::ClaimedItem;
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, SECOND, about, call, fail, keys, new_item, release, text,
};

pub(crate) async fn empty_queue_gives_no_leases<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    assert_eq!(fixture.claim(10).await, []);
}

pub(crate) async fn claim_of_zero_items_gets_none<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let items = fixture.calls(vec![call("a", 0), call("b", 5)]).await;
    assert_eq!(items[0], []);
    assert_eq!(keys(&items[1]), ["1", "2"]);
    assert_eq!(fixture.calls(Vec::new()).await, [[]; 0]);
}

pub(crate) async fn lease_carries_row_token_and_time_left<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let call = call("a worker", 1);
    let item = fixture.claim_by(call.clone()).await.remove(0);
    assert_eq!(*fixture.store.columns(fixture.queue), ["id", "payload"]);
    assert_eq!(item.columns, [Value::Int(1), text("payload 1")]);
    assert_eq!(*item.lease.key.0, [Value::Int(1)]);
    assert_eq!(item.lease.token, call.token);
    assert_eq!((item.lease.fence, item.lease.attempt), (1, 1));
    assert!(about(item.expiry.time_left, HOUR));
    assert_eq!(item.trace_parent, None);
    let listed = fixture.list(State::Leased).await.remove(0);
    assert_eq!(listed.owner.as_deref(), Some("a worker"));
    assert_eq!((listed.fence, listed.attempt), (1, 1));
}

pub(crate) async fn each_call_sets_its_own_lease_duration<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let (mut short, long) = (call("a", 1), call("b", 1));
    short.duration = MINUTE;
    let items = fixture.calls(vec![short, long]).await;
    let apart = items[1][0].expiry.expire_time - items[0][0].expiry.expire_time;
    assert_eq!(apart, 59 * 60 * 1_000, "both leases start at the same time");
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.complete(&items[0][0].lease).await, None);
    let completed = fixture.complete(&items[1][0].lease).await;
    assert_eq!(completed, Some(State::Completed));
}

pub(crate) async fn lease_tells_when_its_item_became_ready<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let started = |item: &ClaimedItem| item.expiry.expire_time - 3_600_000;
    fixture.enqueue(new_item(&[("id", Value::Int(1))])).await;
    fixture.advance(MINUTE).await;
    let item = fixture.one().await;
    let enqueued = item.ready_time.expect("known");
    let waited = started(&item) - enqueued;
    assert!((59_000..90_000).contains(&waited), "{waited} ms");
    let released = fixture.settle(&item.lease, release(Duration::ZERO)).await;
    assert_eq!(released, Some(State::Ready));
    let again = fixture.one().await;
    let since_release = again.ready_time.expect("known");
    assert!(since_release >= started(&item) && since_release <= started(&again));
}

pub(crate) async fn repeated_claim_does_not_know_the_ready_time<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    fixture.enqueue(new_item(&[("id", Value::Int(1))])).await;
    let token = Uuid::new_v4();
    let first = fixture.request(token, 1).await.remove(0);
    let repeated = fixture.request(token, 1).await.remove(0);
    assert!(first.ready_time.is_some());
    assert_eq!(repeated.ready_time, None);
    assert_eq!(repeated.lease, first.lease);
}

pub(crate) async fn leased_row_is_not_leased_again<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    assert_eq!(keys(&fixture.claim(2).await), ["1", "2"]);
    assert_eq!(keys(&fixture.claim(2).await), ["3"]);
    assert_eq!(fixture.claim(2).await, []);
    assert_eq!(fixture.another().await.claim(2).await, []);
}

pub(crate) async fn calls_of_a_group_get_consecutive_rows<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    let calls = [call("a", 2), call("b", 1), call("c", 10), call("d", 1)];
    let items = fixture.calls(calls.to_vec()).await;
    let got: Vec<_> = items.iter().map(|items| keys(items)).collect();
    assert_eq!(
        got,
        [vec!["1", "2"], vec!["3"], vec!["4", "5", "6"], vec![]]
    );
    for (call, items) in calls.iter().zip(&items) {
        assert!(items.iter().all(|item| item.lease.token == call.token));
    }
    let mut owners = fixture.list(State::Leased).await;
    owners.sort_by_key(|item| item.key.to_string());
    let owners: Vec<_> = owners
        .iter()
        .filter_map(|item| item.owner.as_deref())
        .collect();
    assert_eq!(owners, ["a", "a", "b", "c", "c", "c"]);
}

pub(crate) async fn thousand_rows_are_leased_in_one_operation<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let items = (1..=1_000).map(|id| new_item(&[("id", Value::Int(id))]));
    fixture.try_enqueue(items.collect()).await.expect("enqueue");
    let leases = fixture.claim(1_000).await;
    let expected: Vec<String> = (1..=1_000).map(|id| id.to_string()).collect();
    assert_eq!(keys(&leases), expected);
}

pub(crate) async fn rows_that_other_programs_insert_are_claimed<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    assert_eq!(keys(&fixture.claim(9).await), ["1"]);
    fixture.insert([7]).await;
    let item = fixture.one().await;
    assert_eq!(item.columns, [Value::Int(7), text("payload 7")]);
    assert_eq!((item.lease.fence, item.lease.attempt), (1, 1));
}

pub(crate) async fn lease_of_a_deleted_row_is_lost<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let item = fixture.one().await;
    fixture.harness.delete("item", ("id", Value::Int(1))).await;
    assert_eq!(fixture.heartbeat(&item.lease, HOUR).await, None);
    assert_eq!(fixture.settle(&item.lease, fail(None)).await, None);
    assert_eq!(keys(&fixture.claim(9).await), ["2"]);
}

pub(crate) async fn claim_reads_the_current_row<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let at = ("id", Value::Int(1));
    fixture
        .harness
        .update("item", ("payload", text("later")), at)
        .await;
    assert_eq!(fixture.one().await.columns[1], text("later"));
}

pub(crate) async fn fence_grows_by_one_per_claim_and_never_falls<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.retry.max_attempts = None).await;
    let mut fence = 0;
    let mut next = async || {
        fence += 1;
        let item = fixture.one().await;
        assert_eq!(item.lease.fence, fence);
        item.lease
    };
    let lease = next().await;
    assert_eq!(
        fixture.settle(&lease, release(Duration::ZERO)).await,
        Some(State::Ready)
    );
    let lease = next().await;
    assert_eq!(
        fixture.settle(&lease, fail(Some(SECOND))).await,
        Some(State::Delayed)
    );
    fixture.advance(2 * SECOND).await;
    assert_eq!(fixture.reap(9).await.promoted, 1);
    let _abandoned = next().await;
    fixture.advance(2 * HOUR).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    let lease = next().await;
    assert_eq!(fixture.settle(&lease, fail(None)).await, Some(State::Dead));
    assert_eq!(fixture.redrive(9).await, 1);
    next().await;
}

pub(crate) async fn claim_counts_an_attempt_and_release_returns_it<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let first = fixture.one().await.lease;
    assert_eq!(first.attempt, 1);
    fixture.settle(&first, release(Duration::ZERO)).await;
    assert_eq!(fixture.list(State::Ready).await[0].attempt, 0);
    let again = fixture.one().await.lease;
    assert_eq!(again.attempt, 1, "the release did not return the attempt");
    fixture.settle(&again, fail(Some(SECOND))).await;
    assert_eq!(fixture.list(State::Delayed).await[0].attempt, 1);
    fixture.advance(2 * SECOND).await;
    fixture.reap(9).await;
    let second = fixture.one().await.lease;
    assert_eq!(second.attempt, 2, "the failure did not use the attempt up");
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    assert_eq!(
        fixture.one().await.lease.attempt,
        3,
        "the expiry did not use the attempt up"
    );
}

pub(crate) async fn only_configured_columns_are_returned<H: Harness>() {
    let columns = Some(vec!["payload".to_owned()]);
    let fixture = Fixture::<H>::with(1, |spec| spec.columns = columns).await;
    assert_eq!(*fixture.store.columns(fixture.queue), ["payload"]);
    let item = fixture.one().await;
    assert_eq!(item.columns, [text("payload 1")]);
    assert_eq!(keys(&[item]), ["1"]);
}

pub(crate) async fn queue_without_filtered_indexes_works_the_same<H: Harness>() {
    let fixture = Fixture::<H>::with(4, |spec| spec.filtered_indexes = false).await;
    let token = Uuid::new_v4();
    let items = fixture.request(token, 3).await;
    assert_eq!(keys(&fixture.request(token, 3).await), ["1", "2", "3"]);
    assert_eq!(
        fixture.complete(&items[0].lease).await,
        Some(State::Completed)
    );
    let failed = fixture.settle(&items[1].lease, fail(Some(MINUTE))).await;
    assert_eq!(failed, Some(State::Delayed));
    assert!(fixture.heartbeat(&items[2].lease, HOUR).await.is_some());
    fixture.advance(2 * HOUR).await;
    let reaped = fixture.reap(9).await;
    assert_eq!((reaped.expired.len(), reaped.promoted), (1, 1));
    assert_eq!(reaped.next_due, None);
    // The item whose lease expired is leased alone.
    assert_eq!(keys(&fixture.claim(9).await), ["3"]);
    let others = fixture.claim_by(call("other", 9)).await;
    assert_eq!(keys(&others), ["2", "4"]);
    assert_eq!(fixture.counts().await, [0, 3, 0, 1, 0]);
}
