//! Columns that a settlement writes into the row of its item.

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{MirrorValue, OnComplete};
use lease_broker_store::{Ending, FollowUp, QueueIndex, Settled, Settlement};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, complete, complete_with, fail, item_table, mirror, new_item,
    queue, release, text,
};
use crate::harness::table::{Kind, Table};

const COMPLETED: Settled = Settled::Ended(State::Completed);

fn table(name: &str) -> Table {
    item_table(name)
        .column("result", Kind::Text)
        .column("total", Kind::BigInt)
        .column("details", Kind::LongText)
        .column("image", Kind::LongBlob)
        .defaulted("required", Kind::Text, text("none"))
}

/// Creates a queue with items 1 to `rows` whose workers can write all columns but the key and the payload.
async fn fixture<H: Harness>(rows: i64, on_complete: OnComplete) -> Fixture<H> {
    let mut spec = queue("item");
    spec.on_complete = on_complete;
    spec.writable = ["result", "total", "details", "image", "required"]
        .map(str::to_owned)
        .into();
    let tables = [table("item"), item_table("next")];
    let fixture = Fixture::<H>::over(&tables, vec![spec, queue("next")]).await;
    fixture.insert(1..=rows).await;
    fixture
}

fn settlement(lease: &LeaseRef, ending: Ending, columns: &[(&str, Value)]) -> Settlement {
    let columns = columns.iter().cloned();
    Settlement {
        lease: lease.clone(),
        ending,
        checkpoint: None,
        columns: columns
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        trace: None,
    }
}

async fn settle(broker: &Broker, settlements: Vec<Settlement>) -> Vec<Settled> {
    let results = broker.store.settle(broker.queue, settlements.into()).await;
    results.expect("settle").results
}

async fn settle_one(
    broker: &Broker,
    lease: &LeaseRef,
    ending: Ending,
    columns: &[(&str, Value)],
) -> Settled {
    settle(broker, vec![settlement(lease, ending, columns)])
        .await
        .remove(0)
}

fn result(value: &str) -> [(&'static str, Value); 1] {
    [("result", text(value))]
}

pub(crate) async fn completion_writes_columns_of_its_row<H: Harness>() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Archive("done".to_owned()),
        OnComplete::Recur(HOUR),
    ] {
        let fixture = fixture::<H>(2, on_complete.clone()).await;
        let lease = fixture.one().await.lease;
        let long = "é\"\\ \u{1F4A7} ".repeat(2_000);
        let columns = [
            ("total", Value::Int(-7)),
            ("result", text("good \"ü\"")),
            ("image", Value::Bytes(vec![0, 255, 7])),
            ("details", text(&long)),
        ];
        let settled = settle_one(&fixture, &lease, complete(), &columns).await;
        assert!(matches!(settled, Settled::Ended(_)), "{settled:?}");
        let names = [
            "id", "payload", "result", "total", "details", "image", "required",
        ];
        let is_archive = matches!(on_complete, OnComplete::Archive(_));
        let table = if is_archive { "done" } else { "item" };
        let rows = fixture.harness.rows(table, &names).await;
        let expected = [
            Value::Int(1),
            text("payload 1"),
            text("good \"ü\""),
            Value::Int(-7),
            text(&long),
            Value::Bytes(vec![0, 255, 7]),
            text("none"),
        ];
        assert_eq!(rows[0], expected, "{on_complete:?}");
        let other = fixture
            .harness
            .rows("item", &["id", "result", "total"])
            .await;
        let untouched = [Value::Int(2), Value::Null, Value::Null];
        assert!(other.contains(&untouched.to_vec()), "{other:?}");
    }
}

pub(crate) async fn settlements_of_a_list_write_different_columns<H: Harness>() {
    let fixture = fixture::<H>(5, OnComplete::Keep).await;
    let items = fixture.claim(5).await;
    let [first, second, third, fourth, fifth] = [0, 1, 2, 3, 4].map(|at| &items[at].lease);
    let before = settle_one(&fixture, first, fail(None), &result("earlier")).await;
    assert_eq!(before, Settled::Ended(State::Dead));
    let results = settle(
        &fixture,
        vec![
            settlement(second, complete(), &[("total", Value::Int(2))]),
            settlement(third, fail(Some(MINUTE)), &result("third")),
            settlement(fourth, release(MINUTE), &[]),
            settlement(
                fifth,
                complete(),
                &[("result", Value::Null), ("required", text("fifth"))],
            ),
        ],
    )
    .await;
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Settled::Ended(_))),
        "{results:?}"
    );
    let rows = fixture
        .harness
        .rows("item", &["id", "result", "total", "required"]);
    let row =
        |id, result, total, required: &str| vec![Value::Int(id), result, total, text(required)];
    let expected = [
        row(1, text("earlier"), Value::Null, "none"),
        row(2, Value::Null, Value::Int(2), "none"),
        row(3, text("third"), Value::Null, "none"),
        row(4, Value::Null, Value::Null, "none"),
        row(5, Value::Null, Value::Null, "fifth"),
    ];
    assert_eq!(rows.await, expected);
}

