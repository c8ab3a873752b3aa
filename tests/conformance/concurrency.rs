//! Many brokers and workers at the same time. Each item is processed once.

use std::collections::HashMap;
use std::sync::Arc;

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{ClaimStrategy, OnComplete};
use lease_broker_store::{FollowUp, QueueIndex};
use lease_broker_value::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, call, complete_with, fail, item_table, new_item, queue, release,
};

const BROKERS: usize = 3;
const WORKERS: usize = 4;

/// Runs `WORKERS` workers on each of `BROKERS` brokers, starting at the same time, and returns their results.
async fn run_workers<H, T, F>(fixture: &Fixture<H>, work: impl Fn(Broker, usize) -> F) -> Vec<T>
where
    H: Harness,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(BROKERS * WORKERS));
    let mut tasks = JoinSet::new();
    for broker in 0..BROKERS {
        let broker_of_workers = fixture.another().await;
        for worker in 0..WORKERS {
            let work = work(broker_of_workers.clone(), broker * WORKERS + worker);
            let start = start.clone();
            tasks.spawn(async move {
                start.wait().await;
                work.await
            });
        }
    }
    tasks.join_all().await
}

async fn queue_of<H: Harness>(rows: i64) -> Fixture<H> {
    queue_with_strategy(rows, ClaimStrategy::SkipLocked).await
}

async fn queue_with_strategy<H: Harness>(rows: i64, strategy: ClaimStrategy) -> Fixture<H> {
    let fixture = Fixture::<H>::with(0, |spec| {
        spec.retry.max_attempts = None;
        spec.claim_strategy = strategy;
    })
    .await;
    let items = (1..=rows).map(|id| new_item(&[("id", Value::Int(id))]));
    fixture.try_enqueue(items.collect()).await.expect("enqueue");
    fixture
}

fn times_per_key(keys: impl IntoIterator<Item = String>) -> HashMap<String, usize> {
    keys.into_iter().fold(HashMap::new(), |mut counts, key| {
        *counts.entry(key).or_default() += 1;
        counts
    })
}

pub(crate) async fn each_row_is_claimed_and_completed_once<H: Harness>() {
    claim_and_complete_all(queue_of::<H>(600).await).await;
}

pub(crate) async fn claims_under_app_lock_get_each_row_once<H: Harness>() {
    claim_and_complete_all(queue_with_strategy::<H>(300, ClaimStrategy::AppLock).await).await;
}

async fn claim_and_complete_all<H: Harness>(fixture: Fixture<H>) {
    let rows = usize::try_from(fixture.counts().await[0]).expect("few");
    let done = run_workers(&fixture, |broker, worker| async move {
        let mut done = Vec::new();
        loop {
            let items = broker.claim_by(call(&format!("worker {worker}"), 7)).await;
            if items.is_empty() {
                break done;
            }
            for item in items {
                assert_eq!(item.lease.fence, 1);
                let state = broker.complete(&item.lease).await;
                assert_eq!(state, Some(State::Completed));
                done.push(item.lease.key.to_string());
            }
        }
    })
    .await;
    let counts = times_per_key(done.concat());
    assert_eq!(counts.len(), rows);
    assert!(counts.values().all(|&times| times == 1));
    assert_eq!(fixture.counts().await, [0, 0, 0, rows as u64, 0]);
}

pub(crate) async fn one_kind_wins_among_concurrent_settlements<H: Harness>() {
    let fixture = queue_of::<H>(20).await;
    for item in fixture.claim(20).await {
        let lease = item.lease.clone();
        let answers = run_workers(&fixture, |broker, worker| {
            let lease = lease.clone();
            async move {
                let done = worker % 2 == 0;
                let ending = if done {
                    complete_with(Vec::new())
                } else {
                    fail(None)
                };
                (done, broker.settle(&lease, ending).await)
            }
        })
        .await;
        let won: Vec<_> = answers
            .iter()
            .filter(|(_, state)| state.is_some())
            .collect();
        assert_eq!(
            won.len(),
            answers.len() / 2,
            "settlements of both kinds, or not all of one kind, succeeded: {answers:?}"
        );
        assert!(won.iter().all(|(done, _)| *done == won[0].0));
    }
}

pub(crate) async fn follow_ups_of_concurrent_repeats_are_added_once<H: Harness>() {
    let mut first = queue("item");
    first.on_complete = OnComplete::Keep;
    let tables = [item_table("item"), item_table("next")];
    let fixture = Fixture::<H>::over(&tables, vec![first, queue("next")]).await;
    fixture.insert([1]).await;
    let lease = fixture.one().await.lease;
    run_workers(&fixture, |broker, worker| {
        let lease = lease.clone();
        let id = Value::Int(i64::try_from(worker).expect("small"));
        let follow_up = FollowUp {
            queue: QueueIndex(1),
            item: new_item(&[("id", id)]),
        };
        async move { broker.settle(&lease, complete_with(vec![follow_up])).await }
    })
    .await;
    assert_eq!(fixture.at(1).counts().await, [1, 0, 0, 0, 0]);
}

pub(crate) async fn request_sent_by_many_brokers_gets_the_same_leases<H: Harness>() {
    let fixture = queue_of::<H>(100).await;
    let token = Uuid::new_v4();
    let answers = run_workers(&fixture, |broker, _| async move {
        let items = broker.request(token, 5).await;
        items
            .into_iter()
            .map(|item| item.lease)
            .collect::<Vec<LeaseRef>>()
    })
    .await;
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    assert_eq!(fixture.counts().await, [95, 5, 0, 0, 0]);
}

