//! Groups: order inside a group, turns of groups, limits of leases and rates.

use std::collections::BTreeSet;
use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::{Order, QueueSpec};
use lease_broker_model::rate::Rate;
use lease_broker_store::{Ahead, ClaimCall, Claimed, LimitChange, Limited, StoreError, TurnCost};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::errors::misconfigured;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, SECOND, by, call, fail, keys, new_item, queue, release, text,
};
use crate::harness::table::{Kind, Table};

pub(crate) const STRICT: GroupOrder = GroupOrder::Strict {
    halts: false,
    run: 1,
};
pub(crate) const PARALLEL: GroupOrder = GroupOrder::Parallel {
    max_leases: None,
    bursts: false,
};

pub(crate) fn groups(order: GroupOrder) -> Groups {
    Groups {
        column: "customer".to_owned(),
        order,
        rate: None,
    }
}

pub(crate) fn customer_table() -> Table {
    Table::new("item")
        .required("id", Kind::BigInt)
        .column("customer", Kind::Text)
        .column("rank", Kind::Int)
        .column("payload", Kind::Text)
        .key(&["id"])
}

pub(crate) fn grouped(order: GroupOrder) -> QueueSpec {
    QueueSpec {
        groups: Some(groups(order)),
        ..queue("item")
    }
}

/// Creates a queue whose items have these groups, in the order of their keys from 1. An empty name is NULL.
pub(crate) async fn items<H: Harness>(spec: QueueSpec, customers: &[&str]) -> Fixture<H> {
    let fixture = Fixture::<H>::over(&[customer_table()], vec![spec]).await;
    for (id, customer) in (1..).zip(customers) {
        insert(&fixture, id, customer).await;
    }
    fixture
}

pub(crate) async fn insert<H: Harness>(fixture: &Fixture<H>, id: i64, customer: &str) {
    let customer = match customer {
        "" => Value::Null,
        name => text(name),
    };
    insert_into(fixture, id, customer).await;
}

async fn claimed(broker: &Broker, max_items: usize) -> Claimed {
    broker
        .results(vec![call("worker", max_items)])
        .await
        .remove(0)
}

/// Claims until nothing more can be leased, and returns the keys of each claim.
async fn claims(broker: &Broker, max_items: usize) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    loop {
        let claimed = claimed(broker, max_items).await;
        if claimed.items.is_empty() && !claimed.has_more {
            return all;
        }
        if !claimed.items.is_empty() {
            all.push(keys(&claimed.items));
        }
    }
}

pub(crate) async fn strict_group_has_one_lease_at_a_time<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "b", "a", "b"]).await;
    let first = claimed(&fixture, 9).await;
    assert_eq!(keys(&first.items), ["1", "3"]);
    let busy = claimed(&fixture, 9).await;
    assert_eq!(
        (busy.items.len(), busy.limited),
        (0, Some(Limited::GroupsBusy { wait: None }))
    );
    assert!(!busy.has_more);
    fixture.complete(&first.items[0].lease).await;
    assert_eq!(claims(&fixture, 9).await, [["2"]]);
    let lease = &first.items[1].lease;
    assert_eq!(
        fixture.settle(lease, release(Duration::ZERO)).await,
        Some(State::Ready)
    );
    let again = claimed(&fixture, 9).await;
    assert_eq!(keys(&again.items), ["3"]);
    fixture.complete(&again.items[0].lease).await;
    assert_eq!(claims(&fixture, 9).await, [["5"]]);
}

pub(crate) async fn empty_queue_is_not_held_back<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &[]).await;
    let empty = claimed(&fixture, 9).await;
    assert_eq!((empty.items.len(), empty.limited), (0, None));
    assert!(!empty.has_more);
}

pub(crate) async fn groups_take_turns_across_brokers<H: Harness>() {
    let names = ["c", "a", "b", "a", "a", "b", "c"];
    let fixture = items::<H>(grouped(STRICT), &names).await;
    let brokers = [(*fixture).clone(), fixture.another().await];
    let mut served = Vec::new();
    for turn in 0..names.len() {
        let item = brokers[turn % 2].claim(1).await.pop().expect("an item");
        served.extend(keys(std::slice::from_ref(&item)));
        brokers[0].complete(&item.lease).await;
    }
    // Round after round in the order of the groups: a, b, c.
    assert_eq!(served, ["2", "3", "1", "4", "6", "7", "5"]);
}

