//! `bench`: a load generator over gRPC, which measures a broker and checks that it did all of the work once.

mod child;
mod child_log;
mod flags;
mod keys;
mod latency;
mod layer;
mod ledger;
mod load;
mod measured;
mod pace;
mod producer;
mod report;
mod run;
mod shares;
mod target;
mod usage;
mod wire;
mod worker;

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Channel;

use self::flags::{LoadFlags, TargetFlags};
use self::layer::grpc::OverGrpc;
use self::layer::{Place, Terms};
use self::load::Load;
use self::measured::Measured;
use self::report::Report;
use self::target::Target;
use super::Failure;

/// Measure a broker under load.
///
/// Workers claim and settle items over gRPC, on a broker of its own with a temporary SQLite file and durable commits, or
/// on one that runs already. What is measured: calls a second and their latencies, items a second, and what the broker
/// uses. What is checked: every item was settled once, and no lease was lost; exit code 1 if not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker bench
  lease-broker bench --workers 8 --batch 100 --items 400000
  lease-broker bench --address http://127.0.0.1:50051 --queue default --duration 30s --json result.json")]
pub(super) struct Bench {
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    load: LoadFlags,
    /// Write the results to this file as JSON; - for standard output, in the table's place
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,
}

impl Bench {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let load = self.load.load(self.target.queues, &self.target.column)?;
        let target = Target::open(&self.target).await?;
        let measured = tokio::select! {
            measured = self.measure(&load, &target) => measured,
            failure = interrupted() => Err(failure),
        };
        let served = target.close().await;
        let measured = measured?;
        let report = Report::of(&load, &measured, served?);
        report.write(self.json.as_deref())?;
        Ok(())
    }

    async fn measure(&self, load: &Load, target: &Target) -> Result<Measured, Failure> {
        let channels: Vec<Channel> = target.connect(self.load.connections()).await?;
        let open = |place: Place, terms: &Terms| {
            let channel = channels[place.worker % channels.len()].clone();
            OverGrpc::new(channel, place, &target.queues[place.queue], terms)
        };
        run::run(load, open, &target.watch).await
    }
}

/// Waits for a signal to end.
async fn interrupted() -> Failure {
    let both = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = both else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Failure::refused("bench: interrupted")
}
