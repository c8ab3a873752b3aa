//! Suspects: items whose last lease expired are leased alone, to workers that hold nothing else.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::{Checkpoints, Claimed, ClaimedItem, ItemChange, Limited, OperationKind};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, MINUTE, by, call, complete, fail, item_table, keys, queue, release,
};
use crate::harness::operation::Running;
use crate::harness::table::{Kind, Table};

/// Lets leases of the first `count` items expire. Returns the fixture with this number of suspects.
async fn with_suspects<H: Harness>(fixture: Fixture<H>, count: usize) -> Fixture<H> {
    let mut crashed = call("crashed", count);
    crashed.duration = MINUTE;
    assert_eq!(fixture.claim_by(crashed).await.len(), count);
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.reap(99).await.expired.len(), count);
    fixture
}

/// Returns the keys that a worker gets, and whether ready items were kept from it.
async fn claim<H: Harness>(fixture: &Fixture<H>, worker: &str) -> (Vec<ClaimedItem>, bool) {
    let Claimed {
        items,
        is_held_back,
        ..
    } = fixture.results(vec![call(worker, 9)]).await.remove(0);
    (items, is_held_back)
}

async fn claim_keys<H: Harness>(fixture: &Fixture<H>, worker: &str) -> Vec<String> {
    keys(&claim(fixture, worker).await.0)
}

pub(crate) async fn suspect_goes_alone_to_a_worker_without_leases<H: Harness>() {
    let small = Table::new("item").required("id", Kind::BigInt).key(&["id"]);
    for table in [item_table("item"), small] {
        let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
        for id in 1..=5 {
            let row = [("id", Value::Int(id))];
            fixture.harness.insert("item", &row).await;
        }
        let fixture = with_suspects(fixture, 3).await;
        let (first, held_back) = claim(&fixture, "a").await;
        assert_eq!((keys(&first), held_back), (vec!["1".to_owned()], true));
        assert_eq!(first[0].lease.attempt, 2);
        let none = fixture.results(vec![call("a", 9)]).await.remove(0);
        assert_eq!((keys(&none.items), none.is_held_back), (vec![], true));
        assert_eq!(none.limited, Some(Limited::Suspects));
        assert_eq!(claim_keys(&fixture, "b").await, ["2"]);
        fixture.complete(&first[0].lease).await;
        assert_eq!(claim_keys(&fixture, "a").await, ["3"]);
        assert_eq!(claim_keys(&fixture, "c").await, ["4", "5"]);
        // The suspects are leased, and no other item is ready.
        let none = fixture.results(vec![call("d", 9)]).await.remove(0);
        assert_eq!((keys(&none.items), none.limited), (vec![], None));
    }
}

pub(crate) async fn suspects_are_found_by_keys_of_several_columns<H: Harness>() {
    let table = Table::new("item")
        .required("name", Kind::Text)
        .required("id", Kind::BigInt)
        .required("rank", Kind::BigInt)
        .key(&["name", "id", "rank"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    for name in ["a", "é", "'b'"] {
        let row = [
            ("name", Value::Text(name.to_owned())),
            ("id", Value::Int(7)),
            ("rank", Value::Int(-1)),
        ];
        fixture.harness.insert("item", &row).await;
    }
    let fixture = with_suspects(fixture, 3).await;
    let mut found = Vec::new();
    for worker in ["a", "b", "c"] {
        let (mut items, _) = claim(&fixture, worker).await;
        assert_eq!(items.len(), 1, "{worker}");
        let item = items.remove(0);
        assert_eq!(claim(&fixture, worker).await.0, []);
        fixture.complete(&item.lease).await;
        found.push(item.lease.key.to_string());
    }
    found.dedup();
    assert_eq!(found.len(), 3);
}

pub(crate) async fn worker_without_leases_gets_a_suspect_first<H: Harness>() {
    let fixture = Fixture::<H>::with(0, |spec| spec.order = by(&["-id"])).await;
    fixture.insert([1]).await;
    let fixture = with_suspects(fixture, 1).await;
    fixture.insert(2..=4).await;
    assert_eq!(claim_keys(&fixture, "a").await, ["1"]);
    assert_eq!(claim_keys(&fixture, "b").await, ["4", "3", "2"]);
}

pub(crate) async fn worker_with_leases_gets_items_that_are_not_suspects<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let fixture = with_suspects(fixture, 2).await;
    assert_eq!(claim_keys(&fixture, "idle").await, ["1"]);
    assert_eq!(claim_keys(&fixture, "other").await, ["2"]);
    assert_eq!(claim_keys(&fixture, "busy").await, ["3"]);
    fixture.insert([4]).await;
    let mut crashed = call("crashed", 1);
    crashed.duration = MINUTE / 2;
    assert_eq!(keys(&fixture.claim_by(crashed).await), ["4"]);
    fixture.advance(MINUTE).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    fixture.insert([5, 6]).await;
    let (items, held_back) = claim(&fixture, "busy").await;
    assert_eq!(
        (keys(&items), held_back),
        (vec!["5".into(), "6".into()], true)
    );
    assert_eq!(claim_keys(&fixture, "new").await, ["4"]);
}

pub(crate) async fn overdue_suspect_lets_busy_workers_wait<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let busy = fixture.claim_by(call("busy", 1)).await.remove(0).lease;
    let mut crashed = call("crashed", 1);
    crashed.duration = MINUTE;
    fixture.claim_by(crashed).await;
    fixture.advance(2 * MINUTE).await;
    fixture.reap(9).await;
    fixture.insert([3]).await;
    fixture.advance(MINUTE / 2).await;
    assert_eq!(claim_keys(&fixture, "busy").await, ["3"]);
    fixture.insert([4]).await;
    fixture.advance(MINUTE).await;
    let (none, held_back) = claim(&fixture, "busy").await;
    assert_eq!((keys(&none), held_back), (vec![], true));
    fixture.complete(&busy).await;
    assert_eq!(claim_keys(&fixture, "busy").await, Vec::<String>::new());
    assert_eq!(claim_keys(&fixture, "idle").await, ["2"]);
    assert_eq!(claim_keys(&fixture, "busy").await, ["4"]);
}

