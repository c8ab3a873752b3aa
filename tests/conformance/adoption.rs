//! Adoption of existing tables: schema changes, checks, keys and renamed soft-lock columns.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, Order, SoftLockColumn};
use lease_broker_store::StoreError;
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::errors::misconfigured;
use crate::harness::fixture::{
    Broker, Fixture, by, call, complete, item_table, keys, mirror, queue, text,
};
use crate::harness::table::{Kind, Table};

fn row(id: i64) -> [(&'static str, Value); 2] {
    [("id", Value::Int(id)), ("payload", text("old"))]
}

pub(crate) async fn existing_rows_are_claimed<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    for id in 1..=3 {
        harness.insert("item", &row(id)).await;
    }
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    assert_eq!(keys(&fixture.claim(9).await), ["1", "2", "3"]);
}

pub(crate) async fn unadopted_table_is_refused_naming_each_missing_part<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let spec = queue("item");
    let problems = harness.check(&spec).await.expect("check");
    for column in spec.soft_lock_columns() {
        let name = column.default_name();
        let named = problems.iter().filter(|problem| problem.contains(name));
        assert!(named.count() >= 1, "{name} in {problems:?}");
    }
    let text = misconfigured(harness.open(&[spec]).await);
    for problem in problems {
        assert!(text.contains(&problem), "{problem} in {text}");
    }
}

pub(crate) async fn soft_lock_column_that_is_never_null_is_refused<H: Harness>() {
    let harness = H::start().await;
    let name = SoftLockColumn::Owner.default_name();
    let owner = Value::Text("nobody".to_owned());
    let table = item_table("item").defaulted(name, Kind::Text, owner);
    harness.create(&table).await;
    let mut spec = queue("item");
    spec.soft_lock.map(SoftLockColumn::Owner, name.to_owned());
    let text = misconfigured(harness.plan(&spec).await);
    assert!(
        text.contains(name) && text.contains("can be NULL"),
        "{text}"
    );
}

pub(crate) async fn second_apply_changes_nothing<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    let planned = harness.plan(&spec).await.expect("plan");
    assert!(planned.len() >= SoftLockColumn::ALL.len());
    assert_eq!(
        harness.plan(&spec).await.expect("plan"),
        planned,
        "making a plan changed the schema"
    );
    harness.apply(&spec).await.expect("apply");
    assert_eq!(harness.check(&spec).await, Ok(Vec::new()));
    assert_eq!(harness.plan(&spec).await, Ok(Vec::new()));
    harness.apply(&spec).await.expect("apply again");
    assert_eq!(harness.check(&spec).await, Ok(Vec::new()));
}

pub(crate) async fn missing_table_and_columns_are_named<H: Harness>() {
    let harness = H::start().await;
    let spec = queue("nowhere");
    let problems = harness.check(&spec).await.expect("check");
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("nowhere"));
    assert!(matches!(
        harness.plan(&spec).await,
        Err(StoreError::Misconfigured(_))
    ));

    harness.create(&item_table("item")).await;
    let mut spec = queue("item");
    spec.order = by(&["rank"]);
    spec.columns = Some(vec!["body".to_owned()]);
    spec.mirror = vec![mirror(State::Completed, "done", MirrorValue::Now)];
    let problems = harness.check(&spec).await.expect("check").join("; ");
    for name in ["rank", "body", "done"] {
        assert!(problems.contains(name), "{name} in {problems}");
    }
    assert!(matches!(
        harness.plan(&spec).await,
        Err(StoreError::Misconfigured(_))
    ));
    spec = queue("item");
    spec.key = vec!["number".to_owned()];
    let problems = harness.check(&spec).await.expect("check").join("; ");
    assert!(problems.contains("number"), "{problems}");
}

pub(crate) async fn table_without_a_key_is_refused<H: Harness>() {
    let harness = H::start().await;
    let table = Table::new("item")
        .column("id", Kind::BigInt)
        .column("payload", Kind::Text);
    harness.create(&table).await;
    let mut spec = queue("item");
    let problems = harness.check(&spec).await.expect("check");
    assert!(
        problems.join("; ").contains("no primary key"),
        "{problems:?}"
    );
    spec.key = vec!["id".to_owned()];
    let problems = harness.check(&spec).await.expect("check");
    assert!(
        problems.join("; ").contains("does not identify a row"),
        "{problems:?}"
    );
    assert!(harness.plan(&spec).await.is_err());
}

pub(crate) async fn dropped_table_is_a_misconfiguration<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.harness.drop_table("item").await;
    let calls = vec![call("worker", 1)];
    let error = fixture
        .store
        .claim(fixture.queue, calls.into(), usize::MAX)
        .await
        .expect_err("gone");
    assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
    let error = fixture
        .try_settle(vec![(&lease, complete())])
        .await
        .expect_err("gone");
    assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
    let error = fixture.reads.stats(fixture.queue).await.expect_err("gone");
    assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
}

