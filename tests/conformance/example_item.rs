//! The item with which a user can try a queue: the table accepts it.

use lease_broker_store::NewItem;
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, queue, text};
use crate::harness::table::{Kind, Table};

fn counted() -> Table {
    Table::new("item")
        .required("id", Kind::Counter)
        .key(&["id"])
}

/// Returns the names of the columns that the example sets, after it was added. `None`: there is no example.
async fn added<H: Harness>(fixture: &Fixture<H>) -> Option<Vec<String>> {
    let example = fixture.store.example_item(fixture.queue).await;
    let example = example.expect("the catalogue is read")?;
    let names = example.iter().map(|(name, _)| name.clone()).collect();
    let columns = example.into_iter();
    let item = NewItem {
        columns: columns
            .map(|(name, value)| (name, Value::Text(value)))
            .collect(),
        ..NewItem::default()
    };
    fixture.enqueue(item).await;
    Some(names)
}

pub(crate) async fn example_sets_required_columns_of_all_kinds<H: Harness>() {
    let table = counted()
        .column("optional", Kind::Text)
        .defaulted("colour", Kind::Text, text("blue"))
        .required("name", Kind::Text)
        .required("size", Kind::Int)
        .required("big", Kind::BigInt)
        .required("flag", Kind::Bool)
        .required("price", Kind::Decimal)
        .required("at", Kind::Timestamp)
        .required("ratio", Kind::Double);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    let names = ["name", "size", "big", "flag", "price", "at", "ratio"];
    // A second item has the same values.
    for _ in 0..2 {
        assert_eq!(added(&fixture).await.expect("an example"), names);
    }
}

pub(crate) async fn example_sets_one_of_several_optional_columns<H: Harness>() {
    let table = counted()
        .column("raw", Kind::Blob)
        .column("code", Kind::Text)
        .column("note", Kind::Text)
        .unique(&["code"]);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    assert_eq!(added(&fixture).await.expect("an example"), ["note"]);
}

pub(crate) async fn required_column_without_a_known_value_has_no_example<H: Harness>() {
    let table = counted().required("raw", Kind::Blob);
    let fixture = Fixture::<H>::over(&[table], vec![queue("item")]).await;
    assert_eq!(added(&fixture).await, None);
}

pub(crate) async fn example_with_a_unique_column_is_added_each_time<H: Harness>() {
    let fixture = Fixture::<H>::items(7).await;
    for _ in 0..2 {
        // A store that does not look for a free value has no example.
        if let Some(names) = added(&fixture).await {
            assert_eq!(names, ["id"]);
        }
    }
}
