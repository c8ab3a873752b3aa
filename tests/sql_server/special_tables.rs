//! Partitioned tables, and features that only SQL Server has: temporal and memory-optimised tables, rowversion columns, filtered
//! keys.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::Settled;
use lease_broker_store::mssql::MssqlSchema;
use lease_broker_store::schema::Schema as _;
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness as _;
use crate::harness::errors::{problems, rejected};
use crate::harness::fixture::{Fixture, HOUR, complete, fail, keys, new_item, queue, text};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start, start_on_sql_server};

/// Adopts a table and runs every operation on it.
async fn check_operations(harness: MssqlHarness, spec: QueueSpec) -> Fixture<MssqlHarness> {
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let item = |id| new_item(&[("id", Value::Int(id)), ("payload", text("x"))]);
    fixture
        .try_enqueue(vec![item(1), item(2)])
        .await
        .expect("added");
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["1", "2"]);
    assert!(fixture.heartbeat(&items[0].lease, HOUR).await.is_some());
    let completed = fixture.complete(&items[0].lease).await;
    assert_eq!(completed, Some(State::Completed));
    let failed = fixture.settle(&items[1].lease, fail(Some(HOUR))).await;
    assert_eq!(failed, Some(State::Delayed));
    fixture.advance(2 * HOUR).await;
    assert_eq!(fixture.reap(9).await.promoted, 1);
    fixture
}

const TEMPORAL: &str = "CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50),
        valid_from datetime2 GENERATED ALWAYS AS ROW START, valid_to datetime2 GENERATED ALWAYS AS ROW END,
        PERIOD FOR SYSTEM_TIME (valid_from, valid_to))
    WITH (SYSTEM_VERSIONING = ON (HISTORY_TABLE = dbo.item_history))";

/// Ends the history of the temporal table. Otherwise the table could not be dropped.
async fn end_history(program: &Program) {
    program
        .run("ALTER TABLE item SET (SYSTEM_VERSIONING = OFF)")
        .await;
    program.drop_tables("DROP TABLE item_history").await;
}

#[tokio::test]
async fn temporal_table_records_each_state_in_its_history() {
    let Some((harness, program)) = start_on_sql_server("temporal tables").await else {
        return;
    };
    program.run(TEMPORAL).await;
    let fixture = Box::pin(check_operations(harness, queue("item"))).await;
    let ready = "SELECT COUNT(*) FROM item_history WHERE id = 1 AND lease_state = 0";
    assert_eq!(program.number(ready).await, 1);
    end_history(&program).await;
    drop(fixture);
}

#[tokio::test]
async fn history_of_a_temporal_table_is_refused() {
    let Some((harness, program)) = start_on_sql_server("temporal tables").await else {
        return;
    };
    program.run(TEMPORAL).await;
    let problems = problems(&harness, &queue("item_history")).await;
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("the history of a temporal table"),
        "{problems:?}"
    );
    end_history(&program).await;
}

#[tokio::test]
async fn period_of_a_temporal_table_cannot_be_set() {
    let Some((harness, program)) = start_on_sql_server("temporal tables").await else {
        return;
    };
    program.run(TEMPORAL).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let from = Value::Timestamp {
        seconds: 0,
        nanos: 0,
    };
    let item = new_item(&[("id", Value::Int(1)), ("valid_from", from)]);
    let added = fixture.try_enqueue(vec![item]).await;
    end_history(&program).await;
    let rejection = rejected(added);
    assert_eq!(rejection.column.as_deref(), Some("valid_from"));
}

