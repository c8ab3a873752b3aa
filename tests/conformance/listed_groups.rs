//! Lists of groups.

use std::time::Duration;

use lease_broker_model::group::GroupOrder;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::{Order, QueueSpec};
use lease_broker_store::{
    FoundGroups, GroupSearch, GroupState, ListedGroup, NewGroupPause, StoreError,
};
use lease_broker_value::Value;

use super::groups::{
    NAMED_KINDS, PARALLEL, STRICT, customer_table, grouped, insert, items, three_groups,
};
use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR, fail, keys, new_item, release, text};

pub(crate) const ALL: GroupSearch = GroupSearch {
    after: None,
    state: None,
    limit: 100,
    max_examined: 1_000,
};

pub(crate) async fn find(broker: &Broker, search: GroupSearch) -> FoundGroups {
    let found = broker.reads.find_groups(broker.queue, search).await;
    found.expect("a page")
}

pub(crate) async fn list(broker: &Broker) -> Vec<ListedGroup> {
    find(broker, ALL).await.groups
}

/// Returns the names, states and leases of groups, and the keys of their heads.
fn shown(groups: &[ListedGroup]) -> Vec<(String, GroupState, usize, String)> {
    let shown = groups.iter().map(|listed| {
        let head = listed.head.as_ref();
        let head = head.map_or(String::new(), |head| head.key.to_string());
        (listed.group.to_string(), listed.state, listed.leases, head)
    });
    shown.collect()
}

fn row(
    name: &str,
    state: GroupState,
    leases: usize,
    head: &str,
) -> (String, GroupState, usize, String) {
    (name.to_owned(), state, leases, head.to_owned())
}

async fn pause(broker: &Broker, name: &str) {
    let group = broker
        .reads
        .parse_group(broker.queue, name)
        .expect("a group");
    let pause = NewGroupPause {
        reason: "prices".to_owned(),
        actor: "anna".to_owned(),
        until: None,
    };
    let paused = broker.store.pause_group(broker.queue, group, pause).await;
    assert!(paused.expect("an answer").is_some());
}

pub(crate) async fn states_of_strict_groups_are_listed<H: Harness>() {
    use GroupState::{Halted, Leased, Paused, Ready, Waiting};

    let mut spec = grouped(GroupOrder::Strict {
        halts: true,
        run: 1,
    });
    spec.retry.max_attempts = Some(1);
    let names = ["dead", "delayed", "leased", "dead", "leased", "delayed", ""];
    let fixture = items::<H>(spec, &names).await;
    assert_eq!(list(&fixture).await.len(), 3);
    let leases = fixture.claim(9).await;
    assert_eq!(keys(&leases), ["1", "2", "3", "7"]);
    fixture.settle(&leases[0].lease, fail(None)).await;
    fixture.settle(&leases[1].lease, release(HOUR)).await;
    fixture.complete(&leases[3].lease).await;
    insert(&fixture, 8, "ready").await;
    insert(&fixture, 9, "ready").await;
    pause(&fixture, "paused without items").await;
    let listed = list(&fixture).await;
    let expected = [
        row("dead", Halted, 0, "1"),
        row("delayed", Waiting, 0, "2"),
        row("leased", Leased, 1, "3"),
        row("paused without items", Paused, 0, ""),
        row("ready", Ready, 0, "8"),
    ];
    assert_eq!(shown(&listed), expected);
    let found = find(&fixture, ALL).await;
    let due = listed[1].head.as_ref().and_then(|head| head.due_time);
    let wait = due.expect("a due time") - found.now;
    assert!((3_500_000..=3_600_000).contains(&wait), "{wait}");
    let of_lease = listed[2].head.as_ref().expect("a lease");
    assert_eq!(of_lease.state, State::Leased);
    assert!(of_lease.due_time.is_some_and(|due| due > found.now));
    assert!(of_lease.state_time.is_some_and(|since| since <= found.now));
    let paused = listed[3].pause.as_ref().expect("a pause");
    assert_eq!((&*paused.reason, &*paused.actor), ("prices", "anna"));
    // Only what is behind a delayed item waits. A lease decides before the first item.
    insert(&fixture, 0, "delayed").await;
    insert(&fixture, -1, "leased").await;
    pause(&fixture, "dead").await;
    let listed = shown(&list(&fixture).await);
    assert_eq!(listed[0], row("dead", Paused, 0, "1"));
    assert_eq!(listed[1], row("delayed", Ready, 0, "0"));
    assert_eq!(listed[2], row("leased", Leased, 1, "3"));
}

pub(crate) async fn states_of_parallel_groups_are_listed<H: Harness>() {
    use GroupState::{Leased, Ready, Waiting};

    let order = GroupOrder::Parallel {
        max_leases: Some(2),
        bursts: false,
    };
    let names = ["full", "full", "full", "half", "last", "delayed", "half"];
    let fixture = items::<H>(grouped(order), &names).await;
    let leases = fixture.claim(9).await;
    assert_eq!(leases.len(), 6);
    let of = |key: &str| {
        let mut leases = leases.iter().map(|item| &item.lease);
        leases
            .find(|lease| lease.key.to_string() == key)
            .expect("a lease")
    };
    fixture.settle(of("4"), release(Duration::ZERO)).await;
    fixture.settle(of("6"), release(HOUR)).await;
    let expected = [
        row("delayed", Waiting, 0, "6"),
        row("full", Leased, 2, "3"),
        row("half", Ready, 1, "4"),
        row("last", Leased, 1, "5"),
    ];
    assert_eq!(shown(&list(&fixture).await), expected);
    fixture.advance(2 * HOUR).await;
    fixture.reap(100).await;
    assert!(
        list(&fixture)
            .await
            .iter()
            .all(|group| group.state == Ready)
    );
}

