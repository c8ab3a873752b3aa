//! Cancelled calls and broken connections: the broker releases leases that it can no longer deliver, unless the call has a
//! request id.

use std::time::Duration;

use lease_broker_proto::Outcome;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::api::waiting_claims::{NO_POLLS, WAIT};
use crate::support::client::{Client, duration, lease_ids};
use crate::support::database::{self, WriteLock};
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{wait_until, with_timeout};

/// Returns the state and the fencing token of the only item, separated by a space.
fn state(server: &Server) -> String {
    let sql = "SELECT lease_state || ' ' || lease_fence FROM work";
    database::query_value(&server.database(), sql)
}

/// Starts a claim that waits up to a minute and asks for a lease of an hour.
fn long_claim(client: &Client) -> tokio::task::JoinHandle<()> {
    let mut request = client.waiting_claim_request(1, Duration::from_secs(60));
    request.lease_duration = Some(duration(Duration::from_secs(3_600)));
    let client = client.clone();
    tokio::spawn(async move { drop(client.try_claim(request).await) })
}

/// Does the same as [`long_claim`], with a request id.
fn long_claim_with_id(client: &Client, id: &str) -> tokio::task::JoinHandle<()> {
    let mut request = client.waiting_claim_request(1, Duration::from_secs(60));
    request.lease_duration = Some(duration(Duration::from_secs(3_600)));
    id.clone_into(&mut request.request_id);
    let client = client.clone();
    tokio::spawn(async move { drop(client.try_claim(request).await) })
}

/// Returns the number of leased items.
fn leased(server: &Server) -> i64 {
    let sql = "SELECT count(*) FROM work WHERE lease_state = 1";
    database::query_value(&server.database(), sql)
}

#[tokio::test]
async fn cancelled_wait_takes_no_item() {
    let server = Server::with_config(&format!("{NO_POLLS}{QUEUE}")).await;
    let client = server.client().await;
    let cancelled: Vec<_> = (0..20).map(|_| long_claim(&client)).collect();
    tokio::task::yield_now().await;
    assert_eq!(client.claim(1).await, []);
    for claim in cancelled {
        claim.abort();
        let _ = claim.await;
    }
    let second = client.as_worker("second");
    let waiting = tokio::spawn({
        let request = second.waiting_claim_request(1, WAIT);
        async move { second.try_claim(request).await }
    });
    tokio::task::yield_now().await;
    client.enqueue(&["a"]).await;
    let leases = crate::support::timeout::with_timeout(waiting).await;
    let leases = leases.expect("a task").expect("a claim");
    assert_eq!((leases.len(), leases[0].attempt), (1, 1));
}

#[tokio::test]
async fn claim_cancelled_in_flight_is_released() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lock = WriteLock::acquire(&server.file());
    let cancelled = long_claim(&client);
    client.wait_until_received().await;
    cancelled.abort();
    let _ = cancelled.await;
    drop(lock);
    let second = client.as_worker("second");
    wait_until("the item is free", async || {
        second.claim(1).await.len() == 1
    })
    .await;
    // The second worker holds the only lease. If the cancelled claim got the item first, the fencing token is 2.
    let state = state(&server);
    assert!(matches!(&*state, "1 1" | "1 2"), "{state}");
}

#[tokio::test]
async fn claim_that_is_sent_again_to_another_broker_keeps_its_leases() {
    let server = Server::start().await;
    let other = server.another().await;
    let (client, again) = (server.client().await, other.client().await);
    client.enqueue(&["a", "b"]).await;
    let held = client.claim_one().await;
    let id = uuid::Uuid::from_u128(1).to_string();
    let mut request = again.claim_request(1);
    request.request_id.clone_from(&id);
    // Both claims run when the lock is free, in any order.
    let lock = WriteLock::acquire(&server.file());
    let cancelled = long_claim_with_id(&client, &id);
    client.wait_until_received().await;
    cancelled.abort();
    let _ = cancelled.await;
    let answer = tokio::spawn({
        let again = again.clone();
        async move { again.try_claim(request).await }
    });
    again.wait_until_received().await;
    drop(lock);
    let leases = with_timeout(answer).await.expect("a task");
    let leases = leases.expect("a claim");
    // The first broker serves one claim after the other, and one settlement after the other. So these two come after all that
    // it does for the cancelled claim.
    assert_eq!(client.claim(1).await, []);
    client.complete(&[&held.lease_id]).await;
    let completed = again.complete(&lease_ids(&leases)).await;
    assert_eq!(completed[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn broken_connection_releases_its_claims() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lock = WriteLock::acquire(&server.file());
    // The worker has its own runtime. When the runtime shuts down, its connection breaks, as with a killed process.
    let address = server.address;
    let (sent, is_sent) = tokio::sync::oneshot::channel();
    let worker = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
            let channel = endpoint.expect("an address").connect().await;
            let client = Client::new(channel.expect("a connection"), "work");
            let claim = long_claim(&client);
            client.wait_until_received().await;
            sent.send(()).expect("the test waits");
            drop(claim);
        });
    });
    is_sent.await.expect("the claim is sent");
    worker.join().expect("the thread ends");
    // A response that is written before the server has seen the end of the connection counts as delivered. The server runs
    // on this thread: once it has answered further calls, it has seen it.
    for _ in 0..3 {
        client.wait_until_received().await;
    }
    drop(lock);
    let second = client.as_worker("second");
    wait_until("the item is free", async || {
        second.claim(1).await.len() == 1
    })
    .await;
}

