//! Baseline `noop`: the server's empty call, `grpc.health.v1.Health/Check`, from the same workers on the same
//! connections. Its rate is an upper bound for the calls of any load.

use std::sync::Arc;
use std::time::Duration;

use lease_broker::cli::{AuthorizedChannel, CommandError};
use tokio::time::Instant;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::latency::{Latencies, Rpc, RpcSummary};
use crate::result::Result;
use crate::run_state::Tasks;

const DURATION: Duration = Duration::from_secs(2);

/// Sends empty calls for 2 s, each worker one after the other.
pub(crate) async fn measure(workers: usize, channels: &[AuthorizedChannel]) -> Result<RpcSummary> {
    let latencies = Arc::new(Latencies::new());
    let mut tasks = Tasks::default();
    let start = Instant::now();
    for worker in 0..workers {
        let mut client = HealthClient::new(channels[worker % channels.len()].clone());
        let latencies = latencies.clone();
        tasks.spawn(async move {
            while start.elapsed() < DURATION {
                let call = Instant::now();
                client.check(HealthCheckRequest::default()).await?;
                latencies.record(Rpc::Check, call.elapsed());
            }
            Ok(())
        });
    }
    tasks.join_all().await?;
    let summary = latencies.summarize(start.elapsed()).remove(&Rpc::Check);
    summary.ok_or_else(|| CommandError::failed("FAILED no empty call was sent"))
}
