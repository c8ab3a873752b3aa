//! Values that a column cannot store. The enqueue is refused with the name of the column and adds no item.

use lease_broker_model::queue::SoftLockColumn;
use lease_broker_store::StoreError;
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::errors::rejected;
use crate::harness::fixture::{Broker, Fixture, new_item, queue, text};
use crate::harness::program::{start, start_on_sql_server};

/// Enqueues three items, the second with a bad value. The error must name the item and the column, and no item may be added.
async fn check_refusal(
    broker: &Broker,
    good: &[(&str, Value)],
    column: &str,
    value: Value,
) -> Result<(), String> {
    let before = broker.counts().await;
    let bad: Vec<(&str, Value)> = good
        .iter()
        .filter(|(name, _)| *name != column)
        .cloned()
        .chain([(column, value.clone())])
        .collect();
    let items = vec![new_item(good), new_item(&bad), new_item(good)];
    let outcome = match broker.try_enqueue(items).await {
        Err(StoreError::Rejected(rejection))
            if rejection.item == Some(1) && rejection.column.as_deref() == Some(column) =>
        {
            Ok(())
        }
        other => Err(format!("{column} = {value:?}: {other:?}")),
    };
    if broker.counts().await == before {
        outcome
    } else {
        Err(format!(
            "{column} = {value:?}: the refused call added an item"
        ))
    }
}

async fn assert_all_refused(broker: &Broker, good: &[(&str, Value)], bad: &[(&str, Value)]) {
    let mut failures = Vec::new();
    for (column, value) in bad {
        if let Err(reason) = check_refusal(broker, good, column, value.clone()).await {
            failures.push(reason);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test]
async fn generated_and_soft_lock_columns_cannot_be_set() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, n int, twice AS (n * 2), any_type sql_variant)";
    program.run(table).await;
    let mut spec = queue("item");
    spec.columns = Some(vec!["id".to_owned(), "n".to_owned()]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let mut bad = vec![
        ("id", Value::Int(7)),
        ("twice", Value::Int(7)),
        ("any_type", Value::Int(7)),
    ];
    bad.extend(SoftLockColumn::ALL.map(|column| (column.default_name(), Value::Int(0))));
    assert_all_refused(&fixture, &[("n", Value::Int(1))], &bad).await;
}

#[tokio::test]
async fn value_out_of_range_names_its_column() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, tiny tinyint, small smallint, whole int, flag bit,
        guid uniqueidentifier, digits decimal(5, 2), number float, day date, clock time(3), at datetime2(3), local datetimeoffset(3),
        old datetime, bytes varbinary(4))";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let bad = [
        ("tiny", Value::Int(256)),
        ("tiny", Value::Int(-1)),
        ("small", Value::Int(32_768)),
        ("whole", Value::Int(1 << 31)),
        ("whole", Value::Double(1.5)),
        ("whole", text("1.5")),
        ("flag", Value::Int(2)),
        ("guid", text("no guid")),
        ("guid", Value::Int(1)),
        ("digits", text("1e3")),
        ("number", Value::Double(f64::INFINITY)),
        ("number", Value::Int((1 << 53) + 1)),
        ("day", text("2026-324")),
        ("day", text("20261120")),
        ("day", text("2026-11-20T00:00")),
        ("clock", text("12:00:00+02:00")),
        ("clock", text("12:00:00Z")),
        ("clock", text("120000")),
        ("clock", text("T12:00")),
        ("clock", text("12:00:00.0001")),
        ("at", text("yesterday")),
        ("at", text("2026-11-20T22:15:20.0001+02:00")),
        ("local", text("2026-11-20T22:15:20.0001+02:00")),
        ("local", text("2026-11-20T22:15:20+14:30")),
        ("local", text("0001-01-01T00:00:00+01:00")),
        ("old", text("1753-01-01T00:30:00+01:00")),
        ("old", text("2026-11-20T22:15:20.001+02:00")),
        ("at", Value::Int(1)),
        ("bytes", text("00")),
    ];
    assert_all_refused(&fixture, &[("tiny", Value::Int(1))], &bad).await;
}

