//! Tests of the loads of `cargo bench --bench layers`: on each layer, every item is completed exactly once. A load also
//! checks this itself.

#[path = "../../benches/layers/layer.rs"]
mod layer;
#[path = "../../benches/layers/load.rs"]
mod load;

use self::layer::Layer;
use self::load::Load;

/// Runs the load on each layer, and checks the number of completed items.
async fn run_on_each_layer(load: Load) {
    for open in [Layer::open_broker, Layer::open_store] {
        let folder = tempfile::tempdir().expect("a folder");
        let measured = load::run(open(&folder.path().join("bench.db")), &load).await;
        assert_eq!(measured.completed.len(), load.items);
        assert_eq!(
            measured.failed > 0,
            load.fail_ratio > 0.0,
            "{}",
            measured.failed
        );
        assert!(measured.items_per_second() > 0.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_items_are_completed_on_each_layer() {
    run_on_each_layer(Load {
        workers: 4,
        batch: 5,
        items: 200,
        next: false,
        fail_ratio: 0.1,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn next_completes_all_items_on_each_layer() {
    run_on_each_layer(Load {
        workers: 4,
        batch: 1,
        items: 500,
        next: true,
        fail_ratio: 0.0,
    })
    .await;
}
