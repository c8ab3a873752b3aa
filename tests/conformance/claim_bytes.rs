//! Claims that are bounded by bytes: items that do not fit are not leased.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Order, QueueSpec};
use lease_broker_store::{ClaimCall, Claimed, QueueIndex};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, SECOND, by, call, keys, new_item, queue};
use crate::harness::table::{Kind, Table};

const KIB: usize = 1 << 10;

/// Makes items with the ids 1, 2, … and these payloads, in a table whose rows can have any size.
async fn items_with<H: Harness>(
    payloads: Vec<String>,
    change: impl FnOnce(&mut QueueSpec),
) -> Fixture<H> {
    let mut spec = queue("item");
    change(&mut spec);
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("payload", Kind::LongText)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let items = (1..).zip(payloads).map(|(id, payload)| {
        new_item(&[("id", Value::Int(id)), ("payload", Value::Text(payload))])
    });
    fixture.try_enqueue(items.collect()).await.expect("added");
    fixture
}

/// Makes items with payloads of these many KiB.
async fn items_of<H: Harness>(kibibytes: &[usize], max_item_bytes: usize) -> Fixture<H> {
    let payloads = kibibytes
        .iter()
        .map(|kibibytes| "x".repeat(kibibytes * KIB));
    items_with(payloads.collect(), |queue| {
        queue.max_item_bytes = max_item_bytes;
    })
    .await
}

fn bounded(max_items: usize, kibibytes: usize) -> ClaimCall {
    ClaimCall {
        max_bytes: kibibytes * KIB,
        ..call("worker", max_items)
    }
}

fn too_large(claimed: &Claimed) -> Vec<String> {
    let items = claimed.too_large.iter();
    items.map(|item| item.key.to_string()).collect()
}

pub(crate) async fn claim_leases_only_items_that_fit<H: Harness>() {
    let fixture = items_of::<H>(&[30; 7], 64 << 20).await;
    for (expected, has_more) in [
        (&["1", "2"][..], true),
        (&["3", "4"], true),
        (&["5", "6"], true),
        (&["7"], false),
    ] {
        let claimed = fixture.results(vec![bounded(100, 64)]).await.remove(0);
        assert_eq!(keys(&claimed.items), expected);
        assert!(claimed.bytes > 30 * KIB && claimed.bytes <= 64 * KIB);
        assert_eq!(claimed.has_more, has_more);
        for item in &claimed.items {
            assert_eq!((item.lease.fence, item.lease.attempt), (1, 1));
        }
    }
}

pub(crate) async fn calls_of_a_group_have_their_own_bytes<H: Harness>() {
    let fixture = items_of::<H>(&[30, 30, 30, 100, 30, 30, 30], 64 << 20).await;
    let calls = vec![
        bounded(9, 70),
        bounded(9, 200),
        bounded(1, 70),
        bounded(9, 70),
    ];
    let claimed = fixture.results(calls).await;
    let got: Vec<_> = claimed.iter().map(|claimed| keys(&claimed.items)).collect();
    let expected = [vec!["1", "2"], vec!["3", "4", "5", "6"], vec!["7"], vec![]];
    assert_eq!(got, expected);
    let more: Vec<_> = claimed.iter().map(|claimed| claimed.has_more).collect();
    assert_eq!(&more[..2], [true, true]);
    assert!(!more[3]);
}

pub(crate) async fn item_over_the_bytes_of_a_call_is_passed_over<H: Harness>() {
    let fixture = items_of::<H>(&[1, 100, 2, 90, 3], 64 << 20).await;
    let before = fixture.snapshot().await;
    let claimed = fixture.results(vec![bounded(3, 64)]).await.remove(0);
    assert_eq!(keys(&claimed.items), ["1", "3", "5"]);
    assert_eq!(too_large(&claimed), ["2", "4"]);
    for (item, kibibytes) in claimed.too_large.iter().zip([100, 90]) {
        let bytes = kibibytes * KIB;
        assert!(
            (bytes..bytes + 2 * KIB).contains(&item.size_bytes),
            "{item:?}"
        );
    }
    let after = fixture.snapshot().await;
    assert_eq!((&before[1], &before[3]), (&after[1], &after[3]));
    let claimed = fixture.results(vec![bounded(3, 64)]).await.remove(0);
    assert_eq!(claimed.items, []);
    assert_eq!(too_large(&claimed), ["2", "4"]);
    let claimed = fixture.results(vec![bounded(3, 200)]).await.remove(0);
    assert_eq!(keys(&claimed.items), ["2", "4"]);
}

pub(crate) async fn ten_items_that_are_too_large_are_named<H: Harness>() {
    let mut sizes = vec![70; 15];
    sizes.push(1);
    let fixture = items_of::<H>(&sizes, 64 << 20).await;
    let claimed = fixture.results(vec![bounded(1, 64)]).await.remove(0);
    assert_eq!(keys(&claimed.items), ["16"]);
    let expected: Vec<String> = (1..=10).map(|id| id.to_string()).collect();
    assert_eq!(too_large(&claimed), expected);
}

pub(crate) async fn group_is_bounded_as_a_whole<H: Harness>() {
    let fixture = items_of::<H>(&[30; 6], 64 << 20).await;
    let calls = || vec![bounded(2, 200), bounded(2, 200), bounded(2, 200)].into();
    let claim = fixture.store.claim(fixture.queue, calls(), 100 * KIB);
    let claimed = claim.await.expect("claimed");
    let got: Vec<_> = claimed.iter().map(|claimed| keys(&claimed.items)).collect();
    assert_eq!(got, [vec!["1", "2"], vec!["3"], vec![]]);
    let more: Vec<_> = claimed.iter().map(|claimed| claimed.has_more).collect();
    assert_eq!(more, [false, true, true]);
    // One item is always leased. Otherwise an item above the bound would never be.
    let claim = fixture.store.claim(fixture.queue, calls(), KIB);
    let claimed = claim.await.expect("claimed");
    let got: Vec<_> = claimed.iter().map(|claimed| keys(&claimed.items)).collect();
    assert_eq!(got, [vec!["4"], vec![], vec![]]);
}

