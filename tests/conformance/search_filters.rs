//! The conditions of a search for items.

use lease_broker_model::item_state::State;
use lease_broker_store::{Ending, ItemFilter, ItemSearch, NewItem};
use lease_broker_value::Value;

use super::search::{find_all, fitting, kill_all, kill_unnoticed, numbers, search};
use crate::harness::Harness;
use crate::harness::errors::rejected;
use crate::harness::fixture::{
    Fixture, HOUR, SECOND, call, fail, item_table, new_item, queue, text,
};
use crate::harness::table::Kind;

pub(crate) async fn owner_and_error_are_compared_exactly<H: Harness>() {
    const ERRORS: [&str; 7] = [
        "100% [a-z]_ done",
        "it's \"quoted\"\\",
        "100 percent",
        "Time-out ☂🦀",
        "timeout",
        "",
        "a\r\nb\tc",
    ];
    let fixture = Fixture::<H>::items(7).await;
    for (number, error) in ERRORS.into_iter().enumerate() {
        let worker = ["w", "W", "w'", "ü☂", "w%", "w ", "w\\"][number];
        let item = fixture.claim_by(call(worker, 1)).await.remove(0);
        let ending = Ending::Fail {
            error: error.to_owned(),
            retry: None,
        };
        fixture.settle(&item.lease, ending).await;
    }
    for (part, expected) in [
        ("%", &[1][..]),
        ("_", &[1]),
        ("[a-z]", &[1]),
        ("100", &[1, 3]),
        ("'", &[2]),
        ("\"\\", &[2]),
        ("ime", &[4, 5]),
        ("time", &[5]),
        ("☂🦀", &[4]),
        ("\r\nb\t", &[7]),
        ("nothing", &[]),
    ] {
        let filter = ItemFilter {
            error_contains: Some(part.to_owned()),
            ..ItemFilter::default()
        };
        let found = fitting(&fixture, State::Dead, filter).await;
        assert_eq!(found, numbers(expected.iter().copied()), "{part:?}");
    }
    for (owner, expected) in [
        ("W", Some("2")),
        ("w'", Some("3")),
        ("ü☂", Some("4")),
        ("%", None),
    ] {
        let filter = ItemFilter {
            owner: Some(owner.to_owned()),
            ..ItemFilter::default()
        };
        let found = fitting(&fixture, State::Dead, filter).await;
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{owner:?}");
    }
}

pub(crate) async fn times_and_attempts_bound_a_search<H: Harness>() {
    let fixture = Fixture::<H>::items(6).await;
    for (item, delay) in fixture.claim(2).await.iter().zip([SECOND, SECOND]) {
        fixture.settle(&item.lease, fail(Some(delay))).await;
    }
    fixture.advance(HOUR).await;
    fixture.reap(9).await;
    kill_all(&fixture).await;
    fixture.insert([7]).await;
    kill_unnoticed(&fixture, 7).await;
    let all = find_all(&fixture, search(State::Dead)).await;
    let times = all.iter().filter_map(|item| item.listed.state_time);
    let time = times.max().expect("a known time");
    let bounds = |since: Option<i64>, before: Option<i64>| ItemFilter {
        state_since: since,
        state_before: before,
        ..ItemFilter::default()
    };
    let known = numbers(1..=6);
    for (filter, expected) in [
        (bounds(Some(time), None), &known[..]),
        (bounds(Some(time + 1), None), &[]),
        (bounds(None, Some(time + 1)), &known),
        (bounds(None, Some(time)), &[]),
        (bounds(Some(0), Some(i64::MAX)), &known),
        (bounds(Some(i64::MIN), None), &known),
    ] {
        let found = fitting(&fixture, State::Dead, filter.clone()).await;
        assert_eq!(found, expected, "{filter:?}");
    }
    for (not_since, expected) in [(time, 7), (time - 1, 1)] {
        let search = ItemSearch {
            not_since: Some(not_since),
            ..search(State::Dead)
        };
        assert_eq!(find_all(&fixture, search).await.len(), expected);
    }
    for (min_attempt, expected) in [(0, 7), (1, 6), (2, 2), (3, 0)] {
        let filter = ItemFilter {
            min_attempt: Some(min_attempt),
            ..ItemFilter::default()
        };
        let found = fitting(&fixture, State::Dead, filter).await;
        assert_eq!(found.len(), expected, "{min_attempt}");
    }
}

