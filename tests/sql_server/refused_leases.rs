//! Heartbeats and cancellations that a trigger of the table refuses. Only their rows stay as they are.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::{Cancellation, Cancelled, CancelledLease, ClaimedItem, Renewal, Renewed};

use crate::harness::fixture::{Fixture, HOUR, queue};
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
        let how = Cancellation {
            delay: Duration::ZERO,
            dead_letter: false,
            reason: "stop".to_owned(),
            call: None,
        };
        let cancelled = fixture
            .store
            .cancel(fixture.queue, leases.collect(), how)
            .await;
        let cancelled = cancelled.expect(refuse).results;
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
