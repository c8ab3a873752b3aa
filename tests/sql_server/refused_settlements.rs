//! Settlements that a foreign key or a trigger of the table refuses. Only they fail, and the problem names the constraint.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::{Settled, Settlement, StoreError};
use lease_broker_value::Value;

use crate::harness::fixture::{Fixture, complete, fail, new_item, queue};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start};

/// Creates the queue `item` with five rows, over tables with this schema.
async fn fixture(
    schema: &[&str],
    on_complete: OnComplete,
) -> Option<(Fixture<MssqlHarness>, Program)> {
    let (harness, program) = Box::pin(start()).await?;
    for statement in schema {
        program.run(statement).await;
    }
    let spec = QueueSpec {
        on_complete,
        ..queue("item")
    };
    Some((Box::pin(Fixture::adopt(harness, vec![spec])).await, program))
}

/// Completes the five items in one list. Expects that only the fourth completion is refused, with this text in its
/// problem, and that its lease is still held.
async fn assert_fourth_is_refused(fixture: &Fixture<MssqlHarness>, problem: &str) {
    let items = fixture.claim(9).await;
    assert_eq!(items.len(), 5);
    let completions = items.iter().map(|item| (&item.lease, complete()));
    let results = fixture.try_settle(completions.collect()).await;
    for (number, result) in (1..).zip(results.expect("settle")) {
        match result {
            Settled::Refused(refusal) if number == 4 => {
                assert_eq!(refusal.field, None, "{refusal}");
                assert!(refusal.problem.text.contains(problem), "{refusal}");
            }
            result => assert_eq!(result, Settled::Ended(State::Completed), "{number}"),
        }
    }
    let failed = fixture.settle(&items[3].lease, fail(None)).await;
    assert_eq!(failed, Some(State::Dead));
}

#[tokio::test]
async fn foreign_key_refuses_its_own_completion() {
    for on_complete in [OnComplete::Delete, OnComplete::Archive("done".to_owned())] {
        let schema = [
            "CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50))",
            "CREATE TABLE line (id int PRIMARY KEY, item int CONSTRAINT line_item REFERENCES item (id))",
            "INSERT item (id) VALUES (1), (2), (3), (4), (5)",
            "INSERT line (id, item) VALUES (1, 4)",
        ];
        let Some((fixture, program)) = fixture(&schema, on_complete.clone()).await else {
            return;
        };
        assert_fourth_is_refused(&fixture, "line_item").await;
        let left = program.texts("SELECT CAST(id AS varchar(9)) FROM item");
        assert_eq!(left.await, ["4"]);
        if on_complete != OnComplete::Delete {
            let archived = "SELECT CAST(id AS varchar(9)) FROM done ORDER BY id";
            assert_eq!(program.texts(archived).await, ["1", "2", "3", "5"]);
        }
        // A table that others refer to cannot be dropped.
        program.drop_tables("DROP TABLE line").await;
    }
}

#[tokio::test]
async fn trigger_that_throws_refuses_its_own_completion() {
    let schema = [
        "CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50))",
        "CREATE TRIGGER choosy ON item AFTER UPDATE AS
            IF EXISTS (SELECT 1 FROM inserted WHERE id = 4 AND lease_state = 3) THROW 50001, N'4 stays', 1",
        "INSERT item (id) VALUES (1), (2), (3), (4), (5)",
    ];
    let (first, rest) = (schema[0], &schema[1..]);
    let Some((fixture, program)) = fixture(&[first], OnComplete::Keep).await else {
        return;
    };
    for statement in rest {
        program.run(statement).await;
    }
    assert_fourth_is_refused(&fixture, "4 stays").await;
    assert_eq!(fixture.counts().await, [0, 0, 0, 4, 1]);
}

#[tokio::test]
async fn division_by_zero_in_a_check_refuses_its_own_entry() {
    let schema = [
        "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, n int NOT NULL, CHECK (12 / n < 1000))",
        "INSERT item (n) VALUES (1), (2), (3)",
    ];
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    for statement in schema {
        program.run(statement).await;
    }
    let spec = QueueSpec {
        writable: vec!["n".to_owned()],
        ..queue("item")
    };
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    let items = fixture.claim(9).await;
    let settlements = items.iter().zip([3, 0, 4]).map(|(item, n)| Settlement {
        columns: vec![("n".to_owned(), Value::Int(n))],
        ..Settlement::new(item.lease.clone(), complete())
    });
    let settled = fixture.store.settle(fixture.queue, settlements.collect());
    let results = settled.await.expect("settle").results;
    let completed = Settled::Ended(State::Completed);
    assert_eq!([&results[0], &results[2]], [&completed, &completed]);
    assert!(matches!(results[1], Settled::Refused(_)), "{results:?}");
    let new = [4, 0, 5].map(|n| new_item(&[("n", Value::Int(n))]));
    let refused = fixture.try_enqueue(new.into()).await.expect_err("refused");
    let StoreError::Rejected(rejection) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(rejection.item, Some(1));
}
