//! Enqueue: new items, generated values, and refused items.

use lease_broker_model::item_state::State;
use lease_broker_store::{NewItem, Rejection, StoreError};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, item_table, keys, new_item, queue, text};
use crate::harness::table::{Kind, Table};

pub(super) fn identity_table() -> Table {
    Table::new("item")
        .required("id", Kind::Counter)
        .required("name", Kind::Text)
        .column("size", Kind::Int)
        .defaulted("colour", Kind::Text, text("blue"))
        .copy("copy", Kind::Int, "size")
        .key(&["id"])
        .unique(&["name"])
}

async fn fixture<H: Harness>() -> Fixture<H> {
    Fixture::<H>::over(&[identity_table()], vec![queue("item")]).await
}

fn named(name: &str) -> NewItem {
    new_item(&[("name", text(name))])
}

pub(crate) async fn keys_are_returned_in_request_order<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let items = [30, 10, 20].map(|id| new_item(&[("id", Value::Int(id))]));
    let keys = fixture.try_enqueue(items.to_vec()).await.expect("enqueue");
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["30", "10", "20"]);
}

pub(crate) async fn database_generates_keys_and_defaults<H: Harness>() {
    let fixture = fixture::<H>().await;
    let items = vec![
        named("a"),
        new_item(&[("size", Value::Int(5)), ("name", text("b"))]),
    ];
    let keys = fixture.try_enqueue(items).await.expect("enqueue");
    let items = fixture.claim(9).await;
    assert_eq!(
        keys,
        [items[0].lease.key.clone(), items[1].lease.key.clone()]
    );
    let (blue, five) = (text("blue"), Value::Int(5));
    assert_eq!(
        items[0].columns[1..],
        [text("a"), Value::Null, blue.clone(), Value::Null]
    );
    assert_eq!(items[1].columns[1..], [text("b"), five.clone(), blue, five]);
}

pub(crate) async fn items_keep_their_order_whatever_columns_they_name<H: Harness>() {
    let fixture = fixture::<H>().await;
    let with =
        |name: &str, column: &str, value: Value| new_item(&[("name", text(name)), (column, value)]);
    let items = vec![
        named("a"),
        with("b", "size", Value::Int(5)),
        named("c"),
        with("d", "colour", text("red")),
        named("e"),
    ];
    fixture.try_enqueue(items).await.expect("enqueue");
    let items = fixture.claim(9).await;
    let names = items.iter().map(|item| item.columns[1].clone());
    assert!(names.eq(["a", "b", "c", "d", "e"].map(text)), "{items:?}");
    let colours = items.iter().map(|item| item.columns[3].clone());
    let expected = ["blue", "blue", "blue", "red", "blue"];
    assert!(colours.eq(expected.map(text)), "{items:?}");
}

pub(crate) async fn item_without_columns_takes_the_defaults<H: Harness>() {
    let table = Table::new("item")
        .required("id", Kind::Counter)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let key = fixture.enqueue(new_item(&[])).await;
    assert_eq!(fixture.one().await.lease.key, key);
}

pub(crate) async fn new_item_is_ready_and_carries_its_trace<H: Harness>() {
    let fixture = fixture::<H>().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let item = NewItem {
        trace_parent: Some(trace.to_owned()),
        ..named("a")
    };
    fixture.enqueue(item).await;
    fixture.enqueue(named("b")).await;
    let listed = fixture.list(State::Ready).await.remove(0);
    assert_eq!((listed.attempt, listed.fence, listed.owner), (0, 0, None));
    assert!(listed.age.expect("an age") < MINUTE);
    let items = fixture.claim(2).await;
    assert_eq!(items[0].trace_parent.as_deref(), Some(trace));
    assert_eq!(items[1].trace_parent, None);
}