/// Replaces the ready index by one that is partitioned like the table, which is a warning.
async fn check_aligned_index(fixture: &Fixture<MssqlHarness>, program: &Program) {
    let warnings = fixture.harness.warnings(&queue("item")).await;
    assert_eq!(warnings, [""; 0]);
    program.run("DROP INDEX item_lease_ready ON item").await;
    program
        .run("CREATE INDEX item_lease_ready ON item (id) WHERE lease_state = 0")
        .await;
    let warnings = fixture.harness.warnings(&queue("item")).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("item_lease_ready of table \"item\" is partitioned"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn partitioned_table_works_as_a_queue() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program
        .run("CREATE PARTITION FUNCTION by_tens (int) AS RANGE RIGHT FOR VALUES (1, 10, 20)")
        .await;
    program
        .run("CREATE PARTITION SCHEME tens AS PARTITION by_tens ALL TO ([PRIMARY])")
        .await;
    program
        .run("CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50)) ON tens (id)")
        .await;
    let plan = harness.plan(&queue("item")).await.expect("a plan");
    let whole = plan.iter().filter(|step| step.sql.contains("ON [PRIMARY]"));
    assert_eq!(whole.count(), 3, "{plan:#?}");
    let fixture = Box::pin(check_operations(harness, queue("item"))).await;
    assert_eq!(fixture.counts().await, [1, 0, 0, 1, 0]);
    if !program.babelfish {
        check_aligned_index(&fixture, &program).await;
    }
    drop(fixture);
    program.drop_tables("DROP TABLE item").await;
    program.run("DROP PARTITION SCHEME tens").await;
    program.run("DROP PARTITION FUNCTION by_tens").await;
}

#[tokio::test]
async fn memory_optimised_table_is_refused_with_the_reason() {
    let Some((_harness, program)) = start_on_sql_server("memory-optimised tables").await else {
        return;
    };
    // Such a filegroup cannot be removed again, so the test creates its own database.
    let name = format!("lb_memory_{}", Uuid::new_v4().simple());
    program.run(&format!("CREATE DATABASE {name}")).await;
    let own = Program::connect(&format!("{};database={name}", program.connection_string)).await;
    let made = async {
        own.try_run(
            "ALTER DATABASE CURRENT ADD FILEGROUP in_memory CONTAINS MEMORY_OPTIMIZED_DATA",
        )
        .await?;
        let file = format!(
            "DECLARE @file nvarchar(400) = CONVERT(nvarchar(300), SERVERPROPERTY('InstanceDefaultDataPath')) + N'{name}_mem';
            EXEC (N'ALTER DATABASE CURRENT ADD FILE (NAME = N''in_memory'', FILENAME = N''' + @file + N''') TO FILEGROUP in_memory')"
        );
        own.try_run(&file).await?;
        own.try_run("CREATE TABLE item (id int NOT NULL PRIMARY KEY NONCLUSTERED) WITH (MEMORY_OPTIMIZED = ON)").await
    };
    let made = made.await;
    let settings = own.settings();
    let check = move || {
        let mut schema = MssqlSchema::open(&settings).expect("a schema");
        schema.check(&queue("item"))
    };
    let checked = tokio::task::spawn_blocking(check).await.expect("no panic");
    drop(own);
    program
        .run(&format!(
            "ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"
        ))
        .await;
    program.run(&format!("DROP DATABASE {name}")).await;
    assert_eq!(made, Ok(()));
    let problems = checked.expect("check");
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("memory-optimised"), "{problems:?}");
}

#[tokio::test]
async fn rowversion_is_current_and_not_archived() {
    let Some((harness, program)) = start_on_sql_server("rowversion columns").await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50), version rowversion)")
        .await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    fixture.enqueue(new_item(&[("id", Value::Int(1))])).await;
    let item = fixture.one().await;
    let Value::Bytes(version) = &item.columns[2] else {
        panic!("{item:?}");
    };
    let same = format!(
        "SELECT COUNT(*) FROM item WHERE version = 0x{}",
        lease_broker_model::key::hex(version)
    );
    assert_eq!(program.number(&same).await, 1);
    let completed = fixture.complete(&item.lease).await;
    assert_eq!(completed, Some(State::Completed));
    assert_eq!(program.number("SELECT COUNT(*) FROM done").await, 1);
    let columns = "SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID(N'done') AND name = N'version'";
    assert_eq!(program.number(columns).await, 0);
}

#[tokio::test]
async fn filtered_unique_index_does_not_serve_as_key() {
    let Some((harness, program)) =
        start_on_sql_server("filter conditions of indexes in its catalog").await
    else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, code int); CREATE UNIQUE INDEX i ON item (code) WHERE id > 0";
    program.run(table).await;
    let spec = QueueSpec {
        key: vec!["code".to_owned()],
        ..queue("item")
    };
    let problems = problems(&harness, &spec).await;
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("does not identify a row"),
        "{problems:?}"
    );
}

/// Adds items of which two have the same code, to a table whose unique index drops the second one.
async fn check_dropped_row(key: &str, named: &[(&str, Value)]) {
    let Some((harness, program)) = start_on_sql_server("IGNORE_DUP_KEY").await else {
        return;
    };
    let table = format!("CREATE TABLE item ({key}, code int NOT NULL)");
    program.run(&table).await;
    let index = "CREATE UNIQUE INDEX codes ON item (code) WITH (IGNORE_DUP_KEY = ON)";
    program.run(index).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let item = |code| new_item(&[named, &[("code", Value::Int(code))]].concat());
    fixture.enqueue(item(2)).await;
    let rejection = rejected(fixture.try_enqueue(vec![item(2)]).await);
    assert_eq!(rejection.item, Some(0));
    assert!(
        rejection.problem.text.contains("IGNORE_DUP_KEY"),
        "{rejection:?}"
    );
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
}

#[tokio::test]
async fn dropped_row_with_a_given_key_is_refused() {
    let id = [("id", Value::Int(1))];
    check_dropped_row(
        "id int NOT NULL PRIMARY KEY WITH (IGNORE_DUP_KEY = ON)",
        &id,
    )
    .await;
}

#[tokio::test]
async fn dropped_row_with_an_identity_key_is_refused() {
    check_dropped_row("id int IDENTITY(1, 1) PRIMARY KEY", &[]).await;
}

#[tokio::test]
async fn dropped_row_with_a_default_key_is_refused() {
    let key = "id uniqueidentifier NOT NULL DEFAULT NEWID() PRIMARY KEY";
    check_dropped_row(key, &[]).await;
}

#[tokio::test]
async fn completed_row_that_the_archive_drops_stays() {
    let Some((harness, program)) = start_on_sql_server("IGNORE_DUP_KEY").await else {
        return;
    };
    for statement in [
        "CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50))",
        "CREATE TABLE done (id int NOT NULL PRIMARY KEY WITH (IGNORE_DUP_KEY = ON), payload nvarchar(50))",
        "INSERT item (id) VALUES (1)",
        "INSERT done (id) VALUES (1)",
    ] {
        program.run(statement).await;
    }
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let item = fixture.one().await;
    let Settled::Refused(refusal) = fixture.outcome(&item.lease, complete()).await else {
        panic!("completed");
    };
    assert!(refusal.problem.text.contains("IGNORE_DUP_KEY"), "{refusal}");
    assert_eq!(fixture.counts().await, [0, 1, 0, 0, 0]);
}

#[tokio::test]
async fn disabled_instead_of_trigger_is_accepted() {
    let Some((harness, program)) = start_on_sql_server("triggers that can be disabled").await
    else {
        return;
    };
    program
        .run("CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50))")
        .await;
    program
        .run("CREATE TRIGGER takes_all ON item INSTEAD OF INSERT AS RETURN")
        .await;
    program.run("DISABLE TRIGGER takes_all ON item").await;
    Box::pin(check_operations(harness, queue("item"))).await;
}
