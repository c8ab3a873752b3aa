//! Mistakes of one caller or of another program. They concern one item or one call, and no other.

use std::sync::Arc;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::MirrorValue;
use lease_broker_store::{ClaimCall, QueueIndex, Rejection, StoreError};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::errors::rejected;
use crate::harness::fixture::{Fixture, call, item_table, keys, mirror, new_item, queue, text};
use crate::harness::table::{Kind, Table};

/// The row cannot be claimed. It becomes dead, and the claim gets the other items.
pub(crate) async fn row_with_a_full_counter_becomes_dead<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    for (column, largest, id) in [
        ("lease_fence", i64::MAX, 1),
        ("lease_attempt", i32::MAX.into(), 3),
    ] {
        let (set, row) = ((column, Value::Int(largest)), ("id", Value::Int(id)));
        fixture.harness.update("item", set, row).await;
    }
    let claimed = fixture.results(vec![call("worker", 9)]).await.remove(0);
    assert_eq!(keys(&claimed.items), ["2", "4", "5"]);
    assert_eq!(claimed.made_dead, 2);
    let dead = fixture.list(State::Dead).await;
    let keys: Vec<_> = dead.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(keys, ["1", "3"]);
    for item in dead {
        let error = item.error.expect("a reason");
        assert!(error.contains("counter is full"), "{error}");
    }
}

pub(crate) async fn negative_number_of_attempts_counts_as_none<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let set = ("lease_attempt", Value::Int(-5));
    fixture
        .harness
        .update("item", set, ("id", Value::Int(2)))
        .await;
    let listed = fixture.list(State::Ready).await;
    assert_eq!(
        listed.iter().map(|item| item.attempt).collect::<Vec<_>>(),
        [0, 0, 0]
    );
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["1", "2", "3"]);
    let attempts: Vec<_> = items.iter().map(|item| item.lease.attempt).collect();
    assert_eq!(attempts, [1, 0, 1]);
    assert_eq!(
        fixture.complete(&items[1].lease).await,
        Some(State::Completed)
    );
}

/// A claim that a row refuses fails with its index, or without one. Each other claim of the list can be served.
pub(crate) async fn refused_worker_id_leaves_other_claims<H: Harness>() {
    let harness = H::start().await;
    let table = H::table_name("item");
    let create = format!(
        "CREATE TABLE {table} (id bigint NOT NULL PRIMARY KEY, holder varchar(100) CHECK (holder NOT LIKE 'long%'))"
    );
    harness.run_sql(&create).await.expect(&create);
    let mut spec = queue("item");
    spec.mirror
        .push(mirror(State::Leased, "holder", MirrorValue::Worker));
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    for id in 1..=4 {
        let row = [("id", Value::Int(id))];
        fixture.harness.insert("item", &row).await;
    }
    let calls = ["short", "long", "short"].map(|worker| call(worker, 1));
    let rejection = rejected_claim(&fixture, &calls).await;
    assert!(rejection.item.is_none_or(|item| item == 1), "{rejection:?}");
    assert_eq!(fixture.counts().await, [4, 0, 0, 0, 0]);
    let [first, refused, last] = calls;
    rejected_claim(&fixture, &[refused]).await;
    let claimed = fixture.calls(vec![first, last]).await;
    assert_eq!(claimed.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

async fn rejected_claim<H: Harness>(fixture: &Fixture<H>, calls: &[ClaimCall]) -> Rejection {
    let calls: Arc<[ClaimCall]> = calls.into();
    let claimed = fixture.store.claim(QueueIndex(0), calls, 4 << 20).await;
    match claimed {
        Err(StoreError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

/// One operation names all refused items, so that the others need one more operation and not one for each.
pub(crate) async fn refused_items_of_a_list_are_all_named<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let items = (0..40).map(|id| {
        let column = if id % 2 == 0 { "payload" } else { "unknown" };
        new_item(&[("id", Value::Int(id)), (column, text("a"))])
    });
    let mut first = rejected(fixture.try_enqueue(items.collect()).await);
    let more = std::mem::take(&mut first.more);
    let named = std::iter::once(first).chain(more);
    let named: Vec<_> = named.filter_map(|rejection| rejection.item).collect();
    let odd: Vec<_> = (0..40).filter(|id| id % 2 == 1).collect();
    assert_eq!(named, odd);
}

/// A table that counts its key up would have no next key after the largest one.
pub(crate) async fn largest_key_does_not_stop_a_counting_table<H: Harness>() {
    let table = Table::new("item")
        .required("id", Kind::Counter)
        .column("payload", Kind::Text)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let largest = [("id", Value::Int(i64::MAX)), ("payload", text("a"))];
    let refused = fixture.try_enqueue(vec![new_item(&largest)]).await;
    rejected(refused);
    fixture.enqueue(new_item(&[("payload", text("b"))])).await;
    assert_eq!(fixture.claim(9).await.len(), 1);
}

/// A claim could never return it: a response holds the key twice.
pub(crate) async fn item_with_a_long_key_over_a_response_is_refused<H: Harness>() {
    const MOST: usize = 65_536;
    let table = Table::new("item")
        .required("id", Kind::Text)
        .column("long", Kind::LongText)
        .key(&["id"]);
    let mut spec = queue("item");
    spec.max_response_bytes = MOST;
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let item = |id: &str, length| {
        let long = ("long", text(&"x".repeat(length)));
        new_item(&[("id", text(id)), long])
    };
    let refused = fixture.try_enqueue(vec![item(&"k".repeat(190), MOST - 700)]);
    let rejection = rejected(refused.await);
    assert_eq!(rejection.column.as_deref(), Some("long"), "{rejection:?}");
    fixture.enqueue(item("k", MOST - 700)).await;
}

/// A claim could never return it.
pub(crate) async fn item_over_the_queues_limit_is_refused<H: Harness>() {
    let table = item_table("item").column("long", Kind::LongText);
    let mut spec = queue("item");
    spec.max_item_bytes = 65_536;
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let item = |id, length| {
        let long = ("long", text(&"x".repeat(length)));
        new_item(&[("id", Value::Int(id)), long])
    };
    let items = vec![item(1, 10), item(2, 65_536)];
    let rejection = rejected(fixture.try_enqueue(items).await);
    assert_eq!(rejection.item, Some(1), "{rejection:?}");
    fixture.enqueue(item(1, 60_000)).await;
    assert_eq!(keys(&fixture.claim(9).await), ["1"]);
}
