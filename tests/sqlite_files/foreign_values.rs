//! Values that other programs store and that do not fit their column. SQLite stores any value in any column.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{Cancelled, FoundItem, GroupSearch, ItemSearch, Settled};

use crate::conformance::cancel::{because, cancel};
use crate::conformance::groups::{PARALLEL, STRICT, groups};
use crate::conformance::listed_groups::{self, ALL};
use crate::conformance::paused_groups::{pause, resume};
use crate::conformance::purge::{completed, walk};
use crate::conformance::search::{find, find_all, search};
use crate::harness::Harness as _;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, about, complete, fail, keys, queue};
use crate::harness::sqlite::SqliteHarness;

/// Expressions of every class of values, in the order of the database. Some have the same text.
const VALUES: [&str; 14] = [
    "-9e999",
    "1",
    "1.5",
    "9e999",
    "''",
    "'00'",
    "'1'",
    "'k'",
    "cast(x'6bff' as text)",
    "cast(x'ff61' as text)",
    "x''",
    "x'00'",
    "x'31'",
    "x'ff61'",
];

/// Declared types of columns that change none of these values, or only some.
const DECLARED: [&str; 5] = ["", "TEXT", "INT", "REAL", "BLOB"];

/// Returns a queue over `item`, whose keys are the values that the column accepts, and their number.
async fn items(declared: &str) -> (Fixture<SqliteHarness>, usize) {
    let harness = SqliteHarness::start().await;
    let connection = harness.connect();
    let create = format!("CREATE TABLE item (k {declared} PRIMARY KEY, payload TEXT)");
    connection.execute_batch(&create).expect("created");
    let insert = |value| format!("INSERT OR IGNORE INTO item (k) VALUES ({value})");
    let added = VALUES.map(|value| connection.execute(&insert(value), []).expect("inserted"));
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    (fixture, added.iter().sum())
}

/// Finds all items of a state on pages of one item.
async fn pages(fixture: &Fixture<SqliteHarness>, state: State) -> Vec<FoundItem> {
    let search = ItemSearch {
        limit: 1,
        max_examined: 10,
        ..search(state)
    };
    find_all(fixture, search).await
}

#[tokio::test]
async fn key_of_any_class_is_claimed_settled_and_listed() {
    for declared in DECLARED {
        let (fixture, count) = items(declared).await;
        assert_eq!(
            pages(&fixture, State::Ready).await.len(),
            count,
            "{declared}"
        );
        let claimed = fixture.claim(100).await;
        assert_eq!(claimed.len(), count, "{declared}");
        assert_eq!(
            pages(&fixture, State::Leased).await.len(),
            count,
            "{declared}"
        );
        for item in &claimed {
            let left = fixture.heartbeat(&item.lease, HOUR).await;
            assert!(left.is_some(), "{declared} {:?}", item.lease.key);
            fixture.settle(&item.lease, fail(None)).await;
        }
        let dead = pages(&fixture, State::Dead).await;
        let keys: Vec<Key> = dead.into_iter().map(|item| item.listed.key).collect();
        assert_eq!(keys.len(), count, "{declared}");
        let found = fixture.reads.find_keys(fixture.queue, keys.into()).await;
        assert!(
            found
                .expect("found")
                .items
                .iter()
                .all(|item| item.state == Some(State::Dead))
        );
    }
}

#[tokio::test]
async fn key_that_does_not_fit_its_column_has_a_name() {
    for (declared, named) in [
        ("", &["-9e999", "1", "1.5", "9e999", "k", "00"][..]),
        ("TEXT", &["-Inf", "1", "1.5", "Inf", "", "00", "k"]),
        ("INT", &["-9e999", "1", "1.5", "9e999", "", "k"]),
        ("REAL", &["-9e999", "1.0", "1.5", "9e999", "", "k"]),
        (
            "BLOB",
            &["-9e999", "1", "1.5", "9e999", "00", "31", "ff61", "k"],
        ),
    ] {
        let (fixture, _) = items(declared).await;
        for name in named {
            let key = fixture.reads.parse_key(fixture.queue, name).expect("a key");
            let read = fixture
                .reads
                .read_item(fixture.queue, key)
                .await
                .expect("read");
            let read = read.map(|record| record.item.listed.key.to_string());
            assert_eq!(read.as_deref(), Some(*name), "{declared}");
        }
    }
}

