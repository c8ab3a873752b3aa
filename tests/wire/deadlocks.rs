//! Statements that the server chooses as deadlock victims. The server undoes them, so the broker may send them again.

use lease_broker_model::item_state::State;
use lease_broker_store::{Facts as _, RetryReason, Settled, StoreError};

use crate::wire::answers::{OPERATION, claimed, enqueued, settled};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

fn deadlock_reply() -> Reply {
    let message = "The transaction was deadlocked on lock resources.";
    Reply::Answer(Tokens::new().error(1205, message))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlock_victim_is_retried_with_success() {
    let fixture = Fixture::start().await;
    fixture.server.on(
        OPERATION,
        vec![deadlock_reply(), Reply::Answer(settled(1, 3))],
    );
    let states = fixture.complete(1).await.expect("settled");
    assert_eq!(states, [Settled::Ended(State::Completed)]);
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
    let pool = fixture.store.pool_status();
    assert_eq!(pool.retries[RetryReason::Deadlock as usize], 1);
    assert_eq!(pool.retries.iter().sum::<u64>(), 1);
    assert!(pool.idle > 0 && pool.max > 0, "{pool:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocked_claim_and_enqueue_are_retried() {
    let fixture = Fixture::start().await;
    fixture.server.on(
        OPERATION,
        vec![deadlock_reply(), Reply::Answer(claimed(1..=2))],
    );
    assert_eq!(fixture.claim().await.expect("claimed").len(), 2);
    fixture.server.on(
        OPERATION,
        vec![deadlock_reply(), Reply::Answer(enqueued(1..=2))],
    );
    assert_eq!(fixture.enqueue(2).await.expect("added").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_deadlock_victim_fails_after_five_tries() {
    let (tries, text) = deadlock_every_time().await;
    assert!((2..=10).contains(&tries), "tried {tries} times");
    assert!(text.contains("1205"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_deadlock_victim_reports_its_tries() {
    let (tries, text) = deadlock_every_time().await;
    assert!(
        text.replace("1205", "").contains(&tries.to_string()),
        "tried {tries} times: {text}"
    );
}

/// Makes the statement a deadlock victim every time. Returns the number of tries and the text of the error.
async fn deadlock_every_time() -> (usize, String) {
    let fixture = Fixture::start().await;
    fixture.server.always(OPERATION, deadlock_reply());
    let error = fixture.complete(1).await.expect_err("never settled");
    let StoreError::Unavailable(outage) = error else {
        panic!("not reported as unavailable: {error:?}");
    };
    assert_eq!(outage.number, Some(1205));
    (fixture.server.requests(OPERATION).len(), outage.to_string())
}
