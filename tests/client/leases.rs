//! Heartbeats, lost leases and time limits.

use std::time::Duration;

use lease_broker_client::{Cause, Context, Done, EventName, Item};
use lease_broker_proto::{CancelLeasesRequest, Cancellation, Outcome};
use tokio::time::sleep;

use crate::client::fixture::{COMPLETED, Fixture};

/// Long enough for heartbeats that are late by more than 3 s, as on a busy machine.
const SHORT_LEASE: Duration = Duration::from_secs(6);

#[tokio::test]
async fn heartbeats_keep_the_lease_of_a_blocked_runtime() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    // The handler's runtime has one thread, and the handler blocks it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let worker = {
        let _guard = runtime.enter();
        worker
            .lease(SHORT_LEASE)
            .start(async |_: Item, _: Context| {
                std::thread::sleep(SHORT_LEASE + Duration::from_secs(1));
                Ok(Done::new())
            })
    };
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Completed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    assert_eq!(fixture.rows(), [(COMPLETED, 1, None)]);
    runtime.shutdown_background();
}

#[tokio::test]
async fn cancelled_lease_cancels_the_handler() {
    let fixture = Fixture::start().await;
    let keys = fixture.enqueue(&["x"]).await;
    let (causes, mut cause) = tokio::sync::mpsc::unbounded_channel();
    let (worker, mut events) = fixture.worker();
    let worker = worker
        .lease(SHORT_LEASE)
        .start(move |_: Item, context: Context| {
            let causes = causes.clone();
            async move {
                context.cancelled().await;
                causes.send(context.cause()).expect("the test waits");
                context.check()?;
                Ok(Done::new())
            }
        });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Started).await;
    let cancellation = |key: String| Cancellation {
        key,
        fencing_token: 0,
    };
    let request = CancelLeasesRequest {
        queue: "work".to_owned(),
        cancellations: keys.into_iter().map(cancellation).collect(),
        dead_letter: true,
        reason: "not needed".to_owned(),
        ..CancelLeasesRequest::default()
    };
    let mut admin = fixture.server.client().await.admin;
    let cancelled = admin.cancel_leases(request).await;
    let cancelled = cancelled.expect("the call succeeds").into_inner();
    assert_eq!(cancelled.results[0].outcome(), Outcome::Applied);
    assert_eq!(events.wait_for(EventName::Lost).await.reason, "not needed");
    let event = events.wait_for(EventName::Cancelled).await;
    assert_eq!(
        (event.cause, &*event.reason),
        (Some(Cause::LeaseLost), "not needed")
    );
    assert_eq!(cause.recv().await, Some(Some(Cause::LeaseLost)));
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn time_limit_fails_the_item() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker =
        worker
            .time_limit(Duration::from_millis(300))
            .start(async |_: Item, context: Context| {
                context
                    .unless_cancelled(sleep(Duration::from_secs(60)))
                    .await?;
                Ok(Done::new())
            });
    let worker = worker.expect("it starts");
    assert_eq!(
        events.wait_for(EventName::Cancelled).await.cause,
        Some(Cause::TimeLimit)
    );
    assert_eq!(
        events.wait_for(EventName::Failed).await.error,
        "time limit of 0.3 s"
    );
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn lease_without_heartbeats_is_cancelled_at_its_half() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.lease(SHORT_LEASE).heartbeat(false);
    let worker = worker.start(async |_: Item, context: Context| {
        // A result before the end of the lease still counts.
        context.cancelled().await;
        Ok(Done::new())
    });
    let worker = worker.expect("it starts");
    assert_eq!(
        events.wait_for(EventName::Cancelled).await.cause,
        Some(Cause::TimeLimit)
    );
    events.wait_for(EventName::Completed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn refused_checkpoint_loses_no_lease() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x", "x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker
        .concurrency(2)
        .lease(SHORT_LEASE)
        .start(async |item: Item, _: Context| {
            if item.key() == "1" {
                // More than the queue's default of 4,096 bytes.
                item.save_checkpoint(&[7; 5_000]);
            }
            sleep(SHORT_LEASE + Duration::from_secs(1)).await;
            item.save_checkpoint(&[7; 5_000]);
            Ok(Done::new())
        });
    let worker = worker.expect("it starts");
    events.wait_for_all(EventName::Completed, 2).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    assert!(
        fixture
            .rows()
            .iter()
            .all(|row| *row == (COMPLETED, 1, None))
    );
}
