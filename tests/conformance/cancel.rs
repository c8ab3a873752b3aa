//! Cancellation of leases by the keys of their items.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::MirrorValue;
use lease_broker_store::{Cancellation, Cancelled, CancelledLease, Renewed};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, fail, item_table, mirror, queue, text,
};
use crate::harness::table::{Kind, Table};

pub(crate) fn because(reason: &str) -> Cancellation {
    Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: reason.to_owned(),
        call: None,
    }
}

/// Cancels the leases that the rows with these keys have.
pub(crate) async fn cancel(broker: &Broker, keys: &[&str], how: Cancellation) -> Vec<Cancelled> {
    let leases: Vec<_> = keys.iter().map(|key| (*key, None)).collect();
    cancel_leases(broker, &leases, how).await
}

/// Cancels leases by the keys of their items and their fencing tokens.
async fn cancel_leases(
    broker: &Broker,
    leases: &[(&str, Option<i64>)],
    how: Cancellation,
) -> Vec<Cancelled> {
    let leases = leases.iter().map(|(text, fence)| {
        let key = broker.reads.parse_key(broker.queue, text);
        CancelledLease {
            key: key.unwrap_or_else(|problem| panic!("{text:?}: {problem}")),
            fence: *fence,
        }
    });
    let cancelled = broker.store.cancel(broker.queue, leases.collect(), how);
    let cancelled = cancelled.await.expect("the leases are cancelled");
    let ended = cancelled.results.iter().filter_map(|result| match result {
        Cancelled::Ended { fence, .. } => Some(*fence),
        _ => None,
    });
    let reported = cancelled.ended.iter().map(|ended| ended.lease.fence);
    let (mut ended, mut reported): (Vec<_>, Vec<_>) = (ended.collect(), reported.collect());
    ended.sort_unstable();
    reported.sort_unstable();
    assert_eq!(reported, ended);
    cancelled.results
}

/// The result for the first lease of an item.
fn cancelled(state: State) -> Cancelled {
    cancelled_lease(1, state)
}

fn cancelled_lease(fence: i64, state: State) -> Cancelled {
    Cancelled::Ended { state, fence }
}

pub(crate) async fn cancelled_item_is_ready_and_its_lease_lost<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let items = fixture.claim(2).await;
    let results = cancel(&fixture, &["1"], because("stuck")).await;
    assert_eq!(results, [cancelled(State::Ready)]);
    for ending in [fail(None), crate::harness::fixture::release(MINUTE)] {
        assert_eq!(fixture.settle(&items[0].lease, ending).await, None);
    }
    assert_eq!(fixture.complete(&items[0].lease).await, None);
    // The attempt counts.
    let again = fixture.one().await;
    let lease = (&again.lease.key, again.lease.attempt, again.lease.fence);
    assert_eq!(lease, (&items[0].lease.key, 2, 2));
    assert!(fixture.heartbeat(&items[1].lease, HOUR).await.is_some());
}

pub(crate) async fn heartbeat_returns_the_reason_until_the_next_claim<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let reason = "the \"operator\" said\\so: ü\t☂";
    cancel(&fixture, &["1"], because(reason)).await;
    let lost = Renewed::Lost {
        state: Some(State::Ready),
        cancel_reason: Some(reason.to_owned()),
    };
    assert_eq!(fixture.renew(&lease, HOUR).await, lost);
    let mut older = lease.clone();
    older.fence -= 1;
    let unknown = Renewed::Lost {
        state: Some(State::Ready),
        cancel_reason: None,
    };
    assert_eq!(fixture.renew(&older, HOUR).await, unknown);
    let listed = fixture.list(State::Ready).await.remove(0);
    assert_eq!(listed.error.as_deref(), Some(reason));
    fixture.one().await;
    let lost = Renewed::Lost {
        state: Some(State::Leased),
        cancel_reason: None,
    };
    assert_eq!(fixture.renew(&lease, HOUR).await, lost);
}

