//! Enqueue with a request id: the items are added once, however often the request is sent.

use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{EnqueuedOnce, NewItem, StoreError};
use lease_broker_value::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::errors::rejected;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, item_table, new_item, queue, text};
use crate::harness::table::{Kind, Table};

const ID: Uuid = Uuid::from_u128(0x0d3a_db33_f000_4000_8000_0000_0000_0001);

/// Returns a fixture whose table numbers its rows. Names are unique.
async fn counted<H: Harness>() -> Fixture<H> {
    let table = Table::new("item")
        .required("id", Kind::Counter)
        .required("name", Kind::Text)
        .key(&["id"])
        .unique(&["name"]);
    Fixture::<H>::over(&[table], vec![queue("item")]).await
}

fn named(name: &str) -> NewItem {
    new_item(&[("name", text(name))])
}

/// Expects that the items were added now, and returns their keys.
fn added(outcome: Result<EnqueuedOnce, StoreError>) -> Vec<Key> {
    match outcome {
        Ok(EnqueuedOnce::Added(keys)) => keys,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn repeated_request_adds_nothing<H: Harness>() {
    let fixture = counted::<H>().await;
    let delayed = NewItem {
        delay: HOUR,
        ..named("b")
    };
    let items = vec![named("a"), delayed, named("c")];
    let keys = added(fixture.enqueue_once(ID, items.clone()).await);
    assert_eq!(keys.len(), 3);
    for broker in [(*fixture).clone(), fixture.another().await] {
        let again = broker.enqueue_once(ID, items.clone()).await;
        assert_eq!(again, Ok(EnqueuedOnce::Repeated(keys.clone())));
    }
    assert_eq!(fixture.counts().await, [2, 0, 1, 0, 0]);
    let items = fixture.claim(9).await;
    assert_eq!(items[0].lease.key, keys[0]);
    assert_eq!(items[1].lease.key, keys[2]);
}

pub(crate) async fn other_items_under_one_id_are_refused<H: Harness>() {
    let fixture = counted::<H>().await;
    let keys = added(fixture.enqueue_once(ID, vec![named("a")]).await);
    let delayed = NewItem {
        delay: HOUR,
        ..named("a")
    };
    for items in [
        vec![named("b")],
        vec![delayed],
        vec![named("a"), named("b")],
    ] {
        let other = fixture.enqueue_once(ID, items).await;
        assert_eq!(other, Ok(EnqueuedOnce::OtherItems));
    }
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
    let traced = NewItem {
        trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ..named("a")
    };
    let again = fixture.enqueue_once(ID, vec![traced]).await;
    assert_eq!(again, Ok(EnqueuedOnce::Repeated(keys)));
    added(fixture.enqueue_once(Uuid::new_v4(), vec![named("b")]).await);
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 0]);
}

pub(crate) async fn same_request_at_one_moment_adds_once<H: Harness>() {
    let fixture = counted::<H>().await;
    for round in 0..3 {
        let start = Arc::new(Barrier::new(8));
        let mut tasks = JoinSet::new();
        for broker in [(*fixture).clone(), fixture.another().await] {
            for _ in 0..4 {
                let (broker, start) = (broker.clone(), start.clone());
                let items = ["a", "b"].map(|name| named(&format!("{name}{round}")));
                tasks.spawn(async move {
                    start.wait().await;
                    let id = Uuid::from_u128(round);
                    broker.enqueue_once(id, items.to_vec()).await
                });
            }
        }
        let outcomes = tasks.join_all().await;
        let (mut times_added, mut all_keys) = (0, Vec::new());
        for outcome in outcomes {
            match outcome {
                Ok(EnqueuedOnce::Added(keys)) => {
                    times_added += 1;
                    all_keys.push(keys);
                }
                Ok(EnqueuedOnce::Repeated(keys)) => all_keys.push(keys),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(times_added, 1);
        assert!(
            all_keys.iter().all(|keys| *keys == all_keys[0]),
            "{all_keys:?}"
        );
    }
    assert_eq!(fixture.counts().await, [6, 0, 0, 0, 0]);
}

pub(crate) async fn rejected_request_is_not_remembered<H: Harness>() {
    let fixture = counted::<H>().await;
    fixture.enqueue(named("taken")).await;
    let items = vec![named("a"), named("taken"), named("b")];
    for _ in 0..2 {
        let rejection = rejected(fixture.enqueue_once(ID, items.clone()).await);
        assert_eq!(rejection.item, Some(1), "{rejection:?}");
    }
    let unknown = vec![named("a"), new_item(&[("nothing", Value::Null)])];
    let rejection = rejected(fixture.enqueue_once(ID, unknown).await);
    assert_eq!(rejection.column.as_deref(), Some("nothing"));
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
    added(fixture.enqueue_once(ID, vec![named("a")]).await);
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 0]);
}

