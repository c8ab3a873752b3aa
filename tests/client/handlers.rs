//! The result of a handler decides how its item ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lease_broker_client::{
    BatchDone, Context, DeadLetter, Done, EventName, HandlerError, Item, NewItem, Release, Retry,
};

use crate::client::fixture::{COMPLETED, DEAD, DELAYED, Fixture, READY};
use crate::support::database::query_value;

async fn act(item: Item, _: Context) -> Result<Done, HandlerError> {
    match item.text("payload")? {
        "retry" => Err(Retry::new("busy").after(Duration::from_secs(60)).into()),
        "dead" => Err(DeadLetter::new("no customer").into()),
        "release" => Err(Release::new().after(Duration::from_secs(60)).into()),
        "error" => Err("x".parse::<i64>().expect_err("not a number").into()),
        "panic" => panic!("of item {}", item.key()),
        _ => Ok(Done::new()),
    }
}

#[tokio::test]
async fn each_item_is_completed_once() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"; 100]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (worker, mut events) = fixture.worker();
    let counted = calls.clone();
    let worker = worker.concurrency(8).start(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Done::new()) }
    });
    let worker = worker.expect("it starts");
    events.wait_for_all(EventName::Completed, 100).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    assert_eq!(calls.load(Ordering::Relaxed), 100);
    assert!(
        fixture
            .rows()
            .iter()
            .all(|row| *row == (COMPLETED, 1, None))
    );
    let counters = worker.counters();
    assert!(
        counters.contains(&(EventName::Completed, 100)),
        "{counters:?}"
    );
}

#[tokio::test]
async fn result_of_a_handler_says_how_the_item_ends() {
    let fixture = Fixture::start().await;
    fixture
        .enqueue(&["retry", "dead", "release", "error", "panic"])
        .await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.concurrency(5).start(act).expect("it starts");
    events.wait_for(EventName::Released).await;
    while worker
        .counters()
        .iter()
        .any(|(name, count)| *name == EventName::Failed && *count < 4)
    {
        events.wait_for(EventName::Failed).await;
    }
    worker.stop(Duration::ZERO).await.expect("it stops");
    let ends = fixture.rows();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(ends[0], (DELAYED, 1, text("Retry: busy")));
    assert_eq!(ends[1], (DEAD, 1, text("DeadLetter: no customer")));
    assert_eq!(ends[2], (DELAYED, 0, None));
    assert_eq!(
        ends[3].2,
        text("ParseIntError: invalid digit found in string")
    );
    assert_eq!(ends[4].2, text("panic: of item 5"));
}

#[tokio::test]
async fn columns_and_follow_ups_are_written() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.start(async |item: Item, _: Context| {
        let mail = NewItem::new().column("payload", item.key());
        Ok(Done::new()
            .column("result", "printed")
            .follow_up("mail", mail))
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Completed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    let database = fixture.server.database();
    assert_eq!(
        query_value::<String>(&database, "SELECT result FROM work"),
        "printed"
    );
    assert_eq!(
        query_value::<String>(&database, "SELECT payload FROM mail"),
        "1"
    );
}

#[tokio::test]
async fn refused_completion_fails_its_item_alone() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["good", "bad"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.concurrency(2).start(async |item: Item, _: Context| {
        let column = if item.text("payload")? == "bad" {
            "payload"
        } else {
            "result"
        };
        Ok(Done::new().column(column, "x"))
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Refused).await;
    events.wait_for(EventName::Failed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    let rows = fixture.rows();
    assert_eq!(rows[0].0, COMPLETED);
    let error = rows[1].2.as_deref().unwrap_or_default();
    assert!(
        error.starts_with("Refused: ") && error.contains("payload"),
        "{error}"
    );
}

#[tokio::test]
async fn batch_handler_fails_the_named_items() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x", "bad", "x", "x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.start_batches(4, async |items: Vec<Item>, _: Context| {
        let mut done = BatchDone::new();
        for item in &items {
            if item.text("payload")? == "bad" {
                done.fail(item, DeadLetter::new("no"));
            }
        }
        Ok(done)
    });
    let worker = worker.expect("it starts");
    events.wait_for(EventName::Failed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    let states: Vec<_> = fixture.rows().iter().map(|row| row.0).collect();
    assert_eq!(states, [COMPLETED, DEAD, COMPLETED, COMPLETED]);
}

#[tokio::test]
async fn item_has_typed_columns() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let (worker, mut events) = fixture.worker();
    let worker = worker.start(async |item: Item, _: Context| {
        let errors = [
            item.int("payload").expect_err("text").to_string(),
            item.text("result").expect_err("NULL").to_string(),
            item.text("nothing").expect_err("missing").to_string(),
        ];
        let known = (
            item.attempt(),
            item.fencing_token(),
            item.is_null("result")?,
        );
        assert_eq!(known, (1, 1, true));
        assert_eq!(item.trace_parent(), "");
        Err(DeadLetter::new(errors.join("; ")).into())
    });
    let worker = worker.expect("it starts");
    let failed = events.wait_for(EventName::Failed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    assert_eq!(
        failed.error,
        "DeadLetter: column \"payload\" is text, not an integer; column \"result\" is NULL; \
         no column \"nothing\"; the item has id, payload, result"
    );
}

#[tokio::test]
async fn observer_that_panics_is_not_called_again() {
    let fixture = Fixture::start().await;
    fixture.enqueue(&["x"]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let (worker, _) = fixture.worker();
    let worker = worker.on_event(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        panic!("of the observer");
    });
    let worker = worker.start(act).expect("it starts");
    let is_completed = async || fixture.rows()[0].0 == COMPLETED;
    crate::support::timeout::wait_until("the item is completed", is_completed).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
    // The threads of the two connections can report at the same moment.
    let calls = calls.load(Ordering::Relaxed);
    assert!((1..=2).contains(&calls), "{calls}");
}

#[tokio::test]
async fn worker_ends_after_its_first_error_of_the_queue() {
    let fixture = Fixture::start().await;
    let address = fixture.server.address.to_string();
    let worker = lease_broker_client::Worker::new(address, "nowhere").start(act);
    let worker = worker.expect("it starts");
    let error = crate::support::timeout::with_timeout(worker.wait()).await;
    let error = error.expect_err("the queue is unknown").to_string();
    assert!(error.contains("QUEUE_NOT_FOUND"), "{error}");
    assert!(!worker.health());
    assert!(!fixture.rows().iter().any(|row| row.0 != READY));
}
