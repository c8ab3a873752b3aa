//! Checkpoints: bytes that a worker stores for the next lease of its item.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{OnComplete, SoftLockColumn};
use lease_broker_store::{
    Cancellation, Cancelled, Checkpoints, Ending, Renewal, Renewed, Settled, Settlement,
};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, complete, fail, item_table, new_item, queue, release, text,
};
use crate::harness::table::Kind;

const MAX_BYTES: usize = 65_536;

async fn fixture<H: Harness>(rows: i64) -> Fixture<H> {
    Fixture::with(rows, |queue| queue.max_checkpoint_bytes = Some(MAX_BYTES)).await
}

fn renewal(lease: &LeaseRef, checkpoint: Option<&[u8]>) -> Renewal {
    Renewal {
        lease: lease.clone(),
        duration: HOUR,
        checkpoint: checkpoint.map(<[u8]>::to_vec),
        trace: None,
    }
}

async fn renew(broker: &Broker, renewals: Vec<Renewal>) -> Vec<Renewed> {
    let renewed = broker.store.heartbeat(broker.queue, renewals.into()).await;
    renewed.expect("heartbeat")
}

/// Stores a checkpoint by a heartbeat. Returns whether the lease is held.
async fn store(broker: &Broker, lease: &LeaseRef, checkpoint: &[u8]) -> bool {
    let renewed = renew(broker, vec![renewal(lease, Some(checkpoint))]).await;
    renewed[0].expiry().is_some()
}

fn settlement(lease: &LeaseRef, ending: Ending, checkpoint: Option<&[u8]>) -> Settlement {
    Settlement {
        lease: lease.clone(),
        ending,
        columns: Vec::new(),
        checkpoint: checkpoint.map(<[u8]>::to_vec),
        trace: None,
    }
}

async fn settle(broker: &Broker, settlements: Vec<Settlement>) -> Vec<Settled> {
    let settled = broker.store.settle(broker.queue, settlements.into()).await;
    settled.expect("settle").results
}

pub(crate) async fn next_lease_has_the_checkpoint<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    let long: Vec<u8> = (0..=250).cycle().take(MAX_BYTES).collect();
    for checkpoint in [&[0, 255, 39, 34][..], b"text \xF0\x9F\x92\xA7", &[0], &long] {
        let item = fixture.one().await;
        assert!(store(&fixture, &item.lease, checkpoint).await);
        fixture.settle(&item.lease, release(Duration::ZERO)).await;
        let next = fixture.one().await;
        assert_eq!(next.checkpoint.as_deref(), Some(checkpoint));
        assert_eq!(next.columns, item.columns);
        fixture.settle(&next.lease, release(Duration::ZERO)).await;
    }
}

pub(crate) async fn failure_and_release_store_a_checkpoint<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    assert_eq!(fixture.one().await.checkpoint, None, "a new item has none");
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    for (ending, wait) in [(fail(Some(MINUTE)), true), (release(Duration::ZERO), false)] {
        let lease = fixture.one().await.lease;
        let checkpoint = format!("{ending:?}");
        let settled = settlement(&lease, ending, Some(checkpoint.as_bytes()));
        let results = settle(&fixture, vec![settled.clone()]).await;
        let [Settled::Ended(state)] = results[..] else {
            panic!("{results:?}");
        };
        // A settlement that is sent again stores nothing.
        let mut again = settled;
        again.checkpoint = Some(b"again".to_vec());
        let repeated = settle(&fixture, vec![again]).await;
        assert_eq!(repeated, [Settled::Repeated(state)]);
        if wait {
            fixture.advance(2 * MINUTE).await;
            fixture.reap(9).await;
        }
        let next = fixture.one().await;
        assert_eq!(next.checkpoint.as_deref(), Some(checkpoint.as_bytes()));
        fixture.settle(&next.lease, release(Duration::ZERO)).await;
    }
}

