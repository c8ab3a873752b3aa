//! The search for items by state and filter, and reads of single items.

use std::collections::BTreeSet;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_store::{Ending, FoundItem, FoundItems, ItemFilter, ItemSearch, NewItem};
use lease_broker_value::Value;

use super::adoption::with_a_null_key;
use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, SECOND, call, fail, new_item, queue, text,
};
use crate::harness::table::{Kind, Table};

pub(crate) fn search(state: State) -> ItemSearch {
    ItemSearch {
        state,
        filter: ItemFilter::default(),
        not_since: None,
        after: None,
        newest_first: false,
        limit: 100,
        max_examined: 1_000,
    }
}

pub(crate) async fn find(broker: &Broker, search: ItemSearch) -> FoundItems {
    let found = broker.reads.find_items(broker.queue, search).await;
    found.expect("a page")
}

/// Returns the items of all pages, in their order. Each page has to be within its bounds.
pub(crate) async fn find_all(broker: &Broker, mut search: ItemSearch) -> Vec<FoundItem> {
    let mut all = Vec::new();
    loop {
        let page = find(broker, search.clone()).await;
        assert!(page.items.len() <= search.limit && page.examined <= search.max_examined);
        assert!(
            page.items
                .iter()
                .all(|item| item.state == Some(search.state))
        );
        all.extend(page.items);
        assert!(all.len() < 10_000, "the pages do not end");
        match page.end {
            None => return all,
            end => search.after = end,
        }
    }
}

pub(super) fn keys(items: &[FoundItem]) -> Vec<String> {
    let keys = items.iter().map(|item| item.listed.key.to_string());
    keys.collect()
}

/// Returns the keys of the items that fit a filter.
pub(super) async fn fitting(broker: &Broker, state: State, filter: ItemFilter) -> Vec<String> {
    let search = ItemSearch {
        filter,
        ..search(state)
    };
    keys(&find_all(broker, search).await)
}

/// Claims all ready items and fails them, so that they are dead and have the same time.
pub(super) async fn kill_all(broker: &Broker) {
    let items = broker.claim(1_000).await;
    let failures = items.iter().map(|item| (&item.lease, fail(None)));
    broker.try_settle(failures.collect()).await.expect("failed");
}

/// Makes an item dead as another program would. The time at which it became dead is not known.
pub(super) async fn kill_unnoticed<H: Harness>(fixture: &Fixture<H>, id: i64) {
    for set in [
        ("lease_state", Value::Int(4)),
        ("lease_state_time", H::unknown_time()),
    ] {
        let id = ("id", Value::Int(id));
        fixture.harness.update("item", set, id).await;
    }
}

pub(super) fn numbers(range: impl IntoIterator<Item = i64>) -> Vec<String> {
    range.into_iter().map(|number| number.to_string()).collect()
}

pub(crate) async fn dead_items_are_paged_over_equal_times<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    // The second group dies later, and its keys are smaller.
    for ids in [31..=45, 1..=15] {
        fixture.insert(ids).await;
        kill_all(&fixture).await;
        fixture.advance(SECOND).await;
    }
    let oldest: Vec<String> = numbers((31..=45).chain(1..=15));
    for limit in [1, 4, 15, 29, 30, 31] {
        let mut search = ItemSearch {
            limit,
            ..search(State::Dead)
        };
        let found = find_all(&fixture, search.clone()).await;
        assert_eq!(keys(&found), oldest, "{limit}");
        search.newest_first = true;
        let found = find_all(&fixture, search).await;
        let newest: Vec<String> = oldest.iter().rev().cloned().collect();
        assert_eq!(keys(&found), newest, "{limit}");
    }
}

pub(crate) async fn dead_items_with_unknown_times_are_paged<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    for id in [2, 4, 6] {
        kill_unnoticed(&fixture, id).await;
    }
    kill_all(&fixture).await;
    for (newest_first, expected) in [
        (false, ["2", "4", "6", "1", "3", "5"]),
        (true, ["5", "3", "1", "6", "4", "2"]),
    ] {
        let search = ItemSearch {
            newest_first,
            limit: 2,
            ..search(State::Dead)
        };
        let found = find_all(&fixture, search).await;
        assert_eq!(keys(&found), expected);
        let known = found.iter().filter(|item| item.listed.age.is_some());
        assert_eq!(known.count(), 3);
    }
}