pub(crate) async fn item_over_the_queues_limit_becomes_dead<H: Harness>() {
    for setting in ["limits.max_item_bytes", "server.max_message_bytes"] {
        oversized_item_becomes_dead::<H>(setting).await;
    }
}

async fn oversized_item_becomes_dead<H: Harness>(setting: &str) {
    let fixture = items_with::<H>(vec!["x".repeat(KIB)], |queue| match setting {
        "limits.max_item_bytes" => queue.max_item_bytes = 64 * KIB,
        _ => queue.max_response_bytes = 64 * KIB,
    })
    .await;
    // Another program inserts the large row. Enqueue would refuse it.
    for (id, kibibytes) in [(2, 100), (3, 2)] {
        let payload = Value::Text("x".repeat(kibibytes * KIB));
        let row = [("id", Value::Int(id)), ("payload", payload)];
        fixture.harness.insert("item", &row).await;
    }
    let claimed = fixture.results(vec![bounded(9, 1_000)]).await.remove(0);
    assert_eq!(keys(&claimed.items), ["1", "3"]);
    assert_eq!((claimed.made_dead, too_large(&claimed)), (1, vec![]));
    let dead = fixture.list(State::Dead).await.remove(0);
    assert_eq!(dead.key.to_string(), "2");
    assert_eq!((dead.fence, dead.attempt, dead.owner), (0, 0, None));
    let error = dead.error.expect("an error");
    let expected = format!("more than {setting}, which is 65536: make the item smaller or raise");
    assert!(error.contains(&expected), "{error}");
    assert_eq!(fixture.redrive(9).await, 1);
    assert_eq!(fixture.claim(9).await, []);
    assert_eq!(fixture.counts().await, [0, 2, 0, 0, 1]);
}

pub(crate) async fn long_texts_count_as_in_a_response<H: Harness>() {
    // Each of these characters has 3 bytes in UTF-8, and one unit in UTF-16.
    let payloads = ["€".repeat(10_000), "x".repeat(30_000), "€".repeat(30_000)];
    let fixture = items_with::<H>(payloads.into(), |_| ()).await;
    let claimed = fixture.results(vec![bounded(9, 64)]).await.remove(0);
    assert_eq!(keys(&claimed.items), ["1", "2"]);
    assert_eq!(too_large(&claimed), ["3"]);
    assert!((90_000..92_000).contains(&claimed.too_large[0].size_bytes));
}

pub(crate) async fn bounded_claims_keep_a_descending_order<H: Harness>() {
    let payloads = vec!["x".repeat(30 * KIB); 5];
    let fixture = items_with::<H>(payloads, |queue| queue.order = by(&["-id"])).await;
    let claimed = fixture.results(vec![bounded(9, 64), bounded(9, 64)]).await;
    let got: Vec<_> = claimed.iter().map(|claimed| keys(&claimed.items)).collect();
    assert_eq!(got, [["5", "4"], ["3", "2"]]);
}

pub(crate) async fn bounded_claim_of_any_order_leases_each_item_once<H: Harness>() {
    let payloads = vec!["x".repeat(30 * KIB); 5];
    let fixture = items_with::<H>(payloads, |queue| queue.order = Order::None).await;
    let mut seen = HashSet::new();
    while seen.len() < 5 {
        for claimed in fixture.results(vec![bounded(9, 64), bounded(9, 64)]).await {
            for key in keys(&claimed.items) {
                assert!(seen.insert(key), "leased twice");
            }
        }
    }
}

pub(crate) async fn repeated_bounded_claim_gets_the_same_leases<H: Harness>() {
    let fixture = items_of::<H>(&[30, 100, 30, 30], 64 << 20).await;
    let call = ClaimCall {
        has_request_id: true,
        ..bounded(9, 64)
    };
    for _ in 0..2 {
        let claimed = fixture.results(vec![call.clone()]).await.remove(0);
        assert_eq!(keys(&claimed.items), ["1", "3"]);
        fixture.advance(SECOND).await;
    }
}

/// The bound of new leases would otherwise not bound the leases of claims that are sent again.
pub(crate) async fn retried_leases_of_many_calls_are_bounded<H: Harness>() {
    let fixture = items_of::<H>(&[100, 100, 100], 64 << 20).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        let call = ClaimCall {
            has_request_id: true,
            ..bounded(1, 1_024)
        };
        assert_eq!(fixture.claim_by(call.clone()).await.len(), 1);
        calls.push(call);
    }
    // The first request arrives twice.
    calls.push(calls[0].clone());
    let mut found = Vec::new();
    while !calls.is_empty() {
        let claim = fixture
            .store
            .claim(QueueIndex(0), calls.clone().into(), 64 * KIB);
        let claimed = claim.await.expect("a claim");
        let (served, left): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .zip(claimed)
            .partition(|(_, claimed)| !claimed.items.is_empty());
        assert_eq!(served.len(), 1);
        assert!(left.iter().all(|(_, claimed)| claimed.has_more));
        found.extend(served.iter().flat_map(|(_, claimed)| keys(&claimed.items)));
        calls = left.into_iter().map(|(call, _)| call).collect();
    }
    assert_eq!(found, ["1", "2", "3", "1"]);
}
