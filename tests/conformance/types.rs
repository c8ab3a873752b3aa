//! Values that a broker or another program stores, and that a claim returns.

use lease_broker_model::item_state::State;
use lease_broker_store::StoreError;
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, new_item, queue, text};
use crate::harness::table::{Kind, Table};

/// Stores each value in a column of this kind, once by a broker and once by another program. Expects that claims return it.
async fn round_trip<H: Harness>(kind: Kind, values: &[Value]) {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("value", kind)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    for (id, value) in (1..).zip(values) {
        let row = [("id", Value::Int(id)), ("value", value.clone())];
        fixture.enqueue(new_item(&row)).await;
        let row = [("id", Value::Int(id + 1_000)), ("value", value.clone())];
        fixture.harness.insert("item", &row).await;
    }
    let items = fixture.claim(2_000).await;
    let (ours, theirs) = items.split_at(values.len());
    for (at, value) in values.iter().enumerate() {
        let expected = H::as_read(kind, value);
        assert_eq!(ours[at].columns[1], expected, "{kind:?} by a broker");
        assert_eq!(
            theirs[at].columns[1], expected,
            "{kind:?} by another program"
        );
    }
}

pub(crate) async fn integers_are_unchanged<H: Harness>() {
    let small = [0, 1, -1, i64::from(i32::MAX), i64::from(i32::MIN)].map(Value::Int);
    round_trip::<H>(Kind::Int, &small).await;
    let large = [i64::MAX, i64::MIN, 1 << 53, (1 << 53) + 1].map(Value::Int);
    round_trip::<H>(Kind::BigInt, &large).await;
    round_trip::<H>(Kind::BigInt, &[Value::Null]).await;
}

pub(crate) async fn text_is_unchanged<H: Harness>() {
    let texts = [
        "",
        " ",
        "  spaces  ",
        "'; DROP TABLE item; --",
        "\"[]{}`\\%_?1:a@b$c",
        "line\r\nbreak\ttab",
        "Grüße, 世界 🦀 e\u{301}",
        "12",
        "007",
        "1e3",
        "NULL",
    ]
    .map(text);
    round_trip::<H>(Kind::Text, &texts).await;
    let long = text(&"ä🦀".repeat(50_000));
    round_trip::<H>(Kind::LongText, &[Value::Null, long]).await;
}

pub(crate) async fn bytes_are_unchanged<H: Harness>() {
    let all = (0..=255).collect();
    let bytes = [vec![], vec![0], vec![0, 0, 255], all].map(Value::Bytes);
    round_trip::<H>(Kind::Blob, &bytes).await;
    let long = Value::Bytes(vec![7; 100_000]);
    round_trip::<H>(Kind::LongBlob, &[long]).await;
    round_trip::<H>(Kind::Blob, &[Value::Null]).await;
}

pub(crate) async fn booleans_are_unchanged<H: Harness>() {
    let values = [Value::Bool(true), Value::Bool(false), Value::Null];
    round_trip::<H>(Kind::Bool, &values).await;
}

pub(crate) async fn floats_are_unchanged<H: Harness>() {
    let values = [0.5, -0.1, 1e300, 5e-324, 1.0, 123_456_789.123_456_79].map(Value::Double);
    round_trip::<H>(Kind::Double, &values).await;
}

pub(crate) async fn decimals_have_the_precision_of_the_store<H: Harness>() {
    let digits = ["12.5", "-0.25", "7", "0.0001", "99999999999.9999"];
    let values = digits.map(|digits| Value::Decimal(digits.to_owned()));
    round_trip::<H>(Kind::Decimal, &values).await;
}

pub(crate) async fn times_have_the_precision_of_the_store<H: Harness>() {
    let time = |seconds, nanos| Value::Timestamp { seconds, nanos };
    let values = [
        time(0, 0),
        time(1_700_000_000, 0),
        time(1_700_000_000, 123_000_000),
        time(-1_000_000, 500_000_000),
    ];
    round_trip::<H>(Kind::Timestamp, &values).await;
}

/// Sends a value to a column of this kind. Returns what a worker reads, or `None` if the broker refuses the column.
async fn read_if_accepted<H: Harness>(kind: Kind, value: &Value) -> Option<Value> {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("value", kind)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let item = new_item(&[("id", Value::Int(1)), ("value", value.clone())]);
    match fixture.try_enqueue(vec![item]).await {
        Ok(_) => Some(fixture.one().await.columns.remove(1)),
        Err(StoreError::Rejected(rejection)) => {
            assert_eq!(rejection.column.as_deref(), Some("value"));
            None
        }
        Err(error) => panic!("{kind:?} {value:?}: {error}"),
    }
}