pub(crate) async fn leased_and_delayed_items_come_by_due_time<H: Harness>() {
    let fixture = Fixture::<H>::items(9).await;
    let durations: Vec<_> = [5, 3, 4].map(|minutes| (minutes, call("worker", 3))).into();
    for (minutes, mut call) in durations {
        call.duration = minutes * MINUTE;
        let items = fixture.claim_by(call).await;
        // The third of each three is delayed, for a tenth of the time.
        let delay = Some(minutes * MINUTE / 10);
        fixture.settle(&items[2].lease, fail(delay)).await;
    }
    let page = |state, limit| ItemSearch {
        limit,
        max_examined: 2,
        ..search(state)
    };
    for limit in [1, 2] {
        let leased = find_all(&fixture, page(State::Leased, limit)).await;
        assert_eq!(keys(&leased), ["4", "5", "7", "8", "1", "2"]);
        let delayed = find_all(&fixture, page(State::Delayed, limit)).await;
        assert_eq!(keys(&delayed), ["6", "9", "3"]);
    }
    let leased = find(&fixture, search(State::Leased)).await;
    let first = &leased.items[0].listed;
    assert_eq!(first.owner.as_deref(), Some("worker"));
    assert_eq!((first.attempt, first.fence), (1, 1));
    let due_in = first.due_in.expect("a due time");
    assert!(due_in <= 3 * MINUTE && due_in > MINUTE, "{due_in:?}");
}

pub(crate) async fn items_without_due_times_are_paged<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    fixture.claim(6).await;
    for id in [1, 4, 5] {
        let none = ("lease_due_time", Value::Null);
        let id = ("id", Value::Int(id));
        fixture.harness.update("item", none, id).await;
    }
    for limit in [1, 2, 3, 7] {
        let search = ItemSearch {
            limit,
            ..search(State::Leased)
        };
        let found = find_all(&fixture, search).await;
        assert_eq!(keys(&found), ["1", "4", "5", "2", "3", "6"], "{limit}");
    }
}

pub(crate) async fn ready_and_completed_items_come_by_key<H: Harness>() {
    let fixture = Fixture::<H>::items(9).await;
    for item in fixture.claim(4).await {
        fixture.complete(&item.lease).await;
    }
    for limit in [1, 3, 9] {
        let page = |state| ItemSearch {
            limit,
            ..search(state)
        };
        let ready = find_all(&fixture, page(State::Ready)).await;
        assert_eq!(keys(&ready), numbers(5..=9));
        let completed = find_all(&fixture, page(State::Completed)).await;
        assert_eq!(keys(&completed), numbers(1..=4));
    }
}

pub(crate) async fn search_without_filtered_indexes_finds_the_same<H: Harness>() {
    let fixture = Fixture::<H>::with(12, |queue| queue.filtered_indexes = false).await;
    let items = fixture.claim(9).await;
    for (item, ending) in items.iter().zip([
        fail(None),
        fail(Some(HOUR)),
        crate::harness::fixture::complete(),
        fail(None),
    ]) {
        fixture.settle(&item.lease, ending).await;
    }
    for (state, expected) in [
        (State::Ready, numbers(10..=12)),
        (State::Leased, numbers(5..=9)),
        (State::Delayed, numbers([2])),
        (State::Completed, numbers([3])),
        (State::Dead, numbers([1, 4])),
    ] {
        for newest_first in [false, true] {
            let search = ItemSearch {
                newest_first,
                limit: 2,
                max_examined: 5,
                ..search(state)
            };
            let mut found = keys(&find_all(&fixture, search).await);
            found.sort_by_key(|key| key.parse::<i64>().expect("a number"));
            assert_eq!(found, expected, "{state:?}");
        }
    }
}

pub(crate) async fn search_looks_at_a_bounded_number_of_rows<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    fixture.insert(1..=25).await;
    kill_all(&fixture).await;
    fixture.insert(26..=30).await;
    let items = fixture.claim(9).await;
    let error = Ending::Fail {
        error: "out of memory".to_owned(),
        retry: None,
    };
    fixture.settle(&items[2].lease, error).await;
    let mut search = ItemSearch {
        filter: ItemFilter {
            error_contains: Some("memory".to_owned()),
            ..ItemFilter::default()
        },
        max_examined: 10,
        ..search(State::Dead)
    };
    for (examined, found) in [(10, None), (10, None), (6, Some("28"))] {
        let page = find(&fixture, search.clone()).await;
        assert_eq!(page.examined, examined);
        assert_eq!(keys(&page.items), found.into_iter().collect::<Vec<_>>());
        assert_eq!(page.end.is_some(), examined == 10);
        search.after = page.end;
    }
    search.filter = ItemFilter::default();
    search.after = None;
    search.limit = 4;
    let page = find(&fixture, search).await;
    assert_eq!((page.items.len(), page.examined), (4, 4));
    let empty = find(&fixture, self::search(State::Completed)).await;
    assert!(empty.items.is_empty() && empty.end.is_none());
}

pub(crate) async fn search_pages_over_keys_of_several_columns<H: Harness>() {
    let table = Table::new("pair")
        .required("a", Kind::Text)
        .required("b", Kind::BigInt)
        .key(&["a", "b"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("pair")]).await;
    for a in ["", "a'", "ü ☂", "Z"] {
        for b in [-1, 0, 7] {
            let row = [("a", text(a)), ("b", Value::Int(b))];
            fixture.harness.insert("pair", &row).await;
        }
    }
    let mut orders = Vec::new();
    for state in [State::Ready, State::Dead] {
        if state == State::Dead {
            kill_all(&fixture).await;
        }
        for limit in [1, 5, 12] {
            let search = ItemSearch {
                limit,
                ..search(state)
            };
            orders.push(keys(&find_all(&fixture, search).await));
        }
    }
    assert_eq!(orders[0].iter().collect::<BTreeSet<_>>().len(), 12);
    assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
}

