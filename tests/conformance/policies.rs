//! Completion policies: the row is kept, deleted, archived, or ready again later.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, about, complete, fail, item_table, queue, release, text,
};
use crate::harness::table::{Kind, Table};

fn archive() -> OnComplete {
    OnComplete::Archive("item archive".to_owned())
}

pub(crate) async fn kept_row_stays_in_the_table<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.complete(&lease).await;
    let listed = fixture.list(State::Completed).await.remove(0);
    assert_eq!((listed.attempt, listed.fence), (1, 1));
    assert_eq!(listed.owner.as_deref(), Some("worker"));
    assert_eq!(listed.due_in, None);
}

pub(crate) async fn only_the_completed_row_is_deleted<H: Harness>() {
    let fixture = Fixture::<H>::with(5, |spec| spec.on_complete = OnComplete::Delete).await;
    let items = fixture.claim(4).await;
    assert_eq!(
        fixture.complete(&items[0].lease).await,
        Some(State::Completed)
    );
    fixture.settle(&items[1].lease, fail(None)).await;
    fixture.settle(&items[2].lease, release(MINUTE)).await;
    let ids = fixture.harness.rows("item", &["id"]).await;
    assert_eq!(ids, [2, 3, 4, 5].map(|id| vec![Value::Int(id)]));
}

pub(crate) async fn archived_row_keeps_its_data_columns<H: Harness>() {
    let fixture = Fixture::<H>::with(2, |spec| spec.on_complete = archive()).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
    let own = ["id", "payload"];
    let archived = fixture.harness.rows("item archive", &own).await;
    assert_eq!(archived, [[Value::Int(1), text("payload 1")]]);
    let left = fixture.harness.rows("item", &own).await;
    assert_eq!(left, [[Value::Int(2), text("payload 2")]]);
    let kept = ["lease_owner", "lease_fence", "lease_attempt"];
    let kept = fixture.harness.rows("item archive", &kept).await;
    assert_eq!(kept, [[text("worker"), Value::Int(1), Value::Int(1)]]);
}

pub(crate) async fn archive_made_by_hand_gets_the_columns_that_it_has<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let history = Table::new("item archive")
        .column("payload", Kind::Text)
        .column("extra", Kind::Text)
        .column("id", Kind::BigInt)
        .column("lease_owner", Kind::Text);
    harness.create(&history).await;
    let mut spec = queue("item");
    spec.on_complete = archive();
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    fixture.insert([1]).await;
    let lease = fixture.one().await.lease;
    fixture.complete(&lease).await;
    let columns = ["id", "payload", "extra", "lease_owner"];
    let archived = fixture.harness.rows("item archive", &columns).await;
    assert_eq!(
        archived,
        [[
            Value::Int(1),
            text("payload 1"),
            Value::Null,
            text("worker")
        ]]
    );
}

pub(crate) async fn computed_column_does_not_prevent_archiving<H: Harness>() {
    let table = item_table("item").copy("again", Kind::Text, "payload");
    let mut spec = queue("item");
    spec.on_complete = archive();
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    fixture.insert([1]).await;
    let item = fixture.one().await;
    assert_eq!(item.columns[2], text("payload 1"));
    assert_eq!(fixture.complete(&item.lease).await, Some(State::Completed));
    let archived = fixture.harness.rows("item archive", &["payload"]).await;
    assert_eq!(archived, [[text("payload 1")]]);
}

pub(crate) async fn failed_item_is_not_archived<H: Harness>() {
    let fixture = Fixture::<H>::with(2, |spec| spec.on_complete = archive()).await;
    let items = fixture.claim_for(2, MINUTE).await;
    fixture.settle(&items[0].lease, fail(None)).await;
    fixture.advance(HOUR).await;
    assert_eq!(fixture.complete(&items[1].lease).await, None);
    assert_eq!(fixture.harness.rows("item archive", &["id"]).await, [[]; 0]);
    assert_eq!(fixture.harness.rows("item", &["id"]).await.len(), 2);
}

pub(crate) async fn archive_without_a_data_column_is_refused<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let history = Table::new("item archive").column("id", Kind::BigInt);
    harness.create(&history).await;
    let mut spec = queue("item");
    spec.on_complete = archive();
    harness.apply(&spec).await.expect("apply");
    let problems = harness.check(&spec).await.expect("check");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("item archive") && problems[0].contains("payload"));
    assert!(harness.open(&[spec]).await.is_err());
}

pub(crate) async fn archive_that_needs_another_value_is_refused<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let history = Table::new("item archive")
        .column("id", Kind::BigInt)
        .column("payload", Kind::Text)
        .defaulted("kind", Kind::BigInt, Value::Int(7))
        .required("extra", Kind::BigInt);
    harness.create(&history).await;
    let mut spec = queue("item");
    spec.on_complete = archive();
    harness.apply(&spec).await.expect("apply");
    let problems = harness.check(&spec).await.expect("check");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("the column extra"), "{problems:?}");
}

pub(crate) async fn recurring_item_is_ready_again_with_all_attempts<H: Harness>() {
    let every = OnComplete::Recur(HOUR);
    let fixture = Fixture::<H>::with(1, |spec| spec.on_complete = every).await;
    for round in 1..=3 {
        let lease = fixture.one().await.lease;
        assert_eq!((lease.fence, lease.attempt), (round, 1));
        assert_eq!(
            fixture.settle(&lease, complete()).await,
            Some(State::Delayed)
        );
        let listed = fixture.list(State::Delayed).await.remove(0);
        assert!(about(listed.due_in.expect("a due time"), HOUR));
        assert_eq!(listed.attempt, 0);
        fixture.advance(HOUR / 2).await;
        assert_eq!(fixture.reap(9).await.promoted, 0);
        fixture.advance(HOUR / 2).await;
        assert_eq!(fixture.reap(9).await.promoted, 1);
    }
}
