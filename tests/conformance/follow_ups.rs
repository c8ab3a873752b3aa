//! Follow-ups: items that a completion adds.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{Ending, FollowUp, NewItem, QueueIndex, Settled};
use lease_broker_value::Value;

use super::enqueue::identity_table;
use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, complete_with, item_table, keys, new_item, queue, text,
};

/// Creates two queues. The first one has the items 1 to `rows`.
async fn two_queues<H: Harness>(rows: i64, on_complete: OnComplete) -> Fixture<H> {
    let mut first = queue("item");
    first.on_complete = on_complete;
    let tables = [item_table("item"), item_table("next")];
    let fixture = Fixture::<H>::over(&tables, vec![first, queue("next")]).await;
    fixture.insert(1..=rows).await;
    fixture
}

fn follow_up(queue: usize, columns: &[(&str, Value)]) -> FollowUp {
    FollowUp {
        queue: QueueIndex(queue),
        item: new_item(columns),
    }
}

fn next(id: i64) -> FollowUp {
    follow_up(1, &[("id", Value::Int(id)), ("payload", text("next"))])
}

fn complete_adding(ids: &[i64]) -> Ending {
    complete_with(ids.iter().map(|&id| next(id)).collect())
}

pub(crate) async fn follow_ups_are_added_with_the_completion<H: Harness>() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Delete,
        OnComplete::Archive("done".to_owned()),
        OnComplete::Recur(HOUR),
    ] {
        let fixture = two_queues::<H>(1, on_complete).await;
        let lease = fixture.one().await.lease;
        assert!(
            fixture
                .settle(&lease, complete_adding(&[10, 11]))
                .await
                .is_some()
        );
        let items = fixture.at(1).claim(9).await;
        assert_eq!(keys(&items), ["10", "11"]);
        assert_eq!(items[0].columns[1], text("next"));
    }
}

pub(crate) async fn follow_ups_keep_their_order_whatever_columns_they_name<H: Harness>() {
    let tables = [item_table("first"), identity_table()];
    let fixture = Fixture::<H>::over(&tables, vec![queue("first"), queue("item")]).await;
    fixture
        .harness
        .insert("first", &[("id", Value::Int(1))])
        .await;
    let lease = fixture.one().await.lease;
    let ending = complete_with(vec![
        follow_up(1, &[("name", text("a"))]),
        follow_up(1, &[("name", text("b")), ("size", Value::Int(5))]),
        follow_up(1, &[("name", text("c"))]),
        follow_up(1, &[("colour", text("red")), ("name", text("d"))]),
        follow_up(1, &[("name", text("e"))]),
    ]);
    fixture.settle(&lease, ending).await.expect("held");
    let items = fixture.at(1).claim(9).await;
    let names = items.iter().map(|item| item.columns[1].clone());
    assert!(names.eq(["a", "b", "c", "d", "e"].map(text)), "{items:?}");
}

pub(crate) async fn follow_up_that_refers_to_its_removed_row_is_refused<H: Harness>() {
    for on_complete in [OnComplete::Delete, OnComplete::Archive("done".to_owned())] {
        let harness = H::start().await;
        harness.create(&item_table("item")).await;
        let next = "CREATE TABLE next (id int NOT NULL PRIMARY KEY,
            item_id bigint NULL REFERENCES item (id) ON DELETE CASCADE)";
        harness.run_sql(next).await.expect(next);
        let mut first = queue("item");
        first.on_complete = on_complete;
        let fixture = Fixture::adopt(harness, vec![first, queue("next")]).await;
        fixture.insert([1]).await;
        let lease = fixture.one().await.lease;
        let refers = follow_up(1, &[("id", Value::Int(7)), ("item_id", Value::Int(1))]);
        let outcome = fixture.outcome(&lease, complete_with(vec![refers])).await;
        assert!(matches!(outcome, Settled::Refused(_)), "{outcome:?}");
        assert_eq!(fixture.counts().await, [0, 1, 0, 0, 0]);
    }
}

pub(crate) async fn follow_up_can_refer_to_an_earlier_one<H: Harness>() {
    let harness = H::start().await;
    for name in ["item", "parent"] {
        harness.create(&item_table(name)).await;
    }
    let child = "CREATE TABLE child (id int NOT NULL PRIMARY KEY, parent_id bigint NOT NULL REFERENCES parent (id))";
    harness.run_sql(child).await.expect(child);
    let queues = ["item", "child", "parent"].map(queue);
    let fixture = Fixture::adopt(harness, queues.to_vec()).await;
    fixture.insert([1]).await;
    let lease = fixture.one().await.lease;
    let family = vec![
        follow_up(2, &[("id", Value::Int(7))]),
        follow_up(1, &[("id", Value::Int(8)), ("parent_id", Value::Int(7))]),
    ];
    let outcome = fixture.outcome(&lease, complete_with(family)).await;
    assert_eq!(outcome, Settled::Ended(State::Completed));
}

