//! Numbers and times in columns of every type: a claim returns them unchanged, whether a broker or a program inserted them.

use lease_broker_model::item_state::State;
use lease_broker_store::{Ending, FollowUp, NewItem, Settled, Settlement};
use lease_broker_value::Value;

use crate::harness::fixture::{Fixture, new_item, queue, text};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start, start_on_sql_server};

/// 2026-11-20T22:15:20Z.
const AT: i64 = 1_795_212_920;

/// A type, a value as a T-SQL literal, and the same value as workers read it and producers send it.
pub(crate) type Sample = (&'static str, &'static str, Value);

fn decimal(digits: &str) -> Value {
    Value::Decimal(digits.to_owned())
}

fn timestamp(seconds: i64, nanos: i32) -> Value {
    Value::Timestamp { seconds, nanos }
}

/// Creates one table with a column per sample. For each sample, another program and a broker insert one row with this value.
///
/// Both rows must have the same value for the server and for a worker. A row with only NULL must work too.
pub(crate) async fn check_samples(harness: MssqlHarness, program: &Program, samples: &[Sample]) {
    let columns: Vec<String> = (0..)
        .zip(samples)
        .map(|(at, (declared, ..))| format!(", c{at} {declared} NULL"))
        .collect();
    let create = format!(
        "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY{})",
        columns.concat()
    );
    program.run(&create).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    for (at, (_, literal, _)) in samples.iter().enumerate() {
        program
            .run(&format!("INSERT item (c{at}) VALUES ({literal})"))
            .await;
    }
    let items = samples
        .iter()
        .enumerate()
        .map(|(at, (.., value))| new_item(&[(&*format!("c{at}"), value.clone())]));
    let added = fixture.try_enqueue(items.collect()).await.expect("added");
    let nulls: Vec<(String, Value)> = (0..samples.len())
        .map(|at| (format!("c{at}"), Value::Null))
        .collect();
    let nulls: Vec<(&str, Value)> = nulls
        .iter()
        .map(|(name, null)| (&**name, null.clone()))
        .collect();
    fixture.enqueue(new_item(&nulls)).await;
    let claimed = fixture.claim(1_000).await;
    assert_eq!(claimed.len(), 2 * samples.len() + 1);
    let mut failures = Vec::new();
    for (at, (declared, literal, value)) in samples.iter().enumerate() {
        let ours = at + samples.len();
        assert_eq!(claimed[ours].lease.key, added[at]);
        for (who, item) in [
            ("another program", &claimed[at]),
            ("a broker", &claimed[ours]),
        ] {
            let read = &item.columns[1 + at];
            if read != value {
                failures.push(format!("{declared} {literal} by {who}: {read:?}"));
            }
        }
        // The server cannot compare xml values, so they are converted to text.
        let comparable = if *declared == "xml" {
            "CONVERT(nvarchar(max), {})"
        } else {
            "{}"
        };
        let of = |row: &str| comparable.replace("{}", &format!("{row}.c{at}"));
        let same = format!(
            "SELECT COUNT(*) FROM item AS a, item AS b WHERE a.id = {} AND b.id = {} AND {} = {}",
            at + 1,
            ours + 1,
            of("a"),
            of("b")
        );
        if program.number(&same).await != 1 {
            failures.push(format!("{declared} {literal}: the server sees two values"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    let all_null = claimed.last().expect("a row").columns[1..]
        .iter()
        .all(|value| *value == Value::Null);
    assert!(all_null);
}

#[tokio::test]
async fn numbers_are_unchanged_up_to_their_bounds() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let samples = [
        ("tinyint", "0", Value::Int(0)),
        ("tinyint", "255", Value::Int(255)),
        ("smallint", "-32768", Value::Int(-32_768)),
        ("smallint", "32767", Value::Int(32_767)),
        ("int", "-2147483648", Value::Int(i32::MIN.into())),
        ("int", "2147483647", Value::Int(i32::MAX.into())),
        ("bigint", "-9223372036854775808", Value::Int(i64::MIN)),
        ("bigint", "9223372036854775807", Value::Int(i64::MAX)),
        ("bit", "0", Value::Bool(false)),
        ("bit", "1", Value::Bool(true)),
        (
            "decimal(38, 10)",
            "9999999999999999999999999999.9999999999",
            decimal("9999999999999999999999999999.9999999999"),
        ),
        ("decimal(38, 10)", "-0.0000000001", decimal("-0.0000000001")),
        (
            "decimal(38, 0)",
            "99999999999999999999999999999999999999",
            decimal("99999999999999999999999999999999999999"),
        ),
        (
            "decimal(38, 0)",
            "-99999999999999999999999999999999999999",
            decimal("-99999999999999999999999999999999999999"),
        ),
        ("numeric(5, 2)", "-12.50", decimal("-12.50")),
        (
            "numeric(38, 38)",
            "0.99999999999999999999999999999999999999",
            decimal("0.99999999999999999999999999999999999999"),
        ),
        ("float", "1.7976931348623157e308", Value::Double(f64::MAX)),
        ("float", "-0.1", Value::Double(-0.1)),
        (
            "float",
            "123456789.12345679",
            Value::Double(123_456_789.123_456_79),
        ),
        ("real", "0.1", Value::Double(0.1_f32.into())),
        ("real", "-3.4028235e38", Value::Double(f32::MIN.into())),
    ];
    check_samples(harness, &program, &samples).await;
}

#[tokio::test]
async fn money_is_unchanged_up_to_its_bounds() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let samples = [
        (
            "money",
            "922337203685477.5807",
            decimal("922337203685477.5807"),
        ),
        (
            "money",
            "-922337203685477.5808",
            decimal("-922337203685477.5808"),
        ),
        ("money", "1.1", decimal("1.1000")),
        ("smallmoney", "214748.3647", decimal("214748.3647")),
        ("smallmoney", "-214748.3648", decimal("-214748.3648")),
    ];
    check_samples(harness, &program, &samples).await;
}

#[tokio::test]
async fn times_have_the_precision_of_their_column() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let samples = [
        ("datetime", "'2026-11-20T22:15:20.000'", timestamp(AT, 0)),
        (
            "datetime",
            "'2026-11-20T22:15:20.003'",
            timestamp(AT, 3_000_000),
        ),
        (
            "datetime",
            "'2026-11-20T22:15:20.007'",
            timestamp(AT, 7_000_000),
        ),
        (
            "datetime",
            "'1753-01-01T00:00:00'",
            timestamp(-6_847_804_800, 0),
        ),
        (
            "smalldatetime",
            "'2026-11-20T22:15:00'",
            timestamp(AT - 20, 0),
        ),
        ("datetime2(0)", "'2026-11-20T22:15:20'", timestamp(AT, 0)),
        (
            "datetime2(1)",
            "'2026-11-20T22:15:20.1'",
            timestamp(AT, 100_000_000),
        ),
        (
            "datetime2(2)",
            "'2026-11-20T22:15:20.12'",
            timestamp(AT, 120_000_000),
        ),
        (
            "datetime2(3)",
            "'2026-11-20T22:15:20.123'",
            timestamp(AT, 123_000_000),
        ),
        (
            "datetime2(4)",
            "'2026-11-20T22:15:20.1234'",
            timestamp(AT, 123_400_000),
        ),
        (
            "datetime2(5)",
            "'2026-11-20T22:15:20.12345'",
            timestamp(AT, 123_450_000),
        ),
        (
            "datetime2(6)",
            "'2026-11-20T22:15:20.123456'",
            timestamp(AT, 123_456_000),
        ),
        (
            "datetime2(6)",
            "'0001-01-01T00:00:00.000001'",
            timestamp(-62_135_596_800, 1_000),
        ),
        (
            "datetime2(6)",
            "'9999-12-31T23:59:59.999999'",
            timestamp(253_402_300_799, 999_999_000),
        ),
        (
            "datetimeoffset(6)",
            "'2026-11-20T22:15:20.123456+00:00'",
            timestamp(AT, 123_456_000),
        ),
        ("date", "'0001-01-01'", text("0001-01-01")),
        ("date", "'9999-12-31'", text("9999-12-31")),
        ("time(0)", "'22:15:20'", text("22:15:20")),
        ("time(6)", "'00:00:00.000001'", text("00:00:00.000001")),
    ];
    check_samples(harness, &program, &samples).await;
}

#[tokio::test]
async fn seventh_decimal_of_a_second_is_kept() {
    let lacks = "times of seven decimals";
    let Some((harness, program)) = start_on_sql_server(lacks).await else {
        return;
    };
    let samples = [
        (
            "datetime2(7)",
            "'2026-11-20T22:15:20.1234567'",
            timestamp(AT, 123_456_700),
        ),
        (
            "datetime2(7)",
            "'9999-12-31T23:59:59.9999999'",
            timestamp(253_402_300_799, 999_999_900),
        ),
        (
            "datetimeoffset(7)",
            "'2026-11-20T22:15:20.1234567+00:00'",
            timestamp(AT, 123_456_700),
        ),
        ("time(7)", "'23:59:59.9999999'", text("23:59:59.9999999")),
    ];
    check_samples(harness, &program, &samples).await;
}

#[tokio::test]
async fn time_with_offset_is_returned_in_utc_and_stored_with_offset() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, at datetimeoffset(3))")
        .await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    program
        .run("INSERT item (at) VALUES ('2026-11-21T03:45:20.5+05:30')")
        .await;
    let sent = text("2026-11-21T03:45:20.5+05:30");
    fixture.enqueue(new_item(&[("at", sent)])).await;
    for item in fixture.claim(9).await {
        assert_eq!(item.columns[1], timestamp(AT, 500_000_000));
    }
    let offsets = "SELECT DATEPART(tzoffset, at) FROM item ORDER BY id";
    assert_eq!(program.texts(offsets).await, ["330", "330"]);
}

