//! The facts that tell an operator why an item is not being claimed, and stores that only read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_broker::why::{Cause, causes};
use lease_broker_model::group::{GroupOrder, QueueLimits};
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Order, QueueSpec};
use lease_broker_model::rate::Rate;
use lease_broker_store::{
    Ahead, Browse, ForeignLock, Instance, ItemFacts, ItemRow, NewItem, NewPause, PauseMode,
    QueueIndex, SettingsHash,
};
use lease_broker_value::Value;
use uuid::Uuid;

use super::groups::{grouped, items as group_items};
use super::named_groups::of;
use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, SECOND, about, by, fail, item_table, new_item, queue, release, text,
};
use crate::harness::table::{Kind, Table};

const QUEUE: QueueIndex = QueueIndex(0);

async fn facts(store: &Arc<dyn Browse>, key: &str) -> ItemFacts {
    let key = store.parse_key(QUEUE, key).expect("a key");
    store.item_facts(QUEUE, key).await.expect("facts")
}

async fn row(store: &Arc<dyn Browse>, key: &str) -> ItemRow {
    facts(store, key).await.row.expect("a row")
}

async fn ahead(store: &Arc<dyn Browse>, key: &str) -> Option<Ahead> {
    row(store, key).await.ahead
}

/// Returns the names of the causes for which the item with this key is not claimed.
async fn causes_of<H: Harness>(fixture: &Fixture<H>, key: &str) -> Vec<&'static str> {
    let facts = facts(&fixture.reads, key).await;
    let causes = causes(&facts, &fixture.queues[0]);
    causes.iter().map(Cause::name).collect()
}

/// Lists a broker that serves the queues.
async fn announce<H: Harness>(fixture: &Fixture<H>) {
    let settings = |queue: &QueueSpec| (queue.name.clone(), SettingsHash::new(queue));
    let instance = Instance {
        id: Uuid::new_v4(),
        version: "0.2.0".to_owned(),
        address: "a:1".to_owned(),
        draining: false,
        settings: fixture.queues.iter().map(settings).collect(),
        activity: BTreeMap::new(),
    };
    let announced = fixture.store.announce(Arc::new(instance)).await;
    announced.expect("announced");
}

pub(crate) async fn each_state_is_a_cause<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    let items = fixture.claim(5).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, fail(None)).await;
    fixture.settle(&items[2].lease, fail(Some(HOUR))).await;
    fixture.settle(&items[3].lease, release(HOUR)).await;
    announce(&fixture).await;
    for (key, cause) in [
        ("1", "completed"),
        ("2", "dead"),
        ("3", "delayed"),
        ("4", "delayed"),
        ("5", "leased"),
        ("6", "first"),
        ("7", "no_row"),
    ] {
        assert_eq!(causes_of(&fixture, key).await, [cause], "{key}");
    }
    let dead = row(&fixture.reads, "2").await;
    assert_eq!(dead.state, Some(State::Dead));
    assert_eq!(dead.owner.as_deref(), Some("worker"));
    assert_eq!(dead.error.as_deref(), Some("no luck"));
    assert_eq!((dead.attempt, dead.fence, dead.due_time), (1, 1, None));
    assert_eq!(dead.ahead, None);
    assert!(dead.state_time.is_some());
}

pub(crate) async fn lease_tells_its_worker_and_its_end<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    fixture.claim_for(1, HOUR).await;
    fixture.advance(10 * MINUTE).await;
    announce(&fixture).await;
    let held = facts(&fixture.reads, "1").await;
    let lease = held.row.clone().expect("a row");
    assert_eq!(lease.owner.as_deref(), Some("worker"));
    let millis = |from: i64, to: i64| Duration::from_millis((to - from).unsigned_abs());
    let left = millis(held.now, lease.due_time.expect("a due time"));
    assert!(about(left, 50 * MINUTE), "{left:?}");
    let age = millis(lease.state_time.expect("a claim time"), held.now);
    assert!(age >= 10 * MINUTE && age < 11 * MINUTE, "{age:?}");
    fixture.advance(HOUR).await;
    announce(&fixture).await;
    assert_eq!(causes_of(&fixture, "1").await, ["lease_expired"]);
    fixture.reap(9).await;
    assert_eq!(causes_of(&fixture, "1").await, ["suspect"]);
}