pub(crate) async fn calls_of_one_worker_get_one_suspect<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(3).await, 3).await;
    let calls = vec![call("a", 5), call("a", 5), call("b", 5), call("a", 0)];
    let items = fixture.calls(calls).await;
    let got: Vec<_> = items.iter().map(|items| keys(items)).collect();
    assert_eq!(got[0], ["1"]);
    assert_eq!(got[1], Vec::<String>::new());
    assert_eq!(got[2], ["2"]);
    assert_eq!(got[3], Vec::<String>::new());
}

pub(crate) async fn settled_suspect_is_an_item_like_others<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(3).await, 3).await;
    for ending in [
        fail(Some(Duration::ZERO)),
        release(Duration::ZERO),
        complete(),
    ] {
        let (mut items, _) = claim(&fixture, "a").await;
        assert_eq!(items.len(), 1);
        fixture.settle(&items.remove(0).lease, ending).await;
    }
    assert_eq!(fixture.reap(9).await.promoted, 1);
    let (items, held_back) = claim(&fixture, "a").await;
    assert_eq!(
        (keys(&items), held_back),
        (vec!["1".into(), "2".into()], false)
    );
}

pub(crate) async fn cancelled_suspect_is_an_item_like_others<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(2).await, 2).await;
    let (suspect, _) = claim(&fixture, "a").await;
    let lease = lease_broker_store::CancelledLease {
        key: suspect[0].lease.key.clone(),
        fence: None,
    };
    let cancellation = lease_broker_store::Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: "moved".to_owned(),
        call: None,
    };
    let cancelled = fixture
        .store
        .cancel(fixture.queue, [lease].into(), cancellation);
    cancelled.await.expect("cancel");
    assert_eq!(claim_keys(&fixture, "a").await, ["2"]);
    assert_eq!(claim_keys(&fixture, "b").await, ["1"]);
}

pub(crate) async fn redriven_item_that_keeps_its_attempts_is_an_item_like_others<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    assert_eq!(fixture.claim_by(call("busy", 1)).await.len(), 1);
    let mut crashed = call("crashed", 1);
    crashed.duration = MINUTE;
    assert_eq!(keys(&fixture.claim_by(crashed).await), ["2"]);
    let failed = fixture.claim_by(call("other", 1)).await.remove(0);
    fixture.settle(&failed.lease, fail(None)).await;
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let change = ItemChange::Redrive {
        delay: Duration::ZERO,
        keep_attempts: true,
        checkpoints: Checkpoints::Keep,
    };
    let batch = running.batch(0, change, vec![(failed.lease.key, failed.lease.fence)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(1));
    assert_eq!(claim_keys(&fixture, "busy").await, ["3"]);
    assert_eq!(claim_keys(&fixture, "idle").await, ["2"]);
}

