//! The batches of operations on many items.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::MirrorValue;
use lease_broker_store::{
    Cancellation, Checkpoints, ItemChange, ItemSearch, LONGEST_HOLD, OperationBatch, OperationKind,
    OperationState,
};
use lease_broker_value::Value;
use uuid::Uuid;

use super::operations::{DAY, read, takes};
use super::search::{find_all, keys, search};
use crate::harness::Harness;
use crate::harness::errors::rejected;
use crate::harness::fixture::{Broker, Fixture, HOUR, MINUTE, complete, fail, mirror, text};
use crate::harness::operation::{Running, redrive};
use crate::harness::table::Kind;

/// Returns the batch with this number, for items with their fencing tokens.
fn batch_of(
    running: &Running,
    number: i64,
    change: ItemChange,
    items: &[(i64, i64)],
) -> OperationBatch {
    let items = items
        .iter()
        .map(|(id, fence)| (Key([Value::Int(*id)].into()), *fence));
    OperationBatch {
        position: Some(format!("after {number} ☂")),
        examined: 10,
        ..running.batch(number, change, items.collect())
    }
}

const REDRIVE: ItemChange = redrive(Duration::ZERO, Checkpoints::Keep);

fn cancel(delay: Duration, dead_letter: bool) -> ItemChange {
    ItemChange::Cancel(Cancellation {
        delay,
        dead_letter,
        reason: "the host is gone".to_owned(),
        call: None,
    })
}

/// Creates items 1 to `rows` and fails them for the last time.
async fn dead_items<H: Harness>(rows: i64) -> Fixture<H> {
    let fixture = Fixture::<H>::items(rows).await;
    kill(&fixture, rows).await;
    fixture
}

async fn kill(broker: &Broker, rows: i64) {
    for item in broker.claim(usize::try_from(rows).expect("few")).await {
        broker.settle(&item.lease, fail(None)).await;
    }
}

pub(crate) async fn batch_changes_items_and_counts_once<H: Harness>() {
    let fixture = dead_items::<H>(4).await;
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let first = batch_of(&running, 0, REDRIVE, &[(1, 1), (2, 1), (2, 1), (9, 1)]);
    let applied = fixture.apply_batch(first.clone()).await;
    assert_eq!(applied.changed, Some(2));
    assert!(applied.ended.is_empty());
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 2]);
    let after = read(&fixture, running.id).await;
    assert_eq!((after.batches, after.changed, after.examined), (1, 2, 10));
    assert_eq!(after.position.as_deref(), Some("after 0 ☂"));
    assert_eq!(after.state, OperationState::Running);
    // The same batch again, as after a lost answer.
    assert_eq!(fixture.apply_batch(first.clone()).await.changed, None);
    for number in [2, -1] {
        let wrong = batch_of(&running, number, REDRIVE, &[(3, 1)]);
        assert_eq!(fixture.apply_batch(wrong).await.changed, None);
    }
    let of_another = OperationBatch {
        number: 1,
        holder: Uuid::new_v4(),
        ..first.clone()
    };
    assert_eq!(fixture.apply_batch(of_another).await.changed, None);
    assert_eq!(read(&fixture, running.id).await, after);
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 2]);
    let last = OperationBatch {
        end: Some(OperationState::Done),
        refused: 3,
        error: Some("no ☂".to_owned()),
        ..batch_of(&running, 1, REDRIVE, &[(3, 1), (4, 7)])
    };
    assert_eq!(fixture.apply_batch(last).await.changed, Some(1));
    let done = read(&fixture, running.id).await;
    assert_eq!((done.batches, done.changed, done.refused), (2, 3, 3));
    assert_eq!((done.state, done.holder), (OperationState::Done, None));
    assert_eq!(done.error.as_deref(), Some("no ☂"));
    assert!(done.end_time.is_some());
    let late = batch_of(&running, 2, REDRIVE, &[(4, 1)]);
    assert_eq!(fixture.apply_batch(late).await.changed, None);
    assert_eq!(fixture.counts().await, [3, 0, 0, 0, 1]);
}