pub(crate) async fn calls_of_a_group_commit_get_different_groups<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "b", "c", "d"]).await;
    let calls = vec![call("x", 2), call("y", 1), call("z", 9)];
    let got = fixture.calls(calls).await;
    assert_eq!(keys(&got[0]), ["1", "3"]);
    assert_eq!(keys(&got[1]), ["4"]);
    assert_eq!(keys(&got[2]), ["5"]);
}

pub(crate) async fn call_that_repeats_another_costs_no_turn<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "b"]).await;
    let call = ClaimCall {
        has_request_id: true,
        ..call("worker", 2)
    };
    let claimed = fixture.results(vec![call.clone(), call]).await;
    assert_eq!(keys(&claimed[1].items), ["1", "2"]);
    assert_ne!(claimed[0].turn, TurnCost::default());
    assert_eq!(claimed[1].turn, TurnCost::default());
}

pub(crate) async fn delayed_item_holds_back_only_those_behind<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "b"]).await;
    let first = fixture.claim(1).await.remove(0);
    let failed = fixture.settle(&first.lease, fail(Some(MINUTE))).await;
    assert_eq!(failed, Some(State::Delayed));
    assert_eq!(claims(&fixture, 1).await, [["3"]], "2 waits behind 1");
    insert(&fixture, 0, "a").await;
    let ahead = claimed(&fixture, 9).await;
    assert_eq!(
        keys(&ahead.items),
        ["0"],
        "nothing ahead of a delayed item waits"
    );
    fixture.complete(&ahead.items[0].lease).await;
    assert!(claims(&fixture, 9).await.is_empty());
    fixture.advance(2 * MINUTE).await;
    fixture.reap(9).await;
    assert_eq!(claims(&fixture, 9).await, [["1"]]);
}

pub(crate) async fn dead_item_lets_its_group_go_on_or_halts_it<H: Harness>() {
    for halts in [false, true] {
        let order = GroupOrder::Strict { halts, run: 1 };
        let fixture = items::<H>(grouped(order), &["a", "a", "b"]).await;
        let first = fixture.one().await;
        fixture.settle(&first.lease, fail(None)).await;
        let rest: Vec<_> = claims(&fixture, 1).await.concat();
        if !halts {
            assert_eq!(rest, ["3", "2"]);
            continue;
        }
        assert_eq!(rest, ["3"]);
        insert(&fixture, 0, "a").await;
        let ahead = claimed(&fixture, 9).await;
        assert_eq!(
            keys(&ahead.items),
            ["0"],
            "nothing ahead of a dead item waits"
        );
        fixture.complete(&ahead.items[0].lease).await;
        assert_eq!(fixture.redrive(1).await, 1);
        let redriven = fixture.one().await;
        assert_eq!(keys(std::slice::from_ref(&redriven)), ["1"]);
        fixture.complete(&redriven.lease).await;
        assert_eq!(claims(&fixture, 9).await, [["2"]]);
    }
}

pub(crate) async fn row_inserted_ahead_waits_for_the_lease<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a"]).await;
    let first = fixture.one().await;
    insert(&fixture, 0, "a").await;
    assert!(claims(&fixture, 9).await.is_empty());
    fixture.complete(&first.lease).await;
    assert_eq!(claims(&fixture, 9).await, [["0"]]);
}

pub(crate) async fn expired_item_is_the_head_of_its_group_again<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "b"]).await;
    fixture.claim_for(1, SECOND).await;
    fixture.advance(MINUTE).await;
    assert_eq!(claims(&fixture, 1).await, [["3"]], "not reaped yet");
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    assert_eq!(
        claims(&fixture, 9).await.len(),
        0,
        "the worker holds an item"
    );
    let alone = fixture.calls(vec![call("other", 9)]).await.concat();
    assert_eq!(keys(&alone), ["1"]);
}

