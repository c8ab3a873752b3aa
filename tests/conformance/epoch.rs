//! Epochs: after a restore no fencing token is given twice, and the leases of the restored state are over.

use std::collections::BTreeMap;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::MirrorValue;
use lease_broker_store::{OperationKind, OperationState, SettingsHash, Settled};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, by, complete, fail, keys, mirror};

use super::instances::{announce, instance};
use super::operations::started;

pub(crate) async fn new_epoch_raises_the_fence_of_every_item<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let first = fixture.one().await;
    assert_eq!(first.lease.fence, 1);
    fixture.settle(&first.lease, fail(None)).await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    let epoch = epoch.expect("an epoch");
    // Rows that another program inserts later have the default of their column.
    fixture.insert([3]).await;
    let claimed = fixture.claim(9).await;
    let fences: Vec<i64> = claimed.iter().map(|item| item.lease.fence).collect();
    assert_eq!(fences, vec![epoch.fence + 1; claimed.len()]);
    assert!(claimed.len() >= 2, "{claimed:?}");
    for item in &claimed {
        let outcome = fixture.outcome(&item.lease, complete()).await;
        assert!(matches!(outcome, Settled::Ended(_)), "{outcome:?}");
    }
    let next = fixture.harness.begin_epoch(&fixture.queues).await;
    assert!(next.expect("an epoch").fence > epoch.fence + 1);
}

pub(crate) async fn new_epoch_ends_leases_and_gives_attempts_back<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let held = fixture.claim(2).await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    let ended = epoch.expect("an epoch").ended_leases;
    assert_eq!(ended, [(fixture.queues[0].name.clone(), 2)]);
    for item in &held {
        assert_eq!(fixture.settle(&item.lease, complete()).await, None);
    }
    let again = fixture.claim(9).await;
    assert_eq!(keys(&again).len(), 3);
    assert!(
        again.iter().all(|item| item.lease.attempt == 1),
        "{again:?}"
    );
}

/// The backup was made before columns that the configuration names today.
pub(crate) async fn table_without_later_columns_loses_its_leases<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    assert_eq!(fixture.claim(1).await.len(), 1);
    let mut spec = fixture.queues[0].clone();
    let later = || vec!["later".to_owned()];
    spec.columns = Some(later());
    spec.writable = later();
    spec.filterable = later();
    spec.order = by(&["-later"]);
    spec.mirror = vec![mirror(
        State::Ready,
        "later",
        MirrorValue::Literal(Value::Int(1)),
    )];
    spec.max_checkpoint_bytes = Some(100);
    let epoch = fixture.harness.begin_epoch(&[spec]).await;
    assert_eq!(epoch.expect("an epoch").ended_leases[0].1, 1);
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 0]);
}

/// On a server, one statement ends at most 1,000 leases.
pub(crate) async fn new_epoch_ends_any_number_of_leases<H: Harness>() {
    let fixture = Fixture::<H>::items(1_002).await;
    assert_eq!(fixture.claim(1_000).await.len(), 1_000);
    assert_eq!(fixture.claim(9).await.len(), 2);
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    assert_eq!(epoch.expect("an epoch").ended_leases[0].1, 1_002);
    assert_eq!(fixture.counts().await, [1_002, 0, 0, 0, 0]);
}

/// A broker that already runs in the new epoch has given it.
pub(crate) async fn lease_of_a_later_epoch_stays<H: Harness>() {
    const LATER: i64 = 8_000_000_000_000_000_000;

    let fixture = Fixture::<H>::items(1).await;
    let raise = format!("UPDATE item SET lease_fence = {LATER}");
    fixture.harness.run_sql(&raise).await.expect("raised");
    let held = fixture.one().await;
    assert_eq!(held.lease.fence, LATER + 1);
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    assert_eq!(epoch.expect("an epoch").ended_leases[0].1, 0);
    let outcome = fixture.outcome(&held.lease, complete()).await;
    assert!(matches!(outcome, Settled::Ended(_)), "{outcome:?}");
}

/// The operation may have been cancelled after the backup.
pub(crate) async fn new_epoch_cancels_running_operations<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let purge = started(&fixture, OperationKind::Purge).await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    let cancelled = epoch.expect("an epoch").cancelled_operations;
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert_eq!(cancelled[0].id, purge.id);
    assert_eq!(cancelled[0].queue, fixture.queues[0].name);
    assert_eq!(cancelled[0].kind, "purge");
    let ended = fixture.reads.operation(purge.id).await;
    let ended = ended.expect("an answer").expect("it is stored");
    assert_eq!(ended.state, OperationState::Cancelled);
    assert_eq!(ended.cancelled_by.as_deref(), Some("restore"));
    // The queue can run another one.
    started(&fixture, OperationKind::Purge).await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    assert_eq!(epoch.expect("an epoch").cancelled_operations.len(), 1);
}

/// The queue stands in the configuration of a broker that ran before the backup.
pub(crate) async fn new_epoch_names_a_queue_left_out_of_an_old_state<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let settings = SettingsHash::new(&fixture.queues[0]);
    let served = |queue: &str| (queue.to_owned(), settings.clone());
    let queues = BTreeMap::from([served(&fixture.queues[0].name), served("left")]);
    announce(&fixture, &instance("a:1", queues)).await;
    fixture.advance(20 * 24 * HOUR).await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    assert_eq!(epoch.expect("an epoch").left_queues, ["left"]);
}
