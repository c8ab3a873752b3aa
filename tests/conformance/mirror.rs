//! Mirrors: columns of the table that the broker sets at each change of state, for programs that read them.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Mirror, MirrorValue, OnComplete, QueueSpec};
use lease_broker_store::{Cancellation, NewItem};
use lease_broker_value::Value;

use super::cancel::{because, cancel};
use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, SECOND, call, fail, item_table, keys, mirror, new_item, queue, release,
    text,
};
use crate::harness::table::{Kind, Table};

fn literal(value: Value) -> MirrorValue {
    MirrorValue::Literal(value)
}

fn table() -> Table {
    item_table("item")
        .column("status", Kind::Text)
        .column("by whom", Kind::Text)
        .column("at", Kind::Timestamp)
        .defaulted("done", Kind::Bool, Value::Bool(false))
}

/// Returns a queue with mirrors for each state: its name, the worker, and the time of the change.
fn spec() -> QueueSpec {
    let mut spec = queue("item");
    for state in State::ALL {
        let word = literal(text(state.name()));
        spec.mirror.push(mirror(state, "status", word));
        spec.mirror
            .push(mirror(state, "by whom", MirrorValue::Worker));
        spec.mirror.push(mirror(state, "at", MirrorValue::Now));
    }
    spec.mirror
        .push(mirror(State::Completed, "done", literal(Value::Bool(true))));
    spec
}

async fn queue_with_mirrors<H: Harness>(rows: i64) -> Fixture<H> {
    let fixture = Fixture::<H>::over(&[table()], vec![spec()]).await;
    fixture.insert(1..=rows).await;
    fixture
}

/// Returns the mirrors of each row, sorted by id: name of the state, worker, and whether a time is set.
async fn mirror_columns<H: Harness>(fixture: &Fixture<H>) -> Vec<(Value, Value, bool)> {
    let columns = ["id", "status", "by whom", "at"];
    let rows = fixture.harness.rows("item", &columns).await;
    let read = |row: &Vec<Value>| {
        let time = H::moment(&row[3]);
        assert_eq!(time.is_some(), row[3] != Value::Null, "{:?}", row[3]);
        (row[1].clone(), row[2].clone(), time.is_some())
    };
    rows.iter().map(read).collect()
}

fn mirrored_as(state: State, worker: Option<&str>) -> (Value, Value, bool) {
    (text(state.name()), worker.map_or(Value::Null, text), true)
}

pub(crate) async fn each_transition_sets_the_mirror_of_the_new_state<H: Harness>() {
    use State::{Completed, Dead, Delayed, Leased, Ready};
    let fixture = queue_with_mirrors::<H>(6).await;
    assert_eq!(
        mirror_columns(&fixture).await[0],
        (Value::Null, Value::Null, false)
    );
    let mut hour = call("ann", 5);
    hour.duration = HOUR;
    let mut minute = call("bob", 1);
    minute.duration = MINUTE;
    let items = fixture.calls(vec![hour, minute]).await;
    let ann = mirrored_as(Leased, Some("ann"));
    assert_eq!(mirror_columns(&fixture).await[..5], vec![ann; 5]);
    assert_eq!(
        mirror_columns(&fixture).await[5],
        mirrored_as(Leased, Some("bob"))
    );
    let endings = super::settle::endings();
    let settlements = items[0].iter().map(|item| &item.lease).zip(endings);
    fixture
        .try_settle(settlements.collect())
        .await
        .expect("settle");
    let after = [
        mirrored_as(Completed, Some("ann")),
        mirrored_as(Dead, Some("ann")),
        mirrored_as(Delayed, Some("ann")),
        mirrored_as(Ready, Some("ann")),
        mirrored_as(Delayed, Some("ann")),
        mirrored_as(Leased, Some("bob")),
    ];
    assert_eq!(mirror_columns(&fixture).await, after);
    fixture.advance(HOUR).await;
    fixture.reap(9).await;
    let reaped = mirror_columns(&fixture).await;
    assert_eq!(reaped[2].0, text("ready"));
    assert_eq!(reaped[4].0, text("ready"));
    assert_eq!(
        reaped[5],
        mirrored_as(Ready, Some("bob")),
        "the mirror does not name the last worker"
    );
    fixture.redrive(9).await;
    assert_eq!(mirror_columns(&fixture).await[1].0, text("ready"));
}

pub(crate) async fn item_dead_by_expiry_gets_the_dead_mirror<H: Harness>() {
    let mut spec = spec();
    spec.retry.max_attempts = Some(1);
    let fixture = Fixture::<H>::over(&[table()], vec![spec]).await;
    fixture.insert([1]).await;
    fixture.claim_for(1, MINUTE).await;
    fixture.advance(HOUR).await;
    fixture.reap(9).await;
    assert_eq!(
        mirror_columns(&fixture).await[0],
        mirrored_as(State::Dead, Some("worker"))
    );
}

