//! The command `bench`: a load generator that measures a broker over gRPC and checks that every item is settled once.

mod args;
mod check;
mod child_broker;
mod client;
mod heartbeat_worker;
mod in_process_broker;
mod in_process_store;
mod interrupt;
mod item_ledger;
mod key_set;
mod latency;
mod noop;
mod process_stats;
mod producer;
mod progress;
mod report;
mod result;
mod run;
mod run_state;
mod samples;
mod tables;
mod target;
mod target_api;
mod temporary_queues;
mod worker;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use self::args::{LoadArgs, TargetArgs};
use self::client::GrpcClient;
use self::interrupt::Interrupt;
use self::process_stats::Machine;
use self::report::{Baselines, LayerBaseline, NoopBaseline, Parameters, Report};
use self::samples::Measured;
use self::target::{Target, raise_open_file_limit};
use self::target_api::WorkerId;
use super::CommandError;

/// Measure a broker under load.
///
/// Starts a broker on a temporary SQLite file with durable commits. With --config, starts it with that configuration;
/// with --address, uses a running broker. Workers then claim and settle items over gRPC.
///
/// Reports calls and items per second, latencies, and the CPU and memory of the broker and of this load generator;
/// both share the machine's cores. Also checks that every item was settled exactly once, that no lease was lost, and
/// that the store contains the expected items. If a check fails, the exit code is 1. No other program should use the
/// queue during the run.
///
/// By default, a worker claims again as soon as it has settled its batch, so a slow broker gets fewer calls. With
/// --rate, claims are due at fixed times, however slow the broker is, and their latency counts from the due time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker bench
  lease-broker bench --workers 8 --batch 100 --items 400000
  lease-broker bench --baseline noop,broker,direct
  lease-broker bench --rate 2000 --duration 1m --fail 0.01 --heartbeats 1
  lease-broker bench --workers 10000 --connections 100 --wait 20s --backlog 0 --duration 30s
  lease-broker bench --hold 100000 --batch 100 --lease 30s --duration 2m
  lease-broker bench --config queues.toml --queue orders --column Customer
  lease-broker bench --address http://127.0.0.1:50051 --broker-pid 4242 --json result.json")]
pub(super) struct Bench {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Also measure these baselines, separated by commas, and compare the load with them
    #[arg(
        long,
        value_enum,
        value_name = "BASELINE",
        value_delimiter = ',',
        help_heading = "Results"
    )]
    baseline: Vec<Baseline>,
    /// Write the results to this file as JSON; - prints JSON instead of the tables
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,
}

/// A measurement to compare the load with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Baseline {
    /// Empty calls to the same server, before and after the load
    Noop,
    /// The same load on a broker in this process, without gRPC
    Broker,
    /// The same load on a store in this process, without gRPC and broker
    Direct,
}

impl Bench {
    /// Measures, prints the results, and fails if a check fails.
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let load = self.load.clone().resolve(self.target.queues)?;
        self.check_baselines(&load)?;
        raise_open_file_limit(load.connections)?;
        let mut interrupt = Interrupt::listen()?;
        let opened = interrupt.unless_interrupted(Target::open(&self.target));
        let target = opened.await?;
        let measured = interrupt.unless_interrupted(self.measure_over_grpc(&load, &target));
        let measured = measured.await;
        let (store, queues) = (target.store_kind(), target.queues.clone());
        // Stops the broker even if the measurement has failed.
        let ended = target.close().await;
        let (measured, noop) = measured?;
        let ended = ended?;
        let exclusive = self.target.is_temporary();
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::current(),
            store,
            errors: check::errors(&load, &measured, ended.store_counts, exclusive),
            parameters: Parameters::new(&self.target, queues, load),
            load: measured,
            statements: ended.statements,
            baselines: Baselines {
                noop,
                ..Baselines::default()
            },
        };
        let layers = self.measure_lower_layers(&mut report);
        interrupt.unless_interrupted(layers).await?;
        self.show(&report)
    }

    /// Puts the load on the broker. With `--baseline noop`, sends empty calls before and after.
    async fn measure_over_grpc(
        &self,
        load: &LoadArgs,
        target: &Target,
    ) -> Result<(Measured, Option<NoopBaseline>), CommandError> {
        let channels = target.connect(load.connections).await?;
        let queues = &target.queues;
        let open = |id: WorkerId| {
            let channel = channels[id.worker % channels.len()].clone();
            GrpcClient::new(channel, id, &queues[id.queue], &self.target.column, load)
        };
        let measure = run::run("load", load, queues.len(), &target.watch, open);
        if !self.baseline.contains(&Baseline::Noop) {
            return Ok((measure.await?, None));
        }
        let before = noop::measure(load.workers, &channels).await?;
        let measured = measure.await?;
        let after = noop::measure(load.workers, &channels).await?;
        let noop = NoopBaseline::new(before, after, &measured);
        Ok((measured, Some(noop)))
    }

    /// Measures the baselines `broker` and `direct`, if they are asked for.
    async fn measure_lower_layers(&self, report: &mut Report) -> Result<(), CommandError> {
        let load = &report.parameters.load;
        if self.baseline.contains(&Baseline::Broker) {
            let measured = in_process_broker::measure(load, &self.target).await?;
            report
                .errors
                .extend(check::errors(load, &measured, None, true));
            report.baselines.broker = Some(LayerBaseline::new(measured, &report.load));
        }
        if self.baseline.contains(&Baseline::Direct) {
            let measured = in_process_store::measure(load, &self.target).await?;
            report
                .errors
                .extend(check::errors(load, &measured, None, true));
            report.baselines.direct = Some(LayerBaseline::new(measured, &report.load));
        }
        Ok(())
    }

    fn show(&self, report: &Report) -> Result<(), CommandError> {
        if let Some(file) = &self.json {
            report.write_json(file)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            tables::print(report);
        }
        if report.errors.is_empty() {
            return Ok(());
        }
        let errors = report.errors.join("; ");
        Err(CommandError::failed(format!("bench: FAILED {errors}")))
    }

    fn check_baselines(&self, load: &LoadArgs) -> Result<(), CommandError> {
        for baseline in &self.baseline {
            let conflict = match baseline {
                Baseline::Noop => continue,
                _ if !self.target.is_temporary() => {
                    "--address or --config: it is measured on a temporary SQLite file"
                }
                _ if load.hold.is_some() => {
                    "--hold: a baseline compares settled items, and --hold settles none"
                }
                Baseline::Direct if load.wait.is_some() => {
                    "--wait: claims wait in the broker, not in the store"
                }
                Baseline::Broker | Baseline::Direct => continue,
            };
            let name = format!("{baseline:?}").to_lowercase();
            return Err(CommandError::usage(format!(
                "--baseline {name} cannot be combined with {conflict}"
            )));
        }
        Ok(())
    }
}
