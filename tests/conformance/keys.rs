//! Keys of each kind of column and of up to three columns.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::OnComplete;
use lease_broker_value::Value;
use uuid::Uuid;

use super::settle::endings;
use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, call, complete, fail, queue, text};
use crate::harness::table::{Kind, Table};

const NAMES: [&str; 3] = ["first", "second", "third"];

fn table_with_key(kinds: &[Kind]) -> Table {
    let columns = NAMES.iter().zip(kinds);
    let table = columns.fold(Table::new("item"), |table, (name, &kind)| {
        table.required(name, kind)
    });
    table
        .column("payload", Kind::Text)
        .key(&NAMES[..kinds.len()])
}

/// Runs every operation that identifies a row by its key: claim, retried claim, heartbeat, each settlement, expiry, redrive.
async fn check_every_operation<H: Harness>(kinds: &[Kind], rows: &[Vec<Value>]) {
    let mut spec = queue("item");
    spec.retry.max_attempts = None;
    spec.key = NAMES[..kinds.len()]
        .iter()
        .map(ToString::to_string)
        .collect();
    let fixture = Fixture::<H>::over(&[table_with_key(kinds)], vec![spec]).await;
    for row in rows {
        let row: Vec<_> = NAMES.into_iter().zip(row.iter().cloned()).collect();
        fixture.harness.insert("item", &row).await;
    }
    let all = |leases: &[LeaseRef]| {
        let distinct: HashSet<_> = leases.iter().map(|lease| lease.key.to_string()).collect();
        assert_eq!(distinct.len(), rows.len());
        for row in rows {
            assert!(leases.iter().any(|lease| *lease.key.0 == **row), "{row:?}");
        }
    };
    for ending in endings().into_iter().skip(1) {
        let token = Uuid::new_v4();
        let items = fixture.request(token, 1_000).await;
        let leases: Vec<LeaseRef> = items.into_iter().map(|item| item.lease).collect();
        all(&leases);
        let again = fixture.request(token, 1_000).await;
        assert_eq!(again.len(), rows.len());
        for lease in &leases {
            assert!(fixture.heartbeat(lease, HOUR).await.is_some(), "{lease:?}");
            let mut other = lease.clone();
            other.key = leases[0].key.clone();
            if other.key != lease.key {
                other.key.0[0] = Value::Null;
                assert_eq!(fixture.heartbeat(&other, HOUR).await, None);
            }
            let settled = fixture.settle(lease, ending.clone()).await;
            assert!(settled.is_some(), "{lease:?} {ending:?}");
            assert_eq!(fixture.settle(lease, ending.clone()).await, settled);
        }
        fixture.advance(2 * HOUR).await;
        fixture.reap(1_000).await;
        fixture.redrive(1_000).await;
    }
    let leases = fixture.claim_for(1_000, MINUTE).await;
    fixture.advance(HOUR).await;
    let expired = fixture.reap(1_000).await.expired;
    all(&expired
        .into_iter()
        .map(|expired| expired.lease)
        .collect::<Vec<_>>());
    // An item whose lease expired is leased alone.
    let mut items = Vec::new();
    for worker in 0..leases.len() {
        let call = call(&format!("worker-{worker}"), 1_000);
        items.extend(fixture.claim_by(call).await);
    }
    assert_eq!(items.len(), leases.len());
    for item in items {
        assert_eq!(fixture.complete(&item.lease).await, Some(State::Completed));
    }
}

pub(crate) fn unusual_texts() -> Vec<Value> {
    let texts = [
        "",
        " ",
        "a",
        "A",
        "a'b",
        "a\"b",
        "[\"a\",1]",
        "ä",
        "a\u{308}",
        "世界",
        "🦀",
        "a\\b",
        "a;b--c",
        "{key}",
        "%_",
        "1",
        "01",
        "1.0",
        "null",
        "a\nb",
    ];
    texts.map(text).to_vec()
}

/// Splits values into groups. Within a group, the database takes no two values for equal.
fn distinct_groups<H: Harness>(values: Vec<Value>) -> Vec<Vec<Value>> {
    let mut groups: Vec<Vec<Value>> = Vec::new();
    for value in values {
        let apart = |group: &&mut Vec<Value>| !group.iter().any(|other| H::same_key(other, &value));
        match groups.iter_mut().find(apart) {
            Some(group) => group.push(value),
            None => groups.push(vec![value]),
        }
    }
    groups
}

pub(crate) async fn text_key_can_be_any_text<H: Harness>() {
    for texts in distinct_groups::<H>(unusual_texts()) {
        let rows: Vec<_> = texts.into_iter().map(|text| vec![text]).collect();
        check_every_operation::<H>(&[Kind::Text], &rows).await;
    }
}

pub(crate) async fn number_key_can_be_any_number<H: Harness>() {
    let numbers = [0, 1, -1, i64::MAX, i64::MIN, (1 << 53) + 1];
    let rows = numbers.map(|number| vec![Value::Int(number)]);
    check_every_operation::<H>(&[Kind::BigInt], &rows).await;
}

