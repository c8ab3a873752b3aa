//! Tables with triggers of the user. The triggers run inside the statements of the broker.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::schema::{Schema as _, TrialOutcome};
use lease_broker_store::{Checkpoints, OperationKind, ProblemKind, PurgeStep, Settled, StoreError};

use crate::harness::Harness as _;
use crate::harness::errors::{problems, rejected};
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, SECOND, call, complete, fail, keys, new_item, queue, release, text,
};
use crate::harness::mssql::MssqlHarness;
use crate::harness::operation::{Running, redrive};
use crate::harness::program::{Program, start};

const TABLE: &str = "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, payload nvarchar(50));
    CREATE TABLE audit (what varchar(10) NOT NULL, id int NOT NULL)";
/// The triggers record each changed row. They do not set NOCOUNT, so their row counts also reach the client.
const AUDIT: [&str; 3] = [
    "CREATE TRIGGER item_inserted ON item AFTER INSERT AS INSERT audit (what, id) SELECT 'insert', id FROM inserted",
    "CREATE TRIGGER item_updated ON item AFTER UPDATE AS INSERT audit (what, id) SELECT 'update', id FROM inserted",
    "CREATE TRIGGER item_deleted ON item AFTER DELETE AS INSERT audit (what, id) SELECT 'delete', id FROM deleted",
];

/// Creates a queue whose table has the audit triggers.
async fn audited_with(on_complete: OnComplete) -> Option<(Fixture<MssqlHarness>, Program)> {
    let (harness, program) = Box::pin(start()).await?;
    program.run(TABLE).await;
    for trigger in AUDIT {
        program.run(trigger).await;
    }
    let spec = QueueSpec {
        on_complete,
        ..queue("item")
    };
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    // Adoption may change rows, which the triggers record.
    program.run("DELETE audit").await;
    Some((fixture, program))
}

/// Returns and deletes the recorded changes.
async fn take_audit(program: &Program) -> Vec<String> {
    let rows = program
        .rows("SELECT what, id FROM audit ORDER BY id, what")
        .await;
    program.run("DELETE audit").await;
    rows.iter().map(|row| row.join(" ")).collect()
}

/// Runs every operation and compares the recorded changes. `completed`: the changes that a completion causes.
async fn check_every_operation(
    fixture: &Fixture<MssqlHarness>,
    program: &Program,
    completed: &[&str],
) {
    for payload in ["a", "b", "c", "d"] {
        fixture
            .enqueue(new_item(&[("payload", text(payload))]))
            .await;
    }
    let inserted = ["insert 1", "insert 2", "insert 3", "insert 4"];
    assert_eq!(take_audit(program).await, inserted);
    let items = fixture.claim_for(9, MINUTE).await;
    assert_eq!(keys(&items), ["1", "2", "3", "4"]);
    let updated = ["update 1", "update 2", "update 3", "update 4"];
    assert_eq!(take_audit(program).await, updated);
    let held = fixture.heartbeat(&items[0].lease, MINUTE).await;
    assert!(held.is_some());
    assert_eq!(take_audit(program).await, ["update 1"]);
    let done = fixture.complete(&items[0].lease).await;
    assert_eq!(done, Some(State::Completed));
    assert_eq!(take_audit(program).await, completed);
    let failed = fixture.settle(&items[1].lease, fail(Some(HOUR))).await;
    assert_eq!(failed, Some(State::Delayed));
    let released = fixture.settle(&items[2].lease, release(2 * HOUR)).await;
    assert_eq!(released, Some(State::Delayed));
    assert_eq!(take_audit(program).await, ["update 2", "update 3"]);
    fixture.advance(MINUTE + SECOND).await;
    take_audit(program).await;
    let reaped = fixture.reap(9).await;
    assert_eq!(reaped.expired.len(), 1);
    assert_eq!(reaped.expired[0].lease, items[3].lease);
    assert_eq!(take_audit(program).await, ["update 4"]);
}

#[tokio::test]
async fn triggers_fire_where_rows_are_kept() {
    let Some((fixture, program)) = audited_with(OnComplete::Keep).await else {
        return;
    };
    check_every_operation(&fixture, &program, &["update 1"]).await;
    assert_eq!(fixture.counts().await, [1, 0, 2, 1, 0]);
}

#[tokio::test]
async fn triggers_fire_where_rows_are_deleted() {
    let Some((fixture, program)) = audited_with(OnComplete::Delete).await else {
        return;
    };
    check_every_operation(&fixture, &program, &["delete 1"]).await;
    assert_eq!(fixture.counts().await, [1, 0, 2, 0, 0]);
}

#[tokio::test]
async fn triggers_fire_where_rows_are_archived() {
    let archive = OnComplete::Archive("done".to_owned());
    let Some((fixture, program)) = audited_with(archive).await else {
        return;
    };
    check_every_operation(&fixture, &program, &["delete 1", "update 1"]).await;
    let archived = "SELECT payload FROM done";
    assert_eq!(program.texts(archived).await, ["a"]);
}