pub(crate) async fn lost_lease_stores_no_checkpoint<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    let late = fixture.claim_for(1, MINUTE).await.remove(0).lease;
    assert!(store(&fixture, &late, b"early").await);
    fixture.advance(2 * HOUR).await;
    assert!(!store(&fixture, &late, b"late").await, "expired");
    fixture.reap(9).await;
    let next = fixture.one().await;
    assert_eq!(next.checkpoint.as_deref(), Some(&b"early"[..]));
    assert!(!store(&fixture, &late, b"late").await, "leased again");
    let mut similar = next.lease.clone();
    similar.token = Uuid::new_v4();
    for ending in [fail(None), release(MINUTE)] {
        for lease in [&late, &similar] {
            let settled = settlement(lease, ending.clone(), Some(b"late"));
            assert_eq!(settle(&fixture, vec![settled]).await, [Settled::Lost]);
        }
    }
    fixture.settle(&next.lease, release(Duration::ZERO)).await;
    let checkpoint = fixture.one().await.checkpoint;
    assert_eq!(checkpoint.as_deref(), Some(&b"early"[..]));
}

pub(crate) async fn absent_checkpoint_keeps_and_empty_one_removes<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    let lease = fixture.one().await.lease;
    store(&fixture, &lease, b"kept").await;
    renew(&fixture, vec![renewal(&lease, None)]).await;
    fixture.settle(&lease, release(Duration::ZERO)).await;
    let next = fixture.one().await;
    assert_eq!(next.checkpoint.as_deref(), Some(&b"kept"[..]));
    assert!(store(&fixture, &next.lease, b"").await);
    fixture.settle(&next.lease, release(Duration::ZERO)).await;
    let next = fixture.one().await;
    assert_eq!(next.checkpoint, None);
    store(&fixture, &next.lease, b"again").await;
    let released = settlement(&next.lease, release(Duration::ZERO), Some(b""));
    settle(&fixture, vec![released]).await;
    assert_eq!(fixture.one().await.checkpoint, None);
}

pub(crate) async fn completion_removes_the_checkpoint<H: Harness>() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Recur(MINUTE),
        OnComplete::Archive("done".to_owned()),
        OnComplete::Delete,
    ] {
        let fixture = Fixture::<H>::with(1, |queue| {
            queue.max_checkpoint_bytes = Some(64);
            queue.on_complete = on_complete.clone();
        })
        .await;
        let lease = fixture.one().await.lease;
        store(&fixture, &lease, b"half").await;
        assert!(fixture.complete(&lease).await.is_some(), "{on_complete:?}");
        let rows = fixture.harness.rows("item", &["lease_checkpoint"]).await;
        match on_complete {
            OnComplete::Keep => assert_eq!(rows, [[Value::Null]]),
            OnComplete::Recur(_) => {
                fixture.advance(2 * MINUTE).await;
                fixture.reap(9).await;
                assert_eq!(fixture.one().await.checkpoint, None);
            }
            OnComplete::Archive(_) | OnComplete::Delete => assert!(rows.is_empty()),
        }
    }
}

pub(crate) async fn one_list_stores_different_checkpoints<H: Harness>() {
    let fixture = fixture::<H>(5).await;
    let leases: Vec<LeaseRef> = fixture
        .claim(5)
        .await
        .into_iter()
        .map(|item| item.lease)
        .collect();
    renew(
        &fixture,
        vec![
            renewal(&leases[0], Some(b"first")),
            renewal(&leases[1], None),
            renewal(&leases[2], Some(b"third")),
            renewal(&leases[3], Some(b"fourth")),
            renewal(&leases[4], Some(b"fifth")),
        ],
    )
    .await;
    let results = settle(
        &fixture,
        vec![
            settlement(&leases[0], release(Duration::ZERO), None),
            settlement(&leases[1], release(Duration::ZERO), Some(b"second")),
            settlement(&leases[2], complete(), None),
            settlement(&leases[3], fail(None), Some(b"dead")),
            settlement(&leases[4], release(Duration::ZERO), Some(b"")),
        ],
    )
    .await;
    let states = [
        State::Ready,
        State::Ready,
        State::Completed,
        State::Dead,
        State::Ready,
    ];
    assert_eq!(results, states.map(Settled::Ended));
    let rows = fixture
        .harness
        .rows("item", &["id", "lease_checkpoint"])
        .await;
    let expected = [
        Value::Bytes(b"first".to_vec()),
        Value::Bytes(b"second".to_vec()),
        Value::Null,
        Value::Bytes(b"dead".to_vec()),
        Value::Null,
    ];
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row[1], *expected, "{rows:?}");
    }
    assert_eq!(rows.len(), expected.len());
}

