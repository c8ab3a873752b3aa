//! Connections under overload: a connection with many calls leaves places and turns to another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::client::{Client, count_accepted, item};
use crate::support::database::WriteLock;
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::with_timeout;

/// The number of items of a greedy call, which is the maximum of one store operation.
const MANY: i32 = 1_000;
const GREEDY_CALLS: usize = 10;

#[derive(Clone, Copy)]
enum Call {
    Enqueue,
    Claim,
}

async fn send(client: Client, call: Call, items: i32) {
    match call {
        Call::Enqueue => {
            let items = (0..items).map(|_| item("x")).collect();
            client.try_enqueue(items).await.expect("added");
        }
        Call::Claim => assert!(!client.claim(items).await.is_empty()),
    }
}

/// Sends the calls of a greedy connection, and then one of another connection, while the database is locked. Returns the number
/// of greedy calls that are answered before the other one.
async fn answered_before(server: &Server, call: Call) -> usize {
    let (greedy, modest) = (server.client().await, server.client().await);
    let lock = WriteLock::acquire(&server.file());
    let answered = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> = (0..GREEDY_CALLS)
        .map(|_| {
            let (client, answered) = (greedy.clone(), answered.clone());
            tokio::spawn(async move {
                send(client, call, MANY).await;
                answered.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    greedy.wait_until_received().await;
    let other = tokio::spawn({
        let client = modest.clone();
        async move {
            send(client, call, 1).await;
            answered.load(Ordering::Relaxed)
        }
    });
    modest.wait_until_received().await;
    drop(lock);
    let before = with_timeout(other).await.expect("a task");
    for call in calls {
        with_timeout(call).await.expect("a task");
    }
    before
}

#[tokio::test]
async fn enqueue_passes_those_of_a_greedy_connection() {
    let server = Server::start().await;
    let before = answered_before(&server, Call::Enqueue).await;
    assert!(before <= GREEDY_CALLS / 2, "{before}");
}

#[tokio::test]
async fn claim_passes_those_of_a_greedy_connection() {
    let server = Server::start().await;
    let client = server.client().await;
    for _ in 0..=GREEDY_CALLS {
        send(client.clone(), Call::Enqueue, MANY).await;
    }
    let before = answered_before(&server, Call::Claim).await;
    assert!(before <= GREEDY_CALLS / 2, "{before}");
}

#[tokio::test]
async fn greedy_connection_leaves_places_to_another() {
    let server = Server::with_config(&format!("[budgets]\nworking_calls = 8\n{QUEUE}")).await;
    let (greedy, modest) = (server.client().await, server.client().await);
    modest.enqueue(&["a"]).await;
    let lock = WriteLock::acquire(&server.file());
    let greedy_calls: Vec<_> = (0..9).map(|_| greedy.start_enqueue()).collect();
    greedy.wait_until_received().await;
    let modest_calls: Vec<_> = (0..2).map(|_| modest.start_enqueue()).collect();
    modest.wait_until_received().await;
    drop(lock);
    // Less than a quarter of the places is free when it has 7.
    assert_eq!(count_accepted(greedy_calls).await, 6);
    assert_eq!(count_accepted(modest_calls).await, 2);
}