pub(crate) async fn suspect_behind_a_delayed_item_stops_nobody<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["b", "a", "a", "c"]).await;
    fixture.claim_for(3, SECOND).await;
    fixture.advance(MINUTE).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 3);
    let row = |id: i64| ("id", Value::Int(id));
    // The group of the first suspect gets an item ahead of it that is delayed.
    insert(&fixture, 0, "b").await;
    fixture
        .harness
        .update("item", ("lease_state", Value::Int(2)), row(0))
        .await;
    let mut leased = Vec::new();
    for worker in ["x", "y", "z"] {
        let got = fixture.calls(vec![call(worker, 9)]).await.concat();
        leased.push(keys(&got));
    }
    assert_eq!(leased, [vec!["2"], vec!["4"], vec![]]);
}

pub(crate) async fn suspect_of_a_full_group_is_told_as_busy<H: Harness>() {
    let one = GroupOrder::Parallel {
        max_leases: Some(1),
        bursts: false,
    };
    let fixture = suspects_beside_a_busy_worker::<H>(one, &["a", "b"], 1).await;
    insert(&fixture, 3, "a").await;
    assert_eq!(keys(&fixture.claim_by(call("busy", 9)).await), ["3"]);
    let of = |group: &str| ClaimCall {
        groups: vec![Key([text(group)].into())],
        ..call("idle", 9)
    };
    let calls = vec![call("idle", 9), of("a"), of("b")];
    let told = fixture.results(calls).await;
    let told: Vec<_> = told
        .iter()
        .map(|claimed| (claimed.items.len(), claimed.limited))
        .collect();
    let busy = Some(Limited::GroupsBusy { wait: None });
    assert_eq!(told, [(0, busy), (0, busy), (0, None)]);
}

/// Lets the leases of the first items of groups expire, while the worker `busy` holds another.
async fn suspects_beside_a_busy_worker<H: Harness>(
    order: GroupOrder,
    names: &[&str],
    suspects: usize,
) -> Fixture<H> {
    let fixture = items::<H>(grouped(order), names).await;
    fixture.claim_for(suspects, SECOND).await;
    assert_eq!(fixture.claim_by(call("busy", 1)).await.len(), 1);
    fixture.advance(MINUTE / 2).await;
    assert_eq!(fixture.reap(9).await.expired.len(), suspects);
    fixture
}

pub(crate) async fn suspects_at_the_head_hide_no_item_of_an_unordered_group<H: Harness>() {
    let names = ["a", "a", "a", "b", "a"];
    let fixture = suspects_beside_a_busy_worker::<H>(PARALLEL, &names, 1).await;
    for expected in ["2", "3", "5"] {
        let got = fixture.claim_by(call("busy", 1)).await;
        assert_eq!(keys(&got), [expected]);
    }
    let none = fixture.results(vec![call("busy", 1)]).await.remove(0);
    assert_eq!(
        (none.has_more, none.limited),
        (false, Some(Limited::Suspects))
    );
}

pub(crate) async fn strict_groups_behind_suspects_leave_the_turn_to_others<H: Harness>() {
    let names = ["h", "h", "i", "i", "j", "j", "k"];
    let order = GroupOrder::Strict {
        halts: false,
        run: 3,
    };
    let fixture = suspects_beside_a_busy_worker::<H>(order, &names, 3).await;
    let none = fixture.results(vec![call("busy", 1)]).await.remove(0);
    assert_eq!((none.items.len(), none.has_more), (0, false));
    insert(&fixture, 8, "l").await;
    insert(&fixture, 9, "").await;
    for expected in ["8", "9"] {
        let got = fixture.claim_by(call("busy", 1)).await;
        assert_eq!(keys(&got), [expected]);
    }
    let none = fixture.results(vec![call("busy", 9)]).await.remove(0);
    assert_eq!((none.items.len(), none.has_more), (0, false));
    assert_eq!(keys(&fixture.claim_by(call("idle", 9)).await), ["1"]);
}

