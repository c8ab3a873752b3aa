//! Logins that the server refuses or redirects to another server.

use std::net::SocketAddr;

use lease_broker_store::StoreError;

use crate::support::timeout::with_timeout;
use crate::wire::answers::{OPERATION, held};
use crate::wire::database;
use crate::wire::fixture::{LONG_LIMITS, PASSWORD, PLAIN, open_with, refused, responder, settings};
use crate::wire::responder::log::Event;
use crate::wire::responder::script::Reply;
use crate::wire::responder::server::{Encryption, Login, Server};

/// Endings that make a connection string invalid.
const INVALID_ENDINGS: [&str; 4] = [
    "Encrypt=perhaps",
    "Encrypt",
    "TrustServerCertificate=\"",
    "=;=;{",
];

fn is_login(event: &Event) -> bool {
    matches!(event, Event::Login { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_login_is_misconfigured_without_retry() {
    let refusal = Login::Refuse(18_456, "Login failed for user 'broker'.");
    let server = Server::start(Encryption::Unsupported, refusal, database::answer).await;
    let error = refused(&server, PLAIN).await;
    let StoreError::Misconfigured(text) = &error else {
        panic!("not misconfigured: {error:?}");
    };
    let address = server.address.to_string();
    for part in ["18456", &address, "store.connection_string"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(server.count(is_login), 1);
    for text in [error.to_string(), format!("{error:?}")] {
        for secret in [PASSWORD, "Sw0rdfish", "password=", "server="] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_connection_string_is_misconfigured_and_not_printed() {
    let server = responder().await;
    for ending in INVALID_ENDINGS {
        let error = refused(&server, ending).await;
        let text = format!("{error} {error:?}");
        assert!(
            matches!(error, StoreError::Misconfigured(_)),
            "{ending}: {text}"
        );
        assert!(!text.contains("Sw0rdfish"), "{text}");
    }
    assert_eq!(server.count(is_login), 0);
}

#[test]
fn settings_hide_their_connection_string() {
    let secret = format!("server=tcp:db;user=broker;password=\"{PASSWORD}\"");
    let text = format!("{:?}", settings(&secret, LONG_LIMITS));
    for secret in ["Sw0rdfish", "password", "server="] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_database_is_unavailable() {
    for number in [40_613, 976] {
        let moved = Login::Refuse(number, "The database is not available.");
        let server = Server::start(Encryption::Unsupported, moved, database::answer).await;
        let error = refused(&server, PLAIN).await;
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_database_ends_the_start_after_retries() {
    for (number, message) in [
        (
            4060,
            "Cannot open database \"work\" requested by the login.",
        ),
        (911, "database \"work\" does not exist"),
    ] {
        let missing = Login::Refuse(number, message);
        let server = Server::start(Encryption::Unsupported, missing, database::answer).await;
        let error = refused(&server, PLAIN).await;
        assert!(matches!(error, StoreError::Io(_)), "{error:?}");
        assert!(server.count(is_login) > 1);
    }
}

fn route_to(address: SocketAddr) -> Login {
    Login::Route(address.ip().to_string(), address.port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirect_to_a_named_instance_is_followed() {
    let target = responder().await;
    let host = format!("{}\\INST01", target.address.ip());
    let route = Login::Route(host, target.address.port());
    let gateway = Server::start(Encryption::Unsupported, route, database::answer).await;
    let opened = open_with(gateway.address, LONG_LIMITS, PLAIN).await;
    opened.map(drop).expect("the redirect is followed");
    assert_eq!(target.count(is_login), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirected_login_is_followed() {
    let target = responder().await;
    let route = route_to(target.address);
    let gateway = Server::start(Encryption::Unsupported, route, database::answer).await;
    let store = open_with(gateway.address, LONG_LIMITS, PLAIN).await;
    let store = store.expect("the redirect is followed");
    // One connection for the start, one for the operations and one for the probe.
    assert_eq!(gateway.count(is_login), 3);
    assert_eq!(
        gateway.requests(&[]).len(),
        0,
        "the gateway received statements"
    );
    assert_eq!(target.count(is_login), 3);
    target.on(OPERATION, vec![Reply::Answer(held(1))]);
    let queue = lease_broker_store::QueueIndex(0);
    let renewals = crate::wire::fixture::renewals(1);
    let extended = lease_broker_store::Leases::heartbeat(&store, queue, renewals);
    assert!(
        with_timeout(extended).await.expect("extended")[0]
            .expiry()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirect_loop_ends() {
    let target = responder().await;
    let mut next = target.address;
    let mut chain = Vec::new();
    for _ in 0..20 {
        let route = route_to(next);
        let server = Server::start(Encryption::Unsupported, route, database::answer).await;
        next = server.address;
        chain.push(server);
    }
    let opened = open_with(next, LONG_LIMITS, PLAIN).await.map(|_| ());
    opened.expect_err("too many redirects");
    assert_eq!(target.count(is_login), 0);
}