pub(crate) async fn delay_that_is_over_waits_for_the_reaper<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let item = fixture.one().await;
    fixture.settle(&item.lease, release(MINUTE)).await;
    fixture.advance(HOUR).await;
    announce(&fixture).await;
    assert_eq!(causes_of(&fixture, "1").await, ["delay_over"]);
}

pub(crate) async fn items_ahead_follow_the_order_of_claims<H: Harness>() {
    for filtered in [true, false] {
        let table = Table::new("item")
            .required("id", Kind::BigInt)
            .column("rank", Kind::Int)
            .key(&["id"]);
        let mut spec = queue("item");
        (spec.order, spec.filtered_indexes) = (by(&["-rank"]), filtered);
        let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
        for (id, rank) in [(1, Some(1)), (2, Some(3)), (3, None), (4, Some(2))] {
            let rank = rank.map_or(Value::Null, Value::Int);
            let row = [("id", Value::Int(id)), ("rank", rank)];
            fixture.harness.insert("item", &row).await;
        }
        let store = &fixture.reads;
        // Each claim takes the item that the facts have called the first.
        for left in (1..=4_usize).rev() {
            let mut places = Vec::new();
            for key in ["1", "2", "3", "4"] {
                let row = row(store, key).await;
                assert_eq!(row.ahead.is_some(), row.state == Some(State::Ready));
                places.extend(row.ahead.map(|ahead| (ahead, key)));
            }
            let first = |&(ahead, _): &(Ahead, _)| ahead == Ahead::Exactly(0);
            let first = places
                .iter()
                .find(|place| first(place))
                .expect("a first item");
            let claimed = fixture.one().await.lease.key.to_string();
            assert_eq!(claimed, first.1);
            let mut numbers: Vec<usize> = places
                .iter()
                .map(|(ahead, _)| match ahead {
                    Ahead::Exactly(items) => *items,
                    Ahead::AtLeast(_) => panic!("{places:?}"),
                })
                .collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..left).collect::<Vec<_>>());
        }
    }
}

pub(crate) async fn items_without_an_order_have_a_place<H: Harness>() {
    let fixture = Fixture::<H>::with(3, |spec| spec.order = Order::None).await;
    announce(&fixture).await;
    let mut places = Vec::new();
    for key in ["1", "2", "3"] {
        places.push(ahead(&fixture.reads, key).await);
    }
    for place in 0..3 {
        assert!(places.contains(&Some(Ahead::Exactly(place))), "{places:?}");
    }
}

pub(crate) async fn more_than_1000_items_ahead_are_at_least_1000<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let items = (1..=1_002).map(|id| new_item(&[("id", Value::Int(id))]));
    let items: Vec<NewItem> = items.collect();
    for items in items.chunks(501) {
        fixture.try_enqueue(items.to_vec()).await.expect("added");
    }
    let store = &fixture.reads;
    assert_eq!(ahead(store, "1").await, Some(Ahead::Exactly(0)));
    assert_eq!(ahead(store, "1001").await, Some(Ahead::Exactly(1_000)));
    assert_eq!(ahead(store, "1002").await, Some(Ahead::AtLeast(1_000)));
}

