//! A worker that stops leaves no item leased, except those of handlers that do not end.

use std::time::Duration;

use lease_broker_client::{Cause, Context, Done, EventName, Item, WorkerError};
use tokio::time::sleep;

use crate::client::fixture::{COMPLETED, Fixture, LEASED, READY};
use crate::support::timeout::with_timeout;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn stopping_worker_waits_for_its_handlers() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x", "x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.start(async |_: Item, _: Context| {
        sleep(Duration::from_millis(300)).await;
        Ok(Done::new())
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Started).await;
    with_timeout(worker.stop(LONG)).await.expect("it stops");
    assert_eq!(fixture.rows(), [(COMPLETED, 1, None), (READY, 0, None)]);
}

#[tokio::test]
async fn stopping_worker_releases_items_after_the_grace() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.start(async |item: Item, context: Context| {
        item.save_checkpoint(b"half");
        context.unless_cancelled(sleep(LONG)).await?;
        Ok(Done::new())
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Started).await;
    with_timeout(worker.stop(Duration::from_millis(100)))
        .await
        .expect("it stops");
    assert_eq!(
        events.wait_for(EventName::Cancelled).await.cause,
        Some(Cause::Shutdown)
    );
    assert_eq!(fixture.rows(), [(READY, 0, None)]);

    let (worker, mut events) = fixture.worker();
    let worker = worker
        .start(async |_: Item, _: Context| Ok(Done::new()))
        .expect("it starts");
    let item = events
        .wait_for(EventName::Started)
        .await
        .item
        .expect("an item");
    assert_eq!(item.checkpoint(), Some(b"half".as_slice()));
    worker.stop(LONG).await.expect("it stops");
}

#[tokio::test]
async fn handler_that_waits_for_ever_is_dropped() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.start(async |_: Item, _: Context| {
        std::future::pending::<()>().await;
        Ok(Done::new())
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Started).await;
    with_timeout(worker.stop(Duration::ZERO))
        .await
        .expect("it stops");
    assert_eq!(fixture.rows(), [(READY, 0, None)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_that_blocks_its_thread_keeps_its_lease() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(Some(blocked));
    let worker = worker.start(move |_, _| {
        let blocked = blocked.lock().expect("no panic").take();
        async move {
            // Blocks the thread until the test drops the sender.
            tokio::task::block_in_place(|| blocked.map(|blocked| blocked.recv()));
            Ok(Done::new())
        }
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Started).await;
    let error = with_timeout(worker.stop(Duration::ZERO))
        .await
        .expect_err("a handler is left");
    assert!(matches!(error, WorkerError::HandlersLeft), "{error}");
    assert_eq!(fixture.rows()[0].0, LEASED);
    drop(release);
}

#[tokio::test]
async fn idle_worker_leaves_nothing_leased() {
    let fixture = Fixture::start().await;
    for round in 0..5 {
        let (worker, mut events) = fixture.worker();
        let worker = worker
            .concurrency(100)
            .start(async |_: Item, _: Context| Ok(Done::new()));
        let worker = worker.expect("it starts");
        let adding = async {
            fixture.enqueue(&["x"; 20]).await;
        };
        // The items arrive at the moment at which the worker stops.
        let ((), stopped) = tokio::join!(adding, with_timeout(worker.stop(LONG)));
        stopped.expect("it stops");
        events.wait_for(EventName::Stopped).await;
        let leased = fixture.rows().iter().filter(|row| row.0 == LEASED).count();
        assert_eq!(leased, 0, "round {round}");
    }
}
