//! The flags of `bench`, and what they mean together.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::layer::Terms;
use super::load::{Load, Mix, Work};
use crate::cli::CommandError;

/// How many items wait for the workers unless something else is said.
const BACKLOG: u64 = 20_000;
/// How long a run lasts unless something else is said.
const TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(1);
/// How long leases are held that are only extended.
const HELD: Duration = Duration::from_secs(30);

/// Which broker is measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Broker")]
pub(super) struct TargetFlags {
    /// Measure the broker that runs there [default: one of its own, on a temporary SQLite file]
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "config",
        group = "elsewhere"
    )]
    pub(super) address: Option<String>,
    /// Measure a broker of its own with this configuration
    #[arg(long, value_name = "FILE", group = "elsewhere")]
    pub(super) config: Option<PathBuf>,
    /// Queue that takes the load, with --address or --config
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "elsewhere"
    )]
    pub(super) queue: String,
    /// Text column of that queue that new items set
    #[arg(
        long,
        value_name = "NAME",
        default_value = "payload",
        requires = "elsewhere"
    )]
    pub(super) column: String,
    /// Process of the broker at --address, to watch what it uses
    #[arg(long, value_name = "PID", requires = "address")]
    pub(super) broker_pid: Option<u32>,
    /// What completion does with the rows, on the temporary file
    #[arg(long, value_enum, default_value_t = OnComplete::Keep, conflicts_with_all = ["address", "config"])]
    pub(super) on_complete: OnComplete,
    /// Queues that the workers spread over, on the temporary file
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["address", "config"],
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) queues: u32,
}

impl TargetFlags {
    /// Returns whether the store is a temporary file of the bench's own.
    pub(super) fn is_temporary(&self) -> bool {
        self.address.is_none() && self.config.is_none()
    }
}

/// What completion does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnComplete {
    Keep,
    Delete,
    Archive,
}

impl OnComplete {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Delete => "delete",
            Self::Archive => "archive",
        }
    }
}

/// What the workers do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadFlags {
    /// Workers, each with one call at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: u32,
    /// Connections that they share
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Items a claim
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: u32,
    /// Bytes of text in an item
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    payload: u32,
    /// Add so many items first, and end when all are settled
    #[arg(long, value_name = "N", conflicts_with_all = ["duration", "backlog", "no_enqueue", "hold", "warm_up"],
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    items: Option<u64>,
    /// Measure for so long, while items are added as they are consumed [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Items that wait ahead of the workers [default: 20000]
    #[arg(long, value_name = "N", conflicts_with = "hold",
        value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    backlog: Option<u64>,
    /// Add nothing: the same as --backlog 0
    #[arg(long, conflicts_with = "backlog")]
    no_enqueue: bool,
    /// Work for so long before anything is measured [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    warm_up: Option<Duration>,
    /// Heartbeats for each batch before it is settled
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "hold",
        value_parser = clap::value_parser!(u32).range(0..=1_000))]
    heartbeats: u32,
    /// Share of the items that are failed, 0 to 1; they are tried again at once
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "hold", value_parser = share)]
    fail: f64,
    /// Share of the items that are released, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, conflicts_with = "hold", value_parser = share)]
    release: f64,
    /// Let claims wait for an item, for so long
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "hold")]
    wait: Option<Duration>,
    /// Complete and claim the next items in one call
    #[arg(long, conflicts_with_all = ["hold", "rate"])]
    next: bool,
    /// How long leases last [default: as the queue has it; 30s with --hold]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Hold so many leases, and only extend them, a batch at a time, at a third of their duration
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "warm_up"],
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    hold: Option<u64>,
    /// Claim so many items a second whatever the broker does; latency counts from when a claim was due
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
}

impl LoadFlags {
    /// Returns the load, or what about it is nonsense.
    pub(super) fn load(&self, queues: u32, column: &str) -> Result<Load, CommandError> {
        let most = if self.items.is_some() { 0.999 } else { 1.0 };
        if self.fail + self.release > most {
            return Err(CommandError::usage(format!(
                "--fail {} and --release {}: together they are over {most}",
                self.fail, self.release
            )));
        }
        if self.workers < queues {
            return Err(CommandError::usage(format!(
                "--workers {} of --queues {queues}: each queue needs one at least",
                self.workers
            )));
        }
        let time = self.duration.unwrap_or(TIME);
        if time.is_zero() {
            return Err(CommandError::usage(
                "--duration 0s: nothing can be measured",
            ));
        }
        let work = match (self.items, self.hold) {
            (Some(items), _) => Work::Items(items),
            (None, Some(leases)) => Work::Hold { leases, time },
            (None, None) if self.no_enqueue => Work::For { time, backlog: 0 },
            (None, None) => Work::For {
                time,
                backlog: self.backlog.unwrap_or(BACKLOG),
            },
        };
        let warm_up = match work {
            Work::For { .. } => self.warm_up.unwrap_or(WARM_UP),
            Work::Items(_) | Work::Hold { .. } => Duration::ZERO,
        };
        Ok(Load {
            workers: self.workers as usize,
            connections: self.connections.min(self.workers) as usize,
            batch: self.batch as usize,
            queues: queues as usize,
            work,
            warm_up,
            mix: Mix {
                heartbeats: self.heartbeats,
                fail: self.fail,
                release: self.release,
            },
            next: self.next,
            rate: self.rate,
            terms: Terms {
                lease: self.lease.or(self.hold.map(|_| HELD)),
                wait: self.wait,
                column: column.to_owned(),
                payload: "x".repeat(self.payload as usize),
            },
        })
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "must be a number of items a second".to_owned())
}