pub(crate) async fn first_error_of_an_operation_stays<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let running = Running::start(&fixture, OperationKind::Purge).await;
    let change = || ItemChange::Purge(State::Dead);
    for (number, error) in [(0, None), (1, Some("first")), (2, Some("second"))] {
        let batch = OperationBatch {
            error: error.map(str::to_owned),
            refused: 1,
            ..batch_of(&running, number, change(), &[])
        };
        assert_eq!(fixture.apply_batch(batch).await.changed, Some(0));
    }
    let long = "🦀".repeat(3_000);
    let last = OperationBatch {
        end: Some(OperationState::Failed),
        error: Some(long.clone()),
        ..batch_of(&running, 3, change(), &[])
    };
    assert_eq!(fixture.apply_batch(last).await.changed, Some(0));
    let failed = read(&fixture, running.id).await;
    assert_eq!(failed.state, OperationState::Failed);
    assert_eq!(
        (failed.error.as_deref(), failed.refused),
        (Some("first"), 3)
    );
    let running = Running::start(&fixture, OperationKind::Purge).await;
    let only = OperationBatch {
        error: Some(long.clone()),
        ..batch_of(&running, 0, change(), &[])
    };
    fixture.apply_batch(only).await;
    let error = read(&fixture, running.id).await.error.expect("an error");
    assert!(long.starts_with(&error) && !error.is_empty());
}

pub(crate) async fn cancelled_operation_changes_nothing<H: Harness>() {
    let fixture = dead_items::<H>(2).await;
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let cancelled = fixture.store.cancel_operation(running.id, "anna").await;
    cancelled.expect("an answer").expect("the operation");
    let before = fixture.snapshot().await;
    let batch = batch_of(&running, 0, REDRIVE, &[(1, 1), (2, 1)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, None);
    assert_eq!(fixture.snapshot().await, before);
    assert!(!takes(&fixture, running.id, running.holder, LONGEST_HOLD).await);
}

pub(crate) async fn redriven_items_can_be_delayed_and_keep_attempts<H: Harness>() {
    let mirror = |state, value: &str| mirror(state, "payload", MirrorValue::Literal(text(value)));
    let fixture = Fixture::<H>::with(4, |spec| {
        spec.max_checkpoint_bytes = Some(100);
        spec.mirror = vec![
            mirror(State::Ready, "ready"),
            mirror(State::Delayed, "delayed"),
            mirror(State::Dead, "dead"),
        ];
    })
    .await;
    for item in fixture.claim(4).await {
        let settlement = lease_broker_store::Settlement {
            checkpoint: Some(b"half".to_vec()),
            ..lease_broker_store::Settlement::new(item.lease, fail(None))
        };
        let settled = fixture.store.settle(fixture.queue, [settlement].into());
        settled.await.expect("settled");
    }
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let changes = [
        (1, Duration::ZERO, false, Checkpoints::Keep),
        (2, Duration::ZERO, true, Checkpoints::Clear),
        (3, 10 * DAY, false, Checkpoints::Clear),
    ];
    for (number, (id, delay, keep_attempts, checkpoints)) in (0..).zip(changes) {
        let change = ItemChange::Redrive {
            delay,
            keep_attempts,
            checkpoints,
        };
        let applied = fixture
            .apply_batch(batch_of(&running, number, change, &[(id, 1)]))
            .await;
        assert_eq!(applied.changed, Some(1));
    }
    for (id, state, attempt, bytes, payload) in [
        (1, State::Ready, 0, Some(4), "ready"),
        (2, State::Ready, 1, None, "ready"),
        (3, State::Delayed, 0, None, "delayed"),
        (4, State::Dead, 1, Some(4), "dead"),
    ] {
        let key = Key([Value::Int(id)].into());
        let record = fixture.reads.read_item(fixture.queue, key).await;
        let record = record.expect("a read").expect("the item");
        assert_eq!(record.item.state, Some(state), "{id}");
        assert_eq!(record.item.listed.attempt, attempt, "{id}");
        assert_eq!(record.checkpoint_bytes, bytes, "{id}");
        assert_eq!(record.columns[1].1, text(payload), "{id}");
        let due_in = record.item.listed.due_in;
        let is_about = |due| due > 9 * DAY && due <= 10 * DAY;
        assert_eq!(due_in.is_some_and(is_about), id == 3, "{due_in:?}");
    }
}

pub(crate) async fn item_that_changed_since_it_was_found_stays<H: Harness>() {
    let fixture = dead_items::<H>(3).await;
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let first = batch_of(&running, 0, REDRIVE, &[(1, 1)]);
    assert_eq!(fixture.apply_batch(first).await.changed, Some(1));
    let lease = fixture.one().await.lease;
    assert_eq!(lease.fence, 2);
    let before = fixture.snapshot().await;
    // Item 1 is leased now. Items 2 and 3 are named with other fencing tokens.
    let batch = batch_of(&running, 1, REDRIVE, &[(1, 1), (1, 2), (2, 0), (3, 2)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(0));
    let purge = ItemChange::Purge(State::Completed);
    let batch = batch_of(&running, 2, purge, &[(1, 2), (2, 1)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(0));
    let batch = batch_of(
        &running,
        3,
        cancel(Duration::ZERO, false),
        &[(1, 1), (2, 1)],
    );
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(0));
    assert_eq!(fixture.snapshot().await, before);
}

pub(crate) async fn redrive_never_meets_items_that_died_later<H: Harness>() {
    let fixture = dead_items::<H>(2).await;
    // The item dies again after the operation was stored.
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let first = batch_of(&running, 0, REDRIVE, &[(1, 1)]);
    assert_eq!(fixture.apply_batch(first).await.changed, Some(1));
    tokio::time::sleep(Duration::from_millis(5)).await;
    kill(&fixture, 1).await;
    let search = ItemSearch {
        state: State::Dead,
        filter: lease_broker_store::ItemFilter::default(),
        not_since: Some(read(&fixture, running.id).await.create_time),
        after: None,
        newest_first: false,
        limit: 10,
        max_examined: 10,
    };
    let found = fixture.reads.find_items(fixture.queue, search).await;
    let found = found.expect("a page").items;
    let keys: Vec<_> = found
        .iter()
        .map(|item| item.listed.key.to_string())
        .collect();
    assert_eq!(keys, ["2"]);
    let second = batch_of(&running, 1, REDRIVE, &[(1, 2), (2, 1)]);
    assert_eq!(fixture.apply_batch(second).await.changed, Some(1));
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 1]);
}