pub(crate) async fn suspect_that_expires_again_is_a_suspect_again<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(2).await, 1).await;
    let mut again = call("a", 9);
    again.duration = MINUTE;
    assert_eq!(keys(&fixture.claim_by(again).await), ["1"]);
    fixture.advance(2 * MINUTE).await;
    // The worker holds nothing any more, although the reaper has not run.
    assert_eq!(claim_keys(&fixture, "a").await, ["2"]);
    assert_eq!(fixture.reap(9).await.expired[0].state, State::Ready);
    assert_eq!(claim_keys(&fixture, "b").await, ["1"]);
    assert_eq!(claim_keys(&fixture, "b").await, Vec::<String>::new());
}

pub(crate) async fn retried_claim_of_a_suspect_gets_its_lease<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(3).await, 2).await;
    let token = Uuid::new_v4();
    let first = fixture.request(token, 9).await;
    assert_eq!(keys(&first), ["1"]);
    let again = fixture.request(token, 9).await;
    assert_eq!(again[0].lease, first[0].lease);
    assert_eq!(again.len(), 1);
}

pub(crate) async fn large_items_of_suspects_are_leased_alone<H: Harness>() {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("payload", Kind::LongText)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    for id in 1..=4 {
        let payload = Value::Text("x".repeat(10_000));
        let row = [("id", Value::Int(id)), ("payload", payload)];
        fixture.harness.insert("item", &row).await;
    }
    let fixture = with_suspects(fixture, 2).await;
    let limited = |worker: &str, max_bytes| {
        let mut call = call(worker, 9);
        call.max_bytes = max_bytes;
        call
    };
    let results = fixture.results(vec![limited("a", 5_000)]).await;
    assert!(results[0].items.is_empty());
    assert_eq!(results[0].too_large[0].key.to_string(), "1");
    let results = fixture
        .results(vec![limited("a", 25_000), limited("b", 25_000)])
        .await;
    let got: Vec<_> = results.iter().map(|claimed| keys(&claimed.items)).collect();
    assert_eq!(got, [["1"], ["2"]]);
    let results = fixture.results(vec![limited("c", 25_000)]).await;
    assert_eq!(keys(&results[0].items), ["3", "4"]);
}

pub(crate) async fn suspect_that_is_too_large_for_a_call_waits_for_another<H: Harness>() {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("payload", Kind::LongText)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    for (id, length) in [(1, 100_000), (2, 10), (3, 10), (4, 10)] {
        let payload = Value::Text("x".repeat(length));
        let row = [("id", Value::Int(id)), ("payload", payload)];
        fixture.harness.insert("item", &row).await;
    }
    let fixture = with_suspects(fixture, 2).await;
    let limited = |worker: &str, max_items| {
        let mut call = call(worker, max_items);
        call.max_bytes = 65_536;
        call
    };
    assert_eq!(keys(&fixture.claim_by(limited("a", 9)).await), ["2"]);
    assert_eq!(keys(&fixture.claim_by(limited("b", 1)).await), ["3"]);
    fixture.advance(2 * MINUTE).await;
    // The suspect is overdue, but not for these workers.
    let got = fixture.results(vec![limited("b", 9)]).await.remove(0);
    assert_eq!(keys(&got.items), ["4"]);
    assert_eq!(got.too_large[0].key.to_string(), "1");
    assert_eq!(claim_keys(&fixture, "c").await, ["1"]);
}

pub(crate) async fn why_names_a_suspect<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(2).await, 1).await;
    let names = async |key: &str| {
        let key = fixture.reads.parse_key(fixture.queue, key).expect("a key");
        let facts = fixture.reads.item_facts(fixture.queue, key.clone()).await;
        let causes = lease_broker::why::causes(&facts.expect("facts"), &fixture.queues[0]);
        let is_suspect = |cause: &lease_broker::why::Cause| cause.name() == "suspect";
        causes.iter().any(is_suspect)
    };
    assert_eq!((names("1").await, names("2").await), (true, false));
}

pub(crate) async fn list_of_suspects_is_empty_when_they_are_settled<H: Harness>() {
    let fixture = with_suspects(Fixture::<H>::items(3).await, 3).await;
    let listed = async || {
        let rows = fixture.harness.rows("lease_broker_suspect", &["queue"]);
        rows.await.len()
    };
    assert_eq!(listed().await, 3);
    let (first, _) = claim(&fixture, "a").await;
    fixture.harness.delete("item", ("id", Value::Int(2))).await;
    fixture.complete(&first[0].lease).await;
    let (held, _) = claim(&fixture, "a").await;
    assert_eq!(keys(&held), ["3"]);
    fixture.reap(9).await;
    assert_eq!(listed().await, 1, "a worker holds item 3");
    fixture.complete(&held[0].lease).await;
    fixture.reap(9).await;
    assert_eq!(listed().await, 0);
}