pub(crate) async fn columns_are_compared_as_values<H: Harness>() {
    const COLUMNS: [(&str, Kind); 9] = [
        ("i", Kind::Int),
        ("b", Kind::BigInt),
        ("t", Kind::Text),
        ("x", Kind::Blob),
        ("l", Kind::LongText),
        ("y", Kind::Bool),
        ("d", Kind::Decimal),
        ("m", Kind::Timestamp),
        ("f", Kind::Double),
    ];
    let mut table = item_table("item");
    for (name, kind) in COLUMNS {
        table = table.column(name, kind);
    }
    let mut spec = queue("item");
    spec.filterable = COLUMNS.map(|(name, _)| name.to_owned()).into();
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let moment = Value::Timestamp {
        seconds: 1_700_000_000,
        nanos: 250_000_000,
    };
    let values = [
        Value::Int(-7),
        Value::Int(i64::MAX),
        text("it's 5% \"☂\" \\ {0}"),
        Value::Bytes(vec![0, 255, 39]),
        text(&"long ☂ ".repeat(500)),
        Value::Bool(true),
        Value::Decimal("12.5".to_owned()),
        moment,
        Value::Double(0.1),
    ];
    let row: Vec<(&str, Value)> = COLUMNS
        .iter()
        .zip(&values)
        .map(|((name, _), value)| (*name, value.clone()))
        .collect();
    let with_id = |id: i64, row: &[(&str, Value)]| -> NewItem {
        new_item(&[&[("id", Value::Int(id))], row].concat())
    };
    fixture.enqueue(with_id(1, &row)).await;
    fixture.enqueue(with_id(2, &[])).await;
    let by = |columns: &[(&str, Value)]| ItemFilter {
        columns: columns
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        ..ItemFilter::default()
    };
    for part in &row {
        let filter = by(std::slice::from_ref(part));
        let found = fitting(&fixture, State::Ready, filter).await;
        assert_eq!(found, ["1"], "{part:?}");
        let null = (part.0, Value::Null);
        let found = fitting(&fixture, State::Ready, by(&[null])).await;
        assert_eq!(found, ["2"], "{part:?}");
    }
    let found = fitting(&fixture, State::Ready, by(&row)).await;
    assert_eq!(found, ["1"]);
    for other in [
        ("i", Value::Int(7)),
        ("t", text("it's")),
        ("y", Value::Bool(false)),
    ] {
        let found = fitting(&fixture, State::Ready, by(&[row[1].clone(), other])).await;
        assert_eq!(found, Vec::<String>::new());
    }
}

pub(crate) async fn column_that_is_not_filterable_is_refused<H: Harness>() {
    let fixture = Fixture::<H>::with(1, |spec| spec.filterable = vec!["id".to_owned()]).await;
    for (name, value) in [
        ("payload", text("x")),
        ("none", Value::Null),
        ("id", text("x")),
    ] {
        let search = ItemSearch {
            filter: ItemFilter {
                columns: vec![(name.to_owned(), value)],
                ..ItemFilter::default()
            },
            ..search(State::Ready)
        };
        let rejection = rejected(fixture.reads.find_items(fixture.queue, search).await);
        assert_eq!(rejection.column.as_deref(), Some(name));
    }
    let filter = ItemFilter {
        columns: vec![("id".to_owned(), Value::Int(1))],
        ..ItemFilter::default()
    };
    assert_eq!(fitting(&fixture, State::Ready, filter).await, ["1"]);
}