pub(crate) async fn items_from_before_the_clock_was_put_back_are_changed<H: Harness>() {
    let fixture = dead_items::<H>(2).await;
    fixture.insert([3]).await;
    let year_2100 = match H::unknown_time() {
        Value::Timestamp { .. } => Value::Timestamp {
            seconds: 4_102_444_800,
            nanos: 0,
        },
        _ => Value::Int(4_102_444_800_000),
    };
    let put_forward = async |id: i64| {
        let time = ("lease_state_time", year_2100.clone());
        let condition = ("id", Value::Int(id));
        fixture.harness.update("item", time, condition).await;
    };
    put_forward(1).await;
    fixture.one().await;
    put_forward(3).await;

    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let search = ItemSearch {
        not_since: Some(read(&fixture, running.id).await.create_time),
        ..search(State::Dead)
    };
    assert_eq!(keys(&find_all(&fixture, search).await), ["2", "1"]);
    let batch = batch_of(&running, 0, REDRIVE, &[(1, 1), (2, 1)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(2));

    let running = Running::start(&fixture, OperationKind::CancelLeases).await;
    let batch = batch_of(&running, 0, cancel(Duration::ZERO, true), &[(3, 1)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(1));
    put_forward(3).await;
    let running = Running::start(&fixture, OperationKind::Purge).await;
    let batch = batch_of(&running, 0, ItemChange::Purge(State::Dead), &[(3, 1)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(1));
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 0]);
}

pub(crate) async fn cancelled_leases_are_reported<H: Harness>() {
    let fixture = Fixture::<H>::with(5, |queue| queue.retry.max_attempts = Some(2)).await;
    let item = fixture.one().await;
    fixture
        .settle(&item.lease, fail(Some(Duration::ZERO)))
        .await;
    fixture.reap(9).await;
    let leases = fixture.claim(4).await;
    let running = Running::start(&fixture, OperationKind::CancelLeases).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let later = fixture.one().await.lease;
    assert_eq!((later.fence, later.key.to_string()), (1, "5".to_owned()));
    // Item 5 was claimed after the operation was stored.
    let items = [(1, 2), (2, 1), (5, 1)];
    let batch = batch_of(&running, 0, cancel(MINUTE, false), &items);
    let applied = fixture.apply_batch(batch).await;
    assert_eq!(applied.changed, Some(2));
    let mut ended = applied.ended;
    ended.sort_by_key(|ended| ended.lease.key.to_string());
    // The first item has used its attempts.
    let states: Vec<State> = ended.iter().map(|ended| ended.state).collect();
    assert_eq!(states, [State::Dead, State::Delayed]);
    for (ended, leased) in ended.iter().zip(&leases) {
        assert_eq!(ended.lease.token, leased.lease.token);
        assert_eq!(ended.owner.as_deref(), Some("worker"));
        assert_eq!(fixture.heartbeat(&leased.lease, HOUR).await, None);
    }
    let dead = fixture.list(State::Dead).await.remove(0);
    assert_eq!(dead.error.as_deref(), Some("the host is gone"));
    let batch = batch_of(&running, 1, cancel(Duration::ZERO, true), &[(3, 1)]);
    let applied = fixture.apply_batch(batch).await;
    assert_eq!(applied.ended[0].state, State::Dead);
    assert!(fixture.heartbeat(&later, HOUR).await.is_some());
    assert_eq!(fixture.counts().await, [0, 2, 1, 0, 2]);
    assert_eq!(read(&fixture, running.id).await.changed, 3);
}

pub(crate) async fn purged_items_are_gone<H: Harness>() {
    let fixture = Fixture::<H>::items(4).await;
    let items = fixture.claim(3).await;
    fixture.settle(&items[0].lease, complete()).await;
    fixture.settle(&items[1].lease, fail(None)).await;
    let running = Running::start(&fixture, OperationKind::Purge).await;
    let all = [(1, 1), (2, 1), (3, 1), (4, 0)];
    let batch = batch_of(&running, 0, ItemChange::Purge(State::Completed), &all);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(1));
    let batch = batch_of(&running, 1, ItemChange::Purge(State::Dead), &all);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(1));
    let left = fixture.harness.rows("item", &["id"]).await;
    assert_eq!(left, [[Value::Int(3)], [Value::Int(4)]]);
}

