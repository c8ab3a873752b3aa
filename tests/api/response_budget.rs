//! The budget of responses: leases that clients do not read take a bounded amount of memory.

use lease_broker_proto::ClaimBatchRequest;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::support::api_error::ApiError;
use crate::support::client::{Client, lease_ids};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{wait_until, with_timeout};

/// Starts a server that may have 14 MiB of leases in responses, with items of 300 kB.
async fn server_with_items(items: usize) -> Server {
    let config = format!("[budgets]\nresponse_bytes = 16777216\n{QUEUE}");
    let server = Server::with_config(&config).await;
    let database = server.database();
    for _ in 0..items {
        let insert = "INSERT INTO work (payload) VALUES (?1)";
        database
            .execute(insert, ["x".repeat(300_000)])
            .expect("inserted");
    }
    server
}

/// Connects a client through a proxy that passes on what it sends and reads no answer.
async fn client_that_reads_nothing(server: &Server, proxies: &mut JoinSet<()>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let broker = server.address;
    proxies.spawn(async move {
        let (mut from_client, _) = listener.accept().await.expect("a connection");
        let to_server = tokio::net::TcpStream::connect(broker).await;
        let mut to_server = to_server.expect("connected");
        let (mut requests, _answers) = from_client.split();
        let (_unread, mut sink) = to_server.split();
        let _ = tokio::io::copy(&mut requests, &mut sink).await;
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a valid URL");
    // The server sends no more than this before the client asks for more.
    let endpoint = endpoint.initial_connection_window_size(65_535);
    let endpoint = endpoint.initial_stream_window_size(65_535);
    Client::new(endpoint.connect().await.expect("connected"), "work")
}

#[tokio::test]
async fn unread_leases_refuse_claims_until_they_are_gone() {
    let server = server_with_items(100).await;
    let mut proxies = JoinSet::new();
    let stalled = client_that_reads_nothing(&server, &mut proxies).await;
    let mut claims = JoinSet::new();
    for _ in 0..20 {
        let request = ClaimBatchRequest {
            max_items: 10,
            ..stalled.claim_request(10)
        };
        let mut rpc = stalled.rpc.clone();
        claims.spawn(async move { rpc.claim_batch(request).await.map(|_| ()) });
    }
    let client = server.client().await;
    let mut refusal = None;
    wait_until("a claim is refused", async || {
        match client.try_claim(client.claim_request(1)).await {
            Ok(leases) => {
                assert!(!leases.is_empty(), "an empty claim while items are ready");
                client.release(&lease_ids(&leases)).await;
            }
            Err(status) => refusal = Some(status),
        }
        refusal.is_some()
    })
    .await;
    let error = ApiError::from_status(&refusal.expect("a refusal"));
    assert_eq!(
        (error.code, &*error.reason),
        (Code::ResourceExhausted, "OVERLOADED")
    );
    assert!(error.retry_after.is_some());
    let leased = "SELECT COUNT(*) * 300000 FROM work WHERE lease_state = 1";
    let bytes: i64 = server
        .database()
        .query_row(leased, [], |row| row.get(0))
        .expect("counted");
    assert!(bytes < 16 << 20, "{bytes} bytes in responses");
    // The connection ends, and with it the responses.
    claims.shutdown().await;
    proxies.shutdown().await;
    drop(stalled);
    wait_until("a claim is served", async || {
        client.try_claim(client.claim_request(1)).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn responses_that_are_read_return_their_bytes() {
    let server = server_with_items(100).await;
    let client = server.client().await;
    for _ in 0..8 {
        let request = client.claim_request(10);
        let leases = with_timeout(client.try_claim(request)).await;
        assert_eq!(leases.expect("claimed").len(), 10);
    }
}
