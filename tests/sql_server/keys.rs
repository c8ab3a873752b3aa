//! Keys of each type that an index accepts. An item with such a key is claimed, extended, settled and expired, and a walk passes it.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_store::{EnqueuedOnce, PurgeStep, Renewal};
use uuid::Uuid;

use crate::harness::fixture::{Broker, Fixture, MINUTE, SECOND, call, new_item, queue};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start, start_on_sql_server};

/// Types. Each has two values in ascending order, as T-SQL literals.
const TYPES: &[(&str, &str, &str)] = &[
    ("tinyint", "0", "255"),
    ("smallint", "-32768", "32767"),
    ("int", "-2147483648", "2147483647"),
    ("bigint", "-9223372036854775808", "9223372036854775807"),
    ("bit", "0", "1"),
    (
        "decimal(38, 0)",
        "-99999999999999999999999999999999999999",
        "12345678901234567890123456789012345678",
    ),
    ("decimal(20, 5)", "-1.00001", "123456789012345.67891"),
    ("float", "-0.1", "1e100"),
    (
        "uniqueidentifier",
        "'00000000-0000-0000-0000-000000000001'",
        "'6f9619ff-8b86-d011-b42d-00c04fc964ff'",
    ),
    ("char(10)", "'abc'", "'abd'"),
    ("nchar(10)", "N'żółw'", "N'żółwie'"),
    ("varchar(40)", "'it''s'", "'{[1]}'"),
    ("nvarchar(40)", "N'Ωmega'", "N'ωmega 2'"),
    ("date", "'0001-01-01'", "'9999-12-31'"),
    (
        "datetime",
        "'1753-01-01T00:00:00.003'",
        "'2026-11-20T22:15:20.997'",
    ),
    (
        "smalldatetime",
        "'1900-01-01T00:01:00'",
        "'2026-11-20T22:15:00'",
    ),
    (
        "datetime2(0)",
        "'2026-11-20T22:15:20'",
        "'2026-11-20T22:15:21'",
    ),
    (
        "datetime2(3)",
        "'2026-11-20T22:15:20.001'",
        "'2026-11-20T22:15:20.002'",
    ),
    (
        "datetime2(7)",
        "'0001-01-01T00:00:00.000001'",
        "'9999-12-31T23:59:59.999999'",
    ),
    (
        "datetimeoffset(7)",
        "'2026-11-20T22:15:20.123456+05:30'",
        "'2026-11-20T22:15:20.123456-08:00'",
    ),
    ("time(7)", "'00:00:00.000001'", "'23:59:59.999999'"),
];

/// Values that JSON has to escape or has no type for, and times with all decimal places.
const SPECIAL_VALUES: &[(&str, &str, &str)] = &[
    ("binary(4)", "0x00000001", "0xffffffff"),
    ("varbinary(16)", "0x00", "0x00ff"),
    ("varchar(40)", "'back\\slash'", "'{\"k\": [1]}'"),
    (
        "datetime2(7)",
        "'0001-01-01T00:00:00.0000001'",
        "'9999-12-31T23:59:59.9999999'",
    ),
];

#[tokio::test]
async fn key_can_have_any_indexable_type() {
    let Some((harness, program)) = start().await else {
        return;
    };
    check_types(harness, &program, TYPES).await;
}

#[tokio::test]
async fn key_can_be_money() {
    let Some((harness, program)) = start().await else {
        return;
    };
    check_types(harness, &program, &[("money", "-1.2345", "123456.7891")]).await;
}

#[tokio::test]
async fn key_can_be_bytes_quoted_text_and_precise_time() {
    let Some((harness, program)) = start().await else {
        return;
    };
    check_types(harness, &program, SPECIAL_VALUES).await;
}

#[tokio::test]
async fn key_can_have_any_code_page() {
    let Some((harness, program)) = start_on_sql_server("column collations of all code pages").await
    else {
        return;
    };
    let types = [
        (
            "varchar(40) COLLATE Cyrillic_General_100_CI_AS",
            "N'Москва'",
            "N'Тверь'",
        ),
        // In a database of another code page, variables lack these letters.
        (
            "varchar(40) COLLATE Latin1_General_100_CI_AS",
            "N'Ähre'",
            "N'ß'",
        ),
        ("varchar(40) COLLATE Polish_100_CI_AS", "N'łódź'", "N'żółw'"),
        (
            "char(10) COLLATE Japanese_XJIS_140_CI_AS",
            "N'世界'",
            "N'日本'",
        ),
        (
            "varchar(40) COLLATE SQL_Latin1_General_CP850_CI_AS",
            "N'a'",
            "N'é'",
        ),
        (
            "varchar(40) COLLATE Latin1_General_100_CI_AS_SC_UTF8",
            "N'Ωmega 🦀'",
            "N'żółw 🦀'",
        ),
    ];
    check_types(harness, &program, &types).await;
}

#[tokio::test]
async fn key_can_be_a_time_of_seven_decimals() {
    let Some((harness, program)) = start_on_sql_server("times of seven decimals").await else {
        return;
    };
    let time = ("time(7)", "'00:00:00.0000001'", "'23:59:59.9999999'");
    check_types(harness, &program, &[time]).await;
}

