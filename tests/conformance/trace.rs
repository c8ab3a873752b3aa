//! The traces of leases: what the operations that end leases report about them, and the producers' contexts in rows.

use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{Cancellation, EndedLease, NewItem};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, call, complete, fail, new_item, release,
};

const PRODUCER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Adds an item whose row has a trace context.
async fn enqueue_traced(broker: &Broker) -> Key {
    let traced = NewItem {
        trace_parent: Some(PRODUCER.to_owned()),
        ..new_item(&[("id", Value::Int(100))])
    };
    broker.enqueue(traced).await
}

/// Checks a lease that was claimed for an hour by "someone", from an item of a producer, and has ended `age` after its claim.
fn assert_reported(ended: &EndedLease, lease: &LeaseRef, age: Duration) {
    assert_eq!(ended.lease, *lease);
    assert_eq!(ended.owner.as_deref(), Some("someone"));
    assert_eq!(ended.trace_parent.as_deref(), Some(PRODUCER));
    let millis = |from: i64, to: i64| Duration::from_millis((to - from).unsigned_abs());
    assert_eq!(millis(ended.claim_time, ended.expire_time), HOUR);
    let held = millis(ended.claim_time, ended.end_time);
    assert!((age..age + MINUTE).contains(&held), "{held:?}");
}

async fn claim_traced<H: Harness>(fixture: &Fixture<H>) -> LeaseRef {
    enqueue_traced(fixture).await;
    let lease = fixture.claim_by(call("someone", 1)).await.remove(0).lease;
    fixture.advance(MINUTE).await;
    lease
}

pub(crate) async fn reaper_reports_the_whole_lease<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let lease = claim_traced(&fixture).await;
    fixture.advance(HOUR).await;
    let reaped = fixture.reap(9).await;
    assert_reported(&reaped.expired[0], &lease, HOUR + MINUTE);
}

pub(crate) async fn cancellation_reports_the_whole_lease<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let lease = claim_traced(&fixture).await;
    let keys = [lease.key.clone()];
    let cancellation = Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: "no need".to_owned(),
        call: None,
    };
    let cancelled = fixture
        .store
        .cancel(fixture.queue, keys.map(Into::into).into(), cancellation);
    let cancelled = cancelled.await.expect("cancelled");
    assert_reported(&cancelled.ended[0], &lease, MINUTE);
}

pub(crate) async fn release_of_a_claim_reports_its_leases<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let lease = claim_traced(&fixture).await;
    let released = fixture
        .store
        .release_claims(fixture.queue, [lease.token].into());
    let released = released.await.expect("released");
    assert_reported(&released.ended[0], &lease, MINUTE);
}

pub(crate) async fn settlement_tells_when_leases_ended<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let [first, second] = &fixture.claim(2).await[..] else {
        panic!("two leases");
    };
    let claim_time = first.expiry.expire_time - 3_600_000;
    for (lease, ending) in [(first, complete()), (second, fail(None))] {
        let settlement = lease_broker_store::Settlement::new(lease.lease.clone(), ending);
        let settled = fixture.store.settle(fixture.queue, [settlement].into());
        let time = settled.await.expect("settled").time.expect("a lease ended");
        let age = Duration::from_millis((time - claim_time).unsigned_abs());
        assert!(age < MINUTE, "{age:?}");
    }
}

pub(crate) async fn all_leases_of_an_item_have_the_producers_trace<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    enqueue_traced(&fixture).await;
    let mut item = fixture.one().await;
    fixture
        .settle(&item.lease, fail(Some(Duration::ZERO)))
        .await;
    fixture.advance(MINUTE).await;
    fixture.reap(9).await;
    item = fixture.one().await;
    assert_eq!(item.trace_parent.as_deref(), Some(PRODUCER));
    fixture.settle(&item.lease, release(Duration::ZERO)).await;
    item = fixture.claim_for(1, MINUTE).await.remove(0);
    assert_eq!(item.trace_parent.as_deref(), Some(PRODUCER));
    fixture.advance(HOUR).await;
    fixture.reap(9).await;
    item = fixture.one().await;
    assert_eq!(item.trace_parent.as_deref(), Some(PRODUCER));
}

pub(crate) async fn each_run_of_a_recurring_item_has_its_own_trace<H: Harness>() {
    let every = |spec: &mut lease_broker_model::queue::QueueSpec| {
        spec.on_complete = OnComplete::Recur(MINUTE);
    };
    let fixture = Fixture::<H>::with(0, every).await;
    enqueue_traced(&fixture).await;
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, fail(Some(Duration::ZERO))).await;
    fixture.advance(MINUTE).await;
    fixture.reap(9).await;
    let again = fixture.one().await;
    assert_eq!(again.trace_parent.as_deref(), Some(PRODUCER));
    fixture.complete(&again.lease).await;
    fixture.advance(2 * MINUTE).await;
    fixture.reap(9).await;
    assert_eq!(fixture.one().await.trace_parent, None);
}
