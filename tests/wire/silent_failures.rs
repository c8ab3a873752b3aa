//! Batches that fail although the server sends no error: only a flag of the last token says so, and the driver drops it. Their
//! transactions are rolled back, or were committed before.

use lease_broker_model::item_state::State;
use lease_broker_store::{Applied, Settled, StoreError};

use crate::wire::answers::{OPERATION, claimed, enqueued, held, settled};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::SilentFailure;

const FAILURES: [SilentFailure; 2] = [SilentFailure::Statement, SilentFailure::Server];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_without_its_commit_is_sent_again() {
    for failure in FAILURES {
        let fixture = Fixture::start().await;
        let replies = vec![
            Reply::Silent(failure, settled(1, 3)),
            Reply::Answer(settled(1, 3)),
        ];
        fixture.server.on(OPERATION, replies);
        let states = fixture.complete(1).await.expect("settled");
        assert_eq!(states, [Settled::Ended(State::Completed)], "{failure:?}");
        assert_eq!(fixture.server.requests(OPERATION).len(), 2, "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_that_never_commits_is_not_reported() {
    for failure in FAILURES {
        let fixture = Fixture::start().await;
        fixture
            .server
            .always(OPERATION, Reply::Silent(failure, settled(1, 3)));
        let error = fixture.complete(1).await.expect_err("no commit");
        assert_eq!(error.applied(), Applied::Unknown, "{failure:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_without_its_commit_runs_once_and_fails() {
    for failure in FAILURES {
        let fixture = Fixture::start().await;
        let replies = vec![Reply::Silent(failure, enqueued(1..=2))];
        fixture.server.on(OPERATION, replies);
        let error = fixture.enqueue(2).await.expect_err("no commit");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert_eq!(error.applied(), Applied::Unknown, "{failure:?}: {error}");
        assert_eq!(fixture.server.requests(OPERATION).len(), 1, "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat_without_its_commit_is_sent_again() {
    let fixture = Fixture::start().await;
    let silent = Reply::Silent(SilentFailure::Server, held(1));
    let replies = vec![silent, Reply::Answer(held(1))];
    fixture.server.on(OPERATION, replies);
    fixture.heartbeat(1).await.expect("extended");
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_that_fails_among_its_rows_asks_for_them() {
    let fixture = Fixture::start().await;
    let silent = Reply::Silent(SilentFailure::Server, claimed(1..=1));
    let replies = vec![silent, Reply::Answer(claimed(1..=3))];
    fixture.server.on(OPERATION, replies);
    assert_eq!(fixture.claim().await.expect("claimed").len(), 3);
    let requests = fixture.server.requests(OPERATION);
    assert!(requests[1].request.has(&[r#""n":0"#, r#""r":true"#]));
}
