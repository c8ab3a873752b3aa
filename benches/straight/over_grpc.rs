//! The workers of the broker.

use std::time::Duration;

use lease_broker::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;
use lease_broker::grpc::proto::{
    ClaimBatchRequest, CompleteRequest, Completion, Outcome, SettleResult,
};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::course::{Course, Worked};

/// How many connections workers share.
const CONNECTIONS: u32 = 8;
/// How long a claim waits for an item.
const WAIT: Duration = Duration::from_secs(1);

/// Has workers work until the course is over.
pub(crate) async fn work(address: &str, workers: u32, course: Course) -> Vec<Worked> {
    let mut channels = Vec::new();
    for _ in 0..workers.min(CONNECTIONS) {
        let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
        let channel = endpoint.tcp_nodelay(true).connect().await;
        channels.push(channel.expect("the broker"));
    }
    let mut running = JoinSet::new();
    for (at, channel) in (0..workers).zip(channels.iter().cycle()) {
        running.spawn(run(channel.clone(), at, course));
    }
    running.join_all().await
}

async fn run(channel: Channel, worker: u32, course: Course) -> Worked {
    let mut rpc = LeaseBrokerServiceClient::new(channel);
    let mut record = Worked::default();
    while !course.is_over() {
        let claimed = rpc.claim_batch(ClaimBatchRequest {
            queue: "work".to_owned(),
            worker_id: format!("worker {worker}"),
            max_items: 1,
            wait_timeout: WAIT.try_into().ok(),
            ..ClaimBatchRequest::default()
        });
        let leases = claimed.await.expect("a claim").into_inner().leases;
        let Some(lease) = leases.into_iter().next() else {
            record.nothing(course);
            continue;
        };
        let completed = rpc.complete(CompleteRequest {
            queue: "work".to_owned(),
            completions: vec![Completion {
                lease_id: lease.lease_id,
                ..Completion::default()
            }],
            next: None,
        });
        let results = completed.await.expect("a completion").into_inner().results;
        let key = lease.item.and_then(|item| item.key.parse().ok());
        match results.first().map(SettleResult::outcome) {
            Some(Outcome::Applied) => record.settled(key.expect("a number"), course),
            _ => record.nothing(course),
        }
    }
    record
}
