//! Benchmark of the service's layers: the same load over gRPC, on a broker in this process, and on the store alone.
//!
//! The load over gRPC is a run of `lease-broker-bench`. Each layer gets a new SQLite file with durable commits in the
//! temporary folder. Workers do the same on each layer, so the difference in speed is the cost of the layers above.
//! Every run also checks that each item was completed exactly once.
//!
//! `cargo bench --bench layers -- --workers 8 --batch 100 --items 600000`

#![expect(clippy::print_stdout, reason = "the output of the benchmark")]

#[path = "layers/layer.rs"]
mod layer;
#[path = "layers/load.rs"]
mod load;

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Parser;
use serde_json::Value as Json;

use layer::Layer;
use load::Load;

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compare a load over gRPC with the same load on the layers below.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    load: Load,
    /// Share N connections between the workers over gRPC
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Ignored; `cargo bench` adds it
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let over_grpc = measure_over_grpc(&options);
    println!("over gRPC: {over_grpc:.0} items/s");
    let layers: [(_, fn(&_) -> _); 2] = [
        ("the broker without gRPC", Layer::open_broker),
        ("the store alone", Layer::open_store),
    ];
    for (name, open) in layers {
        let folder = tempfile::TempDir::with_prefix("lease-broker-layers-").expect("a folder");
        let layer = open(&folder.path().join("bench.db"));
        let items_per_second = load::run(layer, &options.load).await.items_per_second();
        let share = over_grpc / items_per_second * 100.0;
        println!(
            "{name}: {items_per_second:.0} items/s; over gRPC the load reaches {share:.0} % of that"
        );
    }
}

/// Runs `lease-broker-bench` with the same load. Returns the settled items per second.
fn measure_over_grpc(options: &Options) -> f64 {
    let load = &options.load;
    let broker = env!("CARGO_BIN_EXE_lease-broker");
    let program = format!("{broker}-bench");
    assert!(
        Path::new(&program).exists(),
        "build the load generator first: cargo build --release"
    );
    let mut command = Command::new(program);
    command.args(["--broker", broker, "--json", "-"]);
    for (flag, value) in [
        ("--workers", load.workers.to_string()),
        ("--connections", options.connections.to_string()),
        ("--batch", load.batch.to_string()),
        ("--items", load.items.to_string()),
        ("--fail-ratio", load.fail_ratio.to_string()),
    ] {
        command.args([flag, &value]);
    }
    command.args(load.next.then_some("--next"));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "the bench failed");
    let results: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = results["load"]["items_per_second"].as_f64();
    rate.expect("items per second")
}
