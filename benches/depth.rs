//! What the operations of the embedded store cost on a short table and on a deep one: the answer is to be the same.
//! Completed items lie behind (40 %), delayed ones in front (20 %), ready ones ahead (40 %); the files are in memory where
//! the system has `/dev/shm`. Every figure is a median, of rounds that alternate between the two.
//!
//! `cargo bench --bench depth -- --rows 5000000`: one file of so many rows, beside one of 10,000.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "depth/file.rs"]
mod file;
#[path = "depth/rounds.rs"]
mod rounds;

use std::path::PathBuf;

use clap::Parser;
use tokio::runtime::Runtime;

use file::File;
use rounds::{OPERATIONS, Operation};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds before those that count: caches are warm then.
const WARM_UP: usize = 5;

/// Compare the cost of each operation on a short table and on a deep one.
#[derive(Parser)]
struct Options {
    /// Rows of the short table
    #[arg(long, default_value_t = 10_000)]
    short: u64,
    /// Rows of the deep table
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Timed rounds of each operation on each table
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Folder for the two files
    #[arg(long)]
    folder: Option<PathBuf>,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let memory = PathBuf::from("/dev/shm");
    let place = options.folder.unwrap_or_else(|| {
        if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        }
    });
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let runtime = Runtime::new().expect("a runtime");
    let files = [options.short, options.rows]
        .map(|rows| File::fill(&folder.path().join(format!("{rows}.db")), rows));
    let [short, deep] = [options.short, options.rows].map(|rows| format!("{rows} rows"));
    line(&["median, ms", &short, &deep, "ratio"]);
    for (name, operation) in OPERATIONS {
        let medians = runtime.block_on(compare(&files, operation, options.rounds));
        let [short, deep] = medians.map(|median| format!("{median:.3}"));
        let ratio = format!("{:.2}", medians[1] / medians[0]);
        line(&[name, &short, &deep, &ratio]);
    }
}

/// Returns the median of an operation on each file, in milliseconds. Which file goes first changes with every round.
async fn compare(files: &[File; 2], operation: Operation, rounds: usize) -> [f64; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..WARM_UP + rounds {
        for side in [round % 2, (round + 1) % 2] {
            let time = operation.run(&files[side]).await;
            if round >= WARM_UP {
                times[side].push(time);
            }
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        median.as_secs_f64() * 1_000.0
    })
}

fn line(cells: &[&str; 4]) {
    let [name, short, deep, ratio] = cells;
    println!("{name:<20} {short:>14} {deep:>14} {ratio:>7}");
}
