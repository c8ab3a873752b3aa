//! `bench`: a load generator over gRPC, which measures a broker and checks that it did all of the work once.

mod baselines;
mod child;
mod child_log;
mod course;
mod flags;
mod holder;
mod interrupt;
mod keys;
mod latency;
mod layer;
mod ledger;
mod load;
mod machine;
mod measured;
mod minutes;
mod noop;
mod open_files;
mod own;
mod pace;
mod producer;
mod report;
mod results;
mod run;
mod shares;
mod stock;
mod tables;
mod target;
mod usage;
mod verdict;
mod view;
mod wire;
mod worker;

use std::path::{Path, PathBuf};

use clap::Args;

use self::baselines::Baseline;
use self::flags::{LoadFlags, TargetFlags};
use self::interrupt::Interrupt;
use self::layer::grpc::OverGrpc;
use self::layer::{Place, Terms};
use self::load::{Load, Work};
use self::measured::Measured;
use self::noop::Noop;
use self::results::Results;
use self::target::Target;
use super::CommandError;

/// Measure a broker under load.
///
/// Workers claim and settle items over gRPC: on a broker of its own, with a temporary SQLite file and durable commits, or
/// with a configuration, or on one that runs already. Measured are calls and items a second, latencies, and what the
/// broker and this load generator use, which share the machine's cores. Checked is that every item was settled once, that
/// no lease was lost, and that the store has what it must have; exit code 1 if not. The queue must be left to the bench.
///
/// Workers are a closed loop: each claims again when it has settled, so that a slow broker is asked less. With --rate
/// claims are due at fixed times, whatever the broker does, and their latency counts from then.
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
    target: TargetFlags,
    #[command(flatten)]
    load: LoadFlags,
    /// Compare with this too; several separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        value_delimiter = ',',
        help_heading = "Results"
    )]
    baseline: Vec<Baseline>,
    /// Write the results to this file as JSON; - for standard output, in the tables' place
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,
}

impl Bench {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let load = self.load.load(self.target.queues, &self.target.column)?;
        self.check_baselines(&load)?;
        open_files::make_room_for(load.connections)?;
        let mut interrupt = Interrupt::listen()?;
        let target = interrupt.unless(Target::open(&self.target)).await?;
        let measured = interrupt.unless(self.over_grpc(&load, &target)).await;
        let (store, queues, alone) = (target.store(), target.queues.clone(), target.alone);
        let ended = target.close().await;
        let (over_grpc, noop) = measured?;
        let ended = ended?;
        let mut results = Results {
            wrongs: verdict::wrongs(&load, &over_grpc, ended.stock, alone),
            store,
            queues,
            over_grpc,
            served: ended.served,
            noop,
            broker: None,
            direct: None,
            load,
        };
        interrupt.unless(self.compare(&mut results)).await?;
        self.show(&results)
    }

    /// Puts the load on the broker, between two rounds of empty calls if they are asked for.
    async fn over_grpc(
        &self,
        load: &Load,
        target: &Target,
    ) -> Result<(Measured, Option<[Noop; 2]>), CommandError> {
        let channels = target.connect(load.connections).await?;
        let open = |place: Place, terms: &Terms| {
            let channel = channels[place.worker % channels.len()].clone();
            OverGrpc::new(channel, place, &target.queues[place.queue], terms)
        };
        if !self.baseline.contains(&Baseline::Noop) {
            let measured = run::run("load", load, &target.watch, open).await?;
            return Ok((measured, None));
        }
        let before = Noop::measure(load, &channels).await?;
        let measured = run::run("load", load, &target.watch, open).await?;
        let after = Noop::measure(load, &channels).await?;
        Ok((measured, Some([before, after])))
    }

    /// Puts the load on what is below gRPC, if that is asked for.
    async fn compare(&self, results: &mut Results) -> Result<(), CommandError> {
        let Results { load, wrongs, .. } = results;
        if self.baseline.contains(&Baseline::Broker) {
            let run = baselines::on_broker(load, &self.target).await?;
            wrongs.extend(verdict::wrongs(load, &run, None, true));
            results.broker = Some(run);
        }
        if self.baseline.contains(&Baseline::Direct) {
            let run = baselines::on_store(load, &self.target).await?;
            wrongs.extend(verdict::wrongs(load, &run, None, true));
            results.direct = Some(run);
        }
        Ok(())
    }

    fn show(&self, results: &Results) -> Result<(), CommandError> {
        if let Some(file) = &self.json {
            report::write(results, self, file)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            tables::print(results);
        }
        if results.wrongs.is_empty() {
            return Ok(());
        }
        let wrongs = results.wrongs.join("; ");
        Err(CommandError::failed(format!("bench: FAILED {wrongs}")))
    }

    fn check_baselines(&self, load: &Load) -> Result<(), CommandError> {
        let below_grpc = [
            (Baseline::Broker, "--baseline broker"),
            (Baseline::Direct, "--baseline direct"),
        ];
        for (baseline, name) in below_grpc {
            if !self.baseline.contains(&baseline) {
                continue;
            }
            if !self.target.is_temporary() {
                return Err(CommandError::usage(format!(
                    "{name} is measured on a temporary SQLite file: not with --address or --config"
                )));
            }
            if matches!(load.work, Work::Hold { .. }) {
                return Err(CommandError::usage(format!(
                    "{name} with --hold: what is compared is items a second, and none are settled"
                )));
            }
            if baseline == Baseline::Direct && load.terms.wait.is_some() {
                return Err(CommandError::usage(format!(
                    "{name} with --wait: claims wait in the broker, not in the store"
                )));
            }
        }
        Ok(())
    }
}
