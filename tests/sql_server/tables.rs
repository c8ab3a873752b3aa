//! Tables that cannot be a queue, with the reason, and kinds of keys and columns of tables that can.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use lease_broker_store::StoreError;
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::errors::problems;
use crate::harness::fixture::{Fixture, keys, new_item, queue, text};
use crate::harness::program::start;

fn keyed_by(column: &str) -> QueueSpec {
    QueueSpec {
        key: vec![column.to_owned()],
        ..queue("item")
    }
}

#[tokio::test]
async fn missing_table_is_named() {
    let Some((harness, _)) = start().await else {
        return;
    };
    let problems = problems(&harness, &queue("item")).await;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("\"item\""), "{problems:?}");
    assert!(problems[0].contains("does not exist"), "{problems:?}");
}

#[tokio::test]
async fn view_is_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    program.run("CREATE VIEW item AS SELECT id FROM t").await;
    let refusal = "\"item\" is a view: only the rows of a table can be leased";
    assert_eq!(problems(&harness, &queue("item")).await, [refusal]);
    let planned = harness.plan(&queue("item")).await;
    assert_eq!(planned, Err(StoreError::Misconfigured(refusal.to_owned())));
    program.run("DROP VIEW item").await;
}

#[tokio::test]
async fn table_without_a_key_is_asked_for_one() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run("CREATE TABLE item (id int)").await;
    let problems = problems(&harness, &queue("item")).await;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("no primary key"), "{problems:?}");
}

#[tokio::test]
async fn key_that_is_not_unique_is_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    for table in [
        "CREATE TABLE item (id int, code int)",
        "CREATE TABLE item (id int PRIMARY KEY, code int); CREATE INDEX i ON item (code)",
        "CREATE TABLE item (id int PRIMARY KEY, code int, UNIQUE (code, id))",
    ] {
        program.run(table).await;
        let problems = problems(&harness, &keyed_by("code")).await;
        assert_eq!(problems.len(), 1, "{table}");
        let problem = &problems[0];
        assert!(problem.contains("does not identify a row"), "{problem}");
        program.drop_tables("DROP TABLE item").await;
    }
}

#[tokio::test]
async fn key_of_more_than_three_columns_is_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (a int, b int, c int, d int, PRIMARY KEY (a, b, c, d))";
    program.run(table).await;
    let problems = problems(&harness, &queue("item")).await;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("three is the most"), "{problems:?}");
}

/// Returns the remedy for a column of the table that has the name of the broker's column.
fn other_name(column: &str) -> String {
    format!(
        "give the broker's column another name (soft_lock.{column} = \"lb_{column}\" in the settings of queue \"item\")"
    )
}

#[tokio::test]
async fn soft_lock_column_of_a_wrong_type_is_named() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, lease_state bit, lease_state_time datetime,
        lease_due_time datetimeoffset(3), lease_owner varchar(128), lease_token varchar(36), lease_fence int,
        lease_attempt smallint, lease_error nvarchar(100), trace_parent char(55))";
    program.run(table).await;
    let problems = problems(&harness, &queue("item")).await;
    let wanted = [
        ("lease_state", "bit", "smallint, tinyint or int"),
        (
            "lease_state_time",
            "datetime",
            "datetime2 with at least three decimals",
        ),
        (
            "lease_due_time",
            "datetimeoffset(3)",
            "datetime2 with at least three decimals",
        ),
        ("lease_owner", "varchar(128)", "nvarchar(128) or longer"),
        ("lease_token", "varchar(36)", "uniqueidentifier"),
        ("lease_fence", "int", "bigint"),
        ("lease_attempt", "smallint", "int or bigint"),
        ("lease_error", "nvarchar(100)", "nvarchar(1024) or longer"),
        ("trace_parent", "char(55)", "varchar(55) or longer"),
    ];
    let wanted = wanted.map(|(column, is, needed)| {
        format!(
            "the column {column} of table \"item\" has the type {is}; {column} needs {needed}: {}",
            other_name(column)
        )
    });
    assert_eq!(problems, wanted);
}

#[tokio::test]
async fn computed_soft_lock_column_is_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, lease_fence bigint IDENTITY(1, 1))";
    program.run(table).await;
    let problems = problems(&harness, &queue("item")).await;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let by_server = "lease_fence of table \"item\" has the type bigint, generated by the server";
    assert!(problems[0].contains(by_server), "{problems:?}");
}

#[tokio::test]
async fn times_with_fewer_than_three_decimals_are_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, lease_state_time datetime2(2) NOT NULL DEFAULT SYSUTCDATETIME(),
        lease_due_time datetime2(0))";
    program.run(table).await;
    let problems = problems(&harness, &queue("item")).await;
    let wanted = [
        ("lease_state_time", "datetime2(2)"),
        ("lease_due_time", "datetime2(0)"),
    ];
    let wanted = wanted.map(|(column, is)| {
        format!(
            "the column {column} of table \"item\" has the type {is}; {column} needs datetime2 with at least three decimals: {}",
            other_name(column)
        )
    });
    assert_eq!(problems, wanted);
}

