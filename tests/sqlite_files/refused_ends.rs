//! Leases that a trigger or a constraint does not let end: when they expire, and after a restore.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::MirrorValue;
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::fixture::{Fixture, MINUTE, item_table, mirror, queue, text};
use crate::harness::sqlite::SqliteHarness;
use crate::harness::table::Kind;

fn add_trigger(fixture: &Fixture<SqliteHarness>, trigger: &str) {
    let create = format!("CREATE TRIGGER odd {trigger}");
    fixture.harness.execute(&create);
}

#[tokio::test]
async fn trigger_keeps_the_leases_of_its_rows_only() {
    for action in ["IGNORE", "ABORT, 'no'", "FAIL, 'no'", "ROLLBACK, 'no'"] {
        let fixture = Fixture::<SqliteHarness>::items(5).await;
        fixture.claim_for(5, MINUTE).await;
        let body = format!("WHEN old.id IN (2, 3) BEGIN SELECT RAISE({action}); END");
        add_trigger(&fixture, &format!("BEFORE UPDATE ON item {body}"));
        fixture.advance(2 * MINUTE).await;
        let reaped = fixture.reap(9).await;
        assert_eq!(reaped.expired.len(), 3, "{action}");
        let refused: Vec<_> = reaped.refused.iter().map(|row| row.0.to_string()).collect();
        assert_eq!(refused, ["2", "3"], "{action}");
        assert_eq!(fixture.counts().await, [3, 2, 0, 0, 0], "{action}");
    }
}

#[tokio::test]
async fn due_row_whose_fencing_token_is_a_text_is_named_with_it() {
    for state in [1, 2] {
        let fixture = Fixture::<SqliteHarness>::items(2).await;
        let odd = format!(
            "UPDATE item SET lease_state = {state}, lease_due_time = 1, lease_fence = iif(id = 1, 'x', 1)"
        );
        fixture.harness.execute(&odd);
        let reaped = fixture.reap(9).await;
        assert_eq!(reaped.expired.len() + reaped.promoted, 1);
        let refused: Vec<_> = reaped
            .refused
            .iter()
            .map(|(key, problem)| format!("{key}: {}", problem.text))
            .collect();
        let expected = "1: lease_fence is not an integer; write one that is not lower than the fencing tokens that the item has had";
        assert_eq!(refused, [expected]);
    }
}

/// Returns a queue whose rows 1 to 3 are leased. Row 2 must not be ready again: `status` says so, and another row has its place.
async fn leased() -> Fixture<SqliteHarness> {
    let mut spec = queue("item");
    for (state, status) in [(State::Ready, "new"), (State::Leased, "busy")] {
        spec.mirror
            .push(mirror(state, "status", MirrorValue::Literal(text(status))));
    }
    let table = item_table("item").column("status", Kind::Text);
    let table = table.unique(&["payload", "status"]);
    let fixture = Fixture::<SqliteHarness>::over(&[table], vec![spec]).await;
    for (id, payload) in [(1, "a"), (2, "b"), (3, "c"), (4, "b")] {
        if id == 4 {
            assert_eq!(fixture.claim(9).await.len(), 3);
        }
        let row = [
            ("id", Value::Int(id)),
            ("payload", text(payload)),
            ("status", text("new")),
        ];
        fixture.harness.insert("item", &row).await;
    }
    fixture
}

#[tokio::test]
async fn new_epoch_ends_a_lease_without_its_refused_mirror() {
    let fixture = leased().await;
    let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
    assert_eq!(epoch.expect("an epoch").ended_leases[0].1, 3);
    let rows = fixture.harness.rows("item", &["id", "status"]).await;
    let statuses: Vec<_> = rows.into_iter().map(|mut row| row.remove(1)).collect();
    assert_eq!(statuses, ["new", "busy", "new", "new"].map(text));
    assert_eq!(fixture.counts().await, [4, 0, 0, 0, 0]);
}

#[tokio::test]
async fn new_epoch_names_a_lease_that_cannot_end() {
    for action in ["IGNORE", "ABORT, 'stay'", "ROLLBACK, 'stay'"] {
        let fixture = leased().await;
        add_trigger(
            &fixture,
            &format!("BEFORE UPDATE ON item WHEN old.id = 3 BEGIN SELECT RAISE({action}); END"),
        );
        let epoch = fixture.harness.begin_epoch(&fixture.queues).await;
        let error = epoch.expect_err("a lease that stays").to_string();
        let expected = "the lease of item 3 in table item cannot be ended: ";
        assert!(error.starts_with(expected), "{action}: {error}");
        assert_eq!(fixture.counts().await, [1, 3, 0, 0, 0], "{action}");
    }
}