#[tokio::test]
async fn value_refused_by_the_server_names_its_column() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, n int, digits decimal(5, 2), day date, clock time(3),
        at datetime)";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let bad = [
        ("digits", Value::Decimal("1000.00".to_owned())),
        ("day", text("2026-02-30")),
        ("clock", text("25:00")),
        (
            "at",
            Value::Timestamp {
                seconds: -6_847_804_801,
                nanos: 0,
            },
        ),
    ];
    assert_all_refused(&fixture, &[("n", Value::Int(1))], &bad).await;
}

#[tokio::test]
async fn too_long_text_is_refused_and_never_truncated() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table =
        "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, code nvarchar(3), plain char(3))";
    program.run(table).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    for column in ["code", "plain"] {
        let items = ["fit", "four"].map(|value| new_item(&[(column, text(value))]));
        let rejection = rejected(fixture.try_enqueue(items.to_vec()).await);
        assert_eq!(rejection.item, Some(1), "{rejection:?}");
        // The message of Babelfish does not name the column.
        assert!(program.babelfish || rejection.column.as_deref() == Some(column));
    }
    assert_eq!(fixture.counts().await, [0, 0, 0, 0, 0]);
}

#[tokio::test]
async fn value_with_too_many_digits_is_refused() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, n int, digits decimal(5, 2), price money, short real,
        at datetime2(3), small smalldatetime)";
    program.run(table).await;
    let mut spec = queue("item");
    spec.columns = Some(vec!["id".to_owned()]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let bad = [
        ("digits", Value::Decimal("1.005".to_owned())),
        ("price", Value::Decimal("1.00005".to_owned())),
        ("short", Value::Double(0.1)),
        (
            "at",
            Value::Timestamp {
                seconds: 0,
                nanos: 1,
            },
        ),
        (
            "small",
            Value::Timestamp {
                seconds: 1,
                nanos: 0,
            },
        ),
    ];
    assert_all_refused(&fixture, &[("n", Value::Int(1))], &bad).await;
}

#[tokio::test]
async fn columns_of_unsupported_types_cannot_be_set() {
    let lacks = "rowversion, geography and hierarchyid columns";
    let Some((harness, program)) = start_on_sql_server(lacks).await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, stamp rowversion, place geography, node hierarchyid, shape geometry)";
    program.run(table).await;
    let mut spec = queue("item");
    spec.columns = Some(vec!["id".to_owned(), "stamp".to_owned()]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let bad = [
        ("stamp", Value::Bytes(vec![0; 8])),
        ("place", text("POINT (1 1)")),
        ("node", text("/1/")),
        ("shape", text("POINT (1 1)")),
    ];
    let mut failures = Vec::new();
    for (column, value) in bad {
        let item = new_item(&[("id", Value::Int(1)), (column, value)]);
        let added = fixture.try_enqueue(vec![item]).await;
        let named = matches!(&added, Err(StoreError::Rejected(rejection)) if rejection.column.as_deref() == Some(column));
        if !named {
            failures.push(format!("{column}: {added:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    fixture.enqueue(new_item(&[("id", Value::Int(1))])).await;
    let item = fixture.one().await;
    let Value::Bytes(stamp) = &item.columns[1] else {
        panic!("{item:?}");
    };
    assert_eq!(stamp.len(), 8);
}

#[tokio::test]
async fn table_with_an_unsupported_column_can_be_processed() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let table = "CREATE TABLE item (id int PRIMARY KEY, any_type sql_variant); INSERT item (id, any_type) VALUES (1, 7), (2, NULL)";
    program.run(table).await;
    // Three results are allowed: the check refuses the column, a claim leaves it out, or a claim returns its value. A claim
    // must not fail.
    let spec = queue("item");
    harness.apply(&spec).await.expect("apply");
    let problems = harness.check(&spec).await.expect("check");
    let warnings = harness.warnings(&spec).await;
    assert!(
        warnings.len() == 1 && warnings[0].contains("any_type"),
        "{warnings:?}"
    );
    if problems.is_empty() {
        let broker = Broker::new(harness.open(&[spec]).await.expect("open"));
        let items = broker.claim(9).await;
        let is_returned = broker
            .store
            .columns(broker.queue)
            .iter()
            .any(|name| name == "any_type");
        assert!(
            !is_returned || items[0].columns[1] != Value::Null,
            "the value is lost"
        );
    } else {
        assert!(problems[0].contains("any_type"), "{problems:?}");
    }
}