pub(crate) async fn empty_list_adds_nothing<H: Harness>() {
    let fixture = fixture::<H>().await;
    assert_eq!(fixture.try_enqueue(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(fixture.counts().await, [0; 5]);
}

pub(crate) async fn item_of_another_broker_is_claimed<H: Harness>() {
    let fixture = fixture::<H>().await;
    let key = fixture.another().await.enqueue(named("a")).await;
    assert_eq!(fixture.one().await.lease.key, key);
}

/// Enqueues a list whose third item is `bad`. Expects that this item is rejected and that no item of the list is added.
async fn rejection_of<H: Harness>(fixture: &Fixture<H>, bad: NewItem) -> Rejection {
    fixture.enqueue(named("taken")).await;
    let delayed = NewItem {
        delay: HOUR,
        ..named("b")
    };
    let items = vec![named("a"), delayed, bad, named("c")];
    let error = fixture.try_enqueue(items).await.expect_err("refused");
    let StoreError::Rejected(rejection) = error else {
        panic!("{error:?}");
    };
    assert_eq!(rejection.item, Some(2), "{rejection:?}");
    assert_eq!(
        fixture.counts().await,
        [1, 0, 0, 0, 0],
        "the refused list added an item"
    );
    rejection
}

/// Returns the column that the rejection of this item names.
async fn refused_column<H: Harness>(bad: NewItem) -> Option<String> {
    let fixture = fixture::<H>().await;
    rejection_of(&fixture, bad).await.column
}

fn with(column: &str, value: Value) -> NewItem {
    new_item(&[("name", text("bad")), (column, value)])
}

pub(crate) async fn unknown_column_is_refused<H: Harness>() {
    let bad = with("nonsense", Value::Int(1));
    assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("nonsense"));
    let bad = with("size) VALUES (1); --", Value::Int(1));
    assert_eq!(
        refused_column::<H>(bad).await.as_deref(),
        Some("size) VALUES (1); --")
    );
    assert_eq!(
        refused_column::<H>(with("", Value::Null)).await.as_deref(),
        Some("")
    );
}

pub(crate) async fn soft_lock_column_is_refused<H: Harness>() {
    for column in ["lease_state", "lease_token", "lease_fence", "trace_parent"] {
        let bad = with(column, Value::Null);
        assert_eq!(refused_column::<H>(bad).await.as_deref(), Some(column));
    }
}

pub(crate) async fn computed_column_is_refused<H: Harness>() {
    let bad = with("copy", Value::Int(1));
    assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("copy"));
}

pub(crate) async fn missing_required_value_is_refused<H: Harness>() {
    let bad = new_item(&[("size", Value::Int(1))]);
    assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("name"));
    let bad = new_item(&[("name", Value::Null)]);
    assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("name"));
}

pub(crate) async fn duplicate_of_a_unique_value_is_refused<H: Harness>() {
    assert_eq!(
        refused_column::<H>(named("taken")).await.as_deref(),
        Some("name")
    );
    assert_eq!(
        refused_column::<H>(named("a")).await.as_deref(),
        Some("name"),
        "duplicate within the list"
    );
}

pub(crate) async fn non_numeric_text_is_refused_for_a_number_column<H: Harness>() {
    let bad = with("size", text("large"));
    assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("size"));
}

pub(crate) async fn bytes_and_fractions_are_refused_for_an_integer_column<H: Harness>() {
    for value in [Value::Bytes(vec![1]), Value::Double(1.5)] {
        let bad = with("size", value);
        assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("size"));
    }
}

pub(crate) async fn column_named_twice_is_refused<H: Harness>() {
    let bad = new_item(&[
        ("name", text("x")),
        ("size", Value::Int(1)),
        ("size", Value::Int(2)),
    ]);
    assert_eq!(refused_column::<H>(bad).await.as_deref(), Some("size"));
}

pub(crate) async fn item_without_its_key_is_refused<H: Harness>() {
    let table = Table::new("item")
        .required("name", Kind::Text)
        .column("size", Kind::Int)
        .key(&["name"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let bad = new_item(&[("size", Value::Int(1))]);
    let rejection = rejection_of(&fixture, bad).await;
    assert_eq!(rejection.column.as_deref(), Some("name"));
}

pub(crate) async fn item_with_a_null_key_is_refused<H: Harness>() {
    let table = item_table("item")
        .column("name", Kind::Text)
        .unique(&["name"]);
    let mut spec = queue("item");
    spec.key = vec!["name".to_owned()];
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let item = |id, name| new_item(&[("id", Value::Int(id)), ("name", name)]);
    let items = vec![item(1, text("a")), item(2, Value::Null)];
    let error = fixture.try_enqueue(items).await.expect_err("refused");
    let StoreError::Rejected(rejection) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (rejection.item, rejection.column.as_deref()),
        (Some(1), Some("name"))
    );
    assert_eq!(fixture.counts().await, [0; 5]);
}

pub(crate) async fn refused_list_succeeds_without_the_bad_item<H: Harness>() {
    let fixture = fixture::<H>().await;
    rejection_of(&fixture, named("taken")).await;
    fixture
        .try_enqueue(vec![named("a"), named("b")])
        .await
        .expect("enqueue");
    assert_eq!(keys(&fixture.claim(9).await).len(), 3);
}