#[tokio::test]
async fn larger_types_of_soft_lock_columns_are_accepted() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, lease_state int NOT NULL DEFAULT 0,
        lease_state_time datetime2(7) NOT NULL DEFAULT SYSUTCDATETIME(), lease_due_time datetime2(7),
        lease_owner nvarchar(max), lease_attempt bigint NOT NULL DEFAULT 0, lease_error nvarchar(max),
        trace_parent nvarchar(60)); INSERT item (id) VALUES (1)";
    program.run(table).await;
    let mut spec = queue("item");
    for column in SoftLockColumn::ALL {
        if ![SoftLockColumn::Token, SoftLockColumn::Fence].contains(&column) {
            spec.soft_lock.map(column, column.default_name().to_owned());
        }
    }
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let item = fixture.one().await;
    let failed = fixture
        .settle(&item.lease, crate::harness::fixture::fail(None))
        .await;
    assert_eq!(failed, Some(State::Dead));
    assert_eq!(fixture.redrive(9).await, 1);
    let item = fixture.one().await;
    assert_eq!((item.lease.fence, item.lease.attempt), (2, 1));
    assert_eq!(fixture.complete(&item.lease).await, Some(State::Completed));
}

#[tokio::test]
async fn identity_key_is_generated() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id bigint IDENTITY(100, 10) PRIMARY KEY, payload nvarchar(50))";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let items = ["a", "b", "c"].map(|payload| new_item(&[("payload", text(payload))]));
    let added = fixture.try_enqueue(items.to_vec()).await.expect("added");
    let added: Vec<String> = added.iter().map(ToString::to_string).collect();
    assert_eq!(added, ["100", "110", "120"]);
    assert_eq!(keys(&fixture.claim(9).await), added);
}

#[tokio::test]
async fn key_default_is_generated() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id uniqueidentifier NOT NULL DEFAULT NEWID() PRIMARY KEY, payload nvarchar(50))";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = |payload| new_item(&[("payload", text(payload))]);
    let added = fixture.try_enqueue(vec![item("a"), item("b")]).await;
    let added = added.expect("added");
    for claimed in fixture.claim(9).await {
        let index = usize::from(claimed.columns[1] == text("b"));
        assert_eq!(claimed.lease.key, added[index]);
        let completed = fixture.complete(&claimed.lease).await;
        assert_eq!(completed, Some(State::Completed));
    }
    assert_eq!(fixture.counts().await, [0, 0, 0, 2, 0]);
}

#[tokio::test]
async fn computed_columns_are_returned() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, net int, gross AS (net * 2),
        above AS (net + 1) PERSISTED)";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    fixture
        .enqueue(new_item(&[("id", Value::Int(1)), ("net", Value::Int(21))]))
        .await;
    let item = fixture.one().await;
    let expected = [
        Value::Int(1),
        Value::Int(21),
        Value::Int(42),
        Value::Int(22),
    ];
    assert_eq!(item.columns, expected);
    assert_eq!(fixture.complete(&item.lease).await, Some(State::Completed));
}

#[tokio::test]
async fn row_with_a_null_key_is_never_claimed() {
    let Some((harness, program)) = start().await else {
        return;
    };
    // A unique index of SQL Server accepts only one NULL.
    let table = "CREATE TABLE item (id int NULL UNIQUE, payload nvarchar(50));
        INSERT item (id) VALUES (NULL), (1), (2)";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![keyed_by("id")]).await;
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["1", "2"]);
    for item in &items {
        let completed = fixture.complete(&item.lease).await;
        assert_eq!(completed, Some(State::Completed));
    }
    assert!(fixture.claim(9).await.is_empty());
    let untouched =
        "SELECT COUNT(*) FROM item WHERE id IS NULL AND lease_state = 0 AND lease_fence = 0";
    assert_eq!(program.number(untouched).await, 1);
}

#[tokio::test]
async fn alias_type_acts_as_its_base_type() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program
        .run("CREATE TYPE order_code FROM nvarchar(20)")
        .await;
    let table = "CREATE TABLE item (code order_code NOT NULL PRIMARY KEY, other order_code NULL)";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = new_item(&[("code", text("a")), ("other", text("b"))]);
    let added = fixture.try_enqueue(vec![item]).await;
    let claimed = fixture.claim(9).await;
    let counts = (added.map(|keys| keys.len()), keys(&claimed));
    program.drop_tables("DROP TABLE item").await;
    program.run("DROP TYPE order_code").await;
    assert_eq!(counts, (Ok(1), vec!["a".to_owned()]));
}
