//! The connection of the health check. Its end says nothing about the server.

use std::time::Duration;

use lease_broker_store::{OutageCause, StoreError, Upkeep as _};

use crate::support::timeout::with_timeout;
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

const PROBE: &[&str] = &["lease_broker_probe"];
const RESET: &[&str] = &["@@trancount", "rollback"];

async fn probe(fixture: &Fixture) -> Result<(), StoreError> {
    with_timeout(fixture.store.probe()).await
}

fn last_connection(fixture: &Fixture) -> usize {
    let probes = fixture.server.requests(PROBE);
    probes.last().expect("a probe").connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_uses_its_connection_again() {
    let fixture = Fixture::start().await;
    let first = last_connection(&fixture);
    for _ in 0..2 {
        probe(&fixture).await.expect("the server works");
        assert_eq!(last_connection(&fixture), first);
    }
}

/// The server has ended all sessions while no operation ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_replaces_a_closed_connection() {
    let fixture = Fixture::start().await;
    fixture
        .server
        .on(PROBE, vec![Reply::AnswerAndClose(Tokens::new())]);
    probe(&fixture).await.expect("the server works");
    let first = last_connection(&fixture);
    fixture.server.wait_for_close(first).await;
    probe(&fixture).await.expect("the server works");
    assert_ne!(last_connection(&fixture), first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_replaces_a_connection_that_is_cut() {
    for cut in [PROBE, RESET] {
        let fixture = Fixture::start().await;
        let first = last_connection(&fixture);
        fixture.server.on(cut, vec![Reply::Cut(Tokens::new())]);
        probe(&fixture).await.expect("the server works");
        assert_ne!(last_connection(&fixture), first, "{cut:?}");
    }
}

/// A firewall has dropped the connection without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_replaces_a_silent_connection() {
    let fixture = Fixture::start().await;
    let first = last_connection(&fixture);
    fixture.server.on(RESET, vec![Reply::Stall(Tokens::new())]);
    // A probe of a broker may take 4 s.
    let start = std::time::Instant::now();
    probe(&fixture).await.expect("the server works");
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_ne!(last_connection(&fixture), first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_fails_if_a_new_connection_is_cut_too() {
    let fixture = Fixture::start().await;
    fixture.server.on(
        PROBE,
        vec![Reply::Cut(Tokens::new()), Reply::Cut(Tokens::new())],
    );
    let error = probe(&fixture).await.expect_err("the server is gone");
    let StoreError::Unavailable(outage) = error else {
        panic!("{error:?}");
    };
    assert_eq!(outage.cause, OutageCause::NoConnection);
    assert_eq!(fixture.server.requests(PROBE).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_that_the_server_refuses_is_not_sent_again() {
    let fixture = Fixture::start().await;
    let full = Tokens::new().error_of_class(17, 9002, "The transaction log is full.");
    fixture.server.on(PROBE, vec![Reply::Answer(full)]);
    let error = probe(&fixture).await.expect_err("no space");
    let StoreError::Unavailable(outage) = error else {
        panic!("{error:?}");
    };
    assert_eq!(outage.cause, OutageCause::NoSpace);
    assert_eq!(fixture.server.requests(PROBE).len(), 2);
}
