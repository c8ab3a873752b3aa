//! Claims whose leases are given, and whose reading or later batch fails after the commit. No worker knows the leases, so they are
//! released.

use lease_broker_store::{Applied, Leases as _, StoreError};

use crate::harness::fixture::{call, keys};
use crate::support::timeout::with_timeout;
use crate::wire::answers::{OPERATION, TOKEN, claimed, claimed_row, released};
use crate::wire::fixture::{Fixture, QUEUE};
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::{Cell, Tokens};

const RELEASE: &[&str] = &["lease-broker release claims"];
const CLAIM: &[&str] = &["lease-broker claim"];

/// The answer to a claim that has committed and fails among its rows.
fn unread(class: u8, number: u32) -> Reply {
    let row = claimed_row(TOKEN, 1);
    let rows = Tokens::new().committed().columns_named(&row, "lb_t");
    Reply::Answer(
        rows.row(&row)
            .error_of_class(class, number, "It cannot be read."),
    )
}

/// The answer to a claim that gives nothing, because it leaves out suspects. Each of its calls is then sent alone.
fn held_back() -> Reply {
    let none = Tokens::new().columns_named(&claimed_row(TOKEN, 1), "lb_t");
    let row = [Cell::Int(Some(1))];
    let held_back = none.end_of_statement().columns_named(&row, "lb_held_back");
    Reply::Answer(held_back.row(&row).end_of_statement())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_cannot_be_read_are_released() {
    // A column was dropped, tempdb is full.
    for (class, number) in [(16, 207), (17, 1105)] {
        for has_request_id in [false, true] {
            let fixture = Fixture::start().await;
            fixture.server.on(CLAIM, vec![unread(class, number)]);
            fixture
                .server
                .on(RELEASE, vec![Reply::Answer(released(1..=3))]);
            let error = fixture.claim_by("worker", has_request_id).await;
            let error = error.expect_err("the leases cannot be read");
            assert_eq!(error.applied(), Applied::No, "{number}: {error}");
            let requests = fixture.server.requests(RELEASE);
            assert_eq!(requests.len(), 1, "{number}");
            assert!(requests[0].request.has(&[&TOKEN.to_string()]), "{number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_call_are_released_if_the_next_call_fails() {
    for has_request_id in [false, true] {
        let fixture = Fixture::start().await;
        let missing = Tokens::new().error(207, "Invalid column name.");
        let claims = vec![
            held_back(),
            Reply::Answer(claimed(8..=9)),
            Reply::Answer(missing),
        ];
        fixture.server.on(CLAIM, claims);
        fixture
            .server
            .on(RELEASE, vec![Reply::Answer(released(8..=9))]);
        let mut first = call("worker", 3);
        first.token = TOKEN;
        first.has_request_id = has_request_id;
        let calls = [first, call("worker", 3)];
        let claim = fixture.store.claim(QUEUE, calls.into(), usize::MAX);
        let error = with_timeout(claim).await.expect_err("a column is missing");
        let requests = fixture.server.requests(RELEASE);
        if has_request_id {
            // The caller finds the leases when it repeats the call.
            assert_eq!(error.applied(), Applied::Unknown, "{error}");
            assert_eq!(requests.len(), 0);
        } else {
            assert_eq!(error.applied(), Applied::No, "{error}");
            assert_eq!(requests.len(), 1);
            assert!(requests[0].request.has(&[&TOKEN.to_string()]));
        }
    }
}

/// The caller of the other one can have its leases from another broker by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_with_a_request_id_keeps_its_leases_beside_another_call() {
    let fixture = Fixture::start().await;
    fixture.server.on(CLAIM, vec![unread(16, 207)]);
    fixture
        .server
        .on(RELEASE, vec![Reply::Answer(released(1..=3))]);
    let mut repeatable = call("worker", 3);
    repeatable.has_request_id = true;
    let other = call("worker", 3);
    let tokens = [repeatable.token.to_string(), other.token.to_string()];
    let claim = fixture
        .store
        .claim(QUEUE, [repeatable, other].into(), usize::MAX);
    let error = with_timeout(claim).await.expect_err("a column is missing");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(error.applied(), Applied::Unknown, "{error}");
    let requests = fixture.server.requests(RELEASE);
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].request.has(&[&tokens[0]]), "{:?}", requests[0]);
    assert!(requests[0].request.has(&[&tokens[1]]), "{:?}", requests[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_may_be_applied_if_its_leases_are_not_released() {
    for (class, number) in [(16, 207), (16, 245), (17, 1105)] {
        let fixture = Fixture::start().await;
        fixture.server.on(CLAIM, vec![unread(class, number)]);
        let full = Tokens::new().error(9002, "The transaction log is full.");
        fixture.server.always(RELEASE, Reply::Answer(full));
        let error = fixture.claim().await.expect_err("it cannot be read");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert_eq!(error.applied(), Applied::Unknown, "{number}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_that_was_rolled_back_releases_nothing() {
    let fixture = Fixture::start().await;
    let missing = Tokens::new().error(207, "Invalid column name.");
    fixture.server.on(CLAIM, vec![Reply::Answer(missing)]);
    let error = fixture.claim().await.expect_err("a column is missing");
    assert_eq!(error.applied(), Applied::No, "{error}");
    assert_eq!(fixture.server.requests(RELEASE).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_that_cannot_be_read_is_left_out() {
    // A conversion, and a division by zero, which the broker does not know.
    for number in [245, 8134] {
        let fixture = Fixture::start().await;
        let claims = vec![
            // All calls together, then this one: three items, then one.
            unread(16, number),
            unread(16, number),
            unread(16, number),
            Reply::Answer(claimed(8..=9)),
        ];
        fixture.server.on(CLAIM, claims);
        let releases = [released(7..=9), released(7..=9), released(7..=7)];
        fixture
            .server
            .on(RELEASE, releases.map(Reply::Answer).into());
        let items = fixture.claim_by("worker", true).await.expect("the others");
        assert_eq!(keys(&items), ["8", "9"], "{number}");
        let requests = fixture.server.requests(CLAIM);
        assert_eq!(requests.len(), 4, "{number}");
        // The last claim leaves the row out with any fencing token.
        assert!(
            requests[3].request.has(&[r#""f":9223372036854775807"#]),
            "{:?}",
            requests[3]
        );
        let picks = fixture.server.requests(&["lease-broker pick"]);
        assert_eq!(picks.len(), 0, "another item may be blamed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_that_still_cannot_be_read_is_named() {
    let fixture = Fixture::start().await;
    let mut wanted = call("worker", 1);
    wanted.token = TOKEN;
    let claims = vec![
        unread(16, 245),
        unread(16, 245),
        held_back(),
        unread(16, 245),
    ];
    fixture.server.on(CLAIM, claims);
    fixture
        .server
        .always(RELEASE, Reply::Answer(released(7..=7)));
    let refused = fixture.store.claim(QUEUE, [wanted].into(), usize::MAX);
    let refused = with_timeout(refused).await.expect_err("item 7");
    let StoreError::Rejected(rejection) = &refused else {
        panic!("{refused:?}");
    };
    let text = &rejection.problem.text;
    assert!(text.starts_with("item 7 cannot be leased: "), "{text}");
    assert_eq!(fixture.server.requests(OPERATION).len(), 7);
}