#[tokio::test]
async fn text_with_an_offset_is_stored_in_utc() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let moment = text("2026-11-21T00:15:20.5+02:00");
    let sent = [
        ("datetime", moment.clone(), timestamp(AT, 500_000_000)),
        ("datetime2(3)", moment.clone(), timestamp(AT, 500_000_000)),
        ("datetimeoffset(3)", moment, timestamp(AT, 500_000_000)),
        (
            "smalldatetime",
            text("2026-11-21T00:15-01:00"),
            timestamp(AT + 10_780, 0),
        ),
        ("date", text("2026-11-20"), text("2026-11-20")),
        ("time(0)", text("22:15"), text("22:15:00")),
        ("time(1)", text("22:15:20.5000000000"), text("22:15:20.5")),
    ];
    let columns: Vec<String> = (0..)
        .zip(&sent)
        .map(|(at, (declared, ..))| format!(", c{at} {declared}"))
        .collect();
    let table = format!(
        "CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY{})",
        columns.concat()
    );
    program.run(&table).await;
    let mut spec = queue("item");
    spec.writable = (0..sent.len()).map(|at| format!("c{at}")).collect();
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let values: Vec<(String, Value)> = (0..)
        .zip(&sent)
        .map(|(at, (_, value, _))| (format!("c{at}"), value.clone()))
        .collect();
    let item = NewItem {
        columns: values.clone(),
        ..new_item(&[])
    };
    let lease = {
        fixture.enqueue(item.clone()).await;
        fixture.one().await.lease
    };
    // A settlement that writes the same values, and a follow-up with them.
    let ending = Ending::Complete {
        follow_ups: vec![FollowUp {
            queue: fixture.queue,
            item,
        }],
    };
    let settlement = Settlement {
        columns: values,
        ..Settlement::new(lease, ending)
    };
    let settled = fixture
        .store
        .settle(fixture.queue, [settlement].into())
        .await;
    let settled = settled.expect("settle").results;
    assert_eq!(settled, [Settled::Ended(State::Completed)]);
    let stored = fixture.one().await.columns;
    for ((declared, value, expected), read) in sent.iter().zip(&stored[1..]) {
        assert_eq!(read, expected, "{declared} {value:?}");
    }
    let same: Vec<String> = (0..sent.len())
        .map(|at| format!("a.c{at} = b.c{at}"))
        .collect();
    let same = format!(
        "SELECT COUNT(*) FROM item AS a, item AS b WHERE a.id = 1 AND b.id = 2 AND {}",
        same.join(" AND ")
    );
    assert_eq!(program.number(&same).await, 1);
    let offset = "SELECT DATEPART(tzoffset, c2) FROM item ORDER BY id";
    assert_eq!(program.texts(offset).await, ["120", "120"]);
}