pub(crate) async fn request_is_remembered_without_its_rows<H: Harness>() {
    let fixture = Fixture::<H>::with(0, |spec| spec.on_complete = OnComplete::Delete).await;
    let items = vec![new_item(&[("id", Value::Int(7))])];
    let keys = added(fixture.enqueue_once(ID, items.clone()).await);
    let lease = fixture.one().await.lease;
    fixture.complete(&lease).await;
    let again = fixture.enqueue_once(ID, items).await;
    assert_eq!(again, Ok(EnqueuedOnce::Repeated(keys)));
    assert_eq!(fixture.counts().await, [0; 5]);
}

pub(crate) async fn request_is_forgotten_after_its_time<H: Harness>() {
    let fixture = Fixture::<H>::with(0, |spec| spec.enqueue_memory = HOUR).await;
    let items = |id| vec![new_item(&[("id", Value::Int(id))])];
    for id in 1..=3 {
        let request = Uuid::from_u128(id);
        let id = i64::try_from(id).expect("a small number");
        added(fixture.enqueue_once(request, items(id)).await);
    }
    fixture.advance(59 * MINUTE).await;
    added(fixture.enqueue_once(ID, items(4)).await);
    assert_eq!(fixture.store.forget_requests(500).await, Ok(0));
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.store.forget_requests(2).await, Ok(2));
    assert_eq!(fixture.store.forget_requests(2).await, Ok(1));
    assert_eq!(fixture.store.forget_requests(2).await, Ok(0));
    let still = fixture.enqueue_once(ID, items(4)).await;
    assert!(matches!(still, Ok(EnqueuedOnce::Repeated(_))), "{still:?}");
    added(fixture.enqueue_once(Uuid::from_u128(1), items(5)).await);
    assert_eq!(fixture.counts().await, [5, 0, 0, 0, 0]);
}

pub(crate) async fn queues_remember_their_own_requests<H: Harness>() {
    let tables = ["item", "other"].map(item_table);
    let queues = ["item", "other"].map(queue);
    let fixture = Fixture::<H>::over(&tables, queues.into()).await;
    let items = vec![new_item(&[("id", Value::Int(1))])];
    added(fixture.enqueue_once(ID, items.clone()).await);
    added(fixture.at(1).enqueue_once(ID, items).await);
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
}

const NAMES: [&str; 3] = ["first", "second", "third"];

async fn check_keys<H: Harness>(kinds: &[Kind], rows: &[Vec<Value>]) {
    let names = NAMES.iter().zip(kinds);
    let table = names.fold(Table::new("item"), |table, (name, &kind)| {
        table.required(name, kind)
    });
    let table = table.key(&NAMES[..kinds.len()]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let item = |row: &Vec<Value>| {
        let columns: Vec<_> = NAMES.into_iter().zip(row.iter().cloned()).collect();
        new_item(&columns)
    };
    let items: Vec<NewItem> = rows.iter().map(item).collect();
    let keys: Vec<Key> = rows.iter().map(|row| Key(row.clone().into())).collect();
    assert_eq!(added(fixture.enqueue_once(ID, items.clone()).await), keys);
    let again = fixture.enqueue_once(ID, items).await;
    assert_eq!(again, Ok(EnqueuedOnce::Repeated(keys)));
}

pub(crate) async fn keys_of_every_kind_are_remembered<H: Harness>() {
    let int = Value::Int;
    let texts = ["", "a", "A\"b", "é", "z\\", "日本"].map(|key| vec![text(key)]);
    check_keys::<H>(&[Kind::Text], &texts).await;
    let bytes = [&[0_u8, 1][..], &[7], &[255, 0, 3]];
    let bytes = bytes.map(|key| vec![Value::Bytes(key.to_vec())]);
    check_keys::<H>(&[Kind::Blob], &bytes).await;
    let rows = [
        vec![int(-1), text("a"), int(i64::MIN)],
        vec![int(-1), text("b"), int(0)],
        vec![int(2), text("a"), int(7)],
    ];
    check_keys::<H>(&[Kind::Int, Kind::Text, Kind::BigInt], &rows).await;
}

pub(crate) async fn long_list_keeps_its_order<H: Harness>() {
    let fixture = counted::<H>().await;
    // Ready and delayed items take turns, so that a store which adds them apart has many lists.
    let item = |n: usize| NewItem {
        delay: if n.is_multiple_of(3) {
            HOUR
        } else {
            Duration::ZERO
        },
        ..named(&format!("item {n}"))
    };
    let items: Vec<NewItem> = (0..300).map(item).collect();
    let keys = added(fixture.enqueue_once(ID, items.clone()).await);
    let again = fixture.enqueue_once(ID, items).await;
    assert_eq!(again, Ok(EnqueuedOnce::Repeated(keys)));
    assert_eq!(fixture.counts().await, [200, 0, 100, 0, 0]);
}
