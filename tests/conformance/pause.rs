//! Pauses of queues.

use lease_broker_model::item_state::State;
use lease_broker_store::{
    ClaimCall, Claimed, EnqueuedOnce, FollowUp, NewPause, PauseMode, QueuePause, StoreError,
};
use lease_broker_value::Value;
use uuid::Uuid;

use super::pause_race::last_claims;
use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, call, complete_with, item_table, keys, new_item, queue,
};

fn new_pause(mode: PauseMode, reason: &str) -> NewPause {
    NewPause {
        mode,
        reason: reason.to_owned(),
        actor: "anna".to_owned(),
        until: None,
    }
}

async fn pause(broker: &Broker, pause: NewPause) -> QueuePause {
    broker
        .store
        .pause(broker.queue, pause)
        .await
        .expect("paused")
}

async fn resume(broker: &Broker) -> Option<QueuePause> {
    broker.store.resume(broker.queue).await.expect("resumed")
}

async fn pauses(broker: &Broker) -> Vec<QueuePause> {
    broker.reads.pauses().await.expect("the pauses")
}

/// Claims one item, and returns the whole result.
async fn claimed(broker: &Broker, call: ClaimCall) -> Claimed {
    broker.results(vec![call]).await.remove(0)
}

/// Returns whether the queue gives a lease. A claim without one has to say that the queue is paused.
async fn gives_lease(broker: &Broker) -> bool {
    let claimed = claimed(broker, call("worker", 1)).await;
    assert_eq!(claimed.is_paused, claimed.items.is_empty(), "{claimed:?}");
    !claimed.items.is_empty()
}

/// Returns whether the queue takes an item.
async fn takes_item(broker: &Broker, id: i64) -> bool {
    let item = new_item(&[("id", Value::Int(id))]);
    match broker.try_enqueue(vec![item]).await {
        Ok(keys) => !keys.is_empty(),
        Err(StoreError::Paused(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn each_mode_stops_its_own_parts<H: Harness>() {
    let fixture = Fixture::<H>::items(9).await;
    let other = fixture.another().await;
    for (id, mode, gives, takes) in [
        (11, PauseMode::Claims, false, true),
        (12, PauseMode::Enqueue, true, false),
        (13, PauseMode::Both, false, false),
    ] {
        pause(&fixture, new_pause(mode, "night")).await;
        for broker in [&*fixture, &other] {
            assert_eq!(gives_lease(broker).await, gives, "{mode:?}");
        }
        assert_eq!(takes_item(&other, id).await, takes, "{mode:?}");
    }
    let ended = resume(&other).await.expect("it was paused");
    assert_eq!(ended.mode, PauseMode::Both);
    assert!(gives_lease(&fixture).await && takes_item(&fixture, 14).await);
    assert_eq!(fixture.counts().await.iter().sum::<u64>(), 11);
}

pub(crate) async fn refused_items_tell_the_reason_and_add_nothing<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let reason = "50% of 'it' is \"slow\"\\ {0} ☂🦀".repeat(30);
    pause(&fixture, new_pause(PauseMode::Enqueue, &reason)).await;
    let items = || (1..=3).map(|id| new_item(&[("id", Value::Int(id))]));
    let refused = StoreError::Paused(reason);
    let added = fixture.try_enqueue(items().collect()).await;
    assert_eq!(added, Err(refused.clone()));
    let added = fixture.enqueue_once(Uuid::new_v4(), items().collect());
    assert_eq!(added.await, Err(refused));
    assert_eq!(fixture.counts().await, [0; 5]);
}

pub(crate) async fn leases_go_on_while_the_queue_is_paused<H: Harness>() {
    let fixture = Fixture::<H>::items(4).await;
    let items = fixture.claim(3).await;
    pause(&fixture, new_pause(PauseMode::Both, "")).await;
    assert!(fixture.heartbeat(&items[0].lease, MINUTE).await.is_some());
    let follow_up = FollowUp {
        queue: fixture.queue,
        item: new_item(&[("id", Value::Int(20))]),
    };
    let ending = complete_with(vec![follow_up]);
    let settled = fixture.settle(&items[1].lease, ending).await;
    assert_eq!(settled, Some(State::Completed));
    fixture.advance(2 * HOUR).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 2);
    assert_eq!(fixture.counts().await, [4, 0, 0, 1, 0]);
    assert!(!gives_lease(&fixture).await);
}

pub(crate) async fn retried_requests_get_their_results_while_paused<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let (request, other) = (Uuid::new_v4(), Uuid::new_v4());
    let leased = fixture.request(request, 2).await;
    let enqueued = Uuid::new_v4();
    let items = || vec![new_item(&[("id", Value::Int(9))])];
    let Ok(EnqueuedOnce::Added(added)) = fixture.enqueue_once(enqueued, items()).await else {
        panic!("the item is new")
    };
    pause(&fixture, new_pause(PauseMode::Both, "")).await;
    let calls = [request, other, Uuid::new_v4()].map(|token| ClaimCall {
        token,
        has_request_id: token != other,
        ..call("worker", 2)
    });
    let results = fixture.results(calls.into()).await;
    assert_eq!(keys(&results[0].items), keys(&leased));
    let paused = results.iter().map(|result| result.is_paused);
    assert_eq!(paused.collect::<Vec<_>>(), [false, true, true]);
    assert!(results[1..].iter().all(|result| result.items.is_empty()));
    let again = fixture.enqueue_once(enqueued, items()).await;
    assert_eq!(again, Ok(EnqueuedOnce::Repeated(added)));
}

pub(crate) async fn pause_ends_at_its_time<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let first = pause(&fixture, new_pause(PauseMode::Both, "")).await;
    let hour = i64::try_from(HOUR.as_millis()).expect("milliseconds");
    let mut until = new_pause(PauseMode::Both, "for an hour");
    until.until = Some(first.pause_time + hour);
    let stored = pause(&fixture, until.clone()).await;
    assert_eq!(stored.until, until.until);
    assert_eq!(pauses(&fixture).await, [stored]);
    assert!(!gives_lease(&fixture).await);
    fixture.advance(2 * HOUR).await;
    assert_eq!(pauses(&fixture).await, []);
    assert!(gives_lease(&fixture).await && takes_item(&fixture, 9).await);
    assert_eq!(resume(&fixture).await, None, "it has ended");
    until.until = Some(0);
    pause(&fixture, until).await;
    assert!(gives_lease(&fixture).await, "it ended before it began");
}

