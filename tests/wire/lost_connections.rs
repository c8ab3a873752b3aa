//! Connections that end before a reply is complete. The server may have run the statement or not.

use lease_broker_model::item_state::State;
use lease_broker_store::{EnqueuedOnce, Settled, StoreError};

use crate::wire::answers::{
    OPERATION, TOKEN, claimed, claimed_row, enqueued, held, held_row, remembered, settled,
    settled_earlier, settled_row,
};
use crate::wire::fixture::{Fixture, request_digest};
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

/// Asserts that the same statement came twice, on two connections.
fn assert_sent_twice(fixture: &Fixture) {
    let requests = fixture.server.requests(OPERATION);
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_eq!(requests[0].request, requests[1].request);
    assert_ne!(requests[0].connection, requests[1].connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat_cut_among_its_rows_is_retried() {
    let fixture = Fixture::start().await;
    let row = held_row(0);
    let cut = Tokens::new().columns(&row).row(&row);
    let replies = vec![Reply::Cut(cut), Reply::Answer(held(2))];
    fixture.server.on(OPERATION, replies);
    let held = fixture.heartbeat(2).await.expect("extended");
    assert!(held.iter().all(Option::is_some), "{held:?}");
    assert_sent_twice(&fixture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_cut_before_or_among_its_rows_is_retried() {
    let row = settled_row(0, 3);
    for cut in [Tokens::new(), Tokens::new().columns(&row).row(&row)] {
        let fixture = Fixture::start().await;
        let replies = vec![Reply::Cut(cut), Reply::Answer(settled(2, 3))];
        fixture.server.on(OPERATION, replies);
        let states = fixture.complete(2).await.expect("settled");
        let completed = || Settled::Ended(State::Completed);
        assert_eq!(states, [completed(), completed()]);
        assert_sent_twice(&fixture);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_whose_answer_was_lost_is_no_repeat() {
    let fixture = Fixture::start().await;
    let earlier = || Reply::Answer(settled_earlier(1, 3));
    fixture.server.on(OPERATION, vec![earlier()]);
    let states = fixture.complete(1).await.expect("settled");
    assert_eq!(states, [Settled::Repeated(State::Completed)]);
    // The second try finds what the first one has done.
    let replies = vec![Reply::Cut(Tokens::new()), earlier()];
    fixture.server.on(OPERATION, replies);
    let states = fixture.complete(1).await.expect("settled");
    assert_eq!(states, [Settled::Ended(State::Completed)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_without_its_end_is_discarded() {
    let fixture = Fixture::start().await;
    let replies = vec![Reply::Cut(held(1)), Reply::Answer(held(2))];
    fixture.server.on(OPERATION, replies);
    let held = fixture.heartbeat(2).await.expect("extended");
    assert!(held.iter().all(Option::is_some), "{held:?}");
    assert_sent_twice(&fixture);
}

/// A claim of one lease that is cut off in the middle of its rows.
fn cut_claim() -> Reply {
    let row = claimed_row(TOKEN, 1);
    Reply::Cut(Tokens::new().columns(&row).row(&row))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_claim_asks_for_the_leases_of_its_token() {
    let fixture = Fixture::start().await;
    let replies = vec![cut_claim(), Reply::Answer(claimed(1..=3))];
    fixture.server.on(OPERATION, replies);
    assert_eq!(fixture.claim().await.expect("claimed").len(), 3);
    let requests = fixture.server.requests(OPERATION);
    assert_eq!(requests.len(), 2);
    assert!(requests[0].request.has(&[r#""n":3"#, r#""r":false"#]));
    let asks = [r#""n":0"#, r#""r":true"#, &TOKEN.to_string()];
    assert!(requests[1].request.has(&asks));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_claim_without_leases_fails_and_is_not_run_again() {
    let fixture = Fixture::start().await;
    let none = Tokens::new().columns(&claimed_row(TOKEN, 1));
    let replies = vec![cut_claim(), Reply::Answer(none.end_of_statement())];
    fixture.server.on(OPERATION, replies);
    let error = fixture.claim().await.expect_err("the reply is lost");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
    fixture
        .server
        .on(OPERATION, vec![Reply::Answer(claimed(1..=1))]);
    assert_eq!(fixture.claim().await.expect("claimed").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_that_fails_among_its_rows_looks_for_its_token() {
    for number in [1205, 1222] {
        let fixture = Fixture::start().await;
        let row = claimed_row(TOKEN, 1);
        let rows = Tokens::new().columns(&row).row(&row);
        let failed = rows.error(number, "The reading waited for a lock.");
        let replies = vec![Reply::Answer(failed), Reply::Answer(claimed(1..=3))];
        fixture.server.on(OPERATION, replies);
        assert_eq!(fixture.claim().await.expect("claimed").len(), 3);
        let requests = fixture.server.requests(OPERATION);
        assert_eq!(requests.len(), 2);
        let looks = [
            "sp_getapplock",
            r#""n":3"#,
            r#""r":true"#,
            &TOKEN.to_string(),
        ];
        assert!(requests[1].request.has(&looks), "{:?}", requests[1].request);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_with_request_id_is_retried_with_its_token() {
    let fixture = Fixture::start().await;
    let replies = vec![Reply::Cut(Tokens::new()), Reply::Answer(claimed(1..=3))];
    fixture.server.on(OPERATION, replies);
    let items = fixture.claim_by("worker", true).await.expect("claimed");
    assert_eq!(items.len(), 3);
    assert_sent_twice(&fixture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_with_a_lost_reply_runs_once() {
    let fixture = Fixture::start().await;
    let replies = vec![Reply::Cut(Tokens::new()), Reply::Answer(enqueued(1..=2))];
    fixture.server.on(OPERATION, replies);
    let error = fixture.enqueue(2).await.expect_err("the reply is lost");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(fixture.server.requests(OPERATION).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_with_a_request_id_is_sent_again() {
    let fixture = Fixture::start().await;
    let replies = vec![
        Reply::Cut(Tokens::new()),
        Reply::Answer(remembered(&request_digest(2), 1..=2)),
    ];
    fixture.server.on(OPERATION, replies);
    let outcome = fixture
        .enqueue_once(2)
        .await
        .expect("the keys of the first");
    assert!(
        matches!(&outcome, EnqueuedOnce::Repeated(keys) if keys.len() == 2),
        "{outcome:?}"
    );
    assert_sent_twice(&fixture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_idle_connection_fails_no_claim() {
    let fixture = Fixture::start().await;
    fixture.close_connection().await;
    fixture
        .server
        .on(OPERATION, vec![Reply::Answer(claimed(1..=1))]);
    assert_eq!(fixture.claim().await.expect("claimed").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_login_after_a_cut_is_retried() {
    let fixture = Fixture::start().await;
    let replies = vec![Reply::Cut(Tokens::new()), Reply::Answer(held(1))];
    fixture.server.on(OPERATION, replies);
    fixture.server.refuse_logins(&[40_613]);
    let held = fixture.heartbeat(1).await.expect("extended");
    assert!(held[0].is_some());
}
