//! Claims with a request id that are sent again because their reply was lost.

use std::time::Duration;

use lease_broker_model::item_state::State;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, by, call, keys, release};

pub(crate) async fn same_request_gets_the_same_leases_and_no_more<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    let token = Uuid::new_v4();
    let first = fixture.request(token, 2).await;
    let again = fixture.request(token, 2).await;
    assert_eq!(keys(&first), ["1", "2"]);
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(again.lease, first.lease);
        assert_eq!(again.columns, first.columns);
        assert_eq!(again.expiry.expire_time, first.expiry.expire_time);
        assert!(again.expiry.time_left <= first.expiry.time_left);
    }
    assert_eq!(again.len(), 2);
    assert_eq!(fixture.counts().await, [3, 2, 0, 0, 0]);
}

pub(crate) async fn repeated_leases_are_told_from_new_ones<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    let mut request = call("someone", 2);
    request.has_request_id = true;
    for is_repeated in [false, true] {
        let calls = vec![request.clone(), call("other", 1)];
        let results = fixture.results(calls).await;
        let found = results.iter().map(|claimed| claimed.is_repeated);
        assert_eq!(found.collect::<Vec<_>>(), [is_repeated, false]);
    }
}

pub(crate) async fn another_broker_returns_the_same_leases<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    let other = fixture.another().await;
    let token = Uuid::new_v4();
    let first = fixture.request(token, 2).await;
    let again = other.request(token, 2).await;
    let leases = |items: &[lease_broker_store::ClaimedItem]| -> Vec<_> {
        items.iter().map(|item| item.lease.clone()).collect()
    };
    assert_eq!(leases(&first), leases(&again));
    assert_eq!(
        other.complete(&first[0].lease).await,
        Some(State::Completed)
    );
}

pub(crate) async fn retry_of_a_short_claim_gets_no_more_items<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let token = Uuid::new_v4();
    assert_eq!(keys(&fixture.request(token, 5).await), ["1"]);
    fixture.insert([2, 3]).await;
    assert_eq!(keys(&fixture.request(token, 5).await), ["1"]);
}

pub(crate) async fn retry_of_an_empty_claim_can_get_items<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let token = Uuid::new_v4();
    assert_eq!(fixture.request(token, 5).await, []);
    fixture.insert([1]).await;
    assert_eq!(keys(&fixture.request(token, 5).await), ["1"]);
}

pub(crate) async fn settled_leases_are_not_returned_again<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    let token = Uuid::new_v4();
    let items = fixture.request(token, 3).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, release(MINUTE)).await;
    assert_eq!(keys(&fixture.request(token, 3).await), ["3"]);
}

pub(crate) async fn expired_leases_are_not_returned_again<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let mut short = call("worker", 1);
    short.duration = MINUTE;
    short.has_request_id = true;
    let item = fixture.claim_by(short.clone()).await.remove(0);
    fixture.advance(2 * MINUTE).await;
    let next = fixture.claim_by(short.clone()).await;
    assert_eq!(keys(&next), ["2"], "the expired lease was returned again");
    assert_eq!(fixture.heartbeat(&item.lease, HOUR).await, None);
    assert_eq!(keys(&fixture.claim_by(short).await), ["2"]);
}

pub(crate) async fn extended_lease_is_returned_to_its_request<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let mut short = call("worker", 1);
    short.duration = MINUTE;
    short.has_request_id = true;
    let item = fixture.claim_by(short.clone()).await.remove(0);
    fixture.heartbeat(&item.lease, HOUR).await.expect("held");
    fixture.advance(10 * MINUTE).await;
    let again = fixture.claim_by(short).await;
    assert_eq!(keys(&again), ["1"]);
    assert!(again[0].expiry.time_left > 45 * MINUTE);
}

pub(crate) async fn request_can_claim_an_item_again_after_its_release<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let token = Uuid::new_v4();
    let first = fixture.request(token, 1).await.remove(0);
    fixture.settle(&first.lease, release(Duration::ZERO)).await;
    let second = fixture.request(token, 1).await.remove(0);
    assert_eq!(second.lease.fence, first.lease.fence + 1);
    assert_eq!(
        fixture.complete(&first.lease).await,
        None,
        "the released lease settled the new lease"
    );
    assert_eq!(fixture.heartbeat(&first.lease, HOUR).await, None);
    assert_eq!(
        fixture.complete(&second.lease).await,
        Some(State::Completed)
    );
}

pub(crate) async fn two_requests_share_no_leases<H: Harness>() {
    let fixture = Fixture::<H>::items(4).await;
    let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
    assert_eq!(keys(&fixture.request(a, 2).await), ["1", "2"]);
    assert_eq!(keys(&fixture.request(b, 2).await), ["3", "4"]);
    assert_eq!(keys(&fixture.request(a, 2).await), ["1", "2"]);
}

pub(crate) async fn one_operation_serves_retried_and_new_claims<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    let mut known = call("a", 2);
    known.has_request_id = true;
    fixture.claim_by(known.clone()).await;
    let items = fixture.calls(vec![call("b", 1), known, call("c", 1)]).await;
    let got: Vec<_> = items.iter().map(|items| keys(items)).collect();
    assert_eq!(got, [vec!["3"], vec!["1", "2"], vec!["4"]]);
}

pub(crate) async fn retried_request_keeps_the_order_of_the_queue<H: Harness>() {
    let fixture = Fixture::<H>::with(4, |spec| spec.order = by(&["-id"])).await;
    let token = Uuid::new_v4();
    assert_eq!(keys(&fixture.request(token, 3).await), ["4", "3", "2"]);
    assert_eq!(keys(&fixture.request(token, 3).await), ["4", "3", "2"]);
}
