//! Retention: deletion of items that ended long ago, old archived rows, and the turns of brokers.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{KeepFor, OnComplete};
use lease_broker_store::schema::Step;
use lease_broker_store::{ArchiveCutoff, LatestTime, PurgeStep, RetentionTurn};
use lease_broker_value::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::errors::misconfigured;
use crate::harness::fixture::{Broker, Fixture, HOUR, MINUTE, complete, fail, queue, text};
use crate::harness::table::{Kind, Table};

/// Walks through the whole table with steps of `limit` rows. Returns the number of old items and of steps.
pub(crate) async fn walk(
    broker: &Broker,
    keep_for: KeepFor,
    limit: usize,
    delete: bool,
) -> (usize, usize) {
    let (mut old, mut steps, mut after) = (0, 0, None);
    loop {
        let step = PurgeStep {
            after,
            completed: keep_for.completed,
            dead: keep_for.dead,
            latest: None,
            limit,
            delete,
        };
        let purged = broker.store.purge(broker.queue, step).await.expect("purge");
        old += purged.old;
        match purged.last {
            None => return (old, steps),
            last => after = last,
        }
        steps += 1;
    }
}

pub(crate) fn completed(age: Duration) -> KeepFor {
    KeepFor {
        completed: Some(age),
        ..KeepFor::default()
    }
}

/// Returns a fixture with an index of completed items, if `completed_index`, and 10 items: 1 to 3 were completed and 4 died two hours ago, 5 was completed and 6 died now, 7 is
/// leased, 8 is delayed, and 9 and 10 are ready.
async fn items_of_every_state<H: Harness>(completed_index: bool) -> Fixture<H> {
    let fixture = Fixture::<H>::with(10, |spec| {
        (spec.retry.max_attempts, spec.completed_index) = (None, completed_index);
    })
    .await;
    let items = fixture.claim_for(8, 3 * HOUR).await;
    for item in &items[..3] {
        fixture.complete(&item.lease).await;
    }
    fixture.settle(&items[3].lease, fail(None)).await;
    fixture.advance(2 * HOUR).await;
    fixture.complete(&items[4].lease).await;
    fixture.settle(&items[5].lease, fail(None)).await;
    fixture.settle(&items[7].lease, fail(Some(HOUR))).await;
    fixture
}

async fn ids<H: Harness>(fixture: &Fixture<H>) -> Vec<i64> {
    let rows = fixture.harness.rows("item", &["id"]).await;
    let id = |row: Vec<Value>| match row[..] {
        [Value::Int(id)] => id,
        _ => panic!("{row:?}"),
    };
    rows.into_iter().map(id).collect()
}

pub(crate) async fn only_old_items_of_the_given_state_are_deleted<H: Harness>() {
    let fixture = items_of_every_state::<H>(false).await;
    assert_eq!(walk(&fixture, completed(HOUR), 500, true).await, (3, 1));
    assert_eq!(ids(&fixture).await, [4, 5, 6, 7, 8, 9, 10]);
    let dead = KeepFor {
        dead: Some(HOUR),
        ..KeepFor::default()
    };
    assert_eq!(walk(&fixture, dead, 500, true).await.0, 1);
    assert_eq!(ids(&fixture).await, [5, 6, 7, 8, 9, 10]);
    let never = KeepFor::default();
    assert_eq!(walk(&fixture, never, 500, true).await.0, 0);
    assert_eq!(fixture.counts().await, [2, 1, 1, 1, 1]);
}

pub(crate) async fn count_without_deletion_changes_nothing<H: Harness>() {
    let fixture = items_of_every_state::<H>(false).await;
    let both = KeepFor {
        dead: Some(HOUR),
        ..completed(HOUR)
    };
    assert_eq!(walk(&fixture, both, 500, false).await.0, 4);
    assert_eq!(walk(&fixture, both, 3, false).await, (4, 4));
    assert_eq!(ids(&fixture).await.len(), 10);
    assert_eq!(walk(&fixture, both, 500, true).await.0, 4);
    assert_eq!(walk(&fixture, both, 500, false).await.0, 0);
}