pub(crate) async fn call_behind_one_that_got_items_learns_of_busy_groups<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "b"]).await;
    let calls = vec![call("x", 9), call("y", 9)];
    let results = fixture.results(calls).await;
    assert_eq!(keys(&results[0].items), ["1", "3"]);
    let busy = Some(Limited::GroupsBusy { wait: None });
    assert_eq!((results[1].items.len(), results[1].limited), (0, busy));
}

pub(crate) async fn order_of_a_group_is_the_order_of_the_queue<H: Harness>() {
    let spec = QueueSpec {
        order: by(&["-rank", "id"]),
        ..grouped(STRICT)
    };
    let fixture = items::<H>(spec, &["a", "a", "a", "b"]).await;
    for (id, rank) in [(1, 5), (2, 9), (4, 1)] {
        let row = ("id", Value::Int(id));
        fixture
            .harness
            .update("item", ("rank", Value::Int(rank)), row)
            .await;
    }
    let first = fixture.claim(9).await;
    assert_eq!(keys(&first), ["2", "4"]);
    fixture.settle(&first[0].lease, fail(Some(HOUR))).await;
    assert!(claims(&fixture, 9).await.is_empty(), "1 and 3 come after 2");
    insert(&fixture, 0, "a").await;
    assert!(claims(&fixture, 9).await.is_empty(), "0 has no rank");
    let row = ("id", Value::Int(0));
    fixture
        .harness
        .update("item", ("rank", Value::Int(10)), row)
        .await;
    let ahead = fixture.claim(9).await;
    assert_eq!(keys(&ahead), ["0"]);
    fixture.complete(&ahead[0].lease).await;
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    let mut served = Vec::new();
    while let Some(item) = fixture.calls(vec![call("other", 1)]).await.concat().pop() {
        served.extend(keys(std::slice::from_ref(&item)));
        fixture.complete(&item.lease).await;
    }
    // The lease of 4 has expired meanwhile, so it goes alone.
    assert_eq!(served, ["4", "2", "1", "3"]);
}

pub(crate) async fn rows_without_a_group_have_one_turn_per_round<H: Harness>() {
    let names = ["", "a", "", "b", "", "a"];
    let fixture = items::<H>(grouped(STRICT), &names).await;
    let one_by_one: Vec<_> = claims(&fixture, 1).await.concat();
    assert_eq!(one_by_one, ["2", "4", "1", "3", "5"]);
    let fixture = items::<H>(grouped(STRICT), &names).await;
    assert_eq!(claims(&fixture, 9).await, [["2", "4", "1", "3", "5"]]);
}

pub(crate) async fn parallel_groups_share_a_claim_evenly<H: Harness>() {
    let names = ["a", "a", "a", "a", "a", "b", "c", "c"];
    let fixture = items::<H>(grouped(PARALLEL), &names).await;
    assert_eq!(
        keys(&fixture.claim(6).await),
        ["1", "6", "7", "2", "8", "3"]
    );
    assert_eq!(claims(&fixture, 9).await, [["4", "5"]]);
}

pub(crate) async fn parallel_group_is_held_back_at_its_limit<H: Harness>() {
    let order = GroupOrder::Parallel {
        max_leases: Some(2),
        bursts: false,
    };
    let fixture = items::<H>(grouped(order), &["a", "a", "a", "b"]).await;
    let first = fixture.claim(9).await;
    assert_eq!(keys(&first), ["1", "4", "2"]);
    let busy = claimed(&fixture, 9).await;
    assert_eq!(
        (busy.items.len(), busy.limited),
        (0, Some(Limited::GroupsBusy { wait: None }))
    );
    fixture.complete(&first[0].lease).await;
    assert_eq!(claims(&fixture, 9).await, [["3"]]);
}

