//! The rate of each group.

use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;
use lease_broker_store::{ClaimCall, Claimed, LimitChange, Limited};

use super::groups::{PARALLEL, STRICT, grouped_by, groups, insert_into, items, kinds, value_of};
use super::named_groups::of;
use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR, MINUTE, SECOND, call, keys, queue};

/// Returns a queue whose groups give out `burst` items at once, and then one per minute.
pub(super) fn limited(order: GroupOrder, burst: u32) -> QueueSpec {
    let rate = Rate {
        items: 1,
        per: MINUTE,
        burst,
    };
    QueueSpec {
        groups: Some(Groups {
            rate: Some(rate),
            ..groups(order)
        }),
        ..queue("item")
    }
}

async fn claimed(broker: &Broker) -> Claimed {
    broker.results(vec![call("worker", 9)]).await.remove(0)
}

async fn claim_sorted(broker: &Broker) -> Vec<String> {
    let mut keys = keys(&broker.claim(9).await);
    keys.sort();
    keys
}

pub(crate) async fn each_group_has_its_own_rate<H: Harness>() {
    let names = ["a", "a", "a", "b", "", "b", "a", "b"];
    let fixture = items::<H>(limited(PARALLEL, 2), &names).await;
    let other = fixture.another().await;
    assert_eq!(claim_sorted(&fixture).await, ["1", "2", "4", "5", "6"]);
    let none = claimed(&other).await;
    let Some(Limited::GroupsBusy { wait: Some(wait) }) = none.limited else {
        panic!("{none:?}");
    };
    assert!(wait > 50 * SECOND && wait <= MINUTE, "{wait:?}");
    fixture.advance(MINUTE).await;
    assert_eq!(claim_sorted(&other).await, ["3", "8"]);
    assert_eq!(claim_sorted(&fixture).await, [""; 0]);
    fixture.advance(HOUR).await;
    assert_eq!(claim_sorted(&fixture).await, ["7"]);
}

pub(crate) async fn strict_groups_obey_their_rate<H: Harness>() {
    let fixture = items::<H>(limited(STRICT, 1), &["a", "a", "b"]).await;
    let first = fixture.claim(9).await;
    assert_eq!(keys(&first), ["1", "3"]);
    fixture.complete(&first[0].lease).await;
    let none = claimed(&fixture).await;
    assert!(matches!(
        none.limited,
        Some(Limited::GroupsBusy { wait: Some(_) })
    ));
    fixture.advance(MINUTE).await;
    assert_eq!(claim_sorted(&fixture).await, ["2"]);
}

pub(crate) async fn calls_of_one_operation_share_the_rate_of_a_group<H: Harness>() {
    let fixture = items::<H>(limited(PARALLEL, 3), &["a"; 8]).await;
    let calls = (0..4).map(|_| call("worker", 2)).collect();
    let results = fixture.results(calls).await;
    let sum: usize = results.iter().map(|one| one.items.len()).sum();
    assert_eq!(sum, 3);
}

pub(crate) async fn claim_of_named_groups_obeys_their_rate<H: Harness>() {
    let fixture = items::<H>(limited(PARALLEL, 2), &["a"; 5]).await;
    let named = of(&["a"], 9);
    assert_eq!(keys(&fixture.claim_by(named.clone()).await), ["1", "2"]);
    assert_eq!(keys(&fixture.claim_by(named).await), [""; 0]);
    assert_eq!(keys(&fixture.claim(9).await), [""; 0]);
}

async fn lease_of_first_item_expires<H: Harness>(fixture: &Fixture<H>) {
    let short = ClaimCall {
        duration: SECOND,
        ..call("worker", 1)
    };
    assert_eq!(keys(&fixture.claim_by(short).await), ["1"]);
    fixture.advance(2 * SECOND).await;
    fixture.reap(9).await;
}

pub(crate) async fn suspect_counts_for_the_rate_of_its_group<H: Harness>() {
    let fixture = items::<H>(limited(PARALLEL, 2), &["a"; 4]).await;
    lease_of_first_item_expires(&fixture).await;
    let other = call("other", 1);
    assert_eq!(keys(&fixture.claim_by(other).await), ["1"]);
    assert_eq!(keys(&fixture.claim_by(call("third", 9)).await), [""; 0]);
}

pub(crate) async fn suspect_waits_for_the_rate_of_its_group<H: Harness>() {
    let fixture = items::<H>(limited(PARALLEL, 1), &["a", "b", "b"]).await;
    lease_of_first_item_expires(&fixture).await;
    let other = fixture.claim_by(call("other", 9)).await;
    assert_eq!(keys(&other), ["2"]);
    fixture.advance(MINUTE).await;
    assert_eq!(keys(&fixture.claim_by(call("third", 9)).await), ["1"]);
}

pub(crate) async fn operators_change_the_rate_of_groups<H: Harness>() {
    let fixture = items::<H>(limited(PARALLEL, 1), &["a"; 6]).await;
    let other = fixture.another().await;
    assert_eq!(fixture.claim(9).await.len(), 1);
    let set = async |rate| {
        let change = LimitChange {
            group_rate: Some(rate),
            ..LimitChange::default()
        };
        let set = other.store.set_limits(other.queue, change).await;
        set.expect("changed").group_rate
    };
    let rate = Rate {
        items: 1,
        per: HOUR,
        burst: 2,
    };
    assert_eq!(set((1, HOUR, 2)).await, Some(rate));
    fixture.advance(HOUR).await;
    assert_eq!(fixture.claim(9).await.len(), 2);
    assert_eq!(set((0, Duration::ZERO, 0)).await, None);
    assert_eq!(fixture.claim(9).await.len(), 3);
}

pub(crate) async fn groups_of_every_kind_have_a_rate<H: Harness>() {
    for kind in kinds() {
        let fixture = grouped_by::<H>(kind).await;
        set_rate(&fixture).await;
        for id in 1..=3 {
            insert_into(&fixture, id, value_of(kind, 1 + id % 2)).await;
        }
        let first = fixture.claim(9).await;
        assert_eq!(first.len(), 2, "{kind:?}");
        for item in &first {
            fixture.complete(&item.lease).await;
        }
        assert_eq!(claim_sorted(&fixture).await, [""; 0], "{kind:?}");
        fixture.advance(HOUR).await;
        assert_eq!(claim_sorted(&fixture).await, ["3"], "{kind:?}");
    }
}

async fn set_rate<H: Harness>(fixture: &Fixture<H>) {
    let change = LimitChange {
        group_rate: Some((1, HOUR, 1)),
        ..LimitChange::default()
    };
    let set = fixture.store.set_limits(fixture.queue, change);
    set.await.expect("changed");
}