pub(crate) async fn small_steps_visit_every_row_once<H: Harness>() {
    let fixture = items_of_every_state::<H>(false).await;
    assert_eq!(walk(&fixture, completed(MINUTE), 1, true).await, (3, 10));
    assert_eq!(walk(&fixture, completed(MINUTE), 1, true).await, (0, 7));
}

pub(crate) async fn index_of_completed_items_finds_the_old_ones<H: Harness>() {
    let fixture = items_of_every_state::<H>(true).await;
    let both = KeepFor {
        dead: Some(HOUR),
        ..completed(HOUR)
    };
    // Rows that are not old are not visited. The three completed ones have the same time if the clock stands still.
    assert_eq!(walk(&fixture, both, 1, false).await, (4, 4));
    assert_eq!(walk(&fixture, both, 3, false).await, (4, 2));
    assert_eq!(walk(&fixture, completed(HOUR), 2, true).await, (3, 2));
    assert_eq!(ids(&fixture).await, [4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(walk(&fixture, both, 500, true).await, (1, 1));
    assert_eq!(walk(&fixture, both, 500, true).await, (0, 0));
    assert_eq!(ids(&fixture).await, [5, 6, 7, 8, 9, 10]);
}

/// A column cannot be dropped while an index has it.
pub(crate) async fn index_of_completed_items_goes_with_the_columns<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let mut spec = fixture.queues[0].clone();
    spec.completed_index = true;
    let missing = fixture.harness.check(&spec).await.expect("check");
    assert!(
        missing.len() == 1 && missing[0].contains("_lease_completed"),
        "{missing:?}"
    );
    fixture.harness.apply(&spec).await.expect("apply");
    assert_eq!(fixture.harness.check(&spec).await, Ok(Vec::new()));
    assert_eq!(fixture.harness.plan(&spec).await.expect("plan").len(), 0);
    spec.completed_index = false;
    let steps = fixture
        .harness
        .plan_removal(&spec)
        .await
        .expect("a plan")
        .steps;
    let drops =
        |step: &Step| step.sql.contains("DROP INDEX") && step.sql.contains("_lease_completed");
    assert!(steps.iter().any(drops), "{steps:?}");
}

pub(crate) async fn purged_lease_is_gone_when_it_is_settled_again<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    fixture.complete(&lease).await;
    fixture.advance(2 * HOUR).await;
    walk(&fixture, completed(HOUR), 500, true).await;
    let settled = fixture.try_settle(vec![(&lease, complete())]).await;
    assert_eq!(
        settled.expect("settle"),
        [lease_broker_store::Settled::Gone]
    );
}

/// Completes rows with these keys and deletes them, one row per step: in the order of the key, and in that of the time.
async fn check_keys<H: Harness>(kinds: &[Kind], rows: &[Vec<Value>]) {
    check_walk::<H>(kinds, rows, false).await;
    check_walk::<H>(kinds, rows, true).await;
}

async fn check_walk<H: Harness>(kinds: &[Kind], rows: &[Vec<Value>], completed_index: bool) {
    const NAMES: [&str; 3] = ["first", "second", "third"];

    let mut spec = queue("item");
    let names = &NAMES[..kinds.len()];
    spec.key = names.iter().map(ToString::to_string).collect();
    spec.completed_index = completed_index;
    let table = names.iter().zip(kinds);
    let table = table.fold(Table::new("item"), |table, (name, kind)| {
        table.required(name, *kind)
    });
    let fixture = Fixture::<H>::over(&[table.key(names)], vec![spec]).await;
    for row in rows {
        let row: Vec<_> = NAMES.into_iter().zip(row.iter().cloned()).collect();
        fixture.harness.insert("item", &row).await;
    }
    let items = fixture.claim(rows.len()).await;
    assert_eq!(items.len(), rows.len());
    let ended = items[1..].iter().map(|item| (&item.lease, complete()));
    fixture.try_settle(ended.collect()).await.expect("settle");
    fixture.advance(2 * HOUR).await;
    let deleted = walk(&fixture, completed(HOUR), 1, true).await;
    let old = rows.len() - 1;
    let visited = if completed_index { old } else { rows.len() };
    assert_eq!(deleted, (old, visited), "{kinds:?}");
    assert_eq!(fixture.harness.rows("item", names).await.len(), 1);
}

