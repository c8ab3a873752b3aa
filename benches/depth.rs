//! Benchmark of the embedded store's operations on a small and on a large table. Their cost should be the same.
//!
//! In both tables, the first 40 % of the rows are completed, the next 20 % delayed and the last 40 % ready. The files
//! are in memory if the system has `/dev/shm`, so that the device does not add noise. Every figure is the median of
//! rounds that alternate between the two tables.
//!
//! `cargo bench --bench depth -- --rows 5000000` compares 5,000,000 rows with 10,000.

#![expect(clippy::print_stdout, reason = "the output of the benchmark")]

#[path = "depth/file.rs"]
mod file;
#[path = "depth/rounds.rs"]
mod rounds;

use std::path::PathBuf;

use clap::Parser;
use tokio::runtime::Runtime;

use file::File;
use rounds::{OPERATIONS, Operation};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of rounds to warm the caches, which are not measured.
const WARM_UP: usize = 5;

/// Compare the cost of each operation on a small and on a large table.
#[derive(Parser)]
struct Options {
    /// Insert N rows into the small table
    #[arg(long, default_value_t = 10_000)]
    short: u64,
    /// Insert N rows into the large table
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Measure N rounds of each operation on each table
    #[arg(long, default_value_t = 300)]
    rounds: usize,
    /// Create the two files in this folder [default: /dev/shm, or the temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Ignored; `cargo bench` adds it
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let memory = PathBuf::from("/dev/shm");
    let parent = options.folder.unwrap_or_else(|| {
        if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        }
    });
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    let runtime = Runtime::new().expect("a runtime");
    let files = [options.short, options.rows]
        .map(|rows| File::fill(&folder.path().join(format!("{rows}.db")), rows));
    let [small, large] = [options.short, options.rows].map(|rows| format!("{rows} rows"));
    print_row(&["median, ms", &small, &large, "ratio"]);
    for (name, operation) in OPERATIONS {
        let medians = runtime.block_on(compare(&files, operation, options.rounds));
        let [small, large] = medians.map(|median| format!("{median:.3}"));
        let ratio = format!("{:.2}", medians[1] / medians[0]);
        print_row(&[name, &small, &large, &ratio]);
    }
}

/// Returns the median time of an operation on each file, in milliseconds. The files take turns at being first.
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

fn print_row(cells: &[&str; 4]) {
    let [name, small, large, ratio] = cells;
    println!("{name:<20} {small:>14} {large:>14} {ratio:>7}");
}
