//! Benchmark of groups on the embedded store: claims and completions with groups beside the same without.
//!
//! Both tables have the same rows. Each commit is on the device. Rounds of the two tables alternate, and each figure is that of all
//! rounds together: the items per second and the processor time per item, each divided by that of the table it is compared with.
//!
//! `cargo bench --bench groups`

#![expect(clippy::print_stdout, reason = "the output of the benchmark")]

#[path = "groups/file.rs"]
mod file;
#[path = "groups/rounds.rs"]
mod rounds;

use std::path::{Path, PathBuf};

use clap::Parser;
use tokio::runtime::Runtime;

use file::{File, Rules, Shape};
use rounds::{Calls, Cost, compare};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compare claims and completions with groups and without.
#[derive(Parser)]
struct Options {
    /// Insert N rows into each table
    #[arg(long, default_value_t = 300_000)]
    rows: u64,
    /// Measure only the comparisons whose names contain TEXT
    #[arg(long, default_value = "")]
    only: String,
    /// Measure N items in each comparison
    #[arg(long, default_value_t = 6_000)]
    items: usize,
    /// Create the files in this folder [default: the temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Ignored; `cargo bench` adds it
    #[arg(long, hide = true)]
    bench: bool,
}

/// The way in which items are claimed.
const ONE: Calls = Calls { width: 1, batch: 1 };
const TEN: Calls = Calls {
    width: 1,
    batch: 10,
};
const HUNDRED: Calls = Calls {
    width: 1,
    batch: 100,
};
/// 64 workers that each claim one item. Their calls share an operation.
const WORKERS: Calls = Calls {
    width: 64,
    batch: 1,
};

fn main() {
    let options = Options::parse();
    let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    let bench = Bench {
        folder: folder.path(),
        runtime: Runtime::new().expect("a runtime"),
        options: &options,
    };
    println!(
        "{:<44} {:>9} {:>9} {:>9}",
        "", "items/s", "rate", "processor"
    );
    for groups in [10, 1_000, 100_000] {
        let even = Shape::Even(groups);
        let files = [(even, Rules::Plain), (even, Rules::Strict)];
        let calls = [ONE, TEN, HUNDRED, WORKERS].into_iter();
        // A strict group gives one item at a time.
        let calls = calls.filter(|calls| calls.items() as u64 <= groups);
        bench.run(&format!("{groups} groups beside none"), files, calls);
    }
    for groups in [10, 1_000] {
        let even = Shape::Even(groups);
        let files = [(even, Rules::Plain), (even, Rules::Runs)];
        let name = format!("{groups} groups in runs of 10 beside none");
        bench.run(&name, files, [TEN, HUNDRED].into_iter());
    }
    let depths = [
        (Shape::Even(options.rows / 10), Rules::Strict),
        (Shape::Burst(options.rows / 10), Rules::Strict),
    ];
    let name = "one group with half of the rows beside none";
    bench.run(name, depths, [ONE, HUNDRED].into_iter());
    let limits = [
        (Shape::Even(1_000), Rules::Plain),
        (Shape::Even(1_000), Rules::Capped),
    ];
    let name = "a limit that is not reached beside none";
    bench.run(name, limits, [ONE, WORKERS].into_iter());
}

struct Bench<'a> {
    folder: &'a Path,
    runtime: Runtime,
    options: &'a Options,
}

impl Bench<'_> {
    /// Compares the second table with the first.
    fn run(&self, name: &str, tables: [(Shape, Rules); 2], calls: impl Iterator<Item = Calls>) {
        if !name.contains(&self.options.only) {
            return;
        }
        let mut number = 0;
        let files = tables.map(|(shape, rules)| {
            number += 1;
            let path = self.folder.join(format!("{number}.db"));
            File::fill(&path, self.options.rows, shape, rules)
        });
        for calls in calls {
            let work = compare(&files, calls, self.options.items);
            let [base, measured] = self.runtime.block_on(work);
            let Cost { wall, processor } = measured;
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let rate = self.options.items as f64 / wall.as_secs_f64();
            println!(
                "{:<44} {rate:>9.0} {:>9.2} {:>9.2}",
                format!("{name}, {calls}"),
                base.wall.as_secs_f64() / wall.as_secs_f64(),
                processor.as_secs_f64() / base.processor.as_secs_f64(),
            );
        }
        drop(files);
        for number in 1..=2 {
            for suffix in ["", "-wal", "-shm"] {
                // A file that is left only takes space until the folder goes.
                let _ = std::fs::remove_file(self.folder.join(format!("{number}.db{suffix}")));
            }
        }
    }
}
