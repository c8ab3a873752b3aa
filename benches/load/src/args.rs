//! The flags of `bench`: the broker to measure and the load to put on it.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use lease_broker::cli::{CommandError, CredentialArgs};
use serde::{Serialize, Serializer};

const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_OVERLOAD_DURATION: Duration = Duration::from_secs(30);
const DEFAULT_BACKLOG: u64 = 20_000;
const DEFAULT_WARM_UP: Duration = Duration::from_secs(1);
/// Default lease duration with `--hold-leases`, where the lease also sets the interval of the heartbeats.
const DEFAULT_HELD_LEASE: Duration = Duration::from_secs(30);

/// The broker to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Broker")]
pub(crate) struct TargetArgs {
    /// Measure the running broker at this address [default: start one on a temporary SQLite file]
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "config",
        group = "existing_queue"
    )]
    pub(crate) address: Option<String>,
    /// Start a broker with this configuration and measure it
    #[arg(long, value_name = "FILE", group = "existing_queue")]
    pub(crate) config: Option<PathBuf>,
    /// Start this program as the broker [default: lease-broker beside this program, or else on the PATH]
    #[arg(long, value_name = "FILE", conflicts_with = "address")]
    pub(crate) broker: Option<PathBuf>,
    /// Put the load on this queue; only with --address or --config
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "existing_queue"
    )]
    pub(crate) queue: String,
    /// Set this text column of new items; only with --address or --config
    #[arg(
        long,
        value_name = "NAME",
        default_value = "payload",
        requires = "existing_queue"
    )]
    pub(crate) column: String,
    /// Report the CPU and memory of this process, the broker at --address
    #[arg(long, value_name = "PID", requires = "address")]
    pub(crate) broker_pid: Option<u32>,
    /// Keep, delete or archive the rows of completed items; not with --address or --config
    #[arg(long, value_enum, default_value_t = OnComplete::Keep, conflicts_with_all = ["address", "config"])]
    pub(crate) on_complete: OnComplete,
    /// Spread the workers over N queues; not with --address or --config
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["address", "config"],
        value_parser = count::<usize>(1..=1_000))]
    pub(crate) queues: usize,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

impl TargetArgs {
    /// Returns whether the queues are on a temporary SQLite file of this bench.
    pub(crate) fn is_temporary(&self) -> bool {
        self.address.is_none() && self.config.is_none()
    }
}

/// The treatment of completed rows, as in a queue's setting `on_complete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnComplete {
    Keep,
    Delete,
    Archive,
}

/// The load: the number of workers, their calls, and the condition that ends the run.
///
/// The results in JSON contain it as it is after [`LoadArgs::resolve`].
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Run N workers; each has one call in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count::<usize>(1..=100_000))]
    pub(crate) workers: usize,
    /// Share N connections between the workers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count::<usize>(1..=10_000))]
    pub(crate) connections: usize,
    /// Claim up to N items per call
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<usize>(1..=1_000))]
    pub(crate) batch: usize,
    /// Complete items and claim the next ones in one call
    #[arg(long, conflicts_with_all = ["hold_leases", "rate"])]
    pub(crate) next: bool,
    /// Store N bytes of text in each new item
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = count::<usize>(0..=1_000_000))]
    pub(crate) payload_bytes: usize,
    /// Enqueue N items, then run until all are settled
    #[arg(long, value_name = "N", conflicts_with_all = ["duration", "backlog", "hold_leases", "warm_up"],
        value_parser = count::<u64>(1..=1_000_000_000))]
    pub(crate) items: Option<u64>,
    /// Measure for this time, and enqueue items as workers consume them [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(rename = "duration_seconds", serialize_with = "seconds")]
    pub(crate) duration: Option<Duration>,
    /// Keep N items enqueued ahead of the workers; 0: enqueue no items [default: 20000]
    #[arg(long, value_name = "N", conflicts_with = "hold_leases", value_parser = count::<u64>(0..=100_000_000))]
    pub(crate) backlog: Option<u64>,
    /// Run the load for this time before the measurement starts [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(rename = "warm_up_seconds", serialize_with = "seconds")]
    pub(crate) warm_up: Option<Duration>,
    /// Send N heartbeats for each batch before settling it
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "hold_leases", value_parser = count::<u32>(0..=1_000))]
    pub(crate) heartbeats: u32,
    /// Fail this share of the items, from 0 to 1; a failed item is ready again immediately
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "hold_leases", value_parser = share)]
    pub(crate) fail_ratio: f64,
    /// Release this share of the items, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "hold_leases", value_parser = share)]
    pub(crate) release_ratio: f64,
    /// Let a claim wait up to this time for an item
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "hold_leases")]
    #[serde(rename = "wait_seconds", serialize_with = "seconds")]
    pub(crate) wait: Option<Duration>,
    /// Ask for leases of this duration [default: the queue's setting; 30s with --hold-leases]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(rename = "lease_seconds", serialize_with = "seconds")]
    pub(crate) lease: Option<Duration>,
    /// Hold N leases for the whole run: workers only send heartbeats, one batch per call, each time a third of the
    /// lease has passed
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "warm_up"],
        value_parser = count::<u64>(1..=10_000_000))]
    pub(crate) hold_leases: Option<u64>,
    /// Claim N items per second at fixed times, however slow the broker is; claim latency counts from the due time
    #[arg(long, value_name = "N", value_parser = rate)]
    #[serde(rename = "rate_per_second")]
    pub(crate) rate: Option<f64>,
    /// Measure the capacity, send N times as many calls for --duration [default: 30s], and check that honest workers are
    /// still served
    #[arg(long, value_name = "N", value_parser = factor, conflicts_with_all = ["items", "backlog", "warm_up",
        "hold_leases", "rate", "next", "wait", "lease", "batch"])]
    pub(crate) overload: Option<f64>,
}