pub(crate) async fn many_busy_groups_are_walked_in_parts<H: Harness>() {
    const BUSY: i64 = 400;
    let fixture = Fixture::<H>::over(&[customer_table()], vec![grouped(STRICT)]).await;
    for id in 0..BUSY {
        insert(&fixture, id, &format!("g{id:04}")).await;
    }
    let mut leased = 0;
    while leased < BUSY {
        leased += i64::try_from(fixture.claim(1_000).await.len()).expect("a number");
    }
    for id in 0..BUSY {
        insert(&fixture, BUSY + id, &format!("g{id:04}")).await;
    }
    insert(&fixture, 9_999, "g0300x").await;
    let (mut operations, mut visited, mut found) = (0, 0, Vec::new());
    loop {
        let claimed = claimed(&fixture, 1).await;
        (operations, visited) = (operations + 1, visited + claimed.turn.visited);
        found.extend(keys(&claimed.items));
        if !claimed.has_more && claimed.items.is_empty() {
            assert_eq!(claimed.limited, Some(Limited::GroupsBusy { wait: None }));
            break;
        }
        assert!(operations < 100, "the round does not end");
    }
    assert_eq!(found, ["9999"]);
    assert!(operations > 4, "each operation looks at 68 groups");
    assert!(
        visited < 2 * 401 + 70 + 3,
        "{visited} visits for two rounds"
    );
}

pub(crate) async fn queue_has_at_most_its_number_of_leases<H: Harness>() {
    for has_groups in [false, true] {
        let spec = QueueSpec {
            groups: has_groups.then(|| groups(STRICT)),
            limits: QueueLimits {
                max_leases: Some(3),
                rate: None,
            },
            ..queue("item")
        };
        let fixture = items::<H>(spec, &["a", "b", "c", "d", "e"]).await;
        let other = fixture.another().await;
        let first = fixture.claim(2).await;
        assert_eq!(other.claim(9).await.len(), 1);
        let full = claimed(&fixture, 9).await;
        assert_eq!(
            (full.items.len(), full.limited),
            (0, Some(Limited::MaxLeases))
        );
        other.complete(&first[0].lease).await;
        let calls = vec![call("x", 9), call("y", 9)];
        let results = fixture.results(calls).await;
        assert_eq!((results[0].items.len(), results[1].items.len()), (1, 0));
        assert_eq!(results[1].limited, Some(Limited::MaxLeases));
    }
}

pub(crate) async fn queue_gives_items_out_at_its_rate<H: Harness>() {
    for has_groups in [false, true] {
        let rate = Rate {
            items: 2,
            per: HOUR,
            burst: 3,
        };
        let spec = QueueSpec {
            groups: has_groups.then(|| groups(STRICT)),
            limits: QueueLimits {
                max_leases: None,
                rate: Some(rate),
            },
            ..queue("item")
        };
        let fixture = items::<H>(spec, &["a", "b", "c", "d", "e", "f"]).await;
        let other = fixture.another().await;
        assert_eq!(fixture.claim(2).await.len(), 2);
        assert_eq!(other.claim(9).await.len(), 1);
        let empty = claimed(&fixture, 9).await;
        let Some(Limited::Rate { wait }) = empty.limited else {
            panic!("{empty:?}");
        };
        assert!(wait <= HOUR / 2 && wait + MINUTE > HOUR / 2, "{wait:?}");
        fixture.advance(wait).await;
        assert_eq!(other.claim(9).await.len(), 1);
        assert!(fixture.claim(9).await.is_empty());
        fixture.advance(9 * HOUR).await;
        assert_eq!(fixture.claim(9).await.len(), 2, "only so many are left");
    }
}

pub(crate) async fn row_of_the_queue_decides_about_limits<H: Harness>() {
    let mut spec = QueueSpec {
        limits: QueueLimits {
            max_leases: Some(1),
            rate: None,
        },
        ..queue("item")
    };
    let fixture = items::<H>(spec.clone(), &["a", "b", "c"]).await;
    spec.limits.max_leases = Some(2);
    let restarted = fixture.harness.open(&[spec]).await.expect("open");
    let restarted = Broker::new(restarted);
    assert_eq!(restarted.claim(9).await.len(), 1);
}