pub(crate) async fn walk_follows_keys_of_every_kind<H: Harness>() {
    let int = Value::Int;
    check_keys::<H>(
        &[Kind::Text],
        &["", "a", "A\"b", "é", "z\\", "日本"].map(|key| vec![text(key)]),
    )
    .await;
    let bytes = [&[0_u8, 1][..], &[7], &[255, 0, 3]];
    check_keys::<H>(
        &[Kind::Blob],
        &bytes.map(|key| vec![Value::Bytes(key.to_vec())]),
    )
    .await;
    let mut rows = Vec::new();
    for first in [-1, 2] {
        for second in ["a", "b"] {
            for third in [i64::MIN, 0, 7] {
                rows.push(vec![int(first), text(second), int(third)]);
            }
        }
    }
    check_keys::<H>(&[Kind::Int, Kind::Text, Kind::BigInt], &rows).await;
}

fn older_than(age: Duration) -> ArchiveCutoff {
    ArchiveCutoff::Age { age, latest: None }
}

fn archiving() -> impl FnOnce(&mut lease_broker_model::queue::QueueSpec) {
    |spec| {
        spec.on_complete = OnComplete::Archive("item archive".to_owned());
        spec.keep_for.archive = Some(HOUR);
    }
}

pub(crate) async fn old_archived_rows_are_deleted_up_to_the_limit<H: Harness>() {
    let fixture = Fixture::<H>::with(5, archiving()).await;
    for item in fixture.claim(4).await {
        fixture.complete(&item.lease).await;
    }
    let (store, queue) = (&fixture.store, fixture.queue);
    let (hour, now) = (older_than(HOUR), older_than(Duration::ZERO));
    assert_eq!(store.purge_archive(queue, hour, 500).await, Ok(0));
    assert_eq!(store.purge_archive(queue, now, 3).await, Ok(3));
    assert_eq!(fixture.harness.rows("item archive", &["id"]).await.len(), 1);
    assert_eq!(store.purge_archive(queue, now, 3).await, Ok(1));
    assert_eq!(store.purge_archive(queue, now, 3).await, Ok(0));
    assert_eq!(ids(&fixture).await, [5]);
}

pub(crate) async fn archived_rows_are_deleted_up_to_the_moment<H: Harness>() {
    let fixture = Fixture::<H>::with(4, archiving()).await;
    for item in fixture.claim(4).await {
        fixture.complete(&item.lease).await;
    }
    let now = fixture.reap(1).await.time.expect("the time of the store");
    let (store, queue) = (&fixture.store, fixture.queue);
    for (minutes, rows) in [(-5, 0), (5, 4)] {
        let before = now + minutes * 60_000;
        assert_eq!(store.count_archived(queue, before).await, Ok(rows));
        let cutoff = ArchiveCutoff::Time(before);
        let deleted = store.purge_archive(queue, cutoff, 500).await;
        assert_eq!(deleted.expect("a purge") as u64, rows);
    }
}

pub(crate) async fn archive_without_its_index_is_refused<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| {
        spec.on_complete = OnComplete::Archive("done".to_owned());
    })
    .await;
    let refused = fixture
        .store
        .purge_archive(fixture.queue, older_than(HOUR), 500)
        .await;
    misconfigured(refused);
    let mut spec = fixture.queues[0].clone();
    spec.keep_for.archive = Some(HOUR);
    let missing = fixture.harness.check(&spec).await.expect("check");
    assert!(
        missing.len() == 1 && missing[0].contains("keep_for.archive"),
        "{missing:?}"
    );
    fixture.harness.apply(&spec).await.expect("apply");
    assert_eq!(fixture.harness.check(&spec).await, Ok(Vec::new()));
    assert_eq!(fixture.harness.plan(&spec).await.expect("plan").len(), 0);
}

