//! Answers that contain an error. The broker discards everything else in such an answer.

use lease_broker_store::{Facts as _, OutageCause, StoreError};

use crate::wire::answers::{OPERATION, TOKEN, claimed, claimed_row, held, held_row, settled};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

/// An answer with these rows, followed by an error.
fn failed_reply(rows: Tokens) -> Reply {
    Reply::Answer(rows.error(9_999, "Unheard of."))
}

/// The answers to a batch, to its second run, and to the same batch without entries.
fn each_time(rows: Tokens) -> Vec<Reply> {
    vec![
        failed_reply(rows.clone()),
        failed_reply(rows),
        failed_reply(Tokens::new()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_before_an_error_are_discarded() {
    let fixture = Fixture::start().await;
    fixture
        .server
        .on(OPERATION, vec![failed_reply(claimed(1..=3))]);
    fixture.claim().await.expect_err("the claim fails");
    fixture.server.on(OPERATION, each_time(held(1)));
    fixture.heartbeat(1).await.expect_err("the heartbeat fails");
    fixture
        .server
        .always(OPERATION, failed_reply(settled(1, 3)));
    fixture.complete(1).await.expect_err("the settlement fails");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_failed_try_are_discarded() {
    let fixture = Fixture::start().await;
    let row = claimed_row(TOKEN, 7);
    let victim = Tokens::new().columns(&row).row(&row);
    let victim = victim.error(1205, "Transaction was deadlocked.");
    let replies = vec![Reply::Answer(victim), Reply::Answer(claimed(1..=1))];
    fixture.server.on(OPERATION, replies);
    let items = fixture.claim().await.expect("claimed");
    let keys = crate::harness::fixture::keys(&items);
    assert_eq!(keys, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_after_a_complete_result_set_fails_the_call() {
    let fixture = Fixture::start().await;
    let row = held_row(0);
    let two = held(1).columns(&row).row(&row).end_of_statement();
    fixture.server.on(OPERATION, each_time(two));
    fixture.heartbeat(1).await.expect_err("the heartbeat fails");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_error_is_retried_once() {
    let fixture = Fixture::start().await;
    fixture
        .server
        .always(OPERATION, failed_reply(Tokens::new()));
    let error = fixture.complete(1).await.expect_err("the settlement fails");
    assert!(matches!(error, StoreError::Bug(_)), "{error:?}");
    // The second batch is the same, and the third is without settlements.
    assert_eq!(fixture.server.requests(OPERATION).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_database_is_reached_by_a_new_connection() {
    for number in [983, 40_613] {
        let fixture = Fixture::start().await;
        let moved = Tokens::new().error(number, "The database is not available.");
        let replies = vec![Reply::Answer(moved), Reply::Answer(settled(1, 3))];
        fixture.server.on(OPERATION, replies);
        fixture.complete(1).await.expect("settled");
        let requests = fixture.server.requests(OPERATION);
        assert_ne!(
            requests[0].connection, requests[1].connection,
            "error {number}"
        );
        fixture.server.wait_for_close(requests[0].connection).await;
    }
}

/// Another connection would meet the same page, so one answer is enough. The other connections are not in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_page_is_reported_once_with_its_cause() {
    for number in [605, 823, 824, 3624, 9001] {
        let fixture = Fixture::start().await;
        let damaged = Tokens::new().error_of_class(24, number, "It is damaged.");
        fixture
            .server
            .always(OPERATION, Reply::AnswerAndClose(damaged));
        let error = fixture.complete(1).await.expect_err("it is damaged");
        let StoreError::Unavailable(outage) = error else {
            panic!("{error:?}");
        };
        assert_eq!(outage.cause, OutageCause::File);
        assert_eq!((outage.number, outage.tries), (Some(number), 1));
        let requests = fixture.server.requests(OPERATION);
        assert_eq!(requests.len(), 1);
        fixture.server.wait_for_close(requests[0].connection).await;
        assert_eq!(fixture.store.pool_status().idle, 0);
    }
}
