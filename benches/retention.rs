//! Benchmark of claims on the embedded store while retention walks through the table.
//!
//! The first 40 % of the rows are completed, the next 20 % delayed and the last 40 % ready. A worker claims 100 items and
//! releases them, again and again. Windows with the walk and without it alternate. The walk deletes the completed rows and
//! rests between its steps, as in a broker. The file is in memory if the system has `/dev/shm`.
//!
//! `cargo bench --bench retention -- --rows 5000000` prints the ratios that `docs/benchmarks.md` has.

#![expect(clippy::print_stdout, reason = "the output of the benchmark")]

#[expect(dead_code, reason = "the benchmark of depth uses the rest")]
#[path = "depth/file.rs"]
mod file;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use lease_broker::broker::retention::Walk;
use tokio::runtime::Runtime;
use uuid::Uuid;

use file::File;
use lease_broker_model::queue::KeepFor;
use lease_broker_store::{ClaimCall, Ending, Leases as _, QueueIndex, Settlement};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUE: QueueIndex = QueueIndex(0);
const BATCH: usize = 100;

/// Compare the speed of claims with and without the walk of retention.
#[derive(Parser)]
struct Options {
    /// Insert N rows into the table
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Measure N pairs of windows
    #[arg(long, default_value_t = 40)]
    pairs: usize,
    /// Duration of a window
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    window: Duration,
    /// Create the file in this folder [default: /dev/shm, or the temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Ignored; `cargo bench` adds it
    #[arg(long, hide = true)]
    bench: bool,
}

/// The claims of one window.
#[derive(Default)]
struct Window {
    items: usize,
    /// The durations of the claims alone.
    claims: Vec<Duration>,
    /// Rows that the walk deleted.
    deleted: usize,
}

fn main() {
    let options = Options::parse();
    let memory = PathBuf::from("/dev/shm");
    let parent = options.folder.clone().unwrap_or_else(|| {
        if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        }
    });
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    let runtime = Runtime::new().expect("a runtime");
    let file = File::fill(&folder.path().join("retention.db"), options.rows);
    runtime.block_on(compare(&file, &options));
}

/// Measures the pairs and prints the median ratios of each.
async fn compare(file: &File, options: &Options) {
    let keep_for = KeepFor {
        completed: Some(Duration::from_secs(1)),
        ..KeepFor::default()
    };
    let mut walk = Walk::new(&file.store, QUEUE, keep_for, true);
    run(file, None, options.window).await;
    let (mut items, mut medians, mut tails) = (Vec::new(), Vec::new(), Vec::new());
    let (mut deleted, mut steps) = (0, 0);
    for pair in 0..options.pairs {
        let mut windows = [Window::default(), Window::default()];
        for side in [pair % 2, (pair + 1) % 2] {
            let walk = (side == 1).then_some(&mut walk);
            windows[side] = run(file, walk, options.window).await;
        }
        let [without, with] = &mut windows;
        deleted += with.deleted;
        steps += usize::from(with.deleted > 0);
        items.push(ratio(with.items, without.items));
        let latency = |window: &mut Window, share| quantile(&mut window.claims, share);
        medians.push(latency(with, 0.5) / latency(without, 0.5));
        tails.push(latency(with, 0.99) / latency(without, 0.99));
    }
    println!(
        "{deleted} rows deleted, in {steps} of {} windows",
        options.pairs
    );
    for (name, mut ratios) in [
        ("items per second", items),
        ("median claim", medians),
        ("99th percentile of claims", tails),
    ] {
        ratios.sort_unstable_by(f64::total_cmp);
        let middle = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
        println!("{name}, with the walk beside without: {middle:.3}");
    }
}

/// Claims and releases items for the duration of a window, beside the walk if there is one.
async fn run(file: &File, walk: Option<&mut Walk<'_>>, duration: Duration) -> Window {
    let mut window = Window::default();
    let end = Instant::now() + duration;
    let mut deleted = 0;
    let walking = async {
        if let Some(walk) = walk {
            while Instant::now() < end
                && let Some(old) = walk.next(None).await.expect("a step")
            {
                deleted += old;
            }
        }
    };
    let claiming = async {
        while Instant::now() < end {
            window.claims.push(claim_and_release(file).await);
            window.items += BATCH;
        }
    };
    tokio::join!(walking, claiming);
    window.deleted = deleted;
    window
}

/// Returns the time that the claim took.
async fn claim_and_release(file: &File) -> Duration {
    let call = ClaimCall {
        worker: "bench".to_owned(),
        token: Uuid::new_v4(),
        has_request_id: false,
        max_items: BATCH,
        max_bytes: 4 << 20,
        duration: Duration::from_secs(600),
        groups: Vec::new(),
        max_run: 1,
    };
    let start = Instant::now();
    let claimed = file.store.claim(QUEUE, [call].into(), usize::MAX).await;
    let time = start.elapsed();
    let items = claimed.expect("claimed").into_iter();
    let items = items.flat_map(|claimed| claimed.items);
    let release = |item: lease_broker_store::ClaimedItem| {
        Settlement::new(
            item.lease,
            Ending::Release {
                delay: Duration::ZERO,
            },
        )
    };
    let releases: Vec<Settlement> = items.map(release).collect();
    assert_eq!(releases.len(), BATCH, "the table has too few ready items");
    let outcome = file.store.settle(QUEUE, releases.into()).await;
    outcome.expect("released");
    time
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
fn ratio(with: usize, without: usize) -> f64 {
    with as f64 / without as f64
}

/// Returns a quantile in seconds. `share` is 0 to 1.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index within the list"
)]
fn quantile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let index = (times.len() as f64 * share) as usize;
    times.get(index).map_or(f64::NAN, Duration::as_secs_f64)
}
