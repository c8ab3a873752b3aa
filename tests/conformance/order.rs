//! The order in which items are claimed.

use std::time::Duration;

use lease_broker_model::queue::{Order, QueueSpec};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, SECOND, by, call, keys, queue, release, text};
use crate::harness::table::{Kind, Table};

/// Creates a queue in this order, with rows 1 to 6 and two columns to order by.
async fn queue_in_order<H: Harness>(order: Order) -> Fixture<H> {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("rank", Kind::Int)
        .column("name", Kind::Text)
        .key(&["id"]);
    let queue = QueueSpec {
        order,
        ..queue("item")
    };
    let fixture = Fixture::<H>::over(&[table], vec![queue]).await;
    for (id, rank, name) in [
        (1, 5, "b"),
        (2, 9, "a"),
        (3, 5, "a"),
        (4, 1, "c"),
        (5, 9, "b"),
        (6, 5, "a"),
    ] {
        let row = [
            ("id", Value::Int(id)),
            ("rank", Value::Int(rank)),
            ("name", text(name)),
        ];
        fixture.harness.insert("item", &row).await;
    }
    fixture
}

/// Returns the keys in the order in which one group of claim calls gets them.
async fn claim_order<H: Harness>(order: Order) -> Vec<String> {
    let fixture = queue_in_order::<H>(order).await;
    let items = fixture
        .calls(vec![call("a", 2), call("b", 1), call("c", 9)])
        .await;
    keys(&items.concat())
}

pub(crate) async fn default_order_is_the_key<H: Harness>() {
    assert_eq!(
        claim_order::<H>(by(&[])).await,
        ["1", "2", "3", "4", "5", "6"]
    );
}

pub(crate) async fn key_can_descend<H: Harness>() {
    assert_eq!(
        claim_order::<H>(by(&["-id"])).await,
        ["6", "5", "4", "3", "2", "1"]
    );
}

pub(crate) async fn key_breaks_a_tie<H: Harness>() {
    assert_eq!(
        claim_order::<H>(by(&["rank"])).await,
        ["4", "1", "3", "6", "2", "5"]
    );
}

pub(crate) async fn several_columns_can_order_in_different_directions<H: Harness>() {
    let order = by(&["-rank", "name"]);
    assert_eq!(
        claim_order::<H>(order).await,
        ["2", "5", "3", "6", "1", "4"]
    );
    let order = by(&["rank", "-name"]);
    assert_eq!(
        claim_order::<H>(order).await,
        ["4", "1", "3", "6", "5", "2"]
    );
    let order = by(&["-name", "-rank", "-id"]);
    assert_eq!(
        claim_order::<H>(order).await,
        ["4", "5", "1", "2", "6", "3"]
    );
}

pub(crate) async fn order_none_claims_every_item_once<H: Harness>() {
    for filtered in [true, false] {
        let fixture = Fixture::<H>::with(6, |spec| {
            spec.order = Order::None;
            spec.filtered_indexes = filtered;
        })
        .await;
        let mut got = [keys(&fixture.claim(4).await), keys(&fixture.claim(9).await)].concat();
        got.sort_unstable();
        assert_eq!(got, ["1", "2", "3", "4", "5", "6"]);
    }
}

pub(crate) async fn order_without_filtered_indexes_is_the_same<H: Harness>() {
    let fixture = Fixture::<H>::with(3, |spec| {
        spec.filtered_indexes = false;
        spec.order = by(&["-payload"]);
    })
    .await;
    assert_eq!(keys(&fixture.claim(9).await), ["3", "2", "1"]);
}

pub(crate) async fn released_item_is_last_when_ordered_by_state_time<H: Harness>() {
    let fixture = Fixture::<H>::with(3, |spec| spec.order = by(&["lease_state_time"])).await;
    let first = fixture.one().await;
    assert_eq!(keys(std::slice::from_ref(&first)), ["1"]);
    fixture.advance(SECOND).await;
    fixture.settle(&first.lease, release(Duration::ZERO)).await;
    assert_eq!(keys(&fixture.claim(9).await), ["2", "3", "1"]);
}

pub(crate) async fn row_with_a_null_order_column_is_claimed<H: Harness>() {
    let fixture = queue_in_order::<H>(by(&["rank"])).await;
    fixture
        .harness
        .insert("item", &[("id", Value::Int(7))])
        .await;
    let mut got = keys(&fixture.claim(9).await);
    got.sort_unstable();
    assert_eq!(got.len(), 7);
    assert_eq!(got[6], "7");
}

pub(crate) async fn changed_order_column_changes_the_position<H: Harness>() {
    let fixture = queue_in_order::<H>(by(&["rank"])).await;
    let at = ("id", Value::Int(5));
    fixture
        .harness
        .update("item", ("rank", Value::Int(0)), at)
        .await;
    assert_eq!(keys(&fixture.claim(2).await), ["5", "4"]);
}
