//! Servers that stop answering. Each operation ends within a time limit, and its connection is not used again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_broker::broker::{CountLimits, Operator};
use lease_broker_store::mssql::MssqlReader;
use lease_broker_store::{Browse as _, QueueIndex, StoreError};

use crate::harness::fixture::queue;
use crate::support::timeout::with_timeout;
use crate::wire::answers::{OPERATION, claimed, held, held_row};
use crate::wire::database;
use crate::wire::fixture::{
    Fixture, LONG_LIMITS, Limits, PLAIN, SHORT, open_queues, open_with, responder, settings,
};
use crate::wire::responder::log::Event;
use crate::wire::responder::script::{Gate, Reply};
use crate::wire::responder::server::{Encryption, Login, Server};
use crate::wire::responder::tokens::{Cell, Tokens};

const SHORT_LIMITS: Limits = Limits {
    command: SHORT,
    ..LONG_LIMITS
};
/// Limits of an operation that succeeds when it is tried again. Each of its tries has half of the time.
const RETRY_LIMITS: Limits = Limits {
    command: Duration::from_secs(4),
    ..LONG_LIMITS
};
/// The time limit of a failed operation. All its tries together take less. It leaves room for a busy machine, and is shorter
/// than the long limits.
const MAX_TIME: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_heartbeat_is_retried_on_a_new_connection() {
    let fixture = Fixture::with(RETRY_LIMITS).await;
    let replies = vec![Reply::Stall(Tokens::new()), Reply::Answer(held(1))];
    fixture.server.on(OPERATION, replies);
    let held = fixture.heartbeat(1).await.expect("extended");
    assert!(held[0].is_some());
    let requests = fixture.server.requests(OPERATION);
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].connection, requests[1].connection);
    fixture.server.wait_for_close(requests[0].connection).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat_stalled_among_its_rows_is_retried() {
    let fixture = Fixture::with(RETRY_LIMITS).await;
    let row = held_row(0);
    let part = Tokens::new().columns(&row).row(&row);
    let replies = vec![Reply::Stall(part), Reply::Answer(held(2))];
    fixture.server.on(OPERATION, replies);
    let held = fixture.heartbeat(2).await.expect("extended");
    assert!(held.iter().all(Option::is_some), "{held:?}");
    let requests = fixture.server.requests(OPERATION);
    assert_ne!(requests[0].connection, requests[1].connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_claim_finds_its_leases_on_another_connection() {
    let fixture = Fixture::with(RETRY_LIMITS).await;
    let replies = vec![Reply::Stall(Tokens::new()), Reply::Answer(claimed(1..=1))];
    fixture.server.on(OPERATION, replies);
    let start = Instant::now();
    assert_eq!(fixture.claim().await.expect("claimed").len(), 1);
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    let requests = fixture.server.requests(OPERATION);
    assert!(requests[1].request.has(&[r#""n":0"#]));
    assert_ne!(requests[0].connection, requests[1].connection);
}

/// The names of the driver's own methods, which no user can call.
const DRIVER: &str = "Config::";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeouts_are_reported_in_words_of_the_broker() {
    let fixture = Fixture::with(SHORT_LIMITS).await;
    let stalled = Reply::Stall(Tokens::new());
    fixture.server.always(OPERATION, stalled);
    let error = fixture.enqueue(1).await.expect_err("no answer").to_string();
    assert!(
        error.contains("no reply from the server within 500ms"),
        "{error}"
    );
    // The last try ends with the time of all tries. The server would have ended a wait for a lock with an error.
    let heartbeat = fixture.heartbeat(1).await.expect_err("no answer");
    let heartbeat = heartbeat.to_string();
    assert!(
        heartbeat.contains("no reply from the server within 1s")
            && !heartbeat.contains("another session"),
        "{heartbeat}"
    );
    let login = Server::start(Encryption::Unsupported, Login::Unanswered, database::answer).await;
    let limits = Limits {
        handshake: SHORT,
        ..LONG_LIMITS
    };
    let opened = open_with(login.address, limits, PLAIN).await.map(drop);
    let login = opened.expect_err("no login").to_string();
    assert!(login.contains("store.handshake_timeout"), "{login}");
    assert!(
        !format!("{error} {login}").contains(DRIVER),
        "{error} {login}"
    );
}

/// Returns the counts and the ages of a queue without items.
fn counted() -> Tokens {
    let empty = Tokens::new().rows(&[vec![Cell::Int(Some(0)), Cell::BigInt(Some(0))]]);
    let ages = Tokens::new().rows(&[vec![
        Cell::Time(Some(0)),
        Cell::Time(None),
        Cell::Time(None),
        Cell::Int(Some(0)),
    ]]);
    empty.then(&ages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn count_for_an_operator_takes_longer_than_an_operation() {
    let server = responder().await;
    let (host, port) = (server.address.ip(), server.address.port());
    let text = format!("server=tcp:{host},{port};user=broker;password=x;database=work;{PLAIN}");
    let settings = settings(&text, SHORT_LIMITS);
    let queues = [queue("items")];
    let reader = Box::pin(MssqlReader::open(&settings, &queues)).await;
    let reader = reader.expect("the scripted database is ready");
    let gate = Gate::closed();
    let answer = Reply::After(gate.clone(), counted());
    server.on(&["count_big", "[items]"], vec![answer]);
    let count = tokio::spawn(async move { reader.exact_stats(QueueIndex(0)).await });
    server.wait_for_requests(&["count_big", "[items]"], 1).await;
    // Longer than all tries of an operation.
    tokio::time::sleep(2 * SHORT).await;
    gate.open();
    with_timeout(count)
        .await
        .expect("no panic")
        .expect("a count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_whose_count_stalls_does_not_hide_the_others() {
    let server = responder().await;
    let queues = [queue("items"), queue("stalled")];
    let store = open_queues(server.address, LONG_LIMITS, PLAIN, &queues).await;
    let store = store.expect("the scripted database is ready");
    server.always(&["lease-broker stats items"], Reply::Answer(counted()));
    let stalled = Reply::Stall(Tokens::new());
    server.always(&["lease-broker stats stalled"], stalled);
    let operator = Operator::new(Arc::new(store), &queues, 1);
    // The time after which a caller goes away: the timeout of a command, and the time limit of a page.
    let patience = [
        (CountLimits::CALL, Duration::from_secs(10)),
        (CountLimits::PAGE, Duration::from_millis(4_500)),
    ];
    for (limits, patience) in patience {
        let listed = operator.list_queues(&[], Some(limits), |_| true);
        let listed = tokio::time::timeout(patience, listed).await;
        let listed = listed.expect("before the caller goes away");
        let [items, stalled] = &listed.expect("the state of both")[..] else {
            panic!("two queues");
        };
        assert!(items.stats.is_ok(), "{items:?}");
        let problem = stalled.stats.expect_err("no count");
        assert!(problem.contains("not counted in time"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_waits_longer_for_the_migration_lock_than_an_operation() {
    const LOCK: &[&str] = &["sp_getapplock", "lease_broker_migration"];

    let server = responder().await;
    let gate = Gate::closed();
    let locked = Tokens::new().rows(&[vec![Cell::Int(Some(0))]]);
    server.on(LOCK, vec![Reply::After(gate.clone(), locked)]);
    let release = async {
        server.wait_for_requests(LOCK, 1).await;
        // Longer than all tries of an operation.
        tokio::time::sleep(2 * SHORT).await;
        gate.open();
    };
    let open = open_with(server.address, SHORT_LIMITS, PLAIN);
    let (opened, ()) = tokio::join!(open, release);
    opened.expect("the lock is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_on_a_dead_server_fail_in_time() {
    let fixture = Fixture::with(SHORT_LIMITS).await;
    fixture
        .server
        .always(OPERATION, Reply::Stall(Tokens::new()));
    let start = Instant::now();
    let error = fixture
        .heartbeat(1)
        .await
        .expect_err("the server does not answer");
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trickling_server_cannot_hold_an_operation() {
    let fixture = Fixture::with(SHORT_LIMITS).await;
    let little = Tokens::new().info(0, "still at it");
    fixture.server.always(OPERATION, Reply::Forever(little));
    let start = Instant::now();
    let error = fixture.claim().await.expect_err("the answer has no end");
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

async fn assert_login_times_out(login: Login) {
    let server = Server::start(Encryption::Unsupported, login, database::answer).await;
    let limits = Limits {
        handshake: SHORT,
        ..LONG_LIMITS
    };
    let start = Instant::now();
    let opened = open_with(server.address, limits, PLAIN).await.map(|_| ());
    let error = opened.expect_err("the server is silent");
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(server.count(|event| *event == Event::Accepted) > 0);
    server.wait_for_close(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_server_is_given_up_in_time() {
    assert_login_times_out(Login::Silence).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_login_is_given_up_in_time() {
    assert_login_times_out(Login::Unanswered).await;
}
