//! The size of a claim's response: it stays within the message limit of the server and of clients with default
//! settings.

use std::collections::HashSet;
use std::time::Duration;

use lease_broker::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;

use crate::support::client::{key, lease_ids};
use crate::support::server::{QUEUE, Server};

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

/// Claims `count` items with a client that has the default limit of 4 MiB per message, and asserts that it can read
/// every response.
async fn assert_default_client_reads(server: &Server, queue: &str, count: usize) {
    let client = server.client().await.for_queue(queue);
    let mut default_client = LeaseBrokerServiceClient::new(server.channel().await);
    let mut seen = 0;
    while seen < count {
        let response = default_client
            .claim_batch(client.waiting_claim_request(1_000, Duration::from_secs(30)))
            .await;
        seen += response
            .expect("the response fits")
            .into_inner()
            .leases
            .len();
    }
    assert_eq!(seen, count);
}

#[tokio::test]
async fn default_client_reads_every_response() {
    let insert_1000_rows = |insert: &str| {
        format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) {insert} FROM n;"
        )
    };
    let tables = [
        "CREATE TABLE numbered (id INTEGER PRIMARY KEY, payload text);".to_owned(),
        insert_1000_rows("INSERT INTO numbered SELECT n, printf('%.*c', 5000, 'x')"),
        "CREATE TABLE small (id INTEGER PRIMARY KEY);".to_owned(),
        insert_1000_rows("INSERT INTO small SELECT n"),
        "CREATE TABLE named (name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;".to_owned(),
        insert_1000_rows("INSERT INTO named SELECT printf('%08d%.*c', n, 2500, 'x')"),
        "CREATE TABLE hashed (a BLOB NOT NULL, b TEXT NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;"
            .to_owned(),
        insert_1000_rows(
            "INSERT INTO hashed SELECT randomblob(1500), printf('%08d%.*c', n, 500, '\"')",
        ),
    ];
    let queues = "[queues.numbered]\n[queues.small]\n[queues.named]\n[queues.hashed]";
    let server = Server::with_tables(queues, &tables.concat()).await;
    for queue in ["numbered", "small", "named", "hashed"] {
        assert_default_client_reads(&server, queue, 1_000).await;
    }
}

#[tokio::test]
async fn item_over_the_limit_is_leased_alone() {
    let server = Server::with_config(&format!("[server]\nmax_message_bytes = 1000\n{QUEUE}")).await;
    let client = server.client().await;
    let insert = "INSERT INTO work (payload) VALUES (?1), ('small')";
    let large = "x".repeat(100_000);
    server
        .database()
        .execute(insert, [&large])
        .expect("inserted");
    let leases = client.claim(10).await;
    assert_eq!(leases.len(), 1);
    assert_eq!(crate::support::client::payload(&leases[0]), large);
}