pub(crate) async fn facts_are_found_by_a_composite_key<H: Harness>() {
    let table = Table::new("item")
        .required("area", Kind::Text)
        .required("number", Kind::Int)
        .key(&["area", "number"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    for (area, number) in [("a\"", 1), ("a\"", 2), ("b", 1)] {
        let row = [("area", text(area)), ("number", Value::Int(number))];
        fixture.harness.insert("item", &row).await;
    }
    let store = &fixture.reads;
    for (key, place) in [("[\"a\\\"\",1]", 0), ("[\"a\\\"\",2]", 1), ("[\"b\",1]", 2)] {
        assert_eq!(
            ahead(store, key).await,
            Some(Ahead::Exactly(place)),
            "{key}"
        );
    }
    assert_eq!(facts(store, "[\"b\",2]").await.row, None);
}

pub(crate) async fn rows_with_a_null_key_explain_a_missing_row<H: Harness>() {
    let table = item_table("item")
        .column("code", Kind::Text)
        .unique(&["code"]);
    let mut spec = queue("item");
    spec.key = vec!["code".to_owned()];
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let row = [("id", Value::Int(2)), ("code", text("a"))];
    fixture.harness.insert("item", &row).await;
    assert!(!facts(&fixture.reads, "b").await.has_null_keys);
    fixture.insert([1]).await;
    let absent = facts(&fixture.reads, "b").await;
    assert_eq!(causes(&absent, &fixture.queues[0]), [Cause::NoRow(true)]);
    let present = facts(&fixture.reads, "a").await;
    assert!(!present.has_null_keys);
    let place = present.row.expect("a row").ahead;
    assert_eq!(place, Some(Ahead::Exactly(0)));
}

pub(crate) async fn value_that_is_no_state_is_a_cause<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let wrong = ("lease_state", Value::Int(7));
    let harness = &fixture.harness;
    harness.update("item", wrong, ("id", Value::Int(1))).await;
    assert_eq!(causes_of(&fixture, "1").await, ["unknown_state"]);
}

pub(crate) async fn pause_of_the_queue_comes_before_other_causes<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    announce(&fixture).await;
    let pause = |mode| NewPause {
        mode,
        reason: "no power".to_owned(),
        actor: "anna".to_owned(),
        until: None,
    };
    let (store, queue) = (&fixture.store, fixture.queue);
    let paused = store.pause(queue, pause(PauseMode::Enqueue)).await;
    paused.expect("paused");
    assert_eq!(causes_of(&fixture, "1").await, ["first"]);
    let paused = store.pause(queue, pause(PauseMode::Claims)).await;
    let facts = facts(store.reads(), "1").await;
    assert_eq!(facts.pause, Some(paused.expect("paused")));
    assert_eq!(causes_of(&fixture, "1").await, ["paused"]);
    assert_eq!(causes_of(&fixture, "2").await, ["paused", "behind"]);
    store.resume(queue).await.expect("resumed");
    assert_eq!(causes_of(&fixture, "1").await, ["first"]);
}

pub(crate) async fn item_that_holds_its_group_back_is_named<H: Harness>() {
    let halting = GroupOrder::Strict {
        halts: true,
        run: 1,
    };
    let fixture = group_items::<H>(grouped(halting), &["a", "a", "b", ""]).await;
    announce(&fixture).await;
    assert_eq!(causes_of(&fixture, "1").await, ["first"]);
    assert_eq!(causes_of(&fixture, "2").await, ["behind"]);
    let first = fixture.claim_by(of(&["a"], 1)).await.remove(0).lease;
    let holder = async || {
        let facts = facts(&fixture.reads, "2").await;
        let head = facts.group.expect("a group").head.expect("an item");
        assert_eq!(head.key, first.key);
        causes_of(&fixture, "2").await
    };
    assert_eq!(holder().await, ["group_leased"]);
    fixture.settle(&first, fail(Some(HOUR))).await;
    assert_eq!(holder().await, ["group_delayed"]);
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    announce(&fixture).await;
    let again = fixture.claim_by(of(&["a"], 1)).await.remove(0).lease;
    assert_eq!(again.key, first.key);
    fixture.settle(&again, fail(None)).await;
    assert_eq!(holder().await, ["group_halted"]);
    // The dead item does not hold other groups back, nor items without one.
    assert_eq!(causes_of(&fixture, "3").await, ["first"]);
    assert_eq!(causes_of(&fixture, "4").await, ["first"]);
}

pub(crate) async fn full_group_is_named<H: Harness>() {
    let two = GroupOrder::Parallel {
        max_leases: Some(2),
        bursts: false,
    };
    let fixture = group_items::<H>(grouped(two), &["a", "a", "a", "b"]).await;
    announce(&fixture).await;
    fixture.claim_by(of(&["a"], 1)).await;
    assert_eq!(causes_of(&fixture, "3").await, ["behind"]);
    fixture.claim_by(of(&["a"], 1)).await;
    assert_eq!(causes_of(&fixture, "3").await, ["group_full"]);
    assert_eq!(causes_of(&fixture, "4").await, ["first"]);
}

