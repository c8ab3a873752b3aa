//! The flags of the benchmark.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Compare the broker with workers that use the database directly.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Measure on these databases, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Sqlite, Kind::Mssql])]
    store: Vec<Kind>,
    /// Measure with these numbers of workers, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) workers: Vec<u32>,
    /// Measure each run for this time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "8s")]
    pub(crate) time: Duration,
    /// Let workers work for this time before the measurement starts
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "4s")]
    pub(crate) warm_up: Duration,
    /// Insert N rows before each run
    #[arg(long, value_name = "N", default_value_t = 250_000, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    pub(crate) rows: i64,
    /// Repeat each run N times, alternating between all kinds
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Report the CPU time of this process and its children, the T-SQL server on this machine
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Ignored; `cargo bench` adds it
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Sqlite,
    Mssql,
}

impl Arguments {
    pub(crate) fn wants(&self, kind: Kind) -> bool {
        self.store.contains(&kind)
    }

    pub(crate) fn max_workers(&self) -> u32 {
        self.workers.iter().copied().max().unwrap_or(1)
    }
}