pub(crate) async fn refused_batch_changes_and_counts_nothing<H: Harness>() {
    let fixture = dead_items::<H>(3).await;
    let child = format!(
        "CREATE TABLE child (id {} NOT NULL PRIMARY KEY REFERENCES item (id))",
        H::declare(Kind::BigInt)
    );
    fixture.harness.run_sql(&child).await.expect("a table");
    let row = [("id", Value::Int(2))];
    fixture.harness.insert("child", &row).await;
    let running = Running::start(&fixture, OperationKind::Purge).await;
    let before = read(&fixture, running.id).await;
    let purge = || ItemChange::Purge(State::Dead);
    let batch = batch_of(&running, 0, purge(), &[(1, 1), (2, 1), (3, 1)]);
    let applied = fixture.store.apply_batch(fixture.queue, batch).await;
    rejected(applied);
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 3]);
    assert_eq!(read(&fixture, running.id).await, before);
    let batch = batch_of(&running, 0, purge(), &[(1, 1), (3, 1)]);
    assert_eq!(fixture.apply_batch(batch).await.changed, Some(2));
}

pub(crate) async fn batch_sent_by_many_is_applied_once<H: Harness>() {
    const CALLS: usize = 6;

    let fixture = dead_items::<H>(10).await;
    let running = Running::start(&fixture, OperationKind::Redrive).await;
    let items: Vec<(i64, i64)> = (1..=10).map(|id| (id, 1)).collect();
    let batch = batch_of(&running, 0, REDRIVE, &items);
    let calls = (0..CALLS).map(|_| {
        let (broker, batch) = ((*fixture).clone(), batch.clone());
        tokio::spawn(async move { broker.apply_batch(batch).await.changed })
    });
    let mut changed = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        changed.extend(call.await.expect("no panic"));
    }
    assert_eq!(changed, [10]);
    assert_eq!(read(&fixture, running.id).await.changed, 10);
}
