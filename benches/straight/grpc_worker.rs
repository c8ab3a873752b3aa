//! Workers that use the broker over gRPC.

use std::time::Duration;

use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{
    ClaimBatchRequest, CompleteRequest, Completion, Lease, NextClaim, Outcome, SettleResult,
};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::design::Access;
use crate::run_window::{RunWindow, WorkerCounts};

/// Number of connections that the workers share.
const CONNECTIONS: u32 = 8;
/// Timeout of a claim that waits for an item.
const WAIT: Duration = Duration::from_secs(1);

/// Runs workers until the window is over.
pub(crate) async fn work(
    address: &str,
    access: Access,
    workers: u32,
    window: RunWindow,
) -> Vec<WorkerCounts> {
    let mut channels = Vec::new();
    for _ in 0..workers.min(CONNECTIONS) {
        let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
        let channel = endpoint.tcp_nodelay(true).connect().await;
        channels.push(channel.expect("the broker"));
    }
    let mut running = JoinSet::new();
    for (at, channel) in (0..workers).zip(channels.iter().cycle()) {
        running.spawn(run(channel.clone(), access, at, window));
    }
    running.join_all().await
}

async fn run(channel: Channel, access: Access, worker: u32, window: RunWindow) -> WorkerCounts {
    let mut rpc = LeaseServiceClient::new(channel);
    let mut counts = WorkerCounts::default();
    let worker_id = format!("worker {worker}");
    let mut leases: Vec<Lease> = Vec::new();
    loop {
        let Some(lease) = leases.pop() else {
            if window.is_over() {
                return counts;
            }
            let claimed = rpc.claim_batch(ClaimBatchRequest {
                queue: "work".to_owned(),
                worker_id: worker_id.clone(),
                max_items: 1,
                wait_timeout: WAIT.try_into().ok(),
                ..ClaimBatchRequest::default()
            });
            leases = claimed.await.expect("a claim").into_inner().leases;
            if leases.is_empty() {
                counts.record_wasted(window);
            }
            continue;
        };
        let chained = access == Access::BrokerNext && !window.is_over();
        let completed = rpc.complete(CompleteRequest {
            queue: "work".to_owned(),
            completions: vec![Completion {
                lease_id: lease.lease_id,
                ..Completion::default()
            }],
            next: chained.then(|| NextClaim {
                worker_id: worker_id.clone(),
                max_items: 1,
                ..NextClaim::default()
            }),
        });
        let completed = completed.await.expect("a completion").into_inner();
        let key = lease.item.and_then(|item| item.key.parse().ok());
        match completed.results.first().map(SettleResult::outcome) {
            Some(Outcome::Applied) => counts.record_settled(key.expect("a number"), window),
            _ => counts.record_wasted(window),
        }
        leases = completed.next.unwrap_or_default().leases;
    }
}