pub(crate) async fn operators_change_limits_of_a_running_queue<H: Harness>() {
    let spec = QueueSpec {
        limits: QueueLimits {
            max_leases: Some(1),
            rate: None,
        },
        ..grouped(PARALLEL)
    };
    let fixture = items::<H>(spec, &["a", "a", "a", "b", "b", "c"]).await;
    let other = fixture.another().await;
    let set = async |change| {
        let set = other.store.set_limits(other.queue, change);
        set.await.expect("changed")
    };
    let unchanged = set(LimitChange::default()).await;
    assert_eq!((unchanged.max_leases, unchanged.rate), (Some(1), None));
    assert_eq!(fixture.claim(9).await.len(), 1);
    let change = LimitChange {
        max_leases: Some(3),
        ..LimitChange::default()
    };
    assert_eq!(set(change).await.max_leases, Some(3));
    assert_eq!(fixture.claim(9).await.len(), 2);
    let change = LimitChange {
        max_leases: Some(0),
        rate: Some((1, HOUR, 1)),
        group_max_leases: Some(2),
        group_rate: None,
    };
    let limits = set(change).await;
    let rate = Rate {
        items: 1,
        per: HOUR,
        burst: 1,
    };
    assert_eq!(limits.rate, Some(rate));
    assert_eq!(
        (limits.max_leases, limits.group_max_leases),
        (None, Some(2))
    );
    assert_eq!(fixture.claim(9).await.len(), 1);
    let change = LimitChange {
        rate: Some((0, Duration::ZERO, 0)),
        ..LimitChange::default()
    };
    assert_eq!(set(change).await.rate, None);
    // Groups a and b have two leases at most.
    let rest = fixture.claim(9).await.len();
    assert!(rest <= 1, "{rest}");
    // A restart changes nothing.
    let restarted = Broker::new(fixture.harness.open(&fixture.queues).await.expect("open"));
    let kept = restarted
        .store
        .set_limits(restarted.queue, LimitChange::default());
    let kept = kept.await.expect("limits");
    assert_eq!((kept.max_leases, kept.rate), (None, None));
}

pub(crate) async fn broker_with_another_policy_is_refused<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "b"]).await;
    let lease = fixture.one().await.lease;
    let spec = grouped(PARALLEL);
    let both = |problem: &str| {
        problem.contains("strict, by customer") && problem.contains("parallel, by customer")
    };
    let problems = fixture.harness.check(&spec).await.expect("a check");
    assert!(problems.iter().any(|problem| both(problem)), "{problems:?}");
    let other = fixture.harness.open(std::slice::from_ref(&spec)).await;
    match other.err() {
        Some(StoreError::Misconfigured(problem)) if both(&problem) => {}
        other => panic!("{other:?}"),
    }
    // An operator makes the other policy the queue's, while the broker runs.
    fixture.harness.apply(&spec).await.expect("applied");
    let calls = vec![call("x", 1)].into();
    let refused = fixture.store.claim(fixture.queue, calls, usize::MAX).await;
    assert!(
        matches!(&refused, Err(StoreError::Misconfigured(problem)) if both(problem)),
        "{refused:?}"
    );
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
    let other = fixture.harness.open(std::slice::from_ref(&spec)).await;
    let other = Broker::new(other.expect("open"));
    assert_eq!(claims(&other, 9).await, [["2"]]);
}

pub(crate) async fn broker_without_groups_is_refused<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a"]).await;
    let ungrouped = queue("item");
    let problems = fixture.harness.check(&ungrouped).await.expect("a check");
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("item_lease_ready")),
        "{problems:?}"
    );
    assert!(
        fixture
            .harness
            .open(std::slice::from_ref(&ungrouped))
            .await
            .is_err()
    );
    // The way back, and there again.
    fixture.harness.apply(&ungrouped).await.expect("applied");
    assert_eq!(fixture.harness.plan(&ungrouped).await, Ok(Vec::new()));
    assert!(fixture.harness.open(&fixture.queues).await.is_err());
    let calls = vec![call("x", 1)].into();
    let running = fixture.store.claim(fixture.queue, calls, usize::MAX).await;
    misconfigured(running);
    fixture
        .harness
        .apply(&fixture.queues[0])
        .await
        .expect("applied");
    assert_eq!(
        fixture.harness.plan(&fixture.queues[0]).await,
        Ok(Vec::new())
    );
    let again = Broker::new(fixture.harness.open(&fixture.queues).await.expect("open"));
    assert_eq!(claims(&again, 9).await, [["1"]]);
}

