//! The server's empty call, `grpc.health.v1.Health/Check`, with the same workers and connections: the ceiling of any load.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::course::Tasks;
use super::latency::{Latencies, Rpc, Summary};
use super::load::Load;
use super::measured::per_second;
use crate::cli::CommandError;

const TIME: Duration = Duration::from_secs(2);

/// Empty calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noop {
    pub(super) calls_per_second: f64,
    pub(super) summary: Option<Summary>,
}

impl Noop {
    /// Calls for a while, each worker as fast as it can.
    pub(super) async fn measure(load: &Load, channels: &[Channel]) -> Result<Self, CommandError> {
        let latencies = Arc::new(Latencies::new());
        let mut tasks = Tasks::default();
        let start = Instant::now();
        for worker in 0..load.workers {
            let mut client = HealthClient::new(channels[worker % channels.len()].clone());
            let latencies = latencies.clone();
            tasks.spawn(async move {
                while start.elapsed() < TIME {
                    let call = Instant::now();
                    client.check(HealthCheckRequest::default()).await?;
                    latencies.add(worker, Rpc::Check, call.elapsed());
                }
                Ok(())
            });
        }
        tasks.all().await?;
        let time = start.elapsed();
        let summary = latencies.summaries().pop().map(|(_, summary)| summary);
        let calls = summary.map_or(0, |summary| summary.calls);
        Ok(Self {
            calls_per_second: per_second(calls, time),
            summary,
        })
    }
}