pub(crate) async fn expired_lease_has_no_cancel_reason<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    fixture.advance(HOUR).await;
    fixture.reap(10).await;
    let lost = Renewed::Lost {
        state: Some(State::Ready),
        cancel_reason: None,
    };
    assert_eq!(fixture.renew(&lease, HOUR).await, lost);
}

pub(crate) async fn cancelled_items_can_be_delayed_or_dead<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let items = fixture.claim(2).await;
    let delayed = Cancellation {
        delay: MINUTE,
        ..because("later")
    };
    let dead = Cancellation {
        dead_letter: true,
        ..because("never")
    };
    let results = cancel(&fixture, &["1"], delayed).await;
    assert_eq!(results, [cancelled(State::Delayed)]);
    let results = cancel(&fixture, &["2"], dead).await;
    assert_eq!(results, [cancelled(State::Dead)]);
    assert_eq!(fixture.claim(2).await, []);
    fixture.advance(2 * MINUTE).await;
    assert_eq!(fixture.reap(10).await.promoted, 1);
    // The reason is still told after the item has become ready again.
    for (item, state, reason) in [
        (&items[0], State::Ready, "later"),
        (&items[1], State::Dead, "never"),
    ] {
        let lost = Renewed::Lost {
            state: Some(state),
            cancel_reason: Some(reason.to_owned()),
        };
        assert_eq!(fixture.renew(&item.lease, HOUR).await, lost);
    }
    assert_eq!(fixture.redrive(10).await, 1);
    let lost = Renewed::Lost {
        state: Some(State::Ready),
        cancel_reason: None,
    };
    assert_eq!(fixture.renew(&items[1].lease, HOUR).await, lost);
}

pub(crate) async fn item_without_attempts_left_is_dead<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |queue| queue.retry.max_attempts = Some(2)).await;
    let delayed = Cancellation {
        delay: MINUTE,
        ..because("enough")
    };
    fixture.one().await;
    let results = cancel(&fixture, &["1"], because("once")).await;
    assert_eq!(results, [cancelled(State::Ready)]);
    fixture.one().await;
    let results = cancel(&fixture, &["1"], delayed).await;
    assert_eq!(results, [cancelled_lease(2, State::Dead)]);
    let dead = fixture.list(State::Dead).await.remove(0);
    assert_eq!((dead.attempt, dead.due_in), (2, None));
}

pub(crate) async fn items_without_leases_are_not_changed<H: Harness>() {
    let fixture = Fixture::<H>::items(4).await;
    let items = fixture.claim(3).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, fail(None)).await;
    fixture.settle(&items[2].lease, fail(Some(HOUR))).await;
    let before = fixture.snapshot().await;
    let results = cancel(&fixture, &["4", "3", "2", "1", "99"], because("no")).await;
    let expected = [State::Ready, State::Delayed, State::Dead, State::Completed];
    let expected = expected.map(Cancelled::NotHeld);
    assert_eq!(results[..4], expected);
    assert_eq!(results[4], Cancelled::NoRow);
    assert_eq!(fixture.snapshot().await, before);
    assert_eq!(cancel(&fixture, &[], because("no")).await, []);
}

pub(crate) async fn only_the_lease_with_the_fencing_token_is_cancelled<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    fixture.one().await;
    let first = [("1", Some(1))];
    let results = cancel_leases(&fixture, &first, because("x")).await;
    assert_eq!(results, [cancelled(State::Ready)]);
    // A second call finds what the first has done, until the item is claimed.
    let before = fixture.snapshot().await;
    let results = cancel_leases(&fixture, &first, because("y")).await;
    assert_eq!(
        results,
        [Cancelled::Repeated {
            state: State::Ready,
            fence: 1
        }]
    );
    for other in [None, Some(0), Some(2)] {
        let results = cancel_leases(&fixture, &[("1", other)], because("y")).await;
        assert_eq!(results, [Cancelled::NotHeld(State::Ready)], "{other:?}");
    }
    assert_eq!(fixture.snapshot().await, before);
    let second = fixture.one().await;
    for other in [Some(1), Some(3)] {
        let results = cancel_leases(&fixture, &[("1", other)], because("y")).await;
        assert_eq!(results, [Cancelled::NotHeld(State::Leased)], "{other:?}");
    }
    assert!(fixture.heartbeat(&second.lease, HOUR).await.is_some());
    let results = cancel_leases(&fixture, &[("1", Some(2))], because("y")).await;
    assert_eq!(results, [cancelled_lease(2, State::Ready)]);
}