#[tokio::test]
async fn group_of_any_class_is_claimed_listed_and_paused() {
    for (declared, order) in [
        ("TEXT", STRICT),
        ("INT", STRICT),
        ("BLOB", PARALLEL),
        ("TEXT", PARALLEL),
    ] {
        let harness = SqliteHarness::start().await;
        let connection = harness.connect();
        let create = format!("CREATE TABLE item (id INTEGER PRIMARY KEY, customer {declared})");
        connection.execute_batch(&create).expect("created");
        for value in VALUES {
            let insert = format!("INSERT INTO item (customer) VALUES ({value})");
            connection.execute(&insert, []).expect("inserted");
        }
        let distinct = "SELECT count(DISTINCT customer) FROM item";
        let count: i64 = connection
            .query_row(distinct, [], |row| row.get(0))
            .expect("a number");
        let spec = QueueSpec {
            groups: Some(groups(order)),
            ..queue("item")
        };
        let count = usize::try_from(count).expect("a number");
        let fixture = Fixture::adopt(harness, vec![spec]).await;
        let mut after = None;
        let mut listed = Vec::new();
        loop {
            let search = GroupSearch {
                after,
                limit: 1,
                ..ALL
            };
            let found = listed_groups::find(&fixture, search).await;
            listed.extend(found.groups.into_iter().map(|group| group.group));
            assert!(listed.len() <= VALUES.len(), "the pages do not end");
            match found.end {
                Some(end) => after = Some(end),
                None => break,
            }
        }
        assert_eq!(listed.len(), count, "{declared}");
        // One item at a time, so that the stored position has each of the values.
        let mut claimed = 0;
        while !fixture.claim(1).await.is_empty() {
            claimed += 1;
        }
        assert!(claimed >= count, "{declared}");
        for name in ["1.5", "k", "1"] {
            let group = fixture
                .reads
                .parse_group(fixture.queue, name)
                .expect("a group");
            assert!(listed.contains(&group), "{declared} {name} {group:?}");
        }
    }
}

#[tokio::test]
async fn page_of_long_errors_ends_early() {
    let create =
        "CREATE TABLE item (id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1), (2), (3)";
    let harness = SqliteHarness::with(create).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    let change = "UPDATE item SET lease_state = 4, lease_error = hex(zeroblob(300000))";
    fixture.harness.execute(change);
    let first = find(&fixture, search(State::Dead)).await;
    assert_eq!((first.items.len(), first.examined), (2, 2));
    let next = ItemSearch {
        after: first.end,
        ..search(State::Dead)
    };
    let next = find(&fixture, next).await;
    assert_eq!((next.items.len(), next.end), (1, None));
}

#[tokio::test]
async fn text_of_a_number_names_the_group_of_that_number() {
    let create = "CREATE TABLE item (id INTEGER PRIMARY KEY, customer INTEGER);
        INSERT INTO item (customer) VALUES (1), (7)";
    let harness = SqliteHarness::with(create).await;
    let spec = QueueSpec {
        groups: Some(groups(STRICT)),
        ..queue("item")
    };
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    pause(&fixture, " 1").await;
    assert_eq!(keys(&fixture.claim(9).await), ["2"]);
    assert!(resume(&fixture, "1").await.is_some(), "the same group");
    // The column held texts before.
    let stored =
        "INSERT INTO lease_broker_group (queue, group_value, pause_time, pause_actor, pause_reason)
        VALUES ('item', ' 1', 1, '', '')";
    fixture.harness.execute(stored);
    let mut search = GroupSearch { limit: 1, ..ALL };
    let mut listed = Vec::new();
    loop {
        let page = listed_groups::find(&fixture, search.clone()).await;
        listed.extend(page.groups.iter().map(|group| group.group.to_string()));
        assert!(listed.len() <= 3, "the pages do not end: {listed:?}");
        match page.end {
            Some(end) => {
                let end = fixture.reads.parse_group(fixture.queue, &end.to_string());
                search.after = Some(end.expect("a group"));
            }
            None => break,
        }
    }
    assert_eq!(listed, ["1", "7", " 1"]);
}

#[tokio::test]
async fn two_texts_of_one_key_name_one_item() {
    let create = "CREATE TABLE item (k NUMERIC PRIMARY KEY); INSERT INTO item VALUES (1)";
    let harness = SqliteHarness::with(create).await;
    let fixture = Fixture::adopt(harness, vec![queue("item")]).await;
    fixture.claim(1).await;
    let parse = |text: &str| fixture.reads.parse_key(fixture.queue, text);
    let texts: Vec<Key> = ["1", "1.0", "01"]
        .map(|text| parse(text).expect("a key"))
        .into();
    let found = fixture.reads.find_keys(fixture.queue, texts.into()).await;
    assert_eq!(found.expect("found").items.len(), 1);
    let cancelled = cancel(&fixture, &["1.0", "1"], because("stuck")).await;
    assert!(
        matches!(
            cancelled[..],
            [Cancelled::Ended { .. }, Cancelled::Refused(_)]
        ),
        "{cancelled:?}"
    );
}

#[tokio::test]
async fn page_of_long_groups_ends_early() {
    let create = "CREATE TABLE item (id INTEGER PRIMARY KEY, customer TEXT);
        INSERT INTO item (customer)
        SELECT value || hex(zeroblob(400000)) FROM json_each('[\"a\", \"b\", \"c\"]')";
    let harness = SqliteHarness::with(create).await;
    let spec = QueueSpec {
        groups: Some(groups(STRICT)),
        ..queue("item")
    };
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let first = listed_groups::find(&fixture, ALL).await;
    assert_eq!(first.groups.len(), 2, "a page has about a megabyte");
    let next = GroupSearch {
        after: first.end,
        ..ALL
    };
    let next = listed_groups::find(&fixture, next).await;
    assert_eq!((next.groups.len(), next.end), (1, None));
}