pub(crate) async fn follow_up_can_have_the_key_of_its_removed_row<H: Harness>() {
    let mut first = queue("item");
    first.on_complete = OnComplete::Delete;
    let fixture = Fixture::<H>::over(&[item_table("item")], vec![first]).await;
    fixture.insert([1]).await;
    let lease = fixture.one().await.lease;
    let again = follow_up(0, &[("id", Value::Int(1)), ("payload", text("again"))]);
    fixture
        .settle(&lease, complete_with(vec![again]))
        .await
        .expect("held");
    assert_eq!(fixture.one().await.columns[1], text("again"));
}

pub(crate) async fn repeated_completion_adds_follow_ups_once<H: Harness>() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Delete,
        OnComplete::Recur(HOUR),
    ] {
        let fixture = two_queues::<H>(1, on_complete).await;
        let lease = fixture.one().await.lease;
        fixture
            .settle(&lease, complete_adding(&[10]))
            .await
            .expect("held");
        // The repeats have other follow-ups, so the store can recognise them only by the lease.
        fixture.outcome(&lease, complete_adding(&[20])).await;
        let other = fixture.another().await;
        other.outcome(&lease, complete_adding(&[30])).await;
        assert_eq!(keys(&fixture.at(1).claim(9).await), ["10"]);
    }
}

pub(crate) async fn lost_lease_adds_no_follow_ups<H: Harness>() {
    let fixture = two_queues::<H>(1, OnComplete::Keep).await;
    let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(HOUR).await;
    assert_eq!(fixture.settle(&lease, complete_adding(&[10])).await, None);
    fixture.reap(9).await;
    assert_eq!(fixture.settle(&lease, complete_adding(&[10])).await, None);
    assert_eq!(fixture.at(1).counts().await, [0; 5]);
}

pub(crate) async fn follow_up_to_the_same_queue_with_delay_and_trace<H: Harness>() {
    let fixture = two_queues::<H>(1, OnComplete::Keep).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let later = FollowUp {
        queue: QueueIndex(0),
        item: NewItem {
            delay: HOUR,
            trace_parent: Some(trace.to_owned()),
            ..new_item(&[("id", Value::Int(2))])
        },
    };
    let lease = fixture.one().await.lease;
    fixture.settle(&lease, complete_with(vec![later])).await;
    assert_eq!(fixture.counts().await, [0, 0, 1, 1, 0]);
    fixture.advance(HOUR).await;
    fixture.reap(9).await;
    assert_eq!(fixture.one().await.trace_parent.as_deref(), Some(trace));
}

/// Completes items 1 to 3, the second one with a bad follow-up. Expects that only the second completion is refused.
async fn assert_refused<H: Harness>(bad: FollowUp, field: &str) {
    let fixture = two_queues::<H>(3, OnComplete::Keep).await;
    fixture.at(1).enqueue(next(1).item).await;
    let items = fixture.claim(3).await;
    let before = fixture.snapshot().await;
    let settlements = vec![
        (&items[0].lease, complete_adding(&[10])),
        (
            &items[1].lease,
            complete_with(vec![next(11), bad, next(13)]),
        ),
        (&items[2].lease, complete_adding(&[12])),
    ];
    let results = fixture.try_settle(settlements).await.expect("settle");
    let completed = Settled::Ended(State::Completed);
    assert_eq!([&results[0], &results[2]], [&completed, &completed]);
    let Settled::Refused(refusal) = &results[1] else {
        panic!("{:?}", results[1]);
    };
    assert_eq!(refusal.field.as_deref(), Some(field), "{refusal}");
    assert_eq!(fixture.snapshot().await[1], before[1]);
    assert_eq!(keys(&fixture.at(1).claim(9).await), ["1", "10", "12"]);
    let corrected = fixture.settle(&items[1].lease, complete_adding(&[14]));
    assert_eq!(corrected.await, Some(State::Completed));
    assert_eq!(keys(&fixture.at(1).claim(9).await), ["14"]);
}

pub(crate) async fn unknown_column_refuses_its_own_completion<H: Harness>() {
    let bad = follow_up(1, &[("id", Value::Int(20)), ("nonsense", text(""))]);
    assert_refused::<H>(bad, "follow_ups[1].item.columns[\"nonsense\"]").await;
}

pub(crate) async fn constraint_refuses_its_own_completion<H: Harness>() {
    assert_refused::<H>(next(1), "follow_ups[1].item.columns[\"id\"]").await;
}

pub(crate) async fn unknown_column_is_refused_even_for_a_lost_lease<H: Harness>() {
    let fixture = two_queues::<H>(2, OnComplete::Keep).await;
    let lost = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(HOUR).await;
    let held = fixture.one().await.lease;
    let bad = follow_up(1, &[("lease_state", Value::Int(3))]);
    let settlements = vec![
        (&held, complete_adding(&[10])),
        (&lost, complete_with(vec![bad])),
    ];
    let results = fixture.try_settle(settlements).await.expect("settle");
    assert_eq!(results[0], Settled::Ended(State::Completed));
    let Settled::Refused(refusal) = &results[1] else {
        panic!("{:?}", results[1]);
    };
    let field = "follow_ups[0].item.columns[\"lease_state\"]";
    assert_eq!(refusal.field.as_deref(), Some(field));
    assert_eq!(keys(&fixture.at(1).claim(9).await), ["10"]);
}
