//! Answers of a broker that need an act of the worker: refused entries, failed claims in `next`, a broker that stops, and values
//! of a newer API.

use std::time::Duration;

use lease_broker_client::{
    ColumnError, Context, Done, Event, EventName, HandlerError, Item, Retry, RunningWorker, Worker,
    WorkerError,
};
use lease_broker_proto as proto;
use lease_broker_proto::{ColumnValue, HeldBack, Outcome};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::client::scripted::{Answers, Message, Scripted, claimed, lease, refusal, settled};
use crate::support::timeout::{wait_until, with_timeout};

/// Starts a worker on a broker with these answers.
async fn start<F, R>(
    answers: Answers,
    handler: F,
) -> (Scripted, RunningWorker, UnboundedReceiver<Event>)
where
    F: Fn(Item, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Done, HandlerError>> + Send + 'static,
{
    let broker = Scripted::with_answers(answers);
    let address = broker.serve(None).await.to_string();
    let (sender, events) = unbounded_channel();
    let worker = Worker::new(address, "work").on_event(move |event| {
        // The test may have ended already.
        let _ = sender.send(event.clone());
    });
    let worker = worker.start(handler).expect("it starts");
    (broker, worker, events)
}

/// Waits for the next event with this name.
async fn wait_for(events: &mut UnboundedReceiver<Event>, name: EventName) -> Event {
    loop {
        let event = with_timeout(events.recv()).await.expect("the worker runs");
        if event.name == name {
            return event;
        }
    }
}

async fn complete(_: Item, _: Context) -> Result<Done, HandlerError> {
    Ok(Done::new())
}

#[tokio::test]
async fn claims_that_do_not_wait_have_a_pause() {
    let broker = Scripted::with_answers(Answers {
        claims: vec![proto::ClaimBatchResponse::default(); 4].into(),
        ..Answers::default()
    });
    let address = broker.serve(None).await.to_string();
    let worker = Worker::new(address, "work").wait(Duration::ZERO);
    let worker = worker.start(complete).expect("it starts");
    let claims = || {
        let calls = broker.calls().into_iter();
        let claims = calls.filter(|call| matches!(call.message, Message::Claim(_)));
        claims.map(|call| call.at).collect::<Vec<_>>()
    };
    wait_until("5 claims have arrived", async || claims().len() == 5).await;
    // Each pause has at least 50 ms.
    assert!(claims()[4] - claims()[0] >= Duration::from_millis(200));
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn refused_renewal_is_sent_again_without_its_checkpoint() {
    let refused = proto::HeartbeatResult {
        outcome: Outcome::Refused.into(),
        refusal: Some(refusal("checkpoint")),
        ..proto::HeartbeatResult::default()
    };
    let answers = Answers {
        claims: [claimed(lease(15))].into(),
        heartbeats: [proto::HeartbeatResponse {
            results: vec![refused],
        }]
        .into(),
        ..Answers::default()
    };
    let (broker, worker, mut events) = start(answers, async |item: Item, context: Context| {
        item.save_checkpoint(&[7; 5_000]);
        context.cancelled().await;
        item.save_checkpoint(&[7; 5_000]);
        context.check()?;
        Ok(Done::new())
    })
    .await;
    assert_eq!(wait_for(&mut events, EventName::Heartbeat).await.count, 0);
    assert_eq!(wait_for(&mut events, EventName::Heartbeat).await.count, 1);
    let heartbeats: Vec<_> = broker
        .calls()
        .into_iter()
        .filter_map(|call| match call.message {
            Message::Heartbeat(request) => Some((call.at, request.renewals[0].checkpoint.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(heartbeats[0].1, Some(vec![7; 5_000]));
    assert_eq!(heartbeats[1].1, None);
    // A third of the lease is 5 s.
    assert!(heartbeats[1].0 - heartbeats[0].0 < Duration::from_secs(4));
    worker.stop(Duration::ZERO).await.expect("it stops");
    wait_for(&mut events, EventName::Released).await;
}

#[tokio::test]
async fn settlement_of_a_locked_row_is_sent_again_as_it_is() {
    let locked = || proto::FailResponse {
        results: vec![proto::SettleResult {
            refusal: Some(proto::Refusal {
                reason: proto::RefusalReason::Locked.into(),
                ..proto::Refusal::default()
            }),
            ..settled(Outcome::Refused)
        }],
        ..proto::FailResponse::default()
    };
    let answers = Answers {
        claims: [claimed(lease(30))].into(),
        failures: [locked(), locked()].into(),
        ..Answers::default()
    };
    let fail = async |_: Item, _: Context| Err(Retry::new("no total").into());
    let (broker, worker, mut events) = start(answers, fail).await;
    for attempt in 1..=2 {
        let event = wait_for(&mut events, EventName::Retry).await;
        assert_eq!(event.reason, "LOCKED");
        assert_eq!(event.retry.map(|retry| retry.attempt), Some(attempt));
    }
    let event = with_timeout(events.recv()).await.expect("the worker runs");
    let event = match event.name {
        EventName::Heartbeat => with_timeout(events.recv()).await.expect("it runs"),
        _ => event,
    };
    assert_eq!(event.name, EventName::Failed);
    worker.stop(Duration::ZERO).await.expect("it stops");
    let failures: Vec<_> = broker
        .calls()
        .into_iter()
        .filter_map(|call| match call.message {
            Message::Fail(request) => Some(request.failures),
            _ => None,
        })
        .collect();
    assert_eq!(failures, vec![failures[0].clone(); 3]);
}

#[tokio::test]
async fn refused_failure_is_sent_again_without_its_field() {
    for (field, keeps_delay) in [("checkpoint", true), ("", false)] {
        let refused = proto::SettleResult {
            refusal: Some(refusal(field)),
            ..settled(Outcome::Refused)
        };
        let answers = Answers {
            claims: [claimed(lease(30))].into(),
            failures: [proto::FailResponse {
                results: vec![refused],
                ..proto::FailResponse::default()
            }]
            .into(),
            ..Answers::default()
        };
        let (broker, worker, mut events) = start(answers, async |item: Item, _: Context| {
            item.save_checkpoint(b"half");
            Err(Retry::new("busy").after(Duration::from_secs(60)).into())
        })
        .await;
        let event = wait_for(&mut events, EventName::Refused).await;
        assert!(event.reason.ends_with("scripted"), "{}", event.reason);
        assert!(event.reason.starts_with(field), "{}", event.reason);
        let event = wait_for(&mut events, EventName::Failed).await;
        assert_eq!(event.error, "Retry: busy");
        worker.stop(Duration::ZERO).await.expect("it stops");
        let failures: Vec<_> = broker
            .calls()
            .into_iter()
            .filter_map(|call| match call.message {
                Message::Fail(request) => Some(request.failures[0].clone()),
                _ => None,
            })
            .collect();
        let [first, second] = &*failures else {
            panic!("{failures:?}");
        };
        assert_eq!(first.checkpoint.as_deref(), Some(b"half".as_slice()));
        assert_eq!(second.checkpoint, None);
        assert_eq!(second.retry_delay.is_some(), keeps_delay, "{field}");
        assert_eq!(second.error_message, "Retry: busy");
    }
}

/// Returns the answers of a broker whose completion succeeds and whose claim in `next` fails.
fn failed_next(error: proto::CallError) -> Answers {
    Answers {
        claims: [claimed(lease(30))].into(),
        completions: [proto::CompleteResponse {
            results: vec![settled(Outcome::Applied)],
            next: None,
            next_error: Some(error),
        }]
        .into(),
        ..Answers::default()
    }
}

#[tokio::test]
async fn failed_next_claim_is_made_again_after_its_delay() {
    let answers = failed_next(proto::CallError {
        code: Code::Unavailable.into(),
        reason: "STORE_UNAVAILABLE".to_owned(),
        metadata: [("applied".to_owned(), "unknown".to_owned())].into(),
        retry_delay: Some(prost_types::Duration {
            seconds: 0,
            nanos: 700_000_000,
        }),
        ..proto::CallError::default()
    });
    let (broker, worker, mut events) = start(answers, complete).await;
    wait_for(&mut events, EventName::Completed).await;
    let event = wait_for(&mut events, EventName::Retry).await;
    assert_eq!(event.reason, "STORE_UNAVAILABLE");
    assert_eq!(event.retry.expect("the call").rpc, "ClaimBatch");
    let claims = || -> Vec<_> {
        let calls = broker.calls().into_iter();
        let claims = calls.filter(|call| matches!(call.message, Message::Claim(_)));
        claims.map(|call| call.at).collect()
    };
    let claimed = async || claims().len() == 2;
    crate::support::timeout::wait_until("the worker claims again", claimed).await;
    let mut calls = broker.calls().into_iter();
    let completed = calls.find(|call| matches!(call.message, Message::Other));
    let completed_at = completed.expect("the completion").at;
    assert!(claims()[1] - completed_at >= Duration::from_millis(700));
    // The claim may have got leases.
    let released = broker.calls().into_iter().any(|call| {
        matches!(call.message, Message::ReleaseClaims(request) if request.request_ids.len() == 1)
    });
    assert!(released, "{:?}", broker.calls());
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn refusal_with_a_wait_does_not_end_the_worker() {
    let refusal = |code, reason: &str| {
        let mut details = ErrorDetails::with_error_info(reason, "leasebroker", []);
        details.set_retry_info(Some(Duration::from_millis(10)));
        Status::with_error_details(code, "later", details)
    };
    let refusals = [
        refusal(Code::Unauthenticated, "CREDENTIALS_INVALID"),
        refusal(Code::ResourceExhausted, "IDENTITY_LIMIT"),
    ];
    let completion = proto::CompleteResponse {
        results: vec![settled(Outcome::Applied)],
        ..proto::CompleteResponse::default()
    };
    let answers = Answers {
        claim_errors: [refusals.clone(), refusals.clone()].concat().into(),
        claims: [claimed(lease(30))].into(),
        errors: refusals.into(),
        completions: [completion].into(),
        ..Answers::default()
    };
    let (_broker, worker, mut events) = start(answers, complete).await;
    let mut retried = Vec::new();
    loop {
        let event = with_timeout(events.recv()).await.expect("the worker runs");
        match event.name {
            EventName::Retry => retried.push(event.reason),
            EventName::Completed => break,
            _ => {}
        }
    }
    assert_eq!(retried, ["CREDENTIALS_INVALID", "IDENTITY_LIMIT"].repeat(3));
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn next_claim_that_cannot_succeed_ends_the_worker() {
    let answers = failed_next(proto::CallError {
        code: Code::FailedPrecondition.into(),
        reason: "STORE_MISCONFIGURED".to_owned(),
        ..proto::CallError::default()
    });
    let (_broker, worker, _events) = start(answers, complete).await;
    let error = with_timeout(worker.wait())
        .await
        .expect_err("it is refused");
    assert!(
        matches!(&error, WorkerError::Refused(error) if error.rpc == "ClaimBatch" && error.reason == "STORE_MISCONFIGURED"),
        "{error}"
    );
}

#[tokio::test]
async fn claim_after_a_stopping_broker_uses_a_new_connection() {
    let empty = |held_back: HeldBack| proto::ClaimBatchResponse {
        held_back: held_back.into(),
        ..proto::ClaimBatchResponse::default()
    };
    let broker = Scripted::with_answers(Answers {
        claims: [empty(HeldBack::Stopping), empty(HeldBack::NothingReady)].into(),
        ..Answers::default()
    });
    let address = broker.serve(None).await.to_string();
    // The first answer does not say that the queue is empty.
    let worker = Worker::new(address, "work").until_empty().start(complete);
    let worker = worker.expect("it starts");
    with_timeout(worker.wait())
        .await
        .expect("the queue is empty");
    let peers: Vec<_> = broker.calls().iter().map(|call| call.peer).collect();
    assert_eq!(peers.len(), 2);
    assert_ne!(peers[0], peers[1]);
}

#[tokio::test]
async fn claim_waits_as_long_as_a_limit_of_the_queue_asks() {
    const PAUSE: Duration = Duration::from_millis(300);
    let limited = proto::ClaimBatchResponse {
        held_back: HeldBack::Rate.into(),
        retry_after: Some(prost_types::Duration {
            seconds: 0,
            nanos: 300_000_000,
        }),
        ..proto::ClaimBatchResponse::default()
    };
    let empty = proto::ClaimBatchResponse {
        held_back: HeldBack::NothingReady.into(),
        ..proto::ClaimBatchResponse::default()
    };
    let broker = Scripted::with_answers(Answers {
        claims: [limited, empty].into(),
        ..Answers::default()
    });
    let address = broker.serve(None).await.to_string();
    let start = std::time::Instant::now();
    // The first answer does not say that the queue is empty.
    let worker = Worker::new(address, "work").until_empty().start(complete);
    let worker = worker.expect("it starts");
    with_timeout(worker.wait())
        .await
        .expect("the queue is empty");
    assert_eq!(broker.calls().len(), 2);
    assert!(start.elapsed() >= PAUSE);
}

#[tokio::test]
async fn value_of_a_newer_api_is_an_error_and_not_null() {
    let text = proto::column_value::Kind::StringValue("x".to_owned());
    let columns = [("new", None), ("old", Some(text))];
    let columns = columns.map(|(name, kind)| (name.to_owned(), ColumnValue { kind }));
    let item = proto::Item {
        columns: columns.into(),
        ..proto::Item::default()
    };
    let answers = Answers {
        claims: [claimed(proto::Lease {
            item: Some(item),
            ..lease(30)
        })]
        .into(),
        ..Answers::default()
    };
    let (_broker, worker, mut events) = start(answers, async |item: Item, _: Context| {
        assert_eq!(item.text("old")?, "x");
        let newer = ColumnError::NewerApi("new".to_owned());
        assert_eq!(item.columns(), Err(newer.clone()));
        assert_eq!(item.text("new"), Err(newer));
        let missing = item.value("nothing").expect_err("missing").to_string();
        assert!(missing.ends_with("the item has new, old"), "{missing}");
        item.is_null("new")?;
        Ok(Done::new())
    })
    .await;
    let failed = wait_for(&mut events, EventName::Failed).await;
    assert!(
        failed
            .error
            .starts_with("ColumnError: column \"new\" has a value of a newer API"),
        "{}",
        failed.error
    );
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn unknown_outcome_is_a_lost_lease() {
    let answers = Answers {
        claims: [claimed(lease(30))].into(),
        completions: [proto::CompleteResponse {
            results: vec![settled(99)],
            ..proto::CompleteResponse::default()
        }]
        .into(),
        ..Answers::default()
    };
    let (_broker, worker, mut events) = start(answers, complete).await;
    wait_for(&mut events, EventName::Lost).await;
    worker.stop(Duration::ZERO).await.expect("it stops");
}