pub(crate) async fn claim_and_reaper_never_share_a_lease<H: Harness>() {
    let fixture = queue_of::<H>(300).await;
    fixture.claim_for(300, MINUTE).await;
    fixture.advance(HOUR).await;
    let ended = run_workers(&fixture, |broker, worker| async move {
        let (mut expired, mut claimed) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            if worker % 2 == 0 {
                let reaped = broker.reap(10).await.expired;
                expired.extend(reaped.iter().map(|expired| expired.lease.key.to_string()));
            } else {
                let items = broker.claim(10).await;
                claimed.extend(items.iter().map(|item| item.lease.key.to_string()));
            }
        }
        (expired, claimed)
    })
    .await;
    let (expired, claimed): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    let mut expired = times_per_key(expired.concat());
    for rest in fixture.reap(1_000).await.expired {
        *expired.entry(rest.lease.key.to_string()).or_default() += 1;
    }
    assert_eq!(expired.len(), 300);
    assert!(expired.values().all(|&times| times == 1));
    assert!(
        times_per_key(claimed.concat())
            .values()
            .all(|&times| times == 1)
    );
}

pub(crate) async fn simultaneous_reapers_report_each_lease_once<H: Harness>() {
    const ROUNDS: usize = 20;
    let fixture = queue_of::<H>(300).await;
    fixture.claim_for(300, MINUTE).await;
    fixture.advance(HOUR).await;
    let round = Arc::new(Barrier::new(BROKERS * WORKERS));
    let expired = run_workers(&fixture, |broker, _| {
        let round = round.clone();
        async move {
            let mut expired = Vec::new();
            for _ in 0..ROUNDS {
                round.wait().await;
                let reaped = broker.reap(20).await.expired;
                expired.extend(reaped.iter().map(|expired| expired.lease.key.to_string()));
            }
            expired
        }
    })
    .await;
    let expired = times_per_key(expired.concat());
    assert_eq!(expired.len(), 300);
    let twice: Vec<_> = expired.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "reported twice: {twice:?}");
}

pub(crate) async fn producers_and_workers_lose_and_repeat_nothing<H: Harness>() {
    const EACH: i64 = 40;
    let fixture = queue_of::<H>(0).await;
    let producers = BROKERS * WORKERS / 2;
    let total = usize::try_from(EACH).expect("small") * producers;
    let done = run_workers(&fixture, |broker, worker| async move {
        let mut done = Vec::new();
        if worker % 2 == 0 {
            let base = i64::try_from(worker).expect("small") * 1_000;
            for id in base..base + EACH {
                broker.enqueue(new_item(&[("id", Value::Int(id))])).await;
            }
        } else {
            // Half of the items are released and claimed again.
            while broker.counts().await[State::Completed as usize] < total as u64 {
                let items = broker.claim(5).await;
                for (at, item) in items.iter().enumerate() {
                    if at % 2 == 1 {
                        let back = release(std::time::Duration::ZERO);
                        assert_eq!(broker.settle(&item.lease, back).await, Some(State::Ready));
                    } else if broker.complete(&item.lease).await.is_some() {
                        done.push(item.lease.key.to_string());
                    }
                }
                tokio::task::yield_now().await;
            }
        }
        done
    })
    .await;
    let counts = times_per_key(done.concat());
    assert_eq!(counts.len(), total);
    assert!(counts.values().all(|&times| times == 1));
}

pub(crate) async fn refused_operation_leaves_concurrent_ones_intact<H: Harness>() {
    let fixture = queue_of::<H>(0).await;
    let shared = fixture.another().await;
    let added = run_workers(&fixture, |_, worker| {
        let broker = shared.clone();
        async move {
            let mut added = 0;
            for at in 0..20 {
                let id = i64::try_from(worker * 100 + at).expect("small");
                let mut items = vec![new_item(&[("id", Value::Int(id))])];
                if (worker + at) % 3 == 0 {
                    items.push(new_item(&[("id", Value::Int(id))]));
                    broker
                        .try_enqueue(items)
                        .await
                        .expect_err("an id occurs twice");
                } else {
                    broker.try_enqueue(items).await.expect("enqueue");
                    added += 1;
                }
            }
            added
        }
    })
    .await;
    let added: u64 = added.into_iter().sum();
    assert_eq!(fixture.counts().await, [added, 0, 0, 0, 0]);
}

pub(crate) async fn operation_without_a_caller_runs_to_its_end<H: Harness>() {
    let fixture = queue_of::<H>(50).await;
    for _ in 0..50 {
        let claim = tokio::spawn({
            let broker = fixture.clone();
            async move { broker.claim(1).await }
        });
        tokio::task::yield_now().await;
        claim.abort();
        let _ = claim.await;
    }
    // Each claim was applied completely or not at all, and the store still works.
    let rest = fixture.claim(100).await.len() as u64;
    let counts = fixture.counts().await;
    assert_eq!((counts[0], counts[1]), (0, 50));
    let leased = fixture.list(State::Leased).await;
    assert!(
        rest <= 50
            && leased
                .iter()
                .all(|item| item.fence == 1 && item.attempt == 1)
    );
}