pub(crate) async fn removal_drops_the_indexes_of_groups<H: Harness>() {
    for halts in [false, true] {
        let harness = H::start().await;
        harness.create(&customer_table()).await;
        let before = harness.describe("item").await;
        let spec = grouped(GroupOrder::Strict { halts, run: 1 });
        harness.apply(&spec).await.expect("applied");
        let adopted = harness.describe("item").await;
        assert!(
            adopted.iter().any(|line| line.contains("item_lease_group")),
            "{adopted:?}"
        );
        let removal = harness.plan_removal(&spec).await.expect("a plan");
        for step in &removal.steps {
            harness.run(step).await.expect("removed");
        }
        assert_eq!(harness.describe("item").await, before);
    }
}

/// Returns a value of a column of this kind, another one for each number.
pub(crate) fn value_of(kind: Kind, number: i64) -> Value {
    match kind {
        Kind::Text => text(&format!("it's \"{number}\" ☂")),
        Kind::Blob => Value::Bytes(vec![u8::try_from(number).expect("small"); 16]),
        Kind::Decimal => Value::Decimal(format!("{number}.5000")),
        Kind::Timestamp => Value::Timestamp {
            seconds: 1_700_000_000 + number,
            nanos: 0,
        },
        _ => Value::Int(number),
    }
}

/// Starts a queue with strict groups whose column has this kind.
pub(crate) async fn grouped_by<H: Harness>(kind: Kind) -> Fixture<H> {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("customer", kind)
        .key(&["id"]);
    Fixture::over(&[table], vec![grouped(STRICT)]).await
}

/// The kinds of columns whose groups a text can name.
pub(crate) const NAMED_KINDS: [Kind; 5] = [
    Kind::Int,
    Kind::BigInt,
    Kind::Text,
    Kind::Decimal,
    Kind::Timestamp,
];

/// Returns every kind of column that can name groups.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    NAMED_KINDS.into_iter().chain([Kind::Blob])
}

/// Creates a queue with three items, 1 to 3, in three groups whose names have this kind.
pub(crate) async fn three_groups<H: Harness>(kind: Kind) -> Fixture<H> {
    let fixture = grouped_by::<H>(kind).await;
    for id in 1..=3 {
        insert_into(&fixture, id, value_of(kind, id)).await;
    }
    fixture
}

/// Inserts an item into a group.
pub(crate) async fn insert_into<H: Harness>(fixture: &Fixture<H>, id: i64, group: Value) {
    let row = [("id", Value::Int(id)), ("customer", group)];
    fixture.harness.insert("item", &row).await;
}

pub(crate) async fn every_kind_of_column_can_name_groups<H: Harness>() {
    for kind in kinds() {
        let fixture = grouped_by::<H>(kind).await;
        for id in 1..=6 {
            insert_into(&fixture, id, value_of(kind, id % 3)).await;
        }
        let mut served = BTreeSet::new();
        for _ in 0..3 {
            served.extend(keys(&fixture.claim(1).await));
        }
        let expected: BTreeSet<String> = (1..=3).map(|id| id.to_string()).collect();
        assert_eq!(served, expected, "{kind:?}");
        assert!(claims(&fixture, 9).await.is_empty(), "{kind:?}");
    }
}

pub(crate) async fn column_that_cannot_name_groups_is_refused<H: Harness>() {
    let harness = H::start().await;
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("customer", Kind::Double)
        .key(&["id"]);
    harness.create(&table).await;
    let problems = harness.check(&grouped(STRICT)).await.expect("a check");
    assert!(
        problems.iter().any(|problem| problem.contains("group")),
        "{problems:?}"
    );
    let mut spec = grouped(STRICT);
    spec.groups = Some(Groups {
        column: "nowhere".to_owned(),
        order: STRICT,
        rate: None,
    });
    let problems = harness.check(&spec).await.expect("a check");
    assert!(
        problems.iter().any(|problem| problem.contains("nowhere")),
        "{problems:?}"
    );
}