pub(crate) async fn rows_with_a_null_key_are_not_found<H: Harness>() {
    let fixture = with_a_null_key::<H>().await;
    let dead = ("lease_state", Value::Int(4));
    for state in [State::Ready, State::Dead] {
        let found = find_all(&fixture, search(state)).await;
        assert_eq!(keys(&found), ["a"], "{state:?}");
        for id in [1, 2] {
            let id = ("id", Value::Int(id));
            fixture.harness.update("item", dead.clone(), id).await;
        }
    }
}

pub(crate) async fn keys_are_found_in_their_order<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    kill_all(&fixture).await;
    fixture.insert([6]).await;
    let asked = [6, 99, 3, 1, 3].map(|id| Key([Value::Int(id)].into()));
    let wrong = Key([Value::Int(1), Value::Int(2)].into());
    let asked = asked.into_iter().chain([wrong]).collect();
    let found = fixture.reads.find_keys(fixture.queue, asked).await;
    let found = found.expect("items");
    assert_eq!(keys(&found.items), ["6", "3", "1"]);
    assert!(found.end.is_none());
    let states: Vec<_> = found.items.iter().map(|item| item.state).collect();
    let dead = Some(State::Dead);
    assert_eq!(states, [Some(State::Ready), dead, dead]);
    let error = found.items[1].listed.error.as_deref();
    assert_eq!(error, Some("no luck"));
}

pub(crate) async fn record_of_an_item_has_its_columns<H: Harness>() {
    let fixture = Fixture::<H>::with(2, |spec| spec.max_checkpoint_bytes = Some(100)).await;
    let read = async |id| {
        let key = Key([Value::Int(id)].into());
        let record = fixture.reads.read_item(fixture.queue, key).await;
        record.expect("a read")
    };
    let ready = read(1).await.expect("the item");
    let payload = ("payload".to_owned(), text("payload 1"));
    assert_eq!(ready.columns, [("id".to_owned(), Value::Int(1)), payload]);
    assert_eq!((ready.checkpoint_bytes, ready.trace_parent), (None, None));
    assert_eq!(ready.item.state, Some(State::Ready));
    let lease = fixture.one().await.lease;
    let renewal = lease_broker_store::Renewal {
        checkpoint: Some(vec![7; 42]),
        ..lease_broker_store::Renewal::new(lease, HOUR)
    };
    let renewed = fixture.store.heartbeat(fixture.queue, [renewal].into());
    renewed.await.expect("renewed");
    let leased = read(1).await.expect("the item");
    assert_eq!(leased.checkpoint_bytes, Some(42));
    let (owner, due) = (leased.item.listed.owner, leased.item.listed.due_time);
    assert_eq!(owner.as_deref(), Some("worker"));
    let left = Duration::from_millis((due.expect("a due time") - leased.now).unsigned_abs());
    assert!(crate::harness::fixture::about(left, HOUR), "{left:?}");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = NewItem {
        trace_parent: Some(trace.to_owned()),
        ..new_item(&[("id", Value::Int(3))])
    };
    fixture.enqueue(traced).await;
    let traced = read(3).await.expect("the item");
    assert_eq!(traced.trace_parent.as_deref(), Some(trace));
    assert!(read(99).await.is_none());
    let wrong = Key([Value::Int(1), Value::Int(2)].into());
    let none = fixture.reads.read_item(fixture.queue, wrong).await;
    assert!(none.expect("a read").is_none());
}

pub(crate) async fn row_with_a_state_that_is_none_is_read<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let (strange, id) = (("lease_state", Value::Int(77)), ("id", Value::Int(1)));
    fixture.harness.update("item", strange, id).await;
    let key = Key([Value::Int(1)].into());
    let record = fixture.reads.read_item(fixture.queue, key.clone()).await;
    assert_eq!(record.expect("a read").expect("the item").item.state, None);
    let found = fixture.reads.find_keys(fixture.queue, [key].into()).await;
    assert_eq!(found.expect("items").items[0].state, None);
}

pub(crate) async fn locked_rows_are_found<H: Harness>() {
    let fixture = Fixture::<H>::items(5).await;
    kill_all(&fixture).await;
    let (set, id) = (("payload", text("held")), ("id", Value::Int(3)));
    fixture.harness.begin_change("item", set, id).await;
    let search = ItemSearch {
        limit: 2,
        ..search(State::Dead)
    };
    let found = find_all(&fixture, search).await;
    let key = Key([Value::Int(3)].into());
    let record = fixture.reads.read_item(fixture.queue, key).await;
    fixture.harness.undo_change().await;
    assert_eq!(keys(&found), numbers(1..=5));
    assert!(record.expect("a read").is_some());
}