pub(crate) async fn one_broker_at_a_time_has_the_turn<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let other = fixture.another().await;
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let take = async |broker: &Broker, id, duration| {
        let turn = broker.store.take_retention_turn(broker.queue, id, duration);
        turn.await.expect("a turn")
    };
    assert_eq!(take(&fixture, first, HOUR).await, RetentionTurn::Taken);
    match take(&other, second, HOUR).await {
        RetentionTurn::Busy(time_left) => {
            assert!(
                time_left > 50 * MINUTE && time_left <= HOUR,
                "{time_left:?}"
            );
        }
        RetentionTurn::Taken => panic!("two brokers have the turn"),
    }
    // The broker that has the turn ends it.
    let millisecond = Duration::from_millis(1);
    assert_eq!(
        take(&fixture, first, millisecond).await,
        RetentionTurn::Taken
    );
    while take(&other, second, HOUR).await != RetentionTurn::Taken {}
    assert_ne!(take(&fixture, first, HOUR).await, RetentionTurn::Taken);
}

pub(crate) async fn turn_from_before_the_clock_was_put_back_is_free<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let take = async |duration| {
        let turn = fixture
            .store
            .take_retention_turn(fixture.queue, Uuid::new_v4(), duration);
        turn.await.expect("a turn")
    };
    assert_eq!(take(25 * HOUR).await, RetentionTurn::Taken);
    assert_eq!(take(HOUR).await, RetentionTurn::Taken);
    assert_ne!(take(HOUR).await, RetentionTurn::Taken);
}

/// For the store's clock the items are two hours old. For a clock that is 90 minutes behind they are not old yet, and for one that is three
/// hours behind they have not ended yet.
pub(crate) async fn clock_that_is_ahead_makes_no_item_old<H: Harness>() {
    let fixture = Fixture::<H>::with(5, archiving()).await;
    for (item, ending) in fixture.claim(4).await.iter().zip([0, 0, 1, 1]) {
        let ending = [complete(), fail(None)][ending].clone();
        fixture.settle(&item.lease, ending).await;
    }
    fixture.advance(2 * HOUR).await;
    let time = fixture.reap(1).await.time.expect("the time of the store");
    let behind = |minutes: i64| Some(LatestTime::new(time - minutes * 60_000, Instant::now()));
    let (store, queue) = (&fixture.store, fixture.queue);
    for (latest, dead) in [(behind(90), 0), (behind(0), 2)] {
        let step = PurgeStep {
            after: None,
            completed: None,
            dead: Some(HOUR),
            latest,
            limit: 500,
            delete: true,
        };
        assert_eq!(store.purge(queue, step).await.expect("purge").old, dead);
    }
    for (latest, archived) in [(behind(180), 0), (behind(0), 2)] {
        let age = Duration::ZERO;
        let cutoff = ArchiveCutoff::Age { age, latest };
        let deleted = store.purge_archive(queue, cutoff, 9);
        assert_eq!(deleted.await, Ok(archived));
    }
}

pub(crate) async fn item_redriven_during_the_walk_stays<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    for item in fixture.claim(2).await {
        fixture.settle(&item.lease, fail(None)).await;
    }
    fixture.advance(2 * HOUR).await;
    assert_eq!(fixture.redrive(1).await, 1);
    let step = PurgeStep {
        after: None,
        completed: None,
        dead: Some(HOUR),
        latest: None,
        limit: 500,
        delete: true,
    };
    let purged = fixture.store.purge(fixture.queue, step).await;
    assert_eq!(purged.expect("purge").old, 1);
    assert_eq!(fixture.counts().await[State::Ready as usize], 1);
}
