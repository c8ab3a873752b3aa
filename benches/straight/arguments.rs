//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Compare the broker with the same workers straight on the database.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Databases, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Sqlite, Kind::Mssql])]
    store: Vec<Kind>,
    /// Numbers of workers, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) workers: Vec<u32>,
    /// How long a run is measured
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "8s")]
    pub(crate) time: Duration,
    /// How long workers work before that
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "4s")]
    pub(crate) warm_up: Duration,
    /// Rows in the table when a run begins
    #[arg(long, value_name = "N", default_value_t = 250_000, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    pub(crate) rows: i64,
    /// Runs of each, in turns
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Process of the T-SQL server on this machine, to watch its processor time and its children's
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// What `cargo bench` adds
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

    pub(crate) fn most_workers(&self) -> u32 {
        self.workers.iter().copied().max().unwrap_or(1)
    }
}
