//! Claims of a broker whose store gives the answers that a test says, in simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lease_broker::broker::{Broker, CallContext, ClaimRequest, Error};
use lease_broker_store::{
    ClaimCall, Claimed, Concurrency, LeaseRow, Limited, Problem, ProblemKind, Rejection, StoreError,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::database::{Database, Sabotage};
use super::plan::Plan;
use super::run::{QUEUE, configuration};
use super::store::{SimulatedStore, claimed_item};

type Answer = Result<Vec<Claimed>, StoreError>;

/// Starts a broker whose claims get the answers of a function.
fn broker<F>(
    concurrency: Concurrency,
    has_limits: bool,
    answer: impl Fn(Arc<[ClaimCall]>) -> F + Send + Sync + 'static,
) -> Broker
where
    F: Future<Output = Answer> + Send + 'static,
{
    let plan = Plan::new(0, Sabotage::None);
    let (mut queue, config) = configuration(&plan);
    if has_limits {
        queue.limits.max_leases = Some(10);
    }
    let database = Database::new(&plan, queue.clone());
    let mut store = SimulatedStore::new(database, CancellationToken::new(), concurrency);
    store.claims = Some(Box::new(move |calls| Box::pin(answer(calls))));
    Broker::start(Arc::new(store), &[queue], config)
}

/// Claims, and returns the number of leases.
async fn claim(
    broker: &Broker,
    worker: &str,
    max_items: usize,
    wait: Option<Duration>,
) -> Result<usize, Error> {
    let request = ClaimRequest {
        groups: Vec::new(),
        max_run: 1,
        queue: QUEUE.to_owned(),
        worker_id: worker.to_owned(),
        max_items,
        max_bytes: 1 << 20,
        lease_duration: None,
        wait_timeout: wait,
        request_id: None,
    };
    let leases = broker.claim(&CallContext::default(), request, None).await?;
    let (leases, delivery) = leases.deliver(CallContext::default().owner, 1 << 20);
    let count = leases.count();
    if let Some(delivery) = delivery {
        delivery.confirm();
    }
    Ok(count)
}

fn one_item() -> Claimed {
    Claimed {
        items: vec![claimed_item(1, &LeaseRow::new(), 0)],
        ..Claimed::default()
    }
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Keeps items from the worker `kept` for the first second, and gives each other claim one.
async fn keep_items(calls: Arc<[ClaimCall]>, begin: Instant) -> Answer {
    sleep(millis(5)).await;
    let is_kept = |call: &ClaimCall| call.worker == "kept" && begin.elapsed() < millis(1_000);
    let kept = || Claimed {
        is_held_back: true,
        limited: Some(Limited::Suspects),
        ..Claimed::default()
    };
    let answer = |call: &ClaimCall| if is_kept(call) { kept() } else { one_item() };
    Ok(calls.iter().map(answer).collect())
}

/// Claims for several workers, of which some always wait, until it is dropped.
async fn load(broker: &Broker) {
    let worker = |number| async move {
        sleep(millis(number)).await;
        loop {
            claim(broker, "busy", 1, None).await.expect("a lease");
        }
    };
    futures_util::future::join_all((0..4).map(worker)).await;
}

#[tokio::test(start_paused = true)]
async fn claim_that_items_are_kept_from_is_answered_while_others_get_items() {
    for concurrency in [Concurrency::Pipelined, Concurrency::Parallel(1)] {
        let begin = Instant::now();
        let broker = broker(concurrency, false, move |calls| keep_items(calls, begin));
        let claims = async {
            sleep(millis(100)).await;
            let at_once = claim(&broker, "kept", 1, None);
            let leases = timeout(millis(50), at_once).await.expect("an answer");
            assert_eq!(leases.expect("no error"), 0);
            let short = claim(&broker, "kept", 1, Some(millis(300)));
            let leases = timeout(millis(310), short).await.expect("an answer");
            assert_eq!(leases.expect("no error"), 0);
            let long = claim(&broker, "kept", 1, Some(millis(10_000)));
            assert_eq!(long.await.expect("no error"), 1);
            assert!(begin.elapsed() < millis(1_500), "{:?}", begin.elapsed());
        };
        tokio::select! {
            () = claims => {}
            () = load(&broker) => {}
        }
        broker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn claim_beside_a_refused_one_is_served_after_an_overlapping_operation_failed() {
    let broker = broker(Concurrency::Pipelined, false, |calls| async move {
        let at = |name| calls.iter().position(|call| call.worker == name);
        if at("fails").is_some() {
            sleep(millis(20)).await;
            return Err(StoreError::unavailable("an outage").not_applied());
        }
        sleep(millis(40)).await;
        if let Some(refused) = at("refused") {
            let problem = Problem::new(ProblemKind::ValueUnfit, "no such worker");
            return Err(StoreError::Rejected(Rejection::of_item(
                refused, None, problem,
            )));
        }
        Ok(calls.iter().map(|_| one_item()).collect())
    });
    let later = async {
        sleep(millis(1)).await;
        let refused = claim(&broker, "refused", 1, None);
        let served = timeout(millis(1_000), claim(&broker, "served", 1, None));
        tokio::join!(refused, served)
    };
    let (failed, (refused, served)) = tokio::join!(claim(&broker, "fails", 1, None), later);
    failed.expect_err("an outage");
    refused.expect_err("refused");
    assert_eq!(served.expect("an answer").expect("no error"), 1);
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claim_that_arrives_during_an_operation_is_not_answered_by_it() {
    let operations = Arc::new(AtomicUsize::new(0));
    let counted = operations.clone();
    let broker = broker(Concurrency::Pipelined, false, move |calls| {
        let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            sleep(millis(100)).await;
            let answer = |_: &ClaimCall| {
                if is_first {
                    Claimed::default()
                } else {
                    one_item()
                }
            };
            Ok(calls.iter().map(answer).collect())
        }
    });
    let later = async {
        sleep(millis(50)).await;
        claim(&broker, "later", 1, None).await
    };
    let (first, later) = tokio::join!(claim(&broker, "first", 4, None), later);
    assert_eq!(first.expect("no error"), 0);
    assert_eq!(
        later.expect("no error"),
        1,
        "another program may have added an item"
    );
    broker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slow_operation_of_busy_groups_delays_the_next_look_by_8_seconds_at_most() {
    let begin = Instant::now();
    let broker = broker(Concurrency::Pipelined, true, move |calls| async move {
        if begin.elapsed() > millis(100) {
            return Ok(calls.iter().map(|_| one_item()).collect());
        }
        // Another program has the lock.
        sleep(millis(2_500)).await;
        let busy = || Claimed {
            limited: Some(Limited::GroupsBusy { wait: None }),
            ..Claimed::default()
        };
        Ok(calls.iter().map(|_| busy()).collect())
    });
    let leases = claim(&broker, "waiting", 1, Some(millis(60_000))).await;
    assert_eq!(leases.expect("no error"), 1);
    assert!(begin.elapsed() < millis(12_000), "{:?}", begin.elapsed());
    broker.stop().await;
}