pub(crate) async fn settled_lease_does_not_count_as_cancelled<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let items = fixture.claim(3).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, fail(Some(HOUR))).await;
    fixture
        .settle(&items[2].lease, crate::harness::fixture::release(HOUR))
        .await;
    let leases = ["1", "2", "3"].map(|key| (key, Some(1)));
    let results = cancel_leases(&fixture, &leases, because("late")).await;
    let states = [State::Completed, State::Delayed, State::Delayed];
    assert_eq!(results, states.map(Cancelled::NotHeld));
}

pub(crate) async fn rows_are_found_by_the_text_of_their_keys<H: Harness>() {
    let table = |name: &str, kind| Table::new(name).required("k", kind).key(&["k"]);
    let pair = Table::new("pair")
        .required("a", Kind::Text)
        .required("b", Kind::BigInt)
        .key(&["a", "b"]);
    let tables = [table("texts", Kind::Text), table("blobs", Kind::Blob), pair];
    let queues = ["texts", "blobs", "pair"].map(queue);
    let fixture = Fixture::<H>::over(&tables, queues.into()).await;
    let awkward = text("a \"b\" \\ ü");
    let rows: [&[(&str, Value)]; 3] = [
        &[("k", awkward.clone())],
        &[("k", Value::Bytes(vec![0, 255, 16]))],
        &[("a", awkward), ("b", Value::Int(-7))],
    ];
    for ((at, row), name) in rows.into_iter().enumerate().zip(["texts", "blobs", "pair"]) {
        fixture.harness.insert(name, row).await;
        let broker = fixture.at(at);
        let item = broker.one().await;
        let key = item.lease.key.to_string();
        let results = cancel(&broker, &[&key], because("found")).await;
        assert_eq!(results, [cancelled(State::Ready)], "{key}");
    }
}

pub(crate) async fn malformed_keys_are_refused<H: Harness>() {
    let pair = Table::new("pair")
        .required("a", Kind::Text)
        .required("b", Kind::BigInt)
        .key(&["a", "b"]);
    let queues = vec![queue("item"), queue("pair")];
    let fixture = Fixture::<H>::over(&[item_table("item"), pair], queues).await;
    let of_other_kinds = [
        (0, "x"),
        (0, ""),
        (0, "1.5"),
        (0, "99999999999999999999"),
        (1, "[\"a\",\"1\"]"),
    ];
    let malformed = [(1, "a"), (1, "[\"a\"]"), (1, "[1,1]"), (1, "[\"a\",null]")];
    let of_other_kinds = of_other_kinds.iter().filter(|_| !H::keeps_any_value());
    for &(at, wrong) in of_other_kinds.chain(&malformed) {
        let broker = fixture.at(at);
        let parsed = broker.reads.parse_key(broker.queue, wrong);
        assert!(parsed.is_err(), "{wrong:?}: {parsed:?}");
    }
}

pub(crate) async fn cancellation_sets_the_mirror_of_the_new_state<H: Harness>() {
    let fixture = Fixture::<H>::with(2, |queue| {
        let mirror =
            |state, value: &str| mirror(state, "payload", MirrorValue::Literal(text(value)));
        queue.mirror = vec![mirror(State::Ready, "open"), mirror(State::Dead, "stopped")];
    })
    .await;
    fixture.claim(2).await;
    cancel(&fixture, &["1"], because("x")).await;
    let dead = Cancellation {
        dead_letter: true,
        ..because("x")
    };
    cancel(&fixture, &["2"], dead).await;
    let rows = fixture.harness.rows("item", &["id", "payload"]).await;
    let row = |id, payload| vec![Value::Int(id), text(payload)];
    assert_eq!(rows, [row(1, "open"), row(2, "stopped")]);
}