/// A broker without work runs these statements each second, and a trigger for one row would fail on none.
#[tokio::test]
async fn operation_that_finds_nothing_fires_no_trigger() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Delete,
        OnComplete::Archive("done".to_owned()),
    ] {
        let Some((fixture, program)) = Box::pin(audited_with(on_complete)).await else {
            return;
        };
        fixture.enqueue(new_item(&[("payload", text("a"))])).await;
        let lost = fixture.claim_for(1, SECOND).await.remove(0).lease;
        fixture.advance(MINUTE).await;
        assert_eq!(fixture.reap(9).await.expired.len(), 1);
        let found = fixture.claim_for(1, HOUR).await;
        assert_eq!(keys(&found), ["1"]);
        let trigger = "CREATE TRIGGER item_fired ON item AFTER INSERT, UPDATE, DELETE AS
            INSERT audit (what, id) SELECT 'fired', COUNT(*) FROM inserted";
        program.run(trigger).await;
        program.run("DELETE audit").await;
        assert_eq!(fixture.claim_for(9, MINUTE).await.len(), 0);
        assert_eq!(fixture.reap(9).await.expired.len(), 0);
        assert_eq!(fixture.complete(&lost).await, None);
        assert_eq!(fixture.settle(&lost, fail(None)).await, None);
        assert_eq!(fixture.settle(&lost, release(HOUR)).await, None);
        assert_eq!(fixture.redrive(9).await, 0);
        // The item of this batch is not dead any more.
        let running = Running::start(&fixture, OperationKind::Redrive).await;
        let items = vec![(lost.key.clone(), lost.fence)];
        let batch = running.batch(0, redrive(Duration::ZERO, Checkpoints::Keep), items);
        assert_eq!(fixture.apply_batch(batch).await.changed, Some(0));
        assert_eq!(take_audit(&program).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn instead_of_trigger_is_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    let trigger = "CREATE TRIGGER no_more ON item INSTEAD OF DELETE AS RETURN";
    program.run(trigger).await;
    let problems = problems(&harness, &queue("item")).await;
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("INSTEAD OF trigger no_more"),
        "{problems:?}"
    );
}

#[tokio::test]
async fn trigger_that_throws_refuses_the_item() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    let trigger = "CREATE TRIGGER choosy ON item AFTER INSERT AS
        IF EXISTS (SELECT 1 FROM inserted WHERE payload = N'bad') THROW 50001, N'no bad items here', 1";
    program.run(trigger).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = |payload| new_item(&[("payload", text(payload))]);
    let added = fixture
        .try_enqueue(vec![item("good"), item("bad"), item("good")])
        .await;
    let rejection = rejected(added);
    assert_eq!(rejection.item, Some(1));
    assert!(
        rejection.problem.text.contains("no bad items here"),
        "{rejection:?}"
    );
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 0]);
    fixture.enqueue(item("good")).await;
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
}

#[tokio::test]
async fn trigger_that_uses_raiserror_refuses_the_operation() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    for change in ["INSERT", "UPDATE"] {
        let trigger = format!(
            "CREATE TRIGGER no_{change} ON item AFTER {change} AS
            IF EXISTS (SELECT 1 FROM inserted WHERE payload = N'{change}') RAISERROR(N'refused {change}', 16, 1)"
        );
        program.run(&trigger).await;
    }
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = |payload| new_item(&[("payload", text(payload))]);
    let rejection = rejected(fixture.try_enqueue(vec![item("a"), item("INSERT")]).await);
    assert_eq!(rejection.item, Some(1));
    assert!(
        rejection.problem.text.contains("refused INSERT"),
        "{rejection:?}"
    );
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 0]);
    fixture.enqueue(item("UPDATE")).await;
    for _ in 0..2 {
        let claim = fixture
            .store
            .claim(fixture.queue, [call("w", 1)].into(), usize::MAX);
        let error = claim.await.expect_err("the trigger refuses the claim");
        assert!(error.to_string().contains("refused UPDATE"), "{error}");
        assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
    }
    program.run("DROP TRIGGER no_UPDATE").await;
    assert_eq!(fixture.claim(9).await.len(), 1);
}

/// A trigger that was written for one row fails at the second one, with an error of the server and not of its author.
#[tokio::test]
async fn error_inside_a_trigger_is_the_tables_and_not_a_bug() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    let divides = "CREATE TRIGGER divides ON item AFTER INSERT AS
        DECLARE @share int; SET @share = 1 / (SELECT COUNT(*) - 1 FROM inserted WHERE payload = N'alone')";
    program.run(divides).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = |payload| new_item(&[("payload", text(payload))]);
    let rejection = rejected(fixture.try_enqueue(vec![item("a"), item("alone")]).await);
    assert_eq!(rejection.problem.kind, ProblemKind::Trigger);
    fixture.enqueue(item("b")).await;
    fixture.enqueue(item("c")).await;
    let one_row = "CREATE TRIGGER one_row ON item AFTER UPDATE AS
        DECLARE @id int; SET @id = (SELECT id FROM inserted)";
    program.run(one_row).await;
    // Of two rows it gets one.
    assert_eq!(fixture.claim(2).await.len(), 1);
    assert_eq!(fixture.claim(2).await.len(), 1);
}

