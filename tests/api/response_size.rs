//! What an answer may hold, and how a lease carries on its producer's trace.

use std::collections::HashSet;
use std::time::Duration;

use lease_broker::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;
use tonic::Request;

use crate::support::client::{completion, item, key, lease_ids};
use crate::support::server::{QUEUE, Server};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn leases_over_the_limit_are_released() {
    let server =
        Server::with_config(&format!("[server]\nmax_message_bytes = 1000000\n{QUEUE}")).await;
    let client = server.client().await;
    let large = "x".repeat(300_000);
    for _ in 0..10 {
        client.enqueue(&[&large]).await;
    }
    let mut seen = HashSet::new();
    for _ in 0..4 {
        let request = client.waiting_claim_request(10, Duration::from_secs(30));
        let leases = client.try_claim(request).await.expect("a claim");
        assert!((1..=3).contains(&leases.len()), "{}", leases.len());
        for lease in &leases {
            assert_eq!(
                (lease.attempt, seen.insert(key(lease).to_owned())),
                (1, true)
            );
        }
        client.complete(&lease_ids(&leases)).await;
    }
    assert_eq!(seen.len(), 10);
}

/// Asserts that a client of the usual limit, 4 MiB, can read whatever the service answers.
async fn fits(server: &Server, queue: &str, count: usize) {
    let client = server.client().await.for_queue(queue);
    let mut usual = LeaseBrokerServiceClient::new(server.channel().await);
    let mut seen = 0;
    while seen < count {
        let answer = usual
            .claim_batch(client.waiting_claim_request(1_000, Duration::from_secs(30)))
            .await;
        seen += answer
            .expect("an answer that fits")
            .into_inner()
            .leases
            .len();
    }
    assert_eq!(seen, count);
}

#[tokio::test]
async fn default_client_reads_every_response() {
    let fill = |payload: &str| {
        format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) {payload} FROM n;"
        )
    };
    let tables = [
        "CREATE TABLE numbered (id INTEGER PRIMARY KEY, payload text);".to_owned(),
        fill("INSERT INTO numbered SELECT n, printf('%.*c', 5000, 'x')"),
        "CREATE TABLE small (id INTEGER PRIMARY KEY);".to_owned(),
        fill("INSERT INTO small SELECT n"),
        "CREATE TABLE named (name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;".to_owned(),
        fill("INSERT INTO named SELECT printf('%08d%.*c', n, 2500, 'x')"),
        "CREATE TABLE hashed (a BLOB NOT NULL, b TEXT NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;"
            .to_owned(),
        fill("INSERT INTO hashed SELECT randomblob(1500), printf('%08d%.*c', n, 500, '\"')"),
    ];
    let queues = "[queues.numbered]\n[queues.small]\n[queues.named]\n[queues.hashed]";
    let server = Server::with_tables(queues, &tables.concat()).await;
    for queue in ["numbered", "small", "named", "hashed"] {
        fits(&server, queue, 1_000).await;
    }
}

#[tokio::test]
async fn item_over_the_limit_is_leased_alone() {
    let server = Server::with_config(&format!("[server]\nmax_message_bytes = 1000\n{QUEUE}")).await;
    let client = server.client().await;
    let insert = "INSERT INTO work (payload) VALUES (?1), ('small')";
    let large = "x".repeat(100_000);
    server.database().execute(insert, [&large]).expect("rows");
    let leases = client.claim(10).await;
    assert_eq!(leases.len(), 1);
    assert_eq!(crate::support::client::payload(&leases[0]), large);
}

#[tokio::test]
async fn lease_continues_its_producers_trace() {
    let server = Server::start().await;
    let client = server.client().await;
    let traced = |trace: &'static str| {
        let message = lease_broker::grpc::proto::EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
        };
        let mut request = Request::new(message);
        let trace = trace.parse().expect("a header");
        request.metadata_mut().insert("traceparent", trace);
        request
    };
    client
        .rpc
        .clone()
        .enqueue(traced(TRACE))
        .await
        .expect("added");
    let lease = client.claim_one().await;
    let (trace, span) = (&lease.trace_parent[3..35], &lease.trace_parent[36..52]);
    assert_eq!(trace, &TRACE[3..35]);
    assert_ne!(span, &TRACE[36..52]);
    assert!(lease.trace_parent.ends_with("-01"));
    client.release(&[&lease.lease_id]).await;
    let again = client.claim_one().await;
    assert_eq!(&again.trace_parent[..35], &lease.trace_parent[..35]);
    assert_ne!(again.trace_parent, lease.trace_parent);

    // A follow-up belongs to the trace of the completion that adds it.
    let other = "00-11111111111111111111111111111111-2222222222222222-00";
    let mut done = Request::new(lease_broker::grpc::proto::CompleteRequest {
        queue: "work".to_owned(),
        completions: vec![completion(&again.lease_id, &[("work", "next")])],
        next: None,
    });
    let header = other.parse().expect("a header");
    done.metadata_mut().insert("traceparent", header);
    client.rpc.clone().complete(done).await.expect("done");
    assert_eq!(client.claim_one().await.trace_parent[..35], other[..35]);
}

#[tokio::test]
async fn invalid_traceparent_is_ignored() {
    let server = Server::start().await;
    let client = server.client().await;
    let upper = "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01";
    let none = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for wrong in ["", "nonsense", upper, none] {
        let mut request = Request::new(lease_broker::grpc::proto::EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
        });
        let header = wrong.parse().expect("a header");
        request.metadata_mut().insert("traceparent", header);
        client.rpc.clone().enqueue(request).await.expect("added");
        let lease = client.claim_one().await;
        assert_eq!(lease.trace_parent.len(), 55);
        assert_ne!(lease.trace_parent[3..35], "0".repeat(32));
    }
}