pub(crate) async fn interrupted_adoption_continues<H: Harness>() {
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    spec.mirror = vec![mirror(
        State::Completed,
        "payload",
        MirrorValue::Literal(text("done")),
    )];
    let mut left = usize::MAX;
    while left > 0 {
        let harness = H::start().await;
        harness.create(&item_table("item")).await;
        for (id, payload) in [(1, "done"), (2, "new"), (3, "done")] {
            let row = [("id", Value::Int(id)), ("payload", text(payload))];
            harness.insert("item", &row).await;
        }
        let steps = harness.plan(&spec).await.expect("plan");
        left = left.min(steps.len()) - 1;
        for step in &steps[..steps.len() - left] {
            harness.run(step).await.expect(&step.sql);
        }
        let rest = harness.plan(&spec).await.expect("plan the rest");
        assert_eq!(rest, steps[steps.len() - left..]);
        let fixture = Fixture::adopt(harness, vec![spec.clone()]).await;
        assert_eq!(fixture.counts().await, [1, 0, 0, 2, 0]);
    }
}

pub(crate) async fn changed_order_needs_a_new_index<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let harness = &fixture.harness;
    for order in [
        by(&["-id"]),
        by(&["payload"]),
        by(&["payload", "-id"]),
        by(&["-payload"]),
    ] {
        let mut spec = queue("item");
        spec.order = order;
        let problems = harness.check(&spec).await.expect("check");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(harness.open(std::slice::from_ref(&spec)).await.is_err());
        harness.apply(&spec).await.expect("apply");
        assert_eq!(harness.check(&spec).await, Ok(Vec::new()));
        assert_eq!(harness.plan(&spec).await, Ok(Vec::new()));
    }
    let mut spec = queue("item");
    spec.order = by(&["-payload"]);
    let broker = Broker::new(harness.open(&[spec.clone()]).await.expect("open"));
    assert_eq!(keys(&broker.claim(9).await), ["3", "2", "1"]);
    spec.order = Order::None;
    assert_eq!(
        harness.check(&spec).await,
        Ok(Vec::new()),
        "an order of none needs no other index"
    );
}

pub(crate) async fn unique_constraint_serves_as_key<H: Harness>() {
    let table = item_table("item")
        .required("code", Kind::Text)
        .unique(&["code"]);
    let mut spec = queue("item");
    spec.key = vec!["code".to_owned()];
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    for (id, code) in [(1, "b"), (2, "a")] {
        let row = [("id", Value::Int(id)), ("code", text(code))];
        fixture.harness.insert("item", &row).await;
    }
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["a", "b"]);
    assert_eq!(
        fixture.complete(&items[0].lease).await,
        Some(State::Completed)
    );
}

/// Returns a queue with two items: the key of the first is NULL, and that of the second is `a`.
pub(super) async fn with_a_null_key<H: Harness>() -> Fixture<H> {
    let table = item_table("item")
        .column("code", Kind::Text)
        .unique(&["code"]);
    let mut spec = queue("item");
    spec.key = vec!["code".to_owned()];
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    fixture.insert([1]).await;
    let row = [("id", Value::Int(2)), ("code", text("a"))];
    fixture.harness.insert("item", &row).await;
    fixture
}

pub(crate) async fn rows_with_a_null_key_are_skipped<H: Harness>() {
    let fixture = with_a_null_key::<H>().await;
    assert_eq!(keys(&fixture.claim(9).await), ["a"]);
}

pub(crate) async fn rows_with_a_null_key_are_not_counted<H: Harness>() {
    let fixture = with_a_null_key::<H>().await;
    let exact = fixture.reads.exact_stats(fixture.queue).await;
    let exact = exact.expect("stats");
    assert_eq!(exact.count, [1, 0, 0, 0, 0]);
    assert_eq!(fixture.counts().await, exact.count);
    let warnings = fixture.harness.warnings(&fixture.queues[0]).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("rows with NULL"), "{warnings:?}");
}

pub(crate) async fn soft_lock_columns_can_be_renamed<H: Harness>() {
    let rename = |column: SoftLockColumn| format!("{} of ours", column.default_name());
    let fixture = Fixture::<H>::with(2, |spec| {
        for column in SoftLockColumn::ALL {
            spec.soft_lock.map(column, rename(column));
        }
    })
    .await;
    assert_eq!(*fixture.store.columns(fixture.queue), ["id", "payload"]);
    let items = fixture.claim(2).await;
    fixture.complete(&items[0].lease).await;
    let columns = ["id".to_owned(), rename(SoftLockColumn::State)];
    let columns = columns.each_ref().map(String::as_str);
    let states = fixture.harness.rows("item", &columns).await;
    assert_eq!(
        states,
        [
            [Value::Int(1), Value::Int(3)],
            [Value::Int(2), Value::Int(1)]
        ]
    );
}

pub(crate) async fn two_queues_with_separate_soft_locks_share_a_table<H: Harness>() {
    let mut second = queue("item");
    "second".clone_into(&mut second.name);
    for column in SoftLockColumn::ALL {
        let name = format!("second_{}", column.default_name());
        second.soft_lock.map(column, name);
    }
    second.columns = Some(vec!["payload".to_owned()]);
    let mut first = queue("item");
    first.columns = Some(vec!["payload".to_owned()]);
    let fixture = Fixture::<H>::over(&[item_table("item")], vec![first, second]).await;
    fixture.insert(1..=2).await;
    let (first, second) = (fixture.at(0), fixture.at(1));
    let lease = first.one().await.lease;
    assert_eq!(keys(&second.claim(9).await), ["1", "2"]);
    assert_eq!(
        second.complete(&lease).await,
        None,
        "a lease of the other queue was accepted"
    );
    assert_eq!(first.complete(&lease).await, Some(State::Completed));
    assert_eq!(second.counts().await, [0, 2, 0, 0, 0]);
    assert_eq!(first.counts().await, [1, 0, 0, 1, 0]);
}