pub(crate) async fn text_has_the_kind_of_its_column<H: Harness>() {
    let decimal = |digits: &str| Value::Decimal(digits.to_owned());
    let moment = Value::Timestamp {
        seconds: 1_795_212_920,
        nanos: 0,
    };
    for (kind, sent, expected) in [
        (Kind::Decimal, "12.50", decimal("12.5000")),
        (Kind::BigInt, "7", Value::Int(7)),
        (Kind::Bool, "true", Value::Bool(true)),
        (Kind::Bool, "0", Value::Bool(false)),
        (Kind::Double, "0.25", Value::Double(0.25)),
        (Kind::Timestamp, "2026-11-20T22:15:20", moment),
    ] {
        let read = read_if_accepted::<H>(kind, &text(sent)).await;
        assert_eq!(read, Some(expected), "{kind:?} {sent}");
    }
    // A store can refuse more texts than another one.
    for (kind, sent, expected) in [
        (Kind::Decimal, "007", decimal("7.0000")),
        (
            Kind::Decimal,
            "12345678901234.5678",
            decimal("12345678901234.5678"),
        ),
        (Kind::BigInt, "007", Value::Int(7)),
        (Kind::Double, "1e3", Value::Double(1e3)),
    ] {
        let read = read_if_accepted::<H>(kind, &text(sent)).await;
        assert!(read.is_none_or(|read| read == expected), "{kind:?} {sent}");
    }
}

/// Sends texts to a column of times. Returns what a worker reads for each, or `None` if the broker refuses the column.
async fn times_read_for<H: Harness>(texts: &[&str]) -> Vec<Option<Value>> {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("value", Kind::Timestamp)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let mut accepted = Vec::new();
    for (id, sent) in (1..).zip(texts) {
        let item = new_item(&[("id", Value::Int(id)), ("value", text(sent))]);
        accepted.push(match fixture.try_enqueue(vec![item]).await {
            Ok(_) => true,
            Err(StoreError::Rejected(rejection)) => {
                assert_eq!(rejection.column.as_deref(), Some("value"), "{sent}");
                false
            }
            Err(error) => panic!("{sent}: {error}"),
        });
    }
    let mut read = fixture.claim(1_000).await.into_iter();
    let read = accepted.into_iter().map(|is_accepted| {
        let item = is_accepted.then(|| read.next().expect("an item for each accepted text"));
        item.map(|mut item| item.columns.remove(1))
    });
    read.collect()
}

pub(crate) async fn text_with_an_offset_is_stored_as_its_moment<H: Harness>() {
    let at = |seconds, nanos| Some(Value::Timestamp { seconds, nanos });
    let (sent, expected): (Vec<&str>, Vec<_>) = [
        ("2026-11-20T22:15:20+02:00", at(1_795_205_720, 0)),
        ("2026-11-20T22:15:20-05:30", at(1_795_232_720, 0)),
        (
            "2026-11-21 00:30:00.5+02:00",
            at(1_795_213_800, 500_000_000),
        ),
        ("2026-11-20 22:15:20 -01:00", at(1_795_216_520, 0)),
        ("2026-11-20T22:15:20Z", at(1_795_212_920, 0)),
        (
            "2026-11-20T22:15:20.1000000000",
            at(1_795_212_920, 100_000_000),
        ),
        ("2026-11-20 22:15", at(1_795_212_900, 0)),
        ("2026-11-20", at(1_795_132_800, 0)),
    ]
    .into_iter()
    .unzip();
    assert_eq!(times_read_for::<H>(&sent).await, expected);
}

pub(crate) async fn text_that_is_no_time_is_refused<H: Harness>() {
    let sent = [
        "",
        " 2026-11-20T22:15:20",
        "2026-11-20T",
        "2026-324",
        "20261120",
        "2026-W47-5",
        "2026-02-30T22:15:20",
        "2026-11-20T24:00:00",
        "2026-11-20T22:15:60",
        "2026-11-20T22:15:20+0200",
        "2026-11-20T22:15:20+02",
        "2026-11-20T22:15:20+15:00",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ];
    let read = times_read_for::<H>(&sent).await;
    for (sent, read) in sent.iter().zip(read) {
        assert_eq!(read, None, "{sent}");
    }
}

pub(crate) async fn value_of_another_kind_is_refused<H: Harness>() {
    let moment = Value::Timestamp {
        seconds: 0,
        nanos: 0,
    };
    for (kind, value) in [
        (Kind::Decimal, Value::Double(12.5)),
        (Kind::Decimal, text("123456789012345678901")),
        (Kind::Decimal, text("many")),
        (Kind::Decimal, Value::Bool(true)),
        (Kind::Timestamp, Value::Int(1_795_212_920)),
        (Kind::Timestamp, text("soon")),
        (Kind::Bool, Value::Int(2)),
        (Kind::BigInt, Value::Double(7.0)),
        (Kind::BigInt, Value::Decimal("7".to_owned())),
        (Kind::BigInt, moment.clone()),
        (Kind::Double, moment),
        (Kind::Text, Value::Double(0.1)),
        (Kind::Text, Value::Bytes(vec![1])),
        (Kind::Blob, text("seven")),
    ] {
        let read = read_if_accepted::<H>(kind, &value).await;
        assert_eq!(read, None, "{kind:?} {value:?}");
    }
}

pub(crate) async fn errors_and_worker_names_are_unchanged<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let odd = "wörker '\"; --\u{1f980}";
    let lease = fixture
        .claim_by(crate::harness::fixture::call(odd, 1))
        .await
        .remove(0)
        .lease;
    let ending = lease_broker_store::Ending::Fail {
        error: format!("no luck, says {odd}"),
        retry: None,
    };
    fixture.settle(&lease, ending).await;
    let listed = fixture.list(State::Dead).await.remove(0);
    assert_eq!(listed.owner.as_deref(), Some(odd));
    assert_eq!(listed.error, Some(format!("no luck, says {odd}")));
}
