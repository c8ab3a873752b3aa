//! Benchmark of the embedded store without gRPC and the broker: the time of a claim, a completion and an insert.
//!
//! The file is in memory if the system has `/dev/shm`, so that the figures show the code and not the device.
//!
//! `cargo bench --bench store`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::Runtime;
use uuid::Uuid;

use lease_broker::config::Sources;
use lease_broker_store::sqlite::{SqliteStore, system_clock};
use lease_broker_store::{
    ClaimCall, Claimed, ClaimedItem, Ending, Leases as _, NewItem, QueueIndex, Settled, Settlement,
};
use lease_broker_value::Value;

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUE: QueueIndex = QueueIndex(0);

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    let config = Sources::default().load().expect("the defaults");
    SqliteStore::open(
        &folder.path().join("bench.db"),
        &config.queues,
        system_clock(),
    )
    .expect("a store")
}

fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    tempfile::tempdir_in(parent).expect("a folder")
}

fn items(count: usize) -> Arc<[NewItem]> {
    let item = NewItem {
        columns: vec![("payload".to_owned(), Value::Text("x".repeat(100)))],
        delay: Duration::ZERO,
        trace_parent: None,
    };
    vec![item; count].into()
}

/// Returns `calls` claims of up to `max_items` items each.
fn calls(calls: usize, max_items: usize) -> Arc<[ClaimCall]> {
    let call = |_| ClaimCall {
        worker: "bench".to_owned(),
        token: Uuid::new_v4(),
        has_request_id: false,
        max_items,
        max_bytes: 4 << 20,
        duration: Duration::from_secs(600),
        groups: Vec::new(),
        max_run: 1,
    };
    (0..calls).map(call).collect()
}

fn completions(leases: Vec<Claimed>) -> Arc<[Settlement]> {
    let completion = |item: ClaimedItem| {
        Settlement::new(
            item.lease,
            Ending::Complete {
                follow_ups: Vec::new(),
            },
        )
    };
    leases
        .into_iter()
        .flat_map(|claimed| claimed.items)
        .map(completion)
        .collect()
}

/// Runs rounds of `width` claims of `batch` items and their completion.
///
/// Returns the total time of the claims and of the completions.
async fn cycle(store: &SqliteStore, rounds: u64, width: usize, batch: usize) -> [Duration; 2] {
    let mut times = [Duration::ZERO; 2];
    for _ in 0..rounds {
        store
            .enqueue(QUEUE, items(width * batch))
            .await
            .expect("added");
        let calls = calls(width, batch);
        let start = Instant::now();
        let leases = store
            .claim(QUEUE, calls, usize::MAX)
            .await
            .expect("claimed");
        times[0] += start.elapsed();
        let completions = completions(leases);
        assert_eq!(completions.len(), width * batch);
        let start = Instant::now();
        let settled = store.settle(QUEUE, completions).await.expect("settled");
        let states = settled.results;
        times[1] += start.elapsed();
        assert!(
            states
                .iter()
                .all(|result| matches!(result, Settled::Ended(_)))
        );
    }
    times
}

fn store(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let folder = folder();
    let store = open(&folder);
    for (at, name) in ["claim", "complete"].into_iter().enumerate() {
        let mut group = criterion.benchmark_group(name);
        for (width, batch) in [(1, 1), (32, 1), (1, 100)] {
            group.throughput(Throughput::Elements((width * batch) as u64));
            let id = BenchmarkId::from_parameter(format!("{width} calls of {batch}"));
            group.bench_function(id, |bencher| {
                let run = async |rounds| cycle(&store, rounds, width, batch).await[at];
                bencher.to_async(&runtime).iter_custom(run);
            });
        }
    }
    let mut group = criterion.benchmark_group("enqueue");
    for count in [1, 100] {
        let items = items(count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            let add = || async { store.enqueue(QUEUE, items.clone()).await.expect("added") };
            bencher.to_async(&runtime).iter(add);
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(4));
    targets = store
}
criterion_main!(benches);