pub(crate) async fn last_checkpoint_of_a_repeated_lease_is_stored<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    let lease = fixture.one().await.lease;
    let renewals = [Some(&b"one"[..]), Some(b"two"), None];
    let renewals = renewals.map(|checkpoint| renewal(&lease, checkpoint));
    let renewed = renew(&fixture, renewals.into()).await;
    assert!(renewed.iter().all(|renewed| renewed.expiry().is_some()));
    fixture.settle(&lease, release(Duration::ZERO)).await;
    let checkpoint = fixture.one().await.checkpoint;
    assert_eq!(checkpoint.as_deref(), Some(&b"two"[..]));
}

pub(crate) async fn expiry_and_cancellation_keep_the_checkpoint<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    let lease = fixture.one().await.lease;
    store(&fixture, &lease, b"half").await;
    fixture.advance(2 * HOUR).await;
    fixture.reap(9).await;
    let item = fixture.one().await;
    assert_eq!(item.checkpoint.as_deref(), Some(&b"half"[..]));
    let cancellation = Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: "stuck".to_owned(),
        call: None,
    };
    let keys = [item.lease.key.clone()];
    let cancelled = fixture
        .store
        .cancel(fixture.queue, keys.map(Into::into).into(), cancellation)
        .await;
    let cancelled = cancelled.expect("cancelled").results;
    assert!(matches!(cancelled[0], Cancelled::Ended { .. }));
    let checkpoint = fixture.one().await.checkpoint;
    assert_eq!(checkpoint.as_deref(), Some(&b"half"[..]));
}

pub(crate) async fn redrive_keeps_or_clears_the_checkpoint<H: Harness>() {
    for (checkpoints, expected) in [
        (Checkpoints::Keep, Some(&b"half"[..])),
        (Checkpoints::Clear, None),
    ] {
        let fixture = fixture::<H>(1).await;
        let lease = fixture.one().await.lease;
        settle(
            &fixture,
            vec![settlement(&lease, fail(None), Some(b"half"))],
        )
        .await;
        assert_eq!(fixture.redrive_with(9, checkpoints).await, 1);
        let item = fixture.one().await;
        assert_eq!(item.checkpoint.as_deref(), expected);
        assert_eq!(item.lease.attempt, 1);
    }
}

pub(crate) async fn retried_claim_has_the_present_checkpoint<H: Harness>() {
    let fixture = fixture::<H>(1).await;
    let lease = fixture.one().await.lease;
    settle(
        &fixture,
        vec![settlement(&lease, release(Duration::ZERO), Some(b"half"))],
    )
    .await;
    let token = Uuid::new_v4();
    let first = fixture.request(token, 1).await;
    assert_eq!(first[0].checkpoint.as_deref(), Some(&b"half"[..]));
    let again = fixture.request(token, 1).await;
    assert_eq!(again[0].checkpoint, first[0].checkpoint);
    assert_eq!(again[0].columns, first[0].columns);
}

