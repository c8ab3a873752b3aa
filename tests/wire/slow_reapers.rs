//! A reaper whose server shows a later time than it expects: the clock was stepped forward, or the batch took long.

use lease_broker_store::{LatestTime, Leases as _, Reaped};
use tokio::time::Instant;

use crate::support::timeout::with_timeout;
use crate::wire::answers::{NOW_MILLIS, OPERATION, reaped, reaped_unsure};
use crate::wire::fixture::{Fixture, QUEUE};
use crate::wire::responder::script::Reply;

const HOUR: i64 = 3_600_000;

/// Reaps. `latest`: the latest time that the clock can show when the answers come, without a step. The server is unsure for this number
/// of batches, and then ends a lease. Returns also the third parameters of the batches.
async fn reap(latest: i64, unsure: usize) -> (Reaped, Vec<i64>) {
    let fixture = Fixture::start().await;
    let mut replies: Vec<Reply> = (0..unsure)
        .map(|_| Reply::Answer(reaped_unsure()))
        .collect();
    replies.push(Reply::Answer(reaped(1..=1)));
    fixture.server.on(OPERATION, replies);
    let latest = Some(LatestTime::new(latest, Instant::now()));
    let reaped = with_timeout(fixture.store.reap(QUEUE, 100, latest)).await;
    let requests = fixture.server.requests(OPERATION).into_iter();
    let clocks = requests.map(|logged| logged.request.parameters[2].parse().unwrap_or(0));
    (reaped.expect("reaped"), clocks.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_batch_is_sent_again_and_is_no_step() {
    let (reaped, clocks) = reap(NOW_MILLIS + HOUR, 1).await;
    assert_eq!(reaped.expired.len(), 1);
    assert_eq!(clocks.len(), 2);
    assert!(clocks.iter().all(|clock| *clock > NOW_MILLIS), "{clocks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_are_always_slow_end_the_leases() {
    let (reaped, clocks) = reap(NOW_MILLIS + HOUR, 3).await;
    assert_eq!(reaped.expired.len(), 1);
    // 0: the last batch compares no time.
    assert_eq!((clocks.len(), clocks[3]), (4, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_that_no_duration_explains_is_a_step() {
    let (reaped, clocks) = reap(NOW_MILLIS - HOUR, 1).await;
    assert_eq!(reaped.expired.len(), 1);
    assert_eq!(clocks[1..], [-1]);
}
