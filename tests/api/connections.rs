//! Connections that the server replaces after `max_connection_age`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use lease_broker_proto::Outcome;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::support::client::{completion, item};
use crate::support::frames::{ACK, GOAWAY, PING, PREFACE, frame, settings};
use crate::support::raw_connection::{RawConnection, blocking};
use crate::support::server::{QUEUE, Server};

/// Repeats a call until the client's channel has sent it. A call that was queued on a replaced connection was never
/// sent and is safe to repeat. Any other error fails the test.
async fn retry_unsent<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(status) => {
                let unsent = status.code() == Code::Cancelled
                    && format!("{status:?}").contains("connection closed");
                assert!(unsent, "{status:?}");
            }
        }
    }
}

#[tokio::test]
async fn calls_survive_connection_replacement() {
    let server =
        Server::with_config(&format!("[server]\nmax_connection_age = '100ms'\n{QUEUE}")).await;
    let client = server.client().await;
    // The connection is replaced many times. On a busy machine the rounds take longer.
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < Duration::from_secs(2) || rounds < 6 {
        retry_unsent(async || client.try_enqueue(vec![item("a")]).await).await;
        let leases = retry_unsent(async || client.try_claim(client.claim_request(2)).await).await;
        assert_eq!(leases.len(), 1, "the item was added exactly once");
        let done = vec![completion(&leases[0].lease_id, &[])];
        let done = retry_unsent(async || client.try_complete(done.clone()).await).await;
        assert_eq!(done[0].outcome(), Outcome::Applied);
        rounds += 1;
    }
}

#[tokio::test]
async fn waiting_claim_outlives_max_age() {
    let server =
        Server::with_config(&format!("[server]\nmax_connection_age = '100ms'\n{QUEUE}")).await;
    let client = server.client().await;
    let waiting = tokio::spawn({
        let (client, request) = (
            client.clone(),
            client.waiting_claim_request(1, Duration::from_secs(60)),
        );
        async move { client.try_claim(request).await }
    });
    client.wait_until_received().await;
    // When two connections have been replaced, one after the other, the older one of the claim has been, too.
    for _ in 0..2 {
        let younger = RawConnection::open(server.address);
        blocking(move || younger.goaway()).await;
    }
    server.client().await.enqueue(&["a"]).await;
    let leases = crate::support::timeout::with_timeout(waiting).await;
    assert_eq!(leases.expect("a task").expect("a claim").len(), 1);
}

#[tokio::test]
async fn client_that_still_sends_is_not_reset_at_the_end() {
    let server =
        Server::with_config(&format!("[server]\nmax_connection_age = '100ms'\n{QUEUE}")).await;
    let address = server.address;
    let done = blocking(move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let hello = [PREFACE, &settings(&[])].concat();
        stream.write_all(&hello).expect("sent");
        // The broker asks whether the client has read its GOAWAY. After the answer it has nothing to do for the connection.
        let mut has_goaway = false;
        let question = loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).expect("a frame");
            let mut payload = vec![0; usize::from(head[2])];
            stream.read_exact(&mut payload).expect("a payload");
            has_goaway |= head[3] == GOAWAY;
            if has_goaway && head[3] == PING {
                break payload;
            }
        };
        let more = frame(PING, 0, 0, &[0; 8]).repeat(10_000);
        let answer = [frame(PING, ACK, 0, &question), more.clone()].concat();
        let begun = Instant::now();
        stream.write_all(&answer).expect("sent");
        let read = stream.read_to_end(&mut Vec::new());
        // A reset arrives a moment after the end.
        let written = (0..20).try_for_each(|_| {
            std::thread::sleep(Duration::from_millis(5));
            stream.write_all(&more[..17])
        });
        // The broker waits for a second.
        (begun.elapsed() < Duration::from_millis(900)).then(|| read.and(written))
    })
    .await;
    // A load balancer that is reset drops the responses that it has not read.
    if let Some(result) = done {
        result.expect("the connection is not reset");
    }
}