#[tokio::test]
async fn row_with_a_strange_soft_lock_value_stops_no_other_row() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    fixture.harness.execute(
        "UPDATE item SET trace_parent = x'00' WHERE id = 1;
            UPDATE item SET trace_parent = cast(x'ff' as text) WHERE id = 2",
    );
    let claimed = fixture.claim(4).await;
    assert_eq!(keys(&claimed), ["1", "2", "3", "4"]);
    assert!(claimed.iter().all(|item| item.trace_parent.is_none()));
    fixture.harness.execute(
        "UPDATE item SET lease_owner = cast(x'ff' as text) WHERE id = 1;
            UPDATE item SET lease_state_time = 'x' WHERE id = 2;
            UPDATE item SET lease_token = 'x' WHERE id = 3",
    );
    fixture.advance(2 * HOUR).await;
    assert_eq!(fixture.reap(10).await.expired.len(), 4);
}

#[tokio::test]
async fn row_with_a_strange_state_is_left_out_of_the_counts() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    fixture.harness.execute(
        "UPDATE item SET lease_state = 'x' WHERE id = 1;
            UPDATE item SET lease_state = x'00' WHERE id = 2",
    );
    let stats = fixture.reads.exact_stats(fixture.queue).await;
    assert_eq!(stats.expect("counts").count, [2, 0, 0, 0, 0]);
    assert_eq!(fixture.counts().await, [2, 0, 0, 0, 0]);
}

#[tokio::test]
async fn due_time_that_is_no_integer_does_not_stop_the_reaper() {
    let fixture = Fixture::<SqliteHarness>::items(4).await;
    let connection = fixture.harness.connect();
    fixture.claim_for(2, MINUTE).await;
    let due = connection
        .query_row("SELECT lease_due_time FROM item WHERE id = 1", [], |row| {
            row.get::<_, i64>(0)
        })
        .expect("a time");
    connection
        .execute_batch(&format!(
            "UPDATE item SET lease_state = 2, lease_due_time = {due} + 7200000.5 WHERE id = 3;
            UPDATE item SET lease_state = 2, lease_due_time = 'soon' WHERE id = 4"
        ))
        .expect("changed");
    fixture.advance(HOUR).await;
    let reaped = fixture.reap(10).await;
    assert_eq!(reaped.expired.len(), 2);
    let next = reaped.next_due.expect("a time");
    assert!(about(next, HOUR + MINUTE), "{next:?}");
    fixture.advance(next).await;
    assert_eq!(fixture.reap(10).await.promoted, 1);
    assert_eq!(fixture.counts().await, [3, 0, 1, 0, 0]);
}

#[tokio::test]
async fn counters_with_a_fraction_are_counted_on() {
    let fixture = Fixture::<SqliteHarness>::items(2).await;
    let change = "UPDATE item SET lease_fence = 7.5, lease_attempt = 1.5 WHERE id = 1";
    fixture.harness.execute(change);
    let claimed = fixture.claim(2).await;
    assert_eq!(keys(&claimed), ["1", "2"]);
    assert_eq!((claimed[0].lease.fence, claimed[0].lease.attempt), (8, 2));
}

#[tokio::test]
async fn pages_have_rows_whose_times_are_no_integers() {
    let fixture = Fixture::<SqliteHarness>::items(6).await;
    for (state, time) in [
        (State::Dead, "lease_state_time"),
        (State::Delayed, "lease_due_time"),
    ] {
        let code = state.code();
        fixture.harness.execute(&format!(
            "UPDATE item SET lease_state = {code}, {time} = 1000 + id;
                UPDATE item SET {time} = 1000.5 WHERE id IN (2, 3);
                UPDATE item SET {time} = 'x' WHERE id IN (1, 4)"
        ));
        let found = pages(&fixture, state).await;
        let found: Vec<String> = found
            .iter()
            .map(|item| item.listed.key.to_string())
            .collect();
        assert_eq!(found, ["2", "3", "5", "6", "1", "4"], "{state:?}");
    }
}

#[tokio::test]
async fn settlement_and_cancellation_of_a_row_whose_state_is_a_text_find_no_lease() {
    let fixture = Fixture::<SqliteHarness>::items(1).await;
    let item = fixture.one().await;
    fixture.harness.execute("UPDATE item SET lease_state = 'x'");
    let settled = fixture.outcome(&item.lease, complete()).await;
    assert!(matches!(settled, Settled::Lost), "{settled:?}");
    let cancelled = cancel(&fixture, &["1"], because("stuck")).await;
    assert!(matches!(cancelled[..], [Cancelled::NoRow]), "{cancelled:?}");
}

#[tokio::test]
async fn retention_goes_on_behind_a_time_with_a_fraction() {
    let fixture = Fixture::<SqliteHarness>::with(3, |spec| spec.completed_index = true).await;
    for item in fixture.claim(3).await {
        fixture.complete(&item.lease).await;
    }
    let change = "UPDATE item SET lease_state_time = 1000.5 WHERE id < 3";
    fixture.harness.execute(change);
    fixture.advance(2 * HOUR).await;
    assert_eq!(walk(&fixture, completed(HOUR), 1, true).await, (3, 3));
}