pub(crate) async fn checkpoint_and_columns_are_written_together<H: Harness>() {
    let mut spec = queue("item");
    spec.max_checkpoint_bytes = Some(64);
    spec.writable = vec!["payload".to_owned(), "image".to_owned()];
    let table = item_table("item").column("image", Kind::LongBlob);
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    fixture.insert(1..=2).await;
    let items = fixture.claim(2).await;
    store(&fixture, &items[1].lease, b"removed").await;
    let written = |lease: &LeaseRef, ending, checkpoint| Settlement {
        columns: vec![
            ("payload".to_owned(), text("written")),
            ("image".to_owned(), Value::Bytes(vec![1, 2])),
        ],
        ..settlement(lease, ending, checkpoint)
    };
    let results = settle(
        &fixture,
        vec![
            written(&items[0].lease, fail(None), Some(b"half")),
            written(&items[1].lease, complete(), None),
        ],
    )
    .await;
    let states = [State::Dead, State::Completed].map(Settled::Ended);
    assert_eq!(results, states);
    let columns = ["id", "payload", "image", "lease_checkpoint"];
    let rows = fixture.harness.rows("item", &columns).await;
    let row = |id, checkpoint| {
        let image = Value::Bytes(vec![1, 2]);
        vec![Value::Int(id), text("written"), image, checkpoint]
    };
    let half = Value::Bytes(b"half".to_vec());
    assert_eq!(rows, [row(1, half), row(2, Value::Null)]);
}

pub(crate) async fn queue_without_checkpoints_needs_no_column<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let item = fixture.one().await;
    assert_eq!(item.checkpoint, None);
    let column = item_table("item").column("lease_checkpoint", Kind::LongBlob);
    // A column that is left from an earlier configuration is neither sent to workers nor changed.
    let left = Fixture::<H>::over(&[column], vec![queue("item")]).await;
    left.insert([1]).await;
    assert_eq!(left.one().await.columns, item.columns);
}

pub(crate) async fn checkpoints_are_adopted_later<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let mut spec = queue("item");
    spec.max_checkpoint_bytes = Some(64);
    let steps = fixture.harness.plan(&spec).await.expect("a plan");
    let purposes: Vec<&str> = steps.iter().map(|step| &*step.purpose).collect();
    assert_eq!(purposes, ["add the soft-lock column lease_checkpoint"]);
    assert!(
        fixture
            .harness
            .open(std::slice::from_ref(&spec))
            .await
            .is_err()
    );
    let Fixture { harness, .. } = fixture;
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let lease = fixture.one().await.lease;
    assert!(store(&fixture, &lease, b"half").await);
    fixture.settle(&lease, release(Duration::ZERO)).await;
    let checkpoint = fixture.one().await.checkpoint;
    assert_eq!(checkpoint.as_deref(), Some(&b"half"[..]));
}

pub(crate) async fn managed_queue_has_checkpoints<H: Harness>() {
    let mut spec = queue("jobs");
    spec.managed_columns = Some(vec![("payload".to_owned(), "varchar(40)".to_owned())]);
    spec.max_checkpoint_bytes = Some(64);
    let fixture = Fixture::<H>::over(&[], vec![spec]).await;
    fixture.enqueue(new_item(&[("payload", text("a"))])).await;
    let lease = fixture.one().await.lease;
    settle(
        &fixture,
        vec![settlement(&lease, release(Duration::ZERO), Some(b"x"))],
    )
    .await;
    let checkpoint = fixture.one().await.checkpoint;
    assert_eq!(checkpoint.as_deref(), Some(&b"x"[..]));
}

pub(crate) async fn checkpoint_column_can_be_renamed<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |queue| {
        queue.max_checkpoint_bytes = Some(64);
        let name = "Half Way".to_owned();
        queue.soft_lock.map(SoftLockColumn::Checkpoint, name);
    })
    .await;
    let lease = fixture.one().await.lease;
    assert!(store(&fixture, &lease, b"x").await);
    let rows = fixture.harness.rows("item", &["Half Way"]).await;
    assert_eq!(rows, [[Value::Bytes(b"x".to_vec())]]);
}