pub(crate) async fn limit_is_named_only_while_it_is_reached<H: Harness>() {
    let rate = Rate {
        items: 1,
        per: MINUTE,
        burst: 2,
    };
    for (max_leases, rate, cause) in [(Some(2), None, "max_leases"), (None, Some(rate), "rate")] {
        let limits = QueueLimits { max_leases, rate };
        let fixture = Fixture::<H>::with(3, |spec| spec.limits = limits).await;
        announce(&fixture).await;
        fixture.claim(1).await;
        assert_eq!(causes_of(&fixture, "2").await, ["first"]);
        fixture.claim(1).await;
        assert_eq!(causes_of(&fixture, "3").await, [cause]);
    }
}

pub(crate) async fn brokers_count_for_15_seconds<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    assert_eq!(causes_of(&fixture, "1").await, ["no_broker"]);
    announce(&fixture).await;
    let known = facts(&fixture.reads, "1").await.brokers.expect("a list");
    assert_eq!((known.len(), &*known[0].address), (1, "a:1"));
    assert_eq!(causes_of(&fixture, "1").await, ["first"]);
    let stranger = Instance {
        id: Uuid::new_v4(),
        settings: BTreeMap::new(),
        activity: std::collections::BTreeMap::new(),
        ..known[0].clone()
    };
    fixture.advance(20 * SECOND).await;
    assert_eq!(causes_of(&fixture, "1").await, ["no_broker"]);
    let announced = fixture.store.announce(Arc::new(stranger)).await;
    announced.expect("announced");
    assert_eq!(causes_of(&fixture, "1").await, ["not_served"]);
}

pub(crate) async fn lock_of_a_foreign_transaction_is_found<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    announce(&fixture).await;
    let change = ("payload", text("changed"));
    let harness = &fixture.harness;
    harness
        .begin_change("item", change, ("id", Value::Int(2)))
        .await;
    let reader = harness
        .open_to_read(&fixture.queues)
        .await
        .expect("a reader");
    let locked = facts(&reader, "2").await;
    let session = match locked.lock.clone().expect("a lock") {
        ForeignLock::Row(session) => session,
        ForeignLock::File => None,
    };
    assert!(session.is_none_or(|session| session.id > 0));
    assert_eq!(
        locked.row.as_ref().and_then(|row| row.state),
        Some(State::Ready)
    );
    let causes = causes(&locked, &fixture.queues[0]);
    assert!(
        causes.iter().any(|cause| cause.name() == "locked"),
        "{causes:?}"
    );
    // The other reads do not wait.
    assert!(reader.stats(QUEUE).await.is_ok());
    assert!(reader.list(QUEUE, State::Ready, 9).await.is_ok());
    harness.undo_change().await;
    announce(&fixture).await;
    assert_eq!(causes_of(&fixture, "2").await, ["behind"]);
}

pub(crate) async fn reader_needs_no_tables_of_the_broker<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let mut spec = queue("item");
    harness.apply(&spec).await.expect("apply");
    let row = [("id", Value::Int(1)), ("payload", text("x"))];
    harness.insert("item", &row).await;
    // A reader does not look at the archive.
    spec.on_complete = lease_broker_model::queue::OnComplete::Archive("missing".to_owned());
    let queues = std::slice::from_ref(&spec);
    let reader = harness.open_to_read(queues).await.expect("a reader");
    let stats = reader.stats(QUEUE).await.expect("stats");
    assert_eq!(stats.count, [1, 0, 0, 0, 0]);
    let listed = reader.list(QUEUE, State::Ready, 9).await.expect("list");
    assert_eq!(listed.len(), 1);
    let facts = facts(&reader, "1").await;
    assert_eq!(facts.row.expect("a row").ahead, Some(Ahead::Exactly(0)));
    assert!(facts.brokers.is_none_or(|brokers| brokers.is_empty()));
    let created = harness
        .run_sql("SELECT 1 FROM lease_broker_migration")
        .await;
    assert!(created.is_err(), "the reader has created tables");
}

pub(crate) async fn reader_refuses_a_table_that_is_not_adopted<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let refused = harness.open_to_read(&[queue("item")]).await;
    let error = refused.map(drop).expect_err("no soft-lock columns");
    assert!(error.to_string().contains("lease_state"), "{error}");
}
