//! Retention of a broker in simulated time.

use std::sync::Arc;
use std::time::Duration;

use lease_broker::broker::Broker;
use lease_broker_store::Concurrency;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::database::{Database, Sabotage};
use super::plan::Plan;
use super::run::configuration;
use super::store::SimulatedStore;

const DAY: i64 = 86_400_000;

/// Starts a broker that deletes items 1 h after their completion. It walks every 6 min.
fn start() -> (Broker, Database) {
    let plan = Plan::new(0, Sabotage::None);
    let (mut queue, config) = configuration(&plan);
    queue.keep_for.completed = Some(Duration::from_secs(3_600));
    let database = Database::new(&plan, queue.clone());
    let (killed, concurrency) = (CancellationToken::new(), Concurrency::Pipelined);
    let store = SimulatedStore::new(database.clone(), killed, concurrency);
    (Broker::start(Arc::new(store), &[queue], config), database)
}

/// Lets this number of seconds pass. Returns the number of steps of walks in this time.
async fn steps_in(seconds: u64, database: &Database) -> usize {
    database.take_history();
    sleep(Duration::from_secs(seconds)).await;
    let history = database.take_history();
    history
        .iter()
        .filter(|event| event.ends_with("purge"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn broker_deletes_nothing_in_its_first_ten_minutes() {
    let (broker, database) = start();
    assert_eq!(steps_in(595, &database).await, 0);
    assert_eq!(steps_in(10, &database).await, 1);
    broker.stop().await;
}

/// The clock makes a step while a walk runs. No reaper has seen the step yet.
#[tokio::test(start_paused = true)]
async fn walk_counts_no_age_by_a_clock_that_has_just_stepped() {
    for step in [60 * DAY, -60 * DAY] {
        let (broker, database) = start();
        database.lock().step_at_purge = step;
        assert_eq!(steps_in(605, &database).await, 1);
        let without_step = database.lock().now() - step.max(0);
        let until = database.lock().purged_until[0];
        // A step of 30 s is none.
        assert!(until <= without_step + 30_000, "{step}");
        broker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn broker_deletes_nothing_for_ten_minutes_after_a_clock_step() {
    for step in [60 * DAY, -60 * DAY] {
        let (broker, database) = start();
        assert_eq!(steps_in(700, &database).await, 1);
        database.lock().step_clock(step);
        assert_eq!(steps_in(595, &database).await, 0, "{step}");
        assert_eq!(steps_in(10, &database).await, 1, "{step}");
        broker.stop().await;
    }
}
