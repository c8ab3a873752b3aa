//! The batches with which the broker finds the settlements, items and rows that the server refuses.

use lease_broker_model::item_state::State;
use lease_broker_store::{Applied, Settled, StoreError};

use crate::wire::answers::{OPERATION, enqueued, reaped, reaped_nothing, settled};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_takes_less_than_two_batches_per_settlement() {
    let fixture = Fixture::start().await;
    let message = "Violation of PRIMARY KEY constraint 'pk'. The duplicate key value is (7).";
    let refused = Reply::Answer(Tokens::new().error(2627, message));
    fixture.server.always(OPERATION, refused);
    let results = fixture.complete(100).await.expect("settled");
    for result in results {
        let Settled::Refused(refusal) = result else {
            panic!("{result:?}");
        };
        assert_eq!(
            refusal.to_string(),
            "Violation of PRIMARY KEY constraint 'pk'."
        );
    }
    assert_eq!(fixture.server.requests(OPERATION).len(), 199);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_during_the_search_fails_the_call() {
    let fixture = Fixture::start().await;
    let refused = Reply::Answer(Tokens::new().error(547, "conflict"));
    let full = Reply::Answer(Tokens::new().error(9002, "The transaction log is full."));
    fixture.server.on(OPERATION, vec![refused, full]);
    fixture.complete(4).await.expect_err("the log is full");
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
}

/// An error number that the broker does not know.
fn unlisted() -> Reply {
    Reply::Answer(Tokens::new().error(9_999, "unheard of"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passing_error_refuses_nothing() {
    let fixture = Fixture::start().await;
    let once = |reply| vec![unlisted(), Reply::Answer(reply)];
    fixture.server.on(OPERATION, once(settled(2, 3)));
    let results = fixture.complete(2).await.expect("settled");
    assert_eq!(results, [const { Settled::Ended(State::Completed) }; 2]);
    fixture.server.on(OPERATION, once(enqueued(1..=2)));
    assert_eq!(fixture.enqueue(2).await.expect("added").len(), 2);
    fixture.server.on(OPERATION, once(reaped(1..=2)));
    let reaped = fixture.reap().await.expect("reaped");
    assert_eq!((reaped.expired.len(), reaped.refused.len()), (2, 0));
    assert_eq!(fixture.server.requests(OPERATION).len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_that_fails_with_a_passing_error_runs_no_third_time() {
    let fixture = Fixture::start().await;
    let replies = vec![unlisted(), Reply::Cut(Tokens::new())];
    fixture.server.on(OPERATION, replies);
    let error = fixture.enqueue(2).await.expect_err("the answer is lost");
    assert_eq!(error.applied(), Applied::Unknown, "{error}");
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_error_refuses_one_settlement() {
    let fixture = Fixture::start().await;
    let nothing = || Reply::Answer(Tokens::new());
    let replies = vec![
        unlisted(),
        unlisted(),
        nothing(),
        Reply::Answer(settled(1, 3)),
        unlisted(),
        unlisted(),
        nothing(),
    ];
    fixture.server.on(OPERATION, replies);
    let results = fixture.complete(2).await.expect("settled");
    let Settled::Refused(refusal) = &results[1] else {
        panic!("{results:?}");
    };
    assert_eq!(refusal.to_string(), "unheard of");
    assert_eq!(fixture.server.requests(OPERATION).len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_error_refuses_one_new_item() {
    let fixture = Fixture::start().await;
    let replies = vec![unlisted(), unlisted(), Reply::Answer(Tokens::new())];
    fixture.server.on(OPERATION, replies);
    let error = fixture.enqueue(1).await.expect_err("refused");
    assert!(matches!(error, StoreError::Rejected(_)), "{error:?}");
    let replies = vec![
        unlisted(),
        Reply::Answer(Tokens::new()),
        unlisted(),
        Reply::Answer(Tokens::new()),
    ];
    fixture.server.on(OPERATION, replies);
    let error = fixture.enqueue_once(1).await.expect_err("refused");
    assert!(matches!(error, StoreError::Rejected(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_error_refuses_one_expiry() {
    let fixture = Fixture::start().await;
    let nothing = || Reply::Answer(reaped_nothing());
    let first_due = Reply::Answer(enqueued(7..=7));
    let replies = vec![
        unlisted(),
        unlisted(),
        nothing(),
        unlisted(),
        unlisted(),
        nothing(),
        nothing(),
        first_due,
    ];
    fixture.server.on(OPERATION, replies);
    let reaped = fixture.reap().await.expect("reaped");
    assert_eq!(reaped.refused.len(), 1, "{reaped:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unlisted_error_of_a_batch_without_entries_is_a_bug() {
    let fixture = Fixture::start().await;
    fixture.server.always(OPERATION, unlisted());
    let bugs = [
        fixture.complete(3).await.map(drop),
        fixture.enqueue(3).await.map(drop),
        fixture.enqueue_once(3).await.map(drop),
        fixture.reap().await.map(drop),
    ];
    for bug in bugs {
        assert!(matches!(bug, Err(StoreError::Bug(_))), "{bug:?}");
    }
    assert_eq!(fixture.server.requests(OPERATION).len(), 11);
    // The operator's task divides the batch, and sends one without items at last.
    let refused = fixture.redrive().await.expect_err("refused");
    assert!(matches!(refused, StoreError::Rejected(_)), "{refused:?}");
    let bug = fixture.redrive_nothing().await.expect_err("a bug");
    assert!(matches!(bug, StoreError::Bug(_)), "{bug:?}");
}