pub(crate) async fn lost_or_repeated_settlement_writes_nothing<H: Harness>() {
    let fixture = fixture::<H>(2, OnComplete::Keep).await;
    let expired = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(HOUR).await;
    let late = settle_one(&fixture, &expired, complete(), &result("late")).await;
    assert_eq!(late, Settled::Lost);
    fixture.reap(9).await;
    let lease = fixture.one().await.lease;
    assert_eq!(lease.key, expired.key);
    let late = settle_one(&fixture, &expired, fail(None), &result("late")).await;
    assert_eq!(late, Settled::Lost);
    let done = settle_one(&fixture, &lease, complete(), &result("first")).await;
    assert_eq!(done, COMPLETED);
    let repeat = settle_one(&fixture, &lease, complete(), &result("second")).await;
    assert_eq!(repeat, Settled::Repeated(State::Completed));
    let rows = fixture.harness.rows("item", &["id", "result"]).await;
    let expected = [[Value::Int(1), text("first")], [Value::Int(2), Value::Null]];
    assert_eq!(rows, expected);
}

/// Settles items 1 to 3. Expects that only the second settlement is refused, because of this column.
async fn assert_refused<H: Harness>(bad: &[(&str, Value)], field: &str) {
    let fixture = fixture::<H>(3, OnComplete::Keep).await;
    let items = fixture.claim(3).await;
    let results = settle(
        &fixture,
        vec![
            settlement(&items[0].lease, complete(), &result("one")),
            settlement(&items[1].lease, complete(), bad),
            settlement(&items[2].lease, fail(None), &result("three")),
        ],
    )
    .await;
    assert_eq!(results[0], COMPLETED);
    assert_eq!(results[2], Settled::Ended(State::Dead));
    let Settled::Refused(refusal) = &results[1] else {
        panic!("{:?}", results[1]);
    };
    assert_eq!(refusal.field.as_deref(), Some(field), "{refusal}");
    let rows = fixture.harness.rows("item", &["id", "result"]).await;
    let expected = [
        [Value::Int(1), text("one")],
        [Value::Int(2), Value::Null],
        [Value::Int(3), text("three")],
    ];
    assert_eq!(rows, expected);
    let corrected = settle_one(&fixture, &items[1].lease, complete(), &result("two")).await;
    assert_eq!(corrected, COMPLETED);
}

pub(crate) async fn column_that_is_not_writable_is_refused<H: Harness>() {
    for name in ["payload", "id", "lease_state", "nonsense"] {
        let bad = [("result", text("two")), (name, text("x"))];
        assert_refused::<H>(&bad, &format!("columns[{name:?}]")).await;
    }
}

pub(crate) async fn value_that_does_not_fit_is_refused<H: Harness>() {
    let bad = [("result", text("two")), ("total", text("many"))];
    assert_refused::<H>(&bad, "columns[\"total\"]").await;
}

pub(crate) async fn constraint_names_the_written_column<H: Harness>() {
    let bad = [("result", text("two")), ("required", Value::Null)];
    assert_refused::<H>(&bad, "columns[\"required\"]").await;
}

pub(crate) async fn refused_follow_up_leaves_the_columns_unwritten<H: Harness>() {
    let fixture = fixture::<H>(1, OnComplete::Keep).await;
    let next = new_item(&[("id", Value::Int(1))]);
    fixture.at(1).enqueue(next.clone()).await;
    let lease = fixture.one().await.lease;
    let follow_up = FollowUp {
        queue: QueueIndex(1),
        item: next,
    };
    let ending = complete_with(vec![follow_up]);
    let refused = settle_one(&fixture, &lease, ending, &result("x")).await;
    assert!(matches!(refused, Settled::Refused(_)), "{refused:?}");
    let rows = fixture.harness.rows("item", &["result"]).await;
    assert_eq!(rows, [[Value::Null]]);
}

pub(crate) async fn columns_that_cannot_be_written_fail_the_check<H: Harness>() {
    let harness = H::start().await;
    let table = item_table("item").copy("twin", Kind::Text, "payload");
    harness.create(&table).await;
    let mut spec = queue("item");
    harness.apply(&spec).await.expect("apply");
    for (name, problem) in [
        ("id", "is part of the key"),
        ("twin", "gets its value from the database"),
        ("nonsense", "has no column"),
    ] {
        spec.writable = vec![name.to_owned()];
        let problems = harness
            .check(&spec)
            .await
            .unwrap_or_else(|error| vec![error.to_string()]);
        let all = problems.join("; ");
        assert!(all.contains(problem) && all.contains("writable"), "{all}");
        spec.writable.clear();
        spec.mirror = vec![mirror(
            State::Ready,
            name,
            MirrorValue::Literal(Value::Int(1)),
        )];
        let problems = harness
            .check(&spec)
            .await
            .unwrap_or_else(|error| vec![error.to_string()]);
        let all = problems.join("; ");
        assert!(all.contains(problem) && all.contains("mirror"), "{all}");
        spec.mirror.clear();
    }
    spec.groups = Some(Groups {
        column: "id".to_owned(),
        order: GroupOrder::Parallel {
            max_leases: None,
            bursts: false,
        },
        rate: None,
    });
    let problems = harness
        .check(&spec)
        .await
        .unwrap_or_else(|error| vec![error.to_string()]);
    assert!(problems.concat().contains("is the key"), "{problems:?}");
}