pub(crate) async fn cancelled_item_gets_the_mirror_of_its_new_state<H: Harness>() {
    for (delay, state) in [(HOUR, State::Delayed), (Duration::ZERO, State::Ready)] {
        let fixture = queue_with_mirrors::<H>(1).await;
        fixture.one().await;
        let how = Cancellation {
            delay,
            ..because("stuck")
        };
        cancel(&fixture, &["1"], how).await;
        let mirrored = mirrored_as(state, Some("worker"));
        assert_eq!(mirror_columns(&fixture).await, [mirrored]);
    }
}

pub(crate) async fn recurring_item_gets_the_delayed_mirror<H: Harness>() {
    let mut spec = spec();
    spec.on_complete = OnComplete::Recur(HOUR);
    let fixture = Fixture::<H>::over(&[table()], vec![spec]).await;
    fixture.insert([1]).await;
    let lease = fixture.one().await.lease;
    fixture.complete(&lease).await;
    assert_eq!(mirror_columns(&fixture).await[0].0, text("delayed"));
}

pub(crate) async fn now_is_the_time_of_the_change<H: Harness>() {
    let fixture = queue_with_mirrors::<H>(1).await;
    let item = fixture.claim_for(1, HOUR).await.remove(0);
    let time = H::moment(&fixture.harness.rows("item", &["at"]).await[0][0]);
    let claimed = item.expiry.expire_time - 3_600_000;
    let apart = time.expect("a time") - claimed;
    assert!(apart.abs() <= 10, "{apart} ms apart");
}

pub(crate) async fn claim_returns_the_mirror_columns_that_it_set<H: Harness>() {
    let fixture = queue_with_mirrors::<H>(1).await;
    let item = fixture.one().await;
    let columns = fixture.store.columns(fixture.queue);
    let at = |name| {
        columns
            .iter()
            .position(|column| column == name)
            .expect(name)
    };
    assert_eq!(item.columns[at("status")], text("leased"));
    assert_eq!(item.columns[at("by whom")], text("worker"));
    assert_eq!(item.columns[at("done")], Value::Bool(false));
}

pub(crate) async fn new_item_has_the_mirror_of_its_state<H: Harness>() {
    let fixture = queue_with_mirrors::<H>(0).await;
    let later = NewItem {
        delay: HOUR,
        ..new_item(&[("id", Value::Int(2))])
    };
    let items = vec![new_item(&[("id", Value::Int(1))]), later];
    fixture.try_enqueue(items).await.expect("enqueue");
    let expected = [
        mirrored_as(State::Ready, None),
        mirrored_as(State::Delayed, None),
    ];
    assert_eq!(mirror_columns(&fixture).await, expected);
}

pub(crate) async fn column_of_one_state_is_unchanged_by_other_states<H: Harness>() {
    let fixture = queue_with_mirrors::<H>(3).await;
    let items = fixture.claim(3).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, fail(None)).await;
    fixture
        .settle(&items[2].lease, release(Duration::ZERO))
        .await;
    let done = fixture.harness.rows("item", &["id", "done"]).await;
    let done: Vec<bool> = done
        .iter()
        .map(|row| row[1] != Value::Int(0) && row[1] != Value::Bool(false))
        .collect();
    assert_eq!(done, [true, false, false]);
}

pub(crate) async fn column_of_the_delayed_state_alone_is_set_for_a_new_item<H: Harness>() {
    let mut spec = queue("item");
    let value = literal(text("wait"));
    spec.mirror = vec![mirror(State::Delayed, "status", value)];
    let table = item_table("item").defaulted("status", Kind::Text, text("new"));
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let later = NewItem {
        delay: HOUR,
        ..new_item(&[("id", Value::Int(2))])
    };
    let items = vec![new_item(&[("id", Value::Int(1))]), later];
    fixture.try_enqueue(items).await.expect("enqueue");
    let rows = fixture.harness.rows("item", &["id", "status"]).await;
    let rows: Vec<_> = rows.into_iter().map(|mut row| row.remove(1)).collect();
    assert_eq!(rows, [text("new"), text("wait")]);
}

pub(crate) async fn null_can_be_a_mirror_value<H: Harness>() {
    let mut spec = queue("item");
    spec.mirror = vec![
        mirror(State::Leased, "at", MirrorValue::Now),
        mirror(State::Ready, "at", literal(Value::Null)),
        mirror(State::Delayed, "at", literal(Value::Null)),
    ];
    let fixture = Fixture::<H>::over(&[table()], vec![spec]).await;
    fixture.insert([1]).await;
    for ending in [release(Duration::ZERO), fail(Some(SECOND))] {
        let lease = fixture.one().await.lease;
        let held = fixture.harness.rows("item", &["at"]).await;
        assert!(H::moment(&held[0][0]).is_some());
        fixture.settle(&lease, ending).await;
        assert_eq!(fixture.harness.rows("item", &["at"]).await, [[Value::Null]]);
    }
}