/// The broker cannot take back a response that was sent when the caller cancelled. A retry with the same request id
/// returns the same leases, so that they are not lost.
#[tokio::test]
async fn retried_claim_gets_the_same_items() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b", "c"]).await;
    for round in 1..=100_u64 {
        let mut request = client.claim_request(3);
        request.lease_duration = Some(duration(Duration::from_secs(3_600)));
        request.request_id = uuid::Uuid::from_u128(round.into()).to_string();
        let claim = client.try_claim(request.clone());
        let moment = Duration::from_micros(round * 50);
        let _ = tokio::time::timeout(moment, claim).await;
        wait_until("the request holds all items", async || {
            let leases = client.try_claim(request.clone()).await.expect("a claim");
            let released = client.release(&lease_ids(&leases)).await;
            let applied = released
                .iter()
                .filter(|result| result.outcome() == Outcome::Applied);
            applied.count() == 3
        })
        .await;
    }
}

/// Cancelled claims can leave leases behind: a response that was sent cannot be taken back.
#[tokio::test(flavor = "multi_thread")]
async fn released_requests_of_cancelled_claims_hold_nothing() {
    let server = Server::start().await;
    let (client, producer) = (server.client().await, server.client().await);
    let ids: Vec<String> = (1..=100)
        .map(|id| uuid::Uuid::from_u128(id).to_string())
        .collect();
    let claims: Vec<_> = ids
        .iter()
        .map(|id| long_claim_with_id(&client, id))
        .collect();
    client.wait_until_received().await;
    // The first claim gets its lease. Its response counts as lost.
    producer.enqueue(&["first"]).await;
    wait_until("an item is leased", async || leased(&server) == 1).await;
    let items_arrive = async {
        for _ in 0..100 {
            producer.enqueue(&["a"]).await;
        }
    };
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let claims_are_cancelled = async {
        for claim in claims {
            for _ in 0..random.random_range(0..20) {
                tokio::task::yield_now().await;
            }
            claim.abort();
            let _ = claim.await;
        }
    };
    tokio::join!(items_arrive, claims_are_cancelled);
    let released = client.try_release_requests(&ids).await.expect("a release");
    assert!(released > 0, "the first claim held a lease");
    // A claim that was cancelled before its handler ran may still take an item.
    wait_until("nothing is leased", async || {
        client.try_release_requests(&ids).await.expect("a release");
        leased(&server) == 0
    })
    .await;
    assert_eq!(client.claim(1_000).await.len(), 101);
}

#[tokio::test]
async fn claim_that_waits_ends_when_its_request_is_released() {
    let server = Server::start().await;
    let client = server.client().await;
    let ids = [1, 2].map(|id| uuid::Uuid::from_u128(id).to_string());
    let [released, other] = ids.each_ref().map(|id| {
        let mut request = client.waiting_claim_request(1, Duration::from_secs(60));
        request.request_id.clone_from(id);
        let client = client.clone();
        tokio::spawn(async move { client.try_claim(request).await })
    });
    client.wait_until_received().await;
    // Another worker's request of the same id is another request.
    let stranger = client.as_worker("stranger");
    for (client, id) in [(&stranger, &ids[1]), (&client, &ids[0])] {
        let count = client.try_release_requests(std::slice::from_ref(id)).await;
        assert_eq!(count.expect("a release"), 0);
    }
    let empty = with_timeout(released).await.expect("a task");
    assert_eq!(empty.expect("a claim"), []);
    client.enqueue(&["a"]).await;
    let leases = with_timeout(other).await.expect("a task");
    assert_eq!(leases.expect("a claim").len(), 1);
}

#[tokio::test]
async fn release_by_request_id_is_safe_to_send_again() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b", "c"]).await;
    let ids = [uuid::Uuid::from_u128(7).to_string()];
    let mut request = client.claim_request(2);
    request.request_id.clone_from(&ids[0]);
    let leases = client.try_claim(request.clone()).await.expect("a claim");
    client.complete(&[&leases[0].lease_id]).await;
    for count in [1, 0] {
        let released = client.try_release_requests(&ids).await;
        assert_eq!(released.expect("a release"), count);
    }
    // The same id then claims like a new one.
    let again = client.try_claim(request).await.expect("a claim");
    let attempts = again
        .iter()
        .map(|lease| (lease.attempt, lease.fencing_token));
    assert_eq!(attempts.collect::<Vec<_>>(), [(1, 2), (1, 1)]);
}

#[tokio::test]
async fn connection_survives_1000_cancellations() {
    let server = Server::start().await;
    let client = server.client().await;
    for _ in 0..3 {
        let mut cancelled = Vec::new();
        for _ in 0..50 {
            cancelled.extend((0..20).map(|_| long_claim(&client)));
            tokio::task::yield_now().await;
            // The server answers this later claim only after it has received the earlier ones.
            assert_eq!(client.claim(1).await, []);
        }
        cancelled.iter().for_each(tokio::task::JoinHandle::abort);
        assert_eq!(client.claim(1).await, []);
    }
    client.enqueue(&["a"]).await;
    wait_until("the item is free", async || {
        client.claim(1).await.len() == 1
    })
    .await;
}