/// Creates one table per type with the two values as keys, and runs all operations on each queue.
async fn check_types(harness: MssqlHarness, program: &Program, types: &[(&str, &str, &str)]) {
    let mut queues = Vec::new();
    for (at, (declared, low, high)) in types.iter().enumerate() {
        let table = format!("k{at}");
        let create = format!(
            "CREATE TABLE {table} (k {declared} NOT NULL PRIMARY KEY, payload int);
            INSERT {table} (k) VALUES ({low}), ({high})"
        );
        program.run(&create).await;
        queues.push(queue(&table));
    }
    let fixture = Fixture::adopt(harness, queues).await;
    let mut failures = Vec::new();
    for (at, (declared, ..)) in types.iter().enumerate() {
        let broker = fixture.at(at);
        if let Err(reason) = check_operations(&fixture, &broker).await {
            failures.push(format!("{declared}: {reason}"));
            continue;
        }
        let key = broker.list(State::Completed).await.remove(0).key;
        program.run(&format!("DELETE FROM k{at}")).await;
        if let Err(reason) = check_repeated_request(&broker, &key).await {
            failures.push(format!("{declared}: {reason}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test]
async fn composite_key_can_mix_types() {
    let Some((harness, program)) = start().await else {
        return;
    };
    for (table, columns, rows) in [
        (
            "two",
            "a nvarchar(20) NOT NULL, b int NOT NULL, PRIMARY KEY (a, b)",
            "(N'x', 1), (N'x', 2)",
        ),
        (
            "three",
            "a datetime2(7) NOT NULL, b uniqueidentifier NOT NULL, c time(3) NOT NULL, PRIMARY KEY (a, b, c)",
            "('2026-11-20T22:15:20.123456', '6f9619ff-8b86-d011-b42d-00c04fc964ff', '01:02:03'),
             ('2026-11-20T22:15:20.123456', '6f9619ff-8b86-d011-b42d-00c04fc964ff', '01:02:04')",
        ),
        (
            "mixed",
            "a decimal(9, 2) NOT NULL, b char(3) NOT NULL, c bigint NOT NULL, PRIMARY KEY (c, b, a)",
            "(1.50, 'a', 1), (2.50, 'a', 1)",
        ),
    ] {
        let create = format!("CREATE TABLE {table} ({columns}); INSERT {table} VALUES {rows}");
        program.run(&create).await;
    }
    let queues = ["two", "three", "mixed"].map(queue);
    let fixture = Fixture::adopt(harness, queues.to_vec()).await;
    for (at, queue) in queues.iter().enumerate() {
        let checked = check_operations(&fixture, &fixture.at(at)).await;
        checked.unwrap_or_else(|reason| panic!("{}: {reason}", queue.table));
    }
}

/// Runs claim, heartbeat, completion, repeated completion, expiry and failure on a queue of two items.
async fn check_operations(fixture: &Fixture<MssqlHarness>, broker: &Broker) -> Result<(), String> {
    let expect_that = |holds: bool, fact: &str| {
        if holds {
            Ok(())
        } else {
            Err(format!("not true: {fact}"))
        }
    };
    let items = broker.claim_for(9, MINUTE).await;
    expect_that(items.len() == 2, "two items are claimed")?;
    for item in &items {
        let (lease, duration) = (item.lease.clone(), MINUTE);
        let renewal = [Renewal::new(lease, duration)].into();
        let held = broker.store.heartbeat(broker.queue, renewal).await;
        let held = held.map_err(|error| format!("{}: {error}", item.lease.key))?;
        expect_that(
            held[0].expiry().is_some(),
            &format!("{} is extended", item.lease.key),
        )?;
    }
    for fact in [
        "the lease is completed",
        "the repeated completion is recognised",
    ] {
        let state = broker.complete(&items[0].lease).await;
        expect_that(state == Some(State::Completed), fact)?;
    }
    fixture.advance(MINUTE + SECOND).await;
    let reaped = broker.reap(9).await;
    let expired: Vec<_> = reaped
        .expired
        .iter()
        .map(|expired| &expired.lease)
        .collect();
    expect_that(expired == [&items[1].lease], "the other lease expires")?;
    let again = broker.results(vec![call("worker", 9)]).await.remove(0);
    expect_that(
        again.is_held_back,
        "its item is found in the list of suspects",
    )?;
    let again = again.items;
    expect_that(again.len() == 1, "its item is claimed again")?;
    expect_that(
        again[0].lease.key == items[1].lease.key,
        "the new lease has the same key",
    )?;
    let failed = broker
        .settle(&again[0].lease, crate::harness::fixture::fail(None))
        .await;
    expect_that(
        failed == Some(State::Dead),
        "the item is dead after a failure",
    )?;
    expect_that(
        broker.counts().await == [0, 0, 0, 1, 1],
        "check_types item is in its state",
    )?;
    let mut after = None;
    for item in &items {
        let step = PurgeStep {
            after,
            completed: None,
            dead: None,
            latest: None,
            limit: 1,
            delete: false,
        };
        let visited = broker.store.purge(broker.queue, step).await;
        let visited = visited.map_err(|error| format!("a walk: {error}"))?;
        let fact = "a walk visits both rows in their order";
        let last = visited.last.as_ref().map(|position| &position.key);
        expect_that(last == Some(&item.lease.key), fact)?;
        after = visited.last;
    }
    Ok(())
}

/// Adds an item with this key, which no row has, by a request that is sent twice.
async fn check_repeated_request(broker: &Broker, key: &Key) -> Result<(), String> {
    let item = new_item(&[("k", key.0[0].clone())]);
    let keys = vec![key.clone()];
    for expected in [
        EnqueuedOnce::Added(keys.clone()),
        EnqueuedOnce::Repeated(keys.clone()),
    ] {
        let added = broker.enqueue_once(Uuid::from_u128(1), vec![item.clone()]);
        let added = added.await.map_err(|error| error.to_string())?;
        if added != expected {
            return Err(format!("{expected:?} became {added:?}"));
        }
    }
    Ok(())
}