pub(crate) async fn pause_is_replaced_and_read_by_everybody<H: Harness>() {
    let tables = [item_table("a"), item_table("it's \"b\"; --")];
    let mut queues = vec![queue("a"), queue("it's \"b\"; --")];
    queues[1].table = H::table_name(&queues[1].table);
    let fixture = Fixture::<H>::over(&tables, queues).await;
    let other = fixture.at(1);
    assert_eq!(resume(&other).await, None);
    let first = pause(&other, new_pause(PauseMode::Claims, "first")).await;
    let second = pause(&other, new_pause(PauseMode::Enqueue, "second")).await;
    assert!(second.pause_time >= first.pause_time);
    assert_eq!(second.queue, "it's \"b\"; --");
    let third = pause(&fixture, new_pause(PauseMode::Both, "")).await;
    let all = [third, second.clone()];
    assert_eq!(pauses(&fixture).await, all);
    let reader = fixture.harness.open_to_read(&fixture.queues).await;
    let reader = reader.expect("a reader");
    assert_eq!(reader.pauses().await.expect("the pauses"), all);
    assert_eq!(resume(&other).await, Some(second));
    assert_eq!(resume(&other).await, None);
    assert!(takes_item(&other, 1).await && gives_lease(&other).await);
    assert!(!takes_item(&fixture, 1).await);
}

pub(crate) async fn reader_without_tables_of_brokers_sees_no_pause<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    harness.apply(&queue("item")).await.expect("adopted");
    let reader = harness.open_to_read(&[queue("item")]).await;
    let pauses = reader.expect("a reader").pauses().await;
    assert_eq!(pauses.expect("no pauses"), []);
}

pub(crate) async fn claim_after_the_answer_gets_no_lease<H: Harness>() {
    const ROUNDS: usize = 20;

    let fixture = Fixture::<H>::items(0).await;
    fixture.insert(1..=2_000).await;
    let brokers = [(*fixture).clone(), fixture.another().await];
    for round in 0..ROUNDS {
        let pause = async {
            pause(&fixture, new_pause(PauseMode::Claims, "")).await;
        };
        for claimed in last_claims(&brokers, 1, pause).await {
            assert!(
                claimed.is_paused && claimed.items.is_empty(),
                "{round}: {claimed:?}"
            );
        }
        resume(&fixture).await;
    }
    let done = fixture.counts().await[State::Completed as usize];
    assert!(done > 0, "no claim ran beside a pause");
    assert_eq!(fixture.counts().await[State::Leased as usize], 0);
}

pub(crate) async fn two_first_pauses_at_one_moment_both_succeed<H: Harness>() {
    const BROKERS: usize = 8;

    let fixture = Fixture::<H>::items(1).await;
    let pauses = (0..BROKERS).map(|number| {
        let broker = (*fixture).clone();
        tokio::spawn(async move {
            pause(&broker, new_pause(PauseMode::Both, &number.to_string())).await
        })
    });
    for pause in pauses.collect::<Vec<_>>() {
        pause.await.expect("no panic");
    }
    let stored = self::pauses(&fixture).await.remove(0);
    assert!(stored.reason.parse::<usize>().expect("a number") < BROKERS);
    assert_eq!(stored.actor, "anna");
}
