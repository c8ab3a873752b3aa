//! Logins that a server refuses while it starts, stops or recovers. Operations fail with an outage, and never as a bug.

use lease_broker_store::StoreError;
use lease_broker_store::mssql::{MssqlSchema, MssqlStore, Settings};

use crate::harness::fixture::queue;
use crate::wire::answers::{OPERATION, held};
use crate::wire::fixture::{Fixture, LONG_LIMITS, PLAIN, open_with, responder, settings};
use crate::wire::responder::script::Reply;
use crate::wire::responder::server::Server;
use crate::wire::responder::tokens::Tokens;

/// The number that Babelfish gives to `PostgreSQL` errors without a SQL Server number, and their class.
const UNMAPPED: u32 = 33_557_097;
const CLASS: u8 = 16;

/// The messages of a Babelfish server whose session crashed, or that is restarted.
const MESSAGES: [&str; 4] = [
    "the database system is in recovery mode",
    "the database system is shutting down",
    "the database system is starting up",
    "the database system is not yet accepting connections",
];

fn refusal(class: u8, number: u32, message: &str) -> Tokens {
    Tokens::new().error_of_class(class, number, message)
}

fn assert_outage<T>(outcome: Result<T, StoreError>, message: &str) {
    let Err(StoreError::Unavailable(outage)) = outcome.map(drop) else {
        panic!("{message}: not an outage");
    };
    assert!(outage.reason.contains(message), "{outage:?}");
}

/// Starts a store, lets the server close the connection of its operations, and refuses every login from then on.
async fn cut_and_refused(refusal: Tokens) -> Fixture {
    let fixture = Fixture::start().await;
    let last = Reply::AnswerAndClose(held(1));
    fixture.server.on(OPERATION, vec![last]);
    fixture.heartbeat(1).await.expect("extended");
    let connection = fixture.server.requests(OPERATION)[0].connection;
    fixture.server.wait_for_close(connection).await;
    fixture.server.refuse_every_login(Some(refusal));
    fixture
}

async fn assert_operations_meet_an_outage(class: u8, number: u32, message: &str) {
    let fixture = cut_and_refused(refusal(class, number, message)).await;
    assert_outage(fixture.enqueue(1).await, message);
    assert_outage(fixture.claim().await, message);
    assert_outage(fixture.complete(1).await, message);
    // The server accepts logins again, and operations succeed.
    fixture.server.refuse_every_login(None);
    let extended = vec![Reply::Answer(held(1))];
    fixture.server.on(OPERATION, extended);
    fixture.heartbeat(1).await.expect("extended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovering_server_is_an_outage_for_operations() {
    for message in MESSAGES {
        assert_operations_meet_an_outage(CLASS, UNMAPPED, message).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_login_error_is_an_outage_for_operations() {
    for (class, number) in [(11, 9_999), (16, UNMAPPED), (16, 60_001), (20, 9_999)] {
        assert_operations_meet_an_outage(class, number, "unheard of").await;
    }
}

/// Opens a store on a server that refuses every login.
async fn open_refused(refusal: Tokens) -> Result<MssqlStore, StoreError> {
    let server = responder().await;
    server.refuse_every_login(Some(refusal));
    open_with(server.address, LONG_LIMITS, PLAIN).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovering_server_is_an_outage_at_start() {
    let open = async |message| {
        let opened = open_refused(refusal(CLASS, UNMAPPED, message)).await;
        assert_outage(opened, message);
    };
    let [first, second, third, fourth] = MESSAGES;
    tokio::join!(open(first), open(second), open(third), open(fourth));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_database_ends_a_schema_change() {
    let server = responder().await;
    server.refuse_every_login(Some(refusal(11, 4060, "Cannot open database \"nope\"")));
    let text = format!(
        "server=tcp:127.0.0.1,{};user=broker;password=x;database=nope;{PLAIN}",
        server.address.port()
    );
    let settings = settings(&text, LONG_LIMITS);
    let opened = tokio::task::spawn_blocking(move || MssqlSchema::open(&settings).map(drop));
    let error = opened.await.expect("no panic").expect_err("refused");
    assert!(matches!(error, StoreError::Io(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_refused_for_a_moment_does_not_stop_a_start() {
    let server = responder().await;
    server.refuse_logins(&[UNMAPPED, 4060, 40_613]);
    let opened = open_with(server.address, LONG_LIMITS, PLAIN).await;
    opened.map(drop).expect("opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogue_that_changes_while_it_is_read_is_read_again() {
    let server = responder().await;
    let dropped = refusal(16, UNMAPPED, "relation with OID 20817 does not exist");
    server.on(&["from sys.columns"], vec![Reply::Answer(dropped)]);
    let opened = open_with(server.address, LONG_LIMITS, PLAIN).await;
    opened.map(drop).expect("opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_login_reads_the_connection_string_again() {
    let (old, new) = (responder().await, responder().await);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("connection-string");
    let text = |server: &Server| {
        let (host, port) = (server.address.ip(), server.address.port());
        format!("server=tcp:{host},{port};user=broker;password=x;database=work;{PLAIN}")
    };
    let settings = Settings {
        connection_string_file: Some(file.clone()),
        ..settings(&text(&old), LONG_LIMITS)
    };
    let store = Box::pin(MssqlStore::open(&settings, &[queue("items")])).await;
    let fixture = Fixture {
        server: old,
        store: store.expect("the first server is ready").into(),
    };
    fixture.close_connection().await;
    fixture
        .server
        .refuse_every_login(Some(refusal(14, 18_456, "Login failed.")));
    // Until the file changes, the login stays refused.
    std::fs::write(&file, text(&fixture.server) + "\n").expect("the file is written");
    let error = fixture
        .heartbeat(1)
        .await
        .expect_err("the password is wrong");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    std::fs::write(&file, text(&new) + "\n").expect("the file is written");
    for _ in 0..2 {
        new.on(OPERATION, vec![Reply::AnswerAndClose(held(1))]);
        fixture.heartbeat(1).await.expect("extended");
        let connection = new.requests(OPERATION).pop().expect("a request").connection;
        new.wait_for_close(connection).await;
    }
    assert_eq!(new.requests(OPERATION).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_up_that_fails_is_an_outage() {
    let server = responder().await;
    let failed = refusal(16, UNMAPPED, "unheard of");
    server.always(&["serverproperty"], Reply::Answer(failed));
    let opened = open_with(server.address, LONG_LIMITS, PLAIN).await;
    assert_outage(opened, "unheard of");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operation_error_of_a_high_class_is_an_outage() {
    let fixture = Fixture::start().await;
    for class in [17, 20] {
        let failed = refusal(class, 9_999, "unheard of");
        fixture.server.on(OPERATION, vec![Reply::Answer(failed)]);
        assert_outage(fixture.enqueue(1).await, "unheard of");
    }
}
