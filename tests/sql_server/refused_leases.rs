//! Heartbeats, cancellations and ends after a restore that a trigger or a constraint of the table refuses. Only their rows stay as they are.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::MirrorValue;
use lease_broker_store::{Cancellation, Cancelled, CancelledLease, ClaimedItem, Renewal, Renewed};
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::fixture::{Fixture, HOUR, mirror, queue, text};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start};

/// Leases four items. From then on a trigger refuses to change a lease of row 2 or 3, by this statement.
async fn four_leases(refuse: &str) -> Option<(Fixture<MssqlHarness>, Program, Vec<ClaimedItem>)> {
    let (harness, program) = Box::pin(start()).await?;
    program
        .run("CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50))")
        .await;
    program
        .run("INSERT item (id) VALUES (1), (2), (3), (4)")
        .await;
    let fixture = Box::pin(Fixture::adopt(harness, vec![queue("item")])).await;
    let items = fixture.claim(9).await;
    let trigger = format!(
        "CREATE TRIGGER frozen ON item AFTER UPDATE AS
            IF EXISTS (SELECT 1 FROM deleted WHERE id IN (2, 3) AND lease_state = 1) {refuse}"
    );
    program.run(&trigger).await;
    Some((fixture, program, items))
}

/// Cancels these leases.
async fn cancel(fixture: &Fixture<MssqlHarness>, leases: Vec<CancelledLease>) -> Vec<Cancelled> {
    let how = Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: "stop".to_owned(),
        call: None,
    };
    let cancelled = fixture
        .store
        .cancel(fixture.queue, leases.into(), how)
        .await;
    cancelled.expect("a result for each lease").results
}

/// The error of the second one has no meaning for the broker, as the errors of most statements.
const REFUSE: [&str; 2] = [
    "THROW 50001, N'stays', 1",
    "SELECT 1 / COUNT(*) FROM item WHERE id = 9",
];

#[tokio::test]
async fn heartbeat_of_a_row_that_refuses_concerns_it_only() {
    for refuse in REFUSE {
        let Some((fixture, _program, items)) = Box::pin(four_leases(refuse)).await else {
            return;
        };
        let renewals = items.iter();
        let renewals = renewals.map(|item| Renewal::new(item.lease.clone(), HOUR));
        let renewed = fixture.store.heartbeat(fixture.queue, renewals.collect());
        let renewed = renewed.await.expect(refuse);
        let is_refused = |renewed: &Renewed| match renewed {
            Renewed::Refused(_) => true,
            Renewed::Extended(_) => false,
            Renewed::Lost { .. } => panic!("{renewed:?}"),
        };
        let refused: Vec<_> = renewed.iter().map(is_refused).collect();
        assert_eq!(refused, [false, true, true, false], "{refuse}");
    }
}

#[tokio::test]
async fn cancellation_that_a_row_refuses_concerns_it_only() {
    for refuse in REFUSE {
        let Some((fixture, _program, items)) = Box::pin(four_leases(refuse)).await else {
            return;
        };
        let leases = items.iter().map(|item| CancelledLease {
            key: item.lease.key.clone(),
            fence: None,
        });
        let cancelled = cancel(&fixture, leases.collect()).await;
        let is_refused = |cancelled: &Cancelled| match cancelled {
            Cancelled::Refused(_) => true,
            Cancelled::Ended { state, .. } => *state != State::Ready,
            other => panic!("{other:?}"),
        };
        let refused: Vec<_> = cancelled.iter().map(is_refused).collect();
        assert_eq!(refused, [false, true, true, false], "{refuse}");
        assert_eq!(fixture.counts().await, [2, 2, 0, 0, 0], "{refuse}");
    }
}

#[tokio::test]
async fn new_epoch_ends_all_leases_but_those_of_rows_that_refuse() {
    for refuse in REFUSE {
        let Some((fixture, _program, _items)) = Box::pin(four_leases(refuse)).await else {
            return;
        };
        let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
        let error = epoch.expect_err(refuse).to_string();
        let expected =
            "but the lease of item 2 in table item (and 1 more of this table) cannot be ended: ";
        assert!(error.contains(expected), "{error}");
        assert_eq!(fixture.counts().await, [2, 2, 0, 0, 0], "{refuse}");
    }
}

#[tokio::test]
async fn new_epoch_ends_a_lease_without_its_refused_mirror() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int PRIMARY KEY, status varchar(9), held int, CHECK (held = 0 OR status <> 'new'))")
        .await;
    program
        .run("INSERT item (id, status, held) VALUES (1, 'new', 0), (2, 'new', 0), (3, 'new', 0)")
        .await;
    let mut spec = queue("item");
    for (state, status) in [(State::Ready, "new"), (State::Leased, "busy")] {
        spec.mirror
            .push(mirror(state, "status", MirrorValue::Literal(text(status))));
    }
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    assert_eq!(fixture.claim(9).await.len(), 3);
    program.run("UPDATE item SET held = 1 WHERE id = 2").await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    assert_eq!(epoch.expect("an epoch").ended_leases[0].1, 3);
    let rows = fixture.harness.rows("item", &["id", "status"]).await;
    let statuses: Vec<_> = rows.into_iter().map(|mut row| row.remove(1)).collect();
    assert_eq!(statuses, ["new", "busy", "new"].map(text));
}

#[tokio::test]
async fn second_spelling_of_a_key_is_refused_in_a_cancellation() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program
        .run("CREATE TABLE item (id uniqueidentifier PRIMARY KEY, payload nvarchar(50))")
        .await;
    program.run("INSERT item (id) VALUES (NEWID())").await;
    let fixture = Box::pin(Fixture::adopt(harness, vec![queue("item")])).await;
    let items = fixture.claim(9).await;
    let Value::Text(id) = &items[0].lease.key.0[0] else {
        panic!("{items:?}");
    };
    let spelled = [id.to_uppercase(), id.to_lowercase()];
    let leases = spelled.iter().map(|id| CancelledLease {
        key: Key([text(id)].into()),
        fence: None,
    });
    let cancelled = cancel(&fixture, leases.collect()).await;
    let is_ended = |result: &Cancelled| matches!(result, Cancelled::Ended { .. });
    assert!(is_ended(&cancelled[0]), "{cancelled:?}");
    assert_eq!(cancelled[1], Cancelled::repeated_key());
}
