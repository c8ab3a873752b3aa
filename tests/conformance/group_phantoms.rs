//! Rows of groups that another program changes while they are leased. No lease that is gone holds its group back.

use lease_broker_value::Value;

use super::groups::{STRICT, grouped, items};
use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, SECOND, keys};

/// Leases the first item of a group with three, lets `change` change its row, and waits until the lease would have expired. Returns the
/// keys that the group then gives, one after the other.
async fn served_after<H: Harness>(change: impl AsyncFnOnce(&Fixture<H>)) -> Vec<String> {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "a"]).await;
    let lease = fixture.one().await.lease;
    change(&fixture).await;
    fixture.advance(HOUR + 2 * SECOND).await;
    fixture.reap(100).await;
    fixture.reap(100).await;
    let mut served = Vec::new();
    while let Some(item) = fixture.claim(9).await.pop() {
        assert_eq!(fixture.claim(9).await.len(), 0, "two leases of a group");
        served.extend(keys(std::slice::from_ref(&item)));
        fixture.complete(&item.lease).await;
        // The worker of the old lease comes back.
        let late = fixture.outcome(&lease, crate::harness::fixture::complete());
        late.await;
    }
    served
}

const FIRST: (&str, Value) = ("id", Value::Int(1));

async fn set<H: Harness>(fixture: &Fixture<H>, column: &str, value: Value) {
    fixture.harness.update("item", (column, value), FIRST).await;
}

pub(crate) async fn group_goes_on_after_a_leased_row_was_deleted<H: Harness>() {
    let served = served_after::<H>(async |fixture| fixture.harness.delete("item", FIRST).await);
    assert_eq!(served.await, ["2", "3"]);
}

pub(crate) async fn group_goes_on_after_a_leased_row_was_completed_by_sql<H: Harness>() {
    let served =
        served_after::<H>(async |fixture| set(fixture, "lease_state", Value::Int(3)).await);
    assert_eq!(served.await, ["2", "3"]);
}

pub(crate) async fn group_goes_on_after_a_leased_row_was_made_dead_by_sql<H: Harness>() {
    let served =
        served_after::<H>(async |fixture| set(fixture, "lease_state", Value::Int(4)).await);
    assert_eq!(served.await, ["2", "3"]);
}

pub(crate) async fn group_begins_again_after_a_leased_row_was_requeued_by_sql<H: Harness>() {
    let served =
        served_after::<H>(async |fixture| set(fixture, "lease_state", Value::Int(0)).await);
    assert_eq!(served.await, ["1", "2", "3"]);
}

pub(crate) async fn group_goes_on_after_a_leased_row_left_it<H: Harness>() {
    let served = served_after::<H>(async |fixture| set(fixture, "customer", Value::Null).await);
    let mut served = served.await;
    served.retain(|key| key != "1");
    assert_eq!(served, ["2", "3"]);
}

pub(crate) async fn group_goes_on_after_its_worker_was_lost<H: Harness>() {
    let served = served_after::<H>(async |_| ());
    assert_eq!(served.await, ["1", "2", "3"]);
}