pub(crate) async fn key_can_be_bytes<H: Harness>() {
    let bytes = [vec![], vec![0], vec![0, 0], vec![255; 40], b"abc".to_vec()];
    for bytes in distinct_groups::<H>(bytes.map(Value::Bytes).to_vec()) {
        let rows: Vec<_> = bytes.into_iter().map(|bytes| vec![bytes]).collect();
        check_every_operation::<H>(&[Kind::Blob], &rows).await;
    }
}

pub(crate) async fn key_can_have_two_columns<H: Harness>() {
    for texts in distinct_groups::<H>(unusual_texts()) {
        let mut rows = Vec::new();
        for number in [1, 2, -7] {
            for text in &texts {
                rows.push(vec![Value::Int(number), text.clone()]);
            }
        }
        check_every_operation::<H>(&[Kind::Int, Kind::Text], &rows).await;
    }
}

pub(crate) async fn key_can_have_three_columns<H: Harness>() {
    let mut rows = Vec::new();
    for name in ["", "a", "b'\"]"] {
        for bytes in [vec![], vec![0, 1, 2]] {
            for number in [i64::MIN, 0, 5] {
                rows.push(vec![
                    text(name),
                    Value::Bytes(bytes.clone()),
                    Value::Int(number),
                ]);
            }
        }
    }
    check_every_operation::<H>(&[Kind::Text, Kind::Blob, Kind::BigInt], &rows).await;
}

pub(crate) async fn items_are_claimed_by_all_key_columns_in_order<H: Harness>() {
    let mut spec = queue("item");
    spec.key = vec!["first".to_owned(), "second".to_owned()];
    let table = table_with_key(&[Kind::Int, Kind::Text]);
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    for (first, second) in [(2, "a"), (1, "b"), (10, "a"), (1, "a")] {
        let row = [("first", Value::Int(first)), ("second", text(second))];
        fixture.harness.insert("item", &row).await;
    }
    let items = fixture.calls(vec![call("a", 3), call("b", 3)]).await;
    let got: Vec<_> = items
        .concat()
        .iter()
        .map(|item| item.lease.key.to_string())
        .collect();
    assert_eq!(got, ["[1,\"a\"]", "[1,\"b\"]", "[2,\"a\"]", "[10,\"a\"]"]);
}

pub(crate) async fn lease_with_a_wrong_number_of_key_values_is_lost<H: Harness>() {
    let mut spec = queue("item");
    spec.key = vec!["first".to_owned(), "second".to_owned()];
    let table = table_with_key(&[Kind::Int, Kind::Int]);
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let row = [("first", Value::Int(1)), ("second", Value::Int(1))];
    fixture.harness.insert("item", &row).await;
    let lease = fixture.one().await.lease;
    for length in [0, 1, 3, 4, 20] {
        let mut other = lease.clone();
        other.key.0 = vec![Value::Int(1); length].into();
        assert_eq!(fixture.heartbeat(&other, HOUR).await, None);
        for ending in endings() {
            assert_eq!(fixture.settle(&other, ending).await, None);
        }
    }
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
}

pub(crate) async fn rows_with_composite_keys_are_deleted_and_archived<H: Harness>() {
    for on_complete in [OnComplete::Delete, OnComplete::Archive("done".to_owned())] {
        let mut spec = queue("item");
        spec.on_complete = on_complete.clone();
        let table = table_with_key(&[Kind::Int, Kind::Text]);
        let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
        for (first, second) in [(1, "a"), (1, "b"), (2, "a")] {
            let row = [("first", Value::Int(first)), ("second", text(second))];
            fixture.harness.insert("item", &row).await;
        }
        let items = fixture.claim(9).await;
        let settlements = vec![(&items[1].lease, complete()), (&items[2].lease, fail(None))];
        fixture.try_settle(settlements).await.expect("settle");
        let left = fixture.harness.rows("item", &["first", "second"]).await;
        assert_eq!(
            left,
            [[Value::Int(1), text("a")], [Value::Int(2), text("a")]]
        );
        if let OnComplete::Archive(archive) = on_complete {
            let moved = fixture.harness.rows(&archive, &["first", "second"]).await;
            assert_eq!(moved, [[Value::Int(1), text("b")]]);
        }
    }
}

pub(crate) async fn key_can_be_reused_after_its_row_was_deleted<H: Harness>() {
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Delete;
    let fixture = Fixture::<H>::over(&[table_with_key(&[Kind::Text])], vec![spec]).await;
    let row = [("first", text("again"))];
    fixture.harness.insert("item", &row).await;
    let old = fixture.one().await.lease;
    fixture.complete(&old).await;
    fixture.harness.insert("item", &row).await;
    let new = fixture.one().await.lease;
    assert_eq!((new.key == old.key, new.fence), (true, old.fence));
    for ending in endings() {
        assert_eq!(
            fixture.settle(&old, ending).await,
            None,
            "a lease of the old row settled the new row"
        );
    }
    assert_eq!(fixture.complete(&new).await, Some(State::Completed));
}
