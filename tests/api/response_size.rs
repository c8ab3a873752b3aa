//! The size of a claim's response: it stays within `max_bytes`, and within the message limit of the server and of clients
//! with default settings. Items that do not fit are not leased.

use std::collections::HashSet;
use std::time::Duration;

use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{
    ClaimBatchRequest, ClaimBatchResponse, CompleteRequest, Completion, Lease, NextClaim, Outcome,
    TooLargeItem,
};
use prost::Message as _;
use tonic::Code;

use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, completion, duration, failure, key, lease_ids, text};
use crate::support::database::query_value;
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::with_timeout;

#[tokio::test]
async fn items_over_the_message_limit_are_not_leased() {
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
            // A lease that was given back would have raised the fencing token.
            assert_eq!((lease.attempt, lease.fencing_token), (1, 1));
            assert!(seen.insert(key(lease).to_owned()));
        }
        client.complete(&lease_ids(&leases)).await;
    }
    assert_eq!(seen.len(), 10);
}

/// Claims `count` items with a client that has the default limit of 4 MiB per message, and asserts that it can read
/// every response.
async fn assert_default_client_reads(server: &Server, queue: &str, count: usize) {
    let client = server.client().await.for_queue(queue);
    let mut default_client = LeaseServiceClient::new(server.channel().await);
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

/// Starts a server with rows whose payloads have these lengths.
async fn server_with_payloads(config: &str, lengths: &[usize]) -> Server {
    let server = Server::with_config(&format!("{config}\n{QUEUE}")).await;
    let database = server.database();
    for length in lengths {
        let insert = "INSERT INTO work (payload) VALUES (?1)";
        let payload = "x".repeat(*length);
        database.execute(insert, [payload]).expect("inserted");
    }
    server
}

async fn claim_bytes(client: &Client, max_items: i32, max_bytes: i32) -> ClaimBatchResponse {
    let request = ClaimBatchRequest {
        max_bytes,
        ..client.claim_request(max_items)
    };
    let response = with_timeout(client.rpc.clone().claim_batch(request)).await;
    response.expect("claimed").into_inner()
}

fn keys(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(key).collect()
}

/// Asserts that the response names these items, each with about this size.
fn assert_too_large(too_large: &[TooLargeItem], expected: &[(&str, i32)]) {
    assert_eq!(too_large.len(), expected.len(), "{too_large:?}");
    for (item, (key, bytes)) in too_large.iter().zip(expected) {
        assert_eq!(item.key, *key);
        assert!(
            (*bytes..*bytes + 1_000).contains(&item.size_bytes),
            "{item:?}"
        );
    }
}

#[tokio::test]
async fn item_over_max_bytes_is_named_and_stays_ready() {
    let server = server_with_payloads("", &[100, 100_000, 200]).await;
    let client = server.client().await;
    let response = claim_bytes(&client, 10, 65_536).await;
    assert_eq!(keys(&response.leases), ["1", "3"]);
    assert_too_large(&response.too_large, &[("2", 100_000)]);
    let response = claim_bytes(&client, 10, 65_536).await;
    assert!(response.leases.is_empty());
    assert_too_large(&response.too_large, &[("2", 100_000)]);
    let response = claim_bytes(&client, 10, 0).await;
    assert_eq!(keys(&response.leases), ["2"]);
    let lease = &response.leases[0];
    assert_eq!((lease.attempt, lease.fencing_token), (1, 1));
    assert!(response.too_large.is_empty());
}

#[tokio::test]
async fn at_most_ten_too_large_items_are_named() {
    let mut lengths = vec![70_000; 15];
    lengths.push(10);
    let server = server_with_payloads("", &lengths).await;
    let response = claim_bytes(&server.client().await, 1, 65_536).await;
    assert_eq!(keys(&response.leases), ["16"]);
    assert_eq!(response.too_large.len(), 10);
    assert_eq!(response.too_large[9].key, "10");
}

#[tokio::test]
async fn claims_bounded_by_bytes_keep_the_order() {
    let server = server_with_payloads("", &[30_000; 10]).await;
    let client = server.client().await;
    for expected in [["1", "2"], ["3", "4"], ["5", "6"]] {
        let response = claim_bytes(&client, 100, 65_536).await;
        assert_eq!(keys(&response.leases), expected);
        assert!(response.too_large.is_empty());
    }
    let leased = "SELECT COUNT(*) FROM work WHERE lease_state = 1";
    assert_eq!(
        server.database().query_row(leased, [], |row| row.get(0)),
        Ok(6)
    );
}

#[tokio::test]
async fn concurrent_greedy_claims_each_get_a_share() {
    let server = server_with_payloads("", &[300_000; 40]).await;
    let client = server.client().await;
    let mut seen = HashSet::new();
    while seen.len() < 40 {
        let claims = (0..4).map(|_| claim_bytes(&client, 1_000, 1_000_000));
        let left = 40 - seen.len();
        for response in futures_util::future::join_all(claims).await {
            assert!(
                left < 12 || response.leases.len() == 3,
                "{left} rows are left"
            );
            for lease in &response.leases {
                assert_eq!(lease.fencing_token, 1);
                assert!(seen.insert(key(lease).to_owned()));
            }
        }
    }
}

#[tokio::test]
async fn waiting_claim_names_items_that_are_too_large() {
    let server = server_with_payloads("", &[100_000]).await;
    let client = server.client().await;
    let request = ClaimBatchRequest {
        max_bytes: 65_536,
        ..client.waiting_claim_request(1, Duration::from_millis(100))
    };
    let response = with_timeout(client.rpc.clone().claim_batch(request)).await;
    let response = response.expect("the wait is over").into_inner();
    assert!(response.leases.is_empty());
    assert_too_large(&response.too_large, &[("1", 100_000)]);
}

#[tokio::test]
async fn claim_with_room_takes_what_another_passed_over() {
    let server = server_with_payloads("", &[100_000]).await;
    let client = server.client().await;
    // Both can be served by the same store operation.
    let (small, large) = tokio::join!(
        claim_bytes(&client, 1, 65_536),
        claim_bytes(&client, 1, 1_000_000)
    );
    assert!(small.leases.is_empty());
    assert_eq!(keys(&large.leases), ["1"]);
}

#[tokio::test]
async fn item_over_max_item_bytes_becomes_dead() {
    let config = "[limits]\nmax_item_bytes = 65536";
    let server = server_with_payloads(config, &[10, 100_000, 20]).await;
    let response = claim_bytes(&server.client().await, 10, 0).await;
    assert_eq!(keys(&response.leases), ["1", "3"]);
    assert!(response.too_large.is_empty());
    let dead = "SELECT lease_error FROM work WHERE id = 2 AND lease_state = 4 AND lease_fence = 0";
    let error: String = server
        .database()
        .query_row(dead, [], |row| row.get(0))
        .expect("the item is dead");
    assert!(error.contains("limits.max_item_bytes"), "{error}");
}

/// Claims one item, and waits for it.
async fn claim_next(client: &Client) -> Lease {
    let request = client.waiting_claim_request(1, Duration::from_secs(30));
    let leases = client.try_claim(request).await.expect("a claim");
    leases.into_iter().next().expect("an item")
}

/// Each write is accepted. Together they make the item larger than any response.
#[tokio::test]
async fn item_that_its_columns_make_too_large_becomes_dead() {
    let config = "
server.max_message_bytes = 100000
[queues.work]
managed_columns = { payload = 'text', a = 'text', b = 'text' }
writable = ['a', 'b']
group = 'payload'
";
    let server = Server::with_config(config).await;
    let client = server.client().await;
    client.enqueue(&["group", "group"]).await;
    for column in ["a", "b"] {
        let lease = claim_next(&client).await;
        let mut failed = failure(&lease.lease_id, "not yet");
        let value = text(&"x".repeat(60_000));
        failed.columns.insert(column.to_owned(), value);
        failed.retry_delay = Some(duration(Duration::ZERO));
        client.try_fail(vec![failed]).await.expect("failed");
    }
    // The item behind it is not blocked.
    assert_eq!(key(&claim_next(&client).await), "2");
    let dead = "SELECT lease_error FROM work WHERE id = 1 AND lease_state = 4";
    let error: String = query_value(&server.database(), dead);
    assert!(error.contains("server.max_message_bytes"), "{error}");
}

#[tokio::test]
async fn next_claim_has_its_own_max_bytes() {
    let server = server_with_payloads("", &[10, 100_000, 20]).await;
    let client = server.client().await;
    let first = client.claim_one().await;
    let request = CompleteRequest {
        queue: client.queue.clone(),
        completions: vec![completion(&first.lease_id, &[])],
        next: Some(NextClaim {
            worker_id: "worker".to_owned(),
            max_items: 5,
            max_bytes: 65_536,
            ..NextClaim::default()
        }),
    };
    let response = with_timeout(client.rpc.clone().complete(request)).await;
    let response = response.expect("completed").into_inner();
    let next = response.next.expect("a claim");
    assert_eq!(keys(&next.leases), ["3"]);
    assert_too_large(&next.too_large, &[("2", 100_000)]);
}

#[tokio::test]
async fn results_of_settlements_count_for_the_next_claim() {
    let mut lengths = vec![10; 100];
    lengths.extend([3_000; 40]);
    let server = server_with_payloads("", &lengths).await;
    let client = server.client().await;
    let first = claim_bytes(&client, 100, 0).await.leases;
    let completions = first.iter().map(|lease| Completion {
        columns: [("no_such_column".to_owned(), text("x"))].into(),
        ..completion(&lease.lease_id, &[])
    });
    let request = CompleteRequest {
        queue: client.queue.clone(),
        completions: completions.collect(),
        next: Some(NextClaim {
            worker_id: "worker".to_owned(),
            max_items: 1_000,
            max_bytes: 65_536,
            ..NextClaim::default()
        }),
    };
    let response = with_timeout(client.rpc.clone().complete(request)).await;
    let response = response.expect("an answer").into_inner();
    assert!(
        response
            .results
            .iter()
            .all(|result| result.outcome() == Outcome::Refused)
    );
    assert!(
        response.encoded_len() <= 65_536,
        "{}",
        response.encoded_len()
    );
    let leases = response.next.expect("a claim").leases;
    assert!(!leases.is_empty());
}

#[tokio::test]
async fn max_bytes_below_64_kib_is_invalid() {
    let server = Server::start().await;
    let client = server.client().await;
    for max_bytes in [-1, 1, 65_535, i32::MIN] {
        let request = ClaimBatchRequest {
            max_bytes,
            ..client.claim_request(1)
        };
        let outcome = client.try_claim(request).await;
        assert_field_error(outcome, Code::InvalidArgument, "INVALID_FIELD", "max_bytes");
    }
    let response = claim_bytes(&client, 1, i32::MAX).await;
    assert!(response.leases.is_empty());
}

#[tokio::test]
async fn lease_has_the_maximum_number_of_attempts() {
    for (setting, expected) in [("", 10), ("max_attempts = 3", 3), ("max_attempts = 0", 0)] {
        let config = format!("[queue_defaults]\n{setting}");
        let server = server_with_payloads(&config, &[10]).await;
        let lease = server.client().await.claim_one().await;
        assert_eq!((lease.attempt, lease.max_attempts), (1, expected));
    }
}
