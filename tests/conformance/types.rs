//! Values that a broker or another program stores, and that a claim returns.

use lease_broker_model::item_state::State;
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
    let digits = ["12.5", "-0.25", "7", "99999999999.9999"];
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