/// The trigger belongs to a table that refers to a table that refers to the queue's.
#[tokio::test]
async fn error_in_a_trigger_of_a_cascade_is_the_tables() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    let children = "CREATE TABLE line (id int PRIMARY KEY, item_id int REFERENCES item (id) ON DELETE CASCADE);
        CREATE TABLE note (line_id int REFERENCES line (id) ON DELETE SET NULL)";
    program.run(children).await;
    let divides = "CREATE TRIGGER divides ON note AFTER UPDATE AS
        DECLARE @share int; SET @share = 1 / (SELECT COUNT(*) - 1 FROM inserted)";
    program.run(divides).await;
    let spec = QueueSpec {
        on_complete: OnComplete::Delete,
        ..queue("item")
    };
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    fixture.enqueue(new_item(&[("payload", text("a"))])).await;
    program
        .run("INSERT line (id, item_id) VALUES (7, 1); INSERT note (line_id) VALUES (7)")
        .await;
    let lease = fixture.one().await.lease;
    let settled = fixture.try_settle(vec![(&lease, complete())]).await;
    let refused = settled.expect("the other table refuses it");
    assert!(matches!(refused[..], [Settled::Refused(_)]), "{refused:?}");
    program.run("DROP TRIGGER divides").await;
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
}

#[tokio::test]
async fn trial_finds_triggers_that_fail_and_changes_nothing() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    program
        .run("CREATE TABLE line (item_id int REFERENCES item (id) ON DELETE CASCADE)")
        .await;
    for trigger in [
        AUDIT[2],
        "CREATE TRIGGER one_row ON item AFTER UPDATE AS
            DECLARE @id int; SET @id = (SELECT id FROM inserted); INSERT audit (what, id) VALUES ('update', @id)",
        "CREATE TRIGGER line_deleted ON line AFTER DELETE AS SELECT 1 AS seen",
    ] {
        program.run(trigger).await;
    }
    let spec = QueueSpec {
        on_complete: OnComplete::Delete,
        ..queue("item")
    };
    harness.apply(&spec).await.expect("apply");
    program
        .run("INSERT item (payload) VALUES (N'a'), (N'b'), (N'c')")
        .await;
    let of_table = spec.clone();
    let triggers = program
        .schema(move |schema| schema.triggers(&of_table))
        .await
        .expect("triggers");
    for name in ["item_deleted", "one_row", "line_deleted"] {
        assert!(
            triggers.iter().any(|trigger| trigger.contains(name)),
            "{triggers:?}"
        );
    }
    let trials = program
        .schema(move |schema| schema.try_triggers(&spec))
        .await
        .expect("trials");
    let failed: Vec<&str> = trials
        .iter()
        .filter(|trial| matches!(trial.outcome, TrialOutcome::Failed(_)))
        .map(|trial| &*trial.change)
        .collect();
    assert_eq!(
        failed,
        ["UPDATE of 0 rows", "UPDATE of 2 rows"],
        "{trials:?}"
    );
    let passed = trials
        .iter()
        .filter(|trial| trial.outcome == TrialOutcome::Passed);
    assert_eq!(passed.count(), 6, "{trials:?}");
    assert_eq!(program.number("SELECT COUNT(*) FROM item").await, 3);
    assert_eq!(program.number("SELECT COUNT(*) FROM audit").await, 0);
}

#[tokio::test]
async fn trigger_that_refuses_a_purge_keeps_the_rows() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    let trigger =
        "CREATE TRIGGER no_delete ON item AFTER DELETE AS RAISERROR(N'refused DELETE', 16, 1)";
    program.run(trigger).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = new_item(&[("payload", text("a"))]);
    fixture.enqueue(item).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
    fixture.advance(HOUR).await;
    let step = PurgeStep {
        after: None,
        completed: Some(MINUTE),
        dead: None,
        latest: None,
        limit: 500,
        delete: true,
    };
    let purged = fixture.store.purge(fixture.queue, step.clone()).await;
    let error = purged.expect_err("the trigger refuses the deletion");
    assert!(matches!(error, StoreError::Rejected(_)), "{error:?}");
    assert!(error.to_string().contains("refused DELETE"), "{error}");
    assert_eq!(fixture.counts().await, [0, 0, 0, 1, 0]);
    program.run("DROP TRIGGER no_delete").await;
    let purged = fixture.store.purge(fixture.queue, step).await;
    assert_eq!(purged.expect("purge").old, 1);
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 0]);
}

#[tokio::test]
async fn result_sets_of_triggers_are_ignored() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(TABLE).await;
    let trigger =
        "CREATE TRIGGER talkative ON item AFTER INSERT, UPDATE AS SELECT 77, 'seen' FROM inserted";
    program.run(trigger).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let key = fixture.enqueue(new_item(&[("payload", text("a"))])).await;
    assert_eq!(key.to_string(), "1");
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["1"]);
    let held = fixture.heartbeat(&items[0].lease, HOUR).await;
    assert!(held.is_some());
    let done = fixture.complete(&items[0].lease).await;
    assert_eq!(done, Some(State::Completed));
}
