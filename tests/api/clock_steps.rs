//! Steps of the store's clock, forward and back by an hour.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lease_broker::broker::Operation;
use lease_broker_proto::{ClaimBatchRequest, Outcome};
use lease_broker_store::QueueIndex;
use lease_broker_store::sqlite::system_clock;

use crate::support::client::{Client, completion, duration, lease_ids};
use crate::support::server::Server;
use crate::support::timeout::{wait_until, with_timeout};

const HOUR: i64 = 3_600_000;
/// An item is dead after one attempt. The lease lasts longer than the test.
const QUEUE: &str = "
reaper.max_interval = '100ms'
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '30min'
max_attempts = 1
";

/// Three items at once, and then one per hour: of the queue, and of its only group.
const LIMITED_QUEUES: [&str; 2] = [
    "
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '30min'
rate = { items = 1, per = '1h', burst = 3 }
",
    "
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '30min'
group = { column = 'payload', order = 'none', rate = { items = 1, per = '1h', burst = 3 } }
",
];

/// Starts a server whose clock is the system's, moved by a number of milliseconds.
async fn serve(config: &str) -> (Server, Arc<AtomicI64>) {
    let offset = Arc::<AtomicI64>::default();
    let (clock, stepped) = (system_clock(), offset.clone());
    let clock = Arc::new(move || clock() + stepped.load(Ordering::SeqCst));
    (Server::with_clock(config, clock).await, offset)
}

/// A server whose store has a clock that the test steps.
struct SteppedServer {
    server: Server,
    client: Client,
    offset: Arc<AtomicI64>,
}

impl SteppedServer {
    /// Starts with three leased items.
    async fn start() -> (Self, Vec<String>) {
        Self::start_with_leases(None).await
    }

    /// Claims for this duration. `None`: as configured.
    async fn start_with_leases(lease: Option<Duration>) -> (Self, Vec<String>) {
        let (server, offset) = serve(QUEUE).await;
        let client = server.client().await;
        client.enqueue(&["a", "b", "c"]).await;
        let claim = ClaimBatchRequest {
            lease_duration: lease.map(duration),
            ..client.claim_request(3)
        };
        let leases = client.try_claim(claim).await.expect("leases");
        let ids = lease_ids(&leases).into_iter().map(str::to_owned).collect();
        let stepped = Self {
            server,
            client,
            offset,
        };
        stepped.wait_for_reaper().await;
        (stepped, ids)
    }

    fn reaper_runs(&self) -> u64 {
        self.server
            .broker()
            .operation_count(Operation::Reap)
            .statements
    }

    /// Waits until the reaper has seen the clock.
    async fn wait_for_reaper(&self) {
        let before = self.reaper_runs();
        wait_until("the reaper runs twice", async || {
            self.reaper_runs() >= before + 2
        })
        .await;
    }

    async fn step(&self, millis: i64) {
        self.offset.fetch_add(millis, Ordering::SeqCst);
        wait_until("the reaper sees the step", async || {
            let counters = self.server.broker().queue_counters(QueueIndex(0));
            counters.clock_steps.get() == 1
        })
        .await;
    }
}

#[tokio::test]
async fn step_forward_ends_leases_and_kills_no_item() {
    let (stepped, ids) = SteppedServer::start().await;
    expect_no_dead_item(&stepped, &ids, HOUR).await;
}

#[tokio::test]
async fn small_step_over_short_leases_kills_no_item() {
    let leases = Some(Duration::from_secs(28));
    let (stepped, ids) = SteppedServer::start_with_leases(leases).await;
    expect_no_dead_item(&stepped, &ids, 29_000).await;
}

/// Steps the clock over the three leases. Their items are ready again, with all their attempts.
async fn expect_no_dead_item(stepped: &SteppedServer, ids: &[String], step: i64) {
    stepped.step(step).await;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let client = &stepped.client;
    let held = client.try_heartbeat(&ids, None).await.expect("an answer");
    assert!(
        held.iter()
            .all(|result| result.outcome() == Outcome::LeaseLost)
    );
    let again = client.waiting_claim_request(3, Duration::from_secs(30));
    let again = with_timeout(client.try_claim(again))
        .await
        .expect("claimed");
    assert_eq!(again.len(), 3);
    for lease in &again {
        assert_eq!((lease.attempt, lease.fencing_token), (1, 2));
    }
    let late = client.complete(&ids).await;
    assert!(
        late.iter()
            .all(|result| result.outcome() == Outcome::LeaseLost)
    );
    let completed = client.complete(&lease_ids(&again)).await;
    assert!(
        completed
            .iter()
            .all(|result| result.outcome() == Outcome::Applied)
    );
}

#[tokio::test]
async fn step_back_keeps_leases() {
    let (stepped, ids) = SteppedServer::start().await;
    stepped.step(-HOUR).await;
    let client = &stepped.client;
    let held = client
        .try_heartbeat(&[&ids[0]], None)
        .await
        .expect("an answer");
    let time_left = held[0].time_left.as_ref().expect("a held lease");
    assert!(time_left.seconds <= 1_800, "{time_left:?}");
    assert_eq!(client.claim(9).await.len(), 0);
    let completions = ids.iter().map(|id| completion(id, &[])).collect();
    let completed = client.try_complete(completions).await.expect("completed");
    assert!(
        completed
            .iter()
            .all(|result| result.outcome() == Outcome::Applied)
    );
}

#[tokio::test]
async fn rate_keeps_its_burst_and_waits_no_longer_after_steps() {
    for config in LIMITED_QUEUES {
        let (server, offset) = serve(config).await;
        let client = server.client().await;
        client.enqueue(&["x"; 20]).await;
        assert_eq!(client.claim(9).await.len(), 3);
        offset.fetch_add(HOUR, Ordering::SeqCst);
        assert_eq!(client.claim(9).await.len(), 1);
        offset.fetch_add(100 * HOUR, Ordering::SeqCst);
        assert_eq!(client.claim(9).await.len(), 3);
        // After the step back, the last items were given out in the future. They hold the rate back for one hour, and not for fifty.
        offset.fetch_add(-50 * HOUR, Ordering::SeqCst);
        assert_eq!(client.claim(9).await.len(), 0);
        offset.fetch_add(HOUR + 2_000, Ordering::SeqCst);
        assert_eq!(client.claim(9).await.len(), 1);
    }
}