/// Creates a table in which another program has processed half of the rows before the adoption.
async fn half_processed<H: Harness>(rows: i64, conditions: Vec<Mirror>) -> (H, QueueSpec) {
    let harness = H::start().await;
    harness.create(&table()).await;
    for id in 1..=rows {
        let done = Value::Bool(id % 2 == 0);
        let status = if id % 5 == 0 {
            text("broken")
        } else {
            Value::Null
        };
        let row = [("id", Value::Int(id)), ("done", done), ("status", status)];
        harness.insert("item", &row).await;
    }
    let mut spec = queue("item");
    spec.mirror = conditions;
    (harness, spec)
}

pub(crate) async fn adoption_marks_completed_and_dead_rows<H: Harness>() {
    let conditions = vec![
        mirror(State::Completed, "done", literal(Value::Bool(true))),
        mirror(State::Completed, "at", MirrorValue::Now),
        mirror(State::Dead, "status", literal(text("broken"))),
    ];
    let (harness, spec) = half_processed::<H>(12, conditions).await;
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    assert_eq!(fixture.counts().await, [5, 0, 0, 6, 1]);
    assert_eq!(
        fixture.harness.plan(&fixture.queues[0]).await,
        Ok(Vec::new())
    );
    assert_eq!(keys(&fixture.claim(99).await), ["1", "3", "7", "9", "11"]);
    assert_eq!(fixture.list(State::Dead).await[0].key.to_string(), "5");
}

pub(crate) async fn adoption_matches_several_columns_and_null<H: Harness>() {
    let conditions = vec![
        mirror(State::Completed, "done", literal(Value::Bool(true))),
        mirror(State::Completed, "status", literal(Value::Null)),
    ];
    let (harness, spec) = half_processed::<H>(10, conditions).await;
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let completed = fixture.list(State::Completed).await;
    let mut completed: Vec<_> = completed.iter().map(|item| item.key.to_string()).collect();
    completed.sort_unstable();
    assert_eq!(completed, ["2", "4", "6", "8"]);
}

pub(crate) async fn adoption_leaves_rows_that_show_ready_unclaimed<H: Harness>() {
    let conditions = vec![
        mirror(State::Ready, "by whom", literal(Value::Null)),
        mirror(State::Ready, "status", literal(Value::Null)),
        mirror(State::Ready, "done", literal(Value::Int(0))),
        mirror(State::Completed, "by whom", literal(Value::Null)),
        mirror(State::Completed, "status", MirrorValue::Worker),
        mirror(State::Dead, "done", literal(Value::Bool(false))),
    ];
    let (harness, spec) = half_processed::<H>(12, conditions).await;
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let completed = fixture.list(State::Completed).await;
    let mut completed: Vec<_> = completed.iter().map(|item| item.key.to_string()).collect();
    completed.sort_unstable();
    assert_eq!(completed, ["10", "5"]);
    assert_eq!(fixture.counts().await, [10, 0, 0, 2, 0]);
}

pub(crate) async fn adoption_skips_rows_with_a_null_key<H: Harness>() {
    let harness = H::start().await;
    let table = table().column("code", Kind::Text).unique(&["code"]);
    harness.create(&table).await;
    let done = ("done", Value::Bool(true));
    let row = [("id", Value::Int(1)), ("code", text("a")), done.clone()];
    harness.insert("item", &row).await;
    harness.insert("item", &[("id", Value::Int(2)), done]).await;
    let mut spec = queue("item");
    spec.key = vec!["code".to_owned()];
    let value = literal(Value::Bool(true));
    spec.mirror = vec![mirror(State::Completed, "done", value)];
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    assert_eq!(fixture.list(State::Completed).await.len(), 1);
    assert_eq!(
        fixture.harness.plan(&fixture.queues[0]).await,
        Ok(Vec::new())
    );
}

pub(crate) async fn next_apply_marks_rows_completed_since_adoption<H: Harness>() {
    let conditions = vec![mirror(State::Completed, "done", literal(Value::Bool(true)))];
    let (harness, spec) = half_processed::<H>(4, conditions).await;
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let held = fixture.one().await;
    for id in [1, 3] {
        let at = ("id", Value::Int(id));
        fixture
            .harness
            .update("item", ("done", Value::Bool(true)), at)
            .await;
    }
    let spec = &fixture.queues[0];
    assert_eq!(fixture.harness.plan(spec).await.expect("plan").len(), 1);
    fixture.harness.apply(spec).await.expect("apply");
    assert_eq!(
        fixture.counts().await,
        [0, 1, 0, 3, 0],
        "marking changed a leased row"
    );
    assert_eq!(fixture.complete(&held.lease).await, Some(State::Completed));
    assert_eq!(fixture.harness.plan(spec).await, Ok(Vec::new()));
}
