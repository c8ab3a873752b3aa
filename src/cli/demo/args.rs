//! The arguments of `demo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::language::Language;

/// Run several workers on one table, kill one, and check that every row is completed once
///
/// Creates an ordinary table, Rainfall_Events, in a temporary SQLite file, adopts it as a queue and serves it on a free
/// port. Starts worker processes that claim its rows over gRPC. Each completion writes a result into the column Litres
/// of its row and adds it to an outbox queue, in the same transaction. A transfer worker drains the outbox. When a
/// quarter of the rows is completed, the demo picks a worker that holds leases and kills it with SIGKILL. The leases
/// expire, and other workers process those rows. At the end the demo checks, in the database and in the journals of the
/// workers, that every row was completed exactly once and has its result. If not, the exit code is 1.
///
/// The workers are built in, and use the worker library for Rust. With --language some of them use the library of that language, so
/// that both kinds share the table. This needs a clone of the repository, around the current folder or around this program, and the
/// toolchain of the language: Python 3.10 with venv and pip, Node 20 with npm, Go 1.26, or a JDK 17 with Maven. The
/// first run builds the library below target/ci and downloads its dependencies.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker demo
  lease-broker demo --events 2000 --workers 2 --kill 0
  lease-broker demo --language python         # every second worker is a Python program
  lease-broker demo --language go,java --workers 6
  lease-broker demo --keep                    # leave a broker running, and look at its dashboard
  lease-broker demo --database rainfall.db    # keep the database, to read it with the sqlite3 shell")]
pub(crate) struct Demo {
    /// Number of rows in the table. If all are completed before the workers could be killed, the demo adds more
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) events: u32,
    /// Number of worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) workers: u32,
    /// Maximum number of rows per claim
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) batch: u32,
    /// Duration of a lease
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "3s")]
    pub(super) lease: Duration,
    /// Number of workers to kill while they hold leases. Must be less than --workers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) kill: u32,
    /// Languages of the workers. They take turns with the built-in worker, beginning with the first language
    #[arg(long, value_name = "LANGUAGE", value_enum, value_delimiter = ',')]
    pub(super) language: Vec<Language>,
    /// When all rows are completed, serve the table and its dashboard, add further rows, and let workers complete them, until
    /// Ctrl-C. One row in a thousand fails for good, so that there are dead items to redrive
    #[arg(long)]
    pub(super) keep: bool,
    /// Write the database to FILE and keep it. FILE must not exist
    #[arg(long, value_name = "FILE")]
    pub(super) database: Option<PathBuf>,
}
