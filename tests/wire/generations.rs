//! A database that goes back in time: a restore, or a failover to a replica that lacks the last commits. Both end all connections.

use lease_broker_store::{StoreError, Upkeep as _};

use crate::support::timeout::with_timeout;
use crate::wire::answers::{OPERATION, held};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::{Cell, Tokens};

const EPOCH: &[&str] = &["lease_broker_epoch", "lease_broker_generation"];

fn moment(fence: i64, generation: i64) -> Reply {
    let row = vec![Cell::BigInt(Some(fence)), Cell::BigInt(Some(generation))];
    Reply::Answer(Tokens::new().rows(&[row]))
}

/// Ends the connection of the next operation, so that the store connects again.
fn end_connection(fixture: &Fixture) {
    let replies = vec![Reply::Cut(Tokens::new()), Reply::Answer(held(1))];
    fixture.server.on(OPERATION, replies);
}

fn assert_went_back<T: std::fmt::Debug>(outcome: Result<T, StoreError>) {
    match outcome {
        Err(StoreError::Io(problem)) => {
            assert!(problem.contains("went back in time"), "{problem}");
            assert!(problem.contains("lease-broker restore"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_that_went_back_is_not_used() {
    let fixture = Fixture::start().await;
    end_connection(&fixture);
    fixture.server.on(EPOCH, vec![moment(0, -1); 3]);
    assert_went_back(fixture.heartbeat(1).await);
    let before = fixture.server.requests(OPERATION).len();
    assert_went_back(fixture.claim().await);
    assert_went_back(with_timeout(fixture.store.probe()).await);
    assert_eq!(fixture.server.requests(OPERATION).len(), before);
    // Somebody has run `restore --in-place`.
    fixture.server.on(EPOCH, vec![moment(7, -1)]);
    fixture.heartbeat(1).await.expect("extended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_with_all_commits_is_used() {
    let fixture = Fixture::start().await;
    end_connection(&fixture);
    fixture.server.on(EPOCH, vec![moment(0, 0)]);
    fixture.heartbeat(1).await.expect("extended");
}