pub(crate) async fn nullable_group_column_is_warned_of<H: Harness>() {
    let harness = H::start().await;
    harness.create(&customer_table()).await;
    let warnings = harness.warnings(&grouped(STRICT)).await;
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("can be NULL")),
        "{warnings:?}"
    );
    let spec = QueueSpec {
        groups: Some(Groups {
            column: "id".to_owned(),
            order: STRICT,
            rate: None,
        }),
        ..queue("item")
    };
    assert_eq!(harness.warnings(&spec).await, Vec::<String>::new());
}

pub(crate) async fn groups_work_without_filtered_indexes<H: Harness>() {
    for halts in [false, true] {
        let spec = QueueSpec {
            filtered_indexes: false,
            ..grouped(GroupOrder::Strict { halts, run: 1 })
        };
        let fixture = items::<H>(spec, &["a", "a", "b", "", "b"]).await;
        let first = fixture.claim(9).await;
        assert_eq!(keys(&first), ["1", "3", "4"]);
        fixture.settle(&first[0].lease, fail(None)).await;
        fixture.settle(&first[1].lease, fail(Some(HOUR))).await;
        let next: Vec<_> = claims(&fixture, 9).await.concat();
        assert_eq!(next.is_empty(), halts, "{next:?}");
        assert_eq!(
            fixture.harness.plan(&fixture.queues[0]).await,
            Ok(Vec::new())
        );
    }
}

pub(crate) async fn queue_without_an_order_can_have_parallel_groups<H: Harness>() {
    let spec = QueueSpec {
        order: Order::None,
        ..grouped(GroupOrder::Parallel {
            max_leases: Some(1),
            bursts: false,
        })
    };
    let fixture = items::<H>(spec, &["a", "a", "b"]).await;
    assert_eq!(fixture.claim(9).await.len(), 2);
    assert!(claims(&fixture, 9).await.is_empty());
}

pub(crate) async fn item_that_does_not_fit_keeps_its_place<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &[]).await;
    for (id, customer, bytes) in [(1, "a", 9_000), (2, "a", 1), (3, "b", 1), (4, "c", 400)] {
        let row = [
            ("id", Value::Int(id)),
            ("customer", text(customer)),
            ("payload", text(&"x".repeat(bytes.min(200)))),
        ];
        fixture.harness.insert("item", &row).await;
    }
    // No item fits into so few bytes: each is named, and none is passed over in its group.
    let mut small = call("worker", 9);
    small.max_bytes = 10;
    let none = fixture.results(vec![small]).await.remove(0);
    assert!(none.items.is_empty());
    assert_eq!(none.too_large.len(), 3);
    assert_eq!(keys(&fixture.claim(9).await), ["1", "3", "4"]);
}

pub(crate) async fn only_items_of_its_group_come_before_an_item<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "b", "a", "", "a", ""]).await;
    for (id, ahead) in [(1, 0), (3, 1), (5, 2), (2, 0), (4, 0), (6, 1)] {
        let key = Key(Box::new([Value::Int(id)]));
        let facts = fixture.reads.item_facts(fixture.queue, key);
        let row = facts.await.expect("facts").row.expect("a row");
        assert_eq!(row.ahead, Some(Ahead::Exactly(ahead)), "{id}");
    }
}

pub(crate) async fn new_items_of_clients_join_their_groups<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &[]).await;
    for (id, customer) in [(1, "a"), (2, "a"), (3, "b")] {
        let item = new_item(&[("id", Value::Int(id)), ("customer", text(customer))]);
        fixture.enqueue(item).await;
    }
    assert_eq!(claims(&fixture, 9).await, [["1", "3"]]);
    let stats = fixture.reads.stats(fixture.queue).await.expect("stats");
    assert_eq!(stats.count, [1, 2, 0, 0, 0]);
    let listed = fixture.list(State::Ready).await;
    assert_eq!(listed.len(), 1);
}
