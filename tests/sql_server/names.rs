//! Names of schemas, tables and columns, also those that T-SQL has to quote.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::fixture::{Broker, Fixture, HOUR, by, keys, new_item, queue};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start};

/// Runs a queue over a table. `name` is its name in the configuration, `quoted` its name in T-SQL.
async fn check_table_name(harness: &MssqlHarness, program: &Program, name: &str, quoted: &str) {
    let table =
        format!("CREATE TABLE {quoted} (id int PRIMARY KEY); INSERT {quoted} VALUES (1), (2)");
    program.run(&table).await;
    let spec = QueueSpec {
        name: "items".to_owned(),
        ..queue(name)
    };
    harness.apply(&spec).await.expect("apply");
    assert_eq!(harness.check(&spec).await, Ok(Vec::new()), "{name}");
    let broker = Broker::new(harness.open(&[spec]).await.expect("open"));
    let items = broker.claim(1).await;
    let completed = broker.complete(&items[0].lease).await;
    assert_eq!(completed, Some(State::Completed), "{name}");
    assert_eq!(broker.counts().await, [1, 0, 0, 1, 0], "{name}");
    let count = format!("SELECT COUNT(*) FROM {quoted} WHERE lease_state = 3");
    assert_eq!(program.number(&count).await, 1);
    drop(broker);
    program.drop_tables(&format!("DROP TABLE {quoted}")).await;
}

#[tokio::test]
async fn table_can_be_in_another_schema() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run("CREATE SCHEMA sales").await;
    check_table_name(&harness, &program, "sales.orders", "sales.orders").await;
    program.run("DROP SCHEMA sales").await;
}

#[tokio::test]
async fn schema_and_table_names_can_need_brackets() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run("CREATE SCHEMA [my schema]").await;
    let name = "[my schema].[my.table]";
    check_table_name(&harness, &program, name, name).await;
    program.run("DROP SCHEMA [my schema]").await;
}

#[tokio::test]
async fn two_schemas_can_have_tables_of_one_name() {
    let Some((harness, program)) = start().await else {
        return;
    };
    for schema in ["north", "south"] {
        program.run(&format!("CREATE SCHEMA {schema}")).await;
        let table = format!(
            "CREATE TABLE {schema}.item (id int PRIMARY KEY); INSERT {schema}.item VALUES (1)"
        );
        program.run(&table).await;
    }
    let queues = ["north.item", "south.item"].map(queue);
    let fixture = Fixture::adopt(harness, queues.to_vec()).await;
    let item = fixture.at(1).one().await;
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 0]);
    assert_eq!(fixture.heartbeat(&item.lease, HOUR).await, None);
    let completed = fixture.at(1).complete(&item.lease).await;
    assert_eq!(completed, Some(State::Completed));
    for schema in ["north", "south"] {
        program
            .drop_tables(&format!("DROP TABLE {schema}.item"))
            .await;
        program.run(&format!("DROP SCHEMA {schema}")).await;
    }
}

#[tokio::test]
async fn column_names_can_need_quoting() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = r#"CREATE TABLE "or""der's" ("schlüssel ""1""" int PRIMARY KEY, [order] int, [größe 'x'] nvarchar(20))"#;
    program.run(table).await;
    let mut spec = queue("or\"der's");
    spec.name = "items".to_owned();
    spec.order = by(&["-order"]);
    spec.soft_lock
        .map(SoftLockColumn::State, "the state's \"number\"".to_owned());
    spec.soft_lock
        .map(SoftLockColumn::Owner, "wer]?".to_owned());
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let item = |id| {
        new_item(&[
            ("schlüssel \"1\"", Value::Int(id)),
            ("order", Value::Int(id)),
            ("größe 'x'", crate::harness::fixture::text("łódź")),
        ])
    };
    fixture
        .try_enqueue(vec![item(1), item(2)])
        .await
        .expect("added");
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["2", "1"]);
    assert_eq!(items[0].columns[2], crate::harness::fixture::text("łódź"));
    assert!(fixture.heartbeat(&items[0].lease, HOUR).await.is_some());
    let completed = fixture.complete(&items[0].lease).await;
    assert_eq!(completed, Some(State::Completed));
}

#[tokio::test]
async fn names_are_found_in_any_case() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE Item (Id int PRIMARY KEY, Rank int); INSERT Item (Id, Rank) VALUES (1, 1), (2, 2)";
    program.run(table).await;
    let mut spec = queue("ITEM");
    spec.key = vec!["ID".to_owned()];
    spec.order = by(&["-RANK"]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    assert_eq!(keys(&fixture.claim(9).await), ["2", "1"]);
    // Babelfish converts names to lower case.
    let columns = fixture.store.columns(fixture.queue).join(" ");
    assert!(columns.eq_ignore_ascii_case("Id Rank"), "{columns}");
}
