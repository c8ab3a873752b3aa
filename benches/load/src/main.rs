//! The program `lease-broker-bench`: a load generator that measures a broker over gRPC and checks that every item is settled
//! once.

mod args;
mod check;
mod child_broker;
mod client;
mod errors;
mod heartbeat_worker;
mod item_ledger;
mod key_set;
mod latency;
mod noop;
mod overload;
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
mod temporary_queues;
mod unprocessed;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use lease_broker::cli::{CommandError, block_on, start, stop_signal};
use tokio::signal::unix::{Signal, SignalKind};

use self::args::{LoadArgs, TargetArgs};
use self::overload::Overload;
use self::process_stats::Machine;
use self::report::{Baselines, NoopBaseline, Parameters, Report};
use self::run_state::RunState;
use self::samples::Measured;
use self::target::{Target, raise_open_file_limit};

/// Measures a lease-broker under load.
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
/// A call that the broker refuses because of overload is sent again after the delay that the broker asks for.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  lease-broker-bench
  lease-broker-bench --workers 8 --batch 100 --items 400000
  lease-broker-bench --baseline noop
  lease-broker-bench --rate 2000 --duration 1m --fail-ratio 0.01 --heartbeats 1
  lease-broker-bench --workers 10000 --connections 100 --wait 20s --backlog 0 --duration 30s
  lease-broker-bench --hold-leases 100000 --batch 100 --lease 30s --duration 2m
  lease-broker-bench --overload 10
  lease-broker-bench --config queues.toml --queue orders --column Customer
  lease-broker-bench --address http://127.0.0.1:50051 --broker-pid 4242 --json result.json"
)]
struct Bench {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Also measure this baseline, and compare the load with it
    #[arg(long, value_enum, value_name = "BASELINE", help_heading = "Results")]
    baseline: Option<Baseline>,
    /// Write the results to this file as JSON; - prints JSON instead of the tables
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,
}

/// A measurement to compare the load with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Baseline {
    /// Empty calls to the same server, before and after the load
    Noop,
}

/// The same allocator as the broker's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    start("lease-broker-bench", |bench: Bench| block_on(bench.run()))
}

impl Bench {
    /// Measures, prints the results, and fails if a check fails.
    async fn run(self) -> Result<(), CommandError> {
        let load = self.load.clone().resolve(self.target.queues)?;
        raise_open_file_limit(load.connections)?;
        let mut signals = [
            stop_signal(SignalKind::interrupt())?,
            stop_signal(SignalKind::terminate())?,
        ];
        let target = unless_interrupted(&mut signals, Target::open(&self.target)).await?;
        if let Some(factor) = load.overload {
            raise_open_file_limit(1_000)?;
            let run = overload::run(factor, &load, &target);
            let overload = unless_interrupted(&mut signals, run).await;
            // Stops the broker even if the measurement has failed.
            let ended = target.close().await;
            let overload = overload?;
            ended?;
            return self.show_overload(&overload);
        }
        let measured = unless_interrupted(&mut signals, self.measure(&load, &target)).await;
        let (store, queues) = (target.store_kind(), target.queues.clone());
        // Stops the broker even if the measurement has failed.
        let ended = target.close().await;
        let (measured, noop) = measured?;
        let ended = ended?;
        let exclusive = self.target.is_temporary();
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::current(),
            store,
            errors: check::errors(&load, &measured, ended.store_counts, exclusive),
            parameters: Parameters::new(&self.target, queues, load),
            load: measured,
            statements: ended.statements,
            baselines: Baselines { noop },
        };
        self.show(&report)
    }

    /// Puts the load on the broker. With `--baseline noop`, sends empty calls before and after.
    async fn measure(
        &self,
        load: &LoadArgs,
        target: &Target,
    ) -> Result<(Measured, Option<NoopBaseline>), CommandError> {
        let channels = target.connect(load.connections).await?;
        let state = RunState::new(load, target, &channels);
        let measure = run::run(&state);
        if self.baseline.is_none() {
            return Ok((measure.await?, None));
        }
        let before = noop::measure(load.workers, &channels).await?;
        let measured = measure.await?;
        let after = noop::measure(load.workers, &channels).await?;
        let noop = NoopBaseline::new(before, after, &measured);
        Ok((measured, Some(noop)))
    }

    fn show_overload(&self, overload: &Overload) -> Result<(), CommandError> {
        if let Some(file) = &self.json {
            report::write_json(overload, file)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            tables::print_overload(overload);
        }
        let failed = overload.checks.iter().filter(|check| !check.holds);
        let failed: Vec<&str> = failed.map(|check| check.name).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let failed = failed.join("; ");
        Err(CommandError::failed(format!("FAILED {failed}")))
    }

    fn show(&self, report: &Report) -> Result<(), CommandError> {
        if let Some(file) = &self.json {
            report::write_json(report, file)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            tables::print(report);
        }
        if report.errors.is_empty() {
            return Ok(());
        }
        let errors = report.errors.join("; ");
        Err(CommandError::failed(format!("FAILED {errors}")))
    }
}

/// Runs `work`, and stops it with an error if SIGINT or SIGTERM arrives. The bench then still stops its broker and
/// removes its files.
async fn unless_interrupted<T>(
    [interrupt, terminate]: &mut [Signal; 2],
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = work => result,
        _ = interrupt.recv() => Err(CommandError::failed("interrupted")),
        _ = terminate.recv() => Err(CommandError::failed("interrupted")),
    }
}