pub(crate) async fn pages_list_each_group_once<H: Harness>() {
    for filtered_indexes in [true, false] {
        let spec = QueueSpec {
            filtered_indexes,
            ..grouped(STRICT)
        };
        let fixture = Fixture::<H>::over(&[customer_table()], vec![spec]).await;
        let new = (0..60).map(|id| {
            let name = format!("group {:02}", id % 20);
            new_item(&[("id", Value::Int(id)), ("customer", text(&name))])
        });
        fixture.try_enqueue(new.collect()).await.expect("enqueued");
        fixture.claim(7).await;
        let (mut after, mut all, mut pages) = (None, Vec::new(), 0);
        loop {
            let page = GroupSearch {
                after,
                limit: 8,
                ..ALL
            };
            let found = find(&fixture, page).await;
            assert!(found.groups.len() <= 8);
            all.extend(found.groups.iter().map(|listed| listed.group.to_string()));
            (after, pages) = (found.end, pages + 1);
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<String> = (0..20).map(|id| format!("group {id:02}")).collect();
        assert_eq!((all, pages), (expected, 3));
        // With a state, a page ends after the groups that it may look at.
        let leased = GroupSearch {
            state: Some(GroupState::Leased),
            max_examined: 5,
            ..ALL
        };
        let found = find(&fixture, leased.clone()).await;
        assert_eq!(found.groups.len(), 5);
        let ready = GroupSearch {
            state: Some(GroupState::Ready),
            ..leased
        };
        let found = find(&fixture, ready.clone()).await;
        assert_eq!(found.groups, []);
        assert_eq!(
            found.end.clone().map(|end| end.to_string()).as_deref(),
            Some("group 04")
        );
        let rest = GroupSearch {
            after: found.end,
            max_examined: 100,
            limit: 4,
            ..ready
        };
        let found = find(&fixture, rest).await;
        let first = found.groups.first().expect("a group").group.to_string();
        assert_eq!((found.groups.len(), &*first), (4, "group 07"));
    }
}

pub(crate) async fn listed_name_of_every_kind_names_its_group<H: Harness>() {
    for kind in NAMED_KINDS {
        let fixture = three_groups::<H>(kind).await;
        let names: Vec<Key> = list(&fixture)
            .await
            .into_iter()
            .map(|listed| listed.group)
            .collect();
        assert_eq!(names.len(), 3, "{kind:?}");
        let second = names[1].to_string();
        let search = GroupSearch {
            after: Some(
                fixture
                    .reads
                    .parse_group(fixture.queue, &second)
                    .expect("a group"),
            ),
            ..ALL
        };
        let rest = find(&fixture, search).await.groups;
        assert_eq!(
            shown(&rest),
            [row(&names[2].to_string(), GroupState::Ready, 0, "3")],
            "{kind:?}"
        );
        pause(&fixture, &second).await;
        let states: Vec<GroupState> = list(&fixture)
            .await
            .iter()
            .map(|listed| listed.state)
            .collect();
        let (ready, paused) = (GroupState::Ready, GroupState::Paused);
        assert_eq!(states, [ready, paused, ready], "{kind:?} {second}");
        assert_eq!(
            keys(&fixture.claim(9).await),
            ["1", "3"],
            "{kind:?} {second}"
        );
    }
}

pub(crate) async fn queue_without_groups_lists_none<H: Harness>() {
    let plain = Fixture::<H>::items(1).await;
    let refused = plain.reads.find_groups(plain.queue, ALL).await;
    assert!(matches!(refused, Err(StoreError::Bug(_))), "{refused:?}");
    let spec = QueueSpec {
        order: Order::None,
        ..grouped(PARALLEL)
    };
    let empty = items::<H>(spec, &["", ""]).await;
    let found = find(&empty, ALL).await;
    assert_eq!((found.groups, found.end), (Vec::new(), None));
}

pub(crate) async fn reader_without_tables_of_brokers_lists_groups<H: Harness>() {
    let harness = H::start().await;
    harness.create(&customer_table()).await;
    harness.apply(&grouped(STRICT)).await.expect("adopted");
    let customer = [("id", Value::Int(1)), ("customer", text("a"))];
    harness.insert("item", &customer).await;
    let reader = harness
        .open_to_read(&[grouped(STRICT)])
        .await
        .expect("a reader");
    let found = reader
        .find_groups(lease_broker_store::QueueIndex(0), ALL)
        .await;
    let expected = [row("a", GroupState::Ready, 0, "1")];
    assert_eq!(shown(&found.expect("a page").groups), expected);
}
