//! Workers that claim at two brokers beside a pause. The last claim of each begins after the answer to the pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_broker_store::Claimed;
use tokio::task::JoinHandle;

use crate::harness::fixture::{Broker, call};

const WORKERS: usize = 6;

/// Lets workers claim up to `max_items` at a time and complete them, and runs `pause` meanwhile. Returns the last claim of each worker.
pub(super) async fn last_claims(
    brokers: &[Broker; 2],
    max_items: usize,
    pause: impl Future<Output = ()>,
) -> Vec<Claimed> {
    let is_answered = Arc::new(AtomicBool::new(false));
    let start = |worker: usize| -> JoinHandle<Claimed> {
        let (broker, is_answered) = (brokers[worker % 2].clone(), is_answered.clone());
        tokio::spawn(async move {
            loop {
                let begins_after = is_answered.load(Ordering::SeqCst);
                let claimed = broker
                    .results(vec![call("worker", max_items)])
                    .await
                    .remove(0);
                for item in &claimed.items {
                    broker.complete(&item.lease).await;
                }
                if begins_after {
                    return claimed;
                }
            }
        })
    };
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    tokio::time::sleep(Duration::from_millis(5)).await;
    pause.await;
    is_answered.store(true, Ordering::SeqCst);
    let mut claims = Vec::new();
    for worker in workers {
        claims.push(worker.await.expect("no panic"));
    }
    claims
}
