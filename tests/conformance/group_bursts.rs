//! Groups that can have more leases than their limit while no other group can give an item.

use lease_broker_model::group::GroupOrder;
use lease_broker_store::Limited;

use super::group_rates::limited;
use super::groups::{grouped, insert, items};
use super::named_groups::of;
use super::paused_groups::pause;
use crate::harness::Harness;
use crate::harness::fixture::{MINUTE, SECOND, call, keys};

const fn bursting(max_leases: u32) -> GroupOrder {
    GroupOrder::Parallel {
        max_leases: Some(max_leases),
        bursts: true,
    }
}

pub(crate) async fn group_exceeds_its_limit_if_no_other_can_give<H: Harness>() {
    let names = ["a", "a", "a", "a", "a", "b"];
    let fixture = items::<H>(grouped(bursting(2)), &names).await;
    assert_eq!(keys(&fixture.claim(3).await), ["1", "6", "2"]);
    assert_eq!(keys(&fixture.claim(1).await), ["3"]);
    assert_eq!(keys(&fixture.claim(9).await), ["4", "5"]);
    assert_eq!(keys(&fixture.claim(9).await), [""; 0]);
}

pub(crate) async fn items_within_the_limit_come_before_a_burst<H: Harness>() {
    let names = ["a", "a", "a", "a", "b", "b", "b", "c", ""];
    let fixture = items::<H>(grouped(bursting(2)), &names).await;
    assert_eq!(
        keys(&fixture.claim(8).await),
        ["1", "5", "8", "9", "2", "6", "3", "7"]
    );
    insert(&fixture, 10, "d").await;
    assert_eq!(keys(&fixture.claim(1).await), ["10"]);
    assert_eq!(keys(&fixture.claim(9).await), ["4"]);
}

pub(crate) async fn suspect_does_not_make_another_group_burst<H: Harness>() {
    let names = ["a", "b", "b", "a", "a", "b"];
    let fixture = items::<H>(grouped(bursting(2)), &names).await;
    assert_eq!(keys(&fixture.claim_for(1, SECOND).await), ["1"]);
    assert_eq!(keys(&fixture.claim_by(call("busy", 1)).await), ["2"]);
    fixture.advance(MINUTE / 2).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    let got = fixture.claim_by(call("busy", 3)).await;
    assert_eq!(keys(&got), ["4", "3", "5"]);
}

pub(crate) async fn groups_take_turns_in_a_burst<H: Harness>() {
    let names = ["a", "a", "a", "a", "b", "b", "b", "b"];
    let fixture = items::<H>(grouped(bursting(1)), &names).await;
    assert_eq!(keys(&fixture.claim(2).await), ["1", "5"]);
    for expected in ["2", "6", "3"] {
        assert_eq!(keys(&fixture.claim(1).await), [expected]);
    }
    assert_eq!(keys(&fixture.claim(9).await), ["7", "4", "8"]);
}

pub(crate) async fn burst_obeys_the_rate_of_the_group<H: Harness>() {
    let fixture = items::<H>(limited(bursting(1), 3), &["a"; 5]).await;
    assert_eq!(keys(&fixture.claim(9).await), ["1", "2", "3"]);
    let none = fixture.results(vec![call("worker", 9)]).await.remove(0);
    assert!(none.items.is_empty());
    assert!(
        matches!(none.limited, Some(Limited::GroupsBusy { wait: Some(_) })),
        "{none:?}"
    );
}

pub(crate) async fn paused_group_has_no_burst<H: Harness>() {
    let fixture = items::<H>(grouped(bursting(1)), &["a", "a", "b", "b", "b"]).await;
    assert_eq!(keys(&fixture.claim(2).await), ["1", "3"]);
    pause(&fixture, "a").await;
    assert_eq!(keys(&fixture.claim(9).await), ["4", "5"]);
}

pub(crate) async fn overdue_suspect_is_leased_in_a_burst<H: Harness>() {
    let fixture = items::<H>(grouped(bursting(1)), &["a"; 4]).await;
    assert_eq!(keys(&fixture.claim_for(1, SECOND).await), ["1"]);
    assert_eq!(keys(&fixture.claim_by(call("busy", 1)).await), ["2"]);
    fixture.advance(MINUTE / 2).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    assert_eq!(keys(&fixture.claim_by(call("other", 1)).await), ["3"]);
    fixture.advance(2 * MINUTE).await;
    assert_eq!(keys(&fixture.claim_by(of(&["a"], 9)).await), [""; 0]);
    assert_eq!(keys(&fixture.claim_by(call("free", 9)).await), ["1"]);
    assert_eq!(keys(&fixture.claim_by(call("busy", 9)).await), ["4"]);
}

/// Such a claim does not look at the other groups, so it cannot know that none of them can give an item.
pub(crate) async fn claim_of_named_groups_has_no_burst<H: Harness>() {
    let fixture = items::<H>(grouped(bursting(2)), &["a"; 4]).await;
    let named = of(&["a"], 9);
    assert_eq!(keys(&fixture.claim_by(named.clone()).await), ["1", "2"]);
    assert_eq!(keys(&fixture.claim_by(named).await), [""; 0]);
    assert_eq!(keys(&fixture.claim(9).await), ["3", "4"]);
}