impl LoadArgs {
    /// Checks the flags together and sets each default that depends on other flags.
    ///
    /// # Errors
    /// Flags that contradict each other; the message names them.
    pub(crate) fn resolve(mut self, queues: usize) -> Result<Self, CommandError> {
        // With --items, some of the items must be completed for the run to end.
        let max_share = if self.items.is_some() { 0.999 } else { 1.0 };
        if self.fail_ratio + self.release_ratio > max_share {
            return Err(CommandError::usage(format!(
                "--fail-ratio {} and --release-ratio {}: their sum is over {max_share}",
                self.fail_ratio, self.release_ratio
            )));
        }
        if self.workers < queues {
            return Err(CommandError::usage(format!(
                "--workers {} with --queues {queues}: each queue needs at least one worker",
                self.workers
            )));
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err(CommandError::usage("--duration 0s: must be longer than 0s"));
        }
        self.connections = self.connections.min(self.workers);
        if self.items.is_none() {
            let default = self
                .overload
                .map_or(DEFAULT_DURATION, |_| DEFAULT_OVERLOAD_DURATION);
            self.duration.get_or_insert(default);
        }
        let runs_for_a_time = self.items.is_none() && self.hold_leases.is_none();
        if runs_for_a_time {
            self.backlog.get_or_insert(DEFAULT_BACKLOG);
        }
        self.warm_up.get_or_insert(if runs_for_a_time {
            DEFAULT_WARM_UP
        } else {
            Duration::ZERO
        });
        if self.hold_leases.is_some() {
            self.lease.get_or_insert(DEFAULT_HELD_LEASE);
        }
        Ok(self)
    }

    /// Returns the number of items that must be settled, or of leases that must be held. `None`: only time ends the
    /// run.
    pub(crate) fn goal(&self) -> Option<u64> {
        self.items.or(self.hold_leases)
    }

    /// Returns the number of items to enqueue before the workers start.
    pub(crate) fn initial_items(&self) -> u64 {
        self.goal().or(self.backlog).unwrap_or(0)
    }

    /// Returns how many claims are due in `time`. `None`: the load has no `--rate`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a positive number of whole claims"
    )]
    pub(crate) fn claims_due(&self, time: Duration) -> Option<u64> {
        let rate = self.rate?;
        Some((time.as_secs_f64() * rate / self.batch as f64) as u64)
    }
}

fn count<T>(range: RangeInclusive<u64>) -> RangedU64ValueParser<T>
where
    T: TryFrom<u64> + Clone + Send + Sync,
{
    RangedU64ValueParser::new().range(range)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok();
    let factor = factor.filter(|factor| (0.1..=1_000.0).contains(factor));
    factor.ok_or_else(|| "must be a number from 0.1 to 1000".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "must be a number of items per second".to_owned())
}

#[expect(clippy::ref_option, reason = "serde passes a field by reference")]
fn seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}
