//! Managed tables, which the broker creates.

use lease_broker_model::group::QueueLimits;
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, QueueSpec};
use lease_broker_store::{SettingsHash, StoreError};
use lease_broker_value::Value;

use super::groups::{PARALLEL, STRICT, groups};
use super::instances::{announce, instance};
use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, SECOND, by, keys, mirror, new_item, queue, text};
use crate::harness::table::Kind;

pub(crate) async fn managed_table_is_created_when_the_store_opens<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.managed_columns = Some(vec![("payload".to_owned(), H::declare(Kind::Text))]);
    spec.on_complete = OnComplete::Archive("made archive".to_owned());
    let specs = [spec];
    let broker = Broker::new(harness.open(&specs).await.expect("open"));
    assert_eq!(harness.check(&specs[0]).await, Ok(Vec::new()));
    let item = new_item(&[("payload", text("one"))]);
    let key = broker.enqueue(item).await;
    let again = Broker::new(harness.open(&specs).await.expect("open again"));
    let item = again.one().await;
    assert_eq!(item.lease.key, key);
    assert_eq!(again.complete(&item.lease).await, Some(State::Completed));
    let archived = harness.rows("made archive", &["payload"]).await;
    assert_eq!(archived, [[text("one")]]);
}

pub(crate) async fn dropped_managed_table_is_created_beside_its_archive<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.managed_columns = Some(vec![("payload".to_owned(), H::declare(Kind::Text))]);
    spec.on_complete = OnComplete::Archive("made archive".to_owned());
    harness.apply(&spec).await.expect("apply");
    harness.drop_table("made").await;
    harness.apply(&spec).await.expect("apply again");
    assert_eq!(harness.check(&spec).await, Ok(Vec::new()));
}

pub(crate) async fn managed_column_of_unknown_type_is_a_misconfiguration<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.managed_columns = Some(vec![("payload".to_owned(), "no type, at (all".to_owned())]);
    let error = harness.apply(&spec).await.expect_err("refused");
    assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
    assert!(harness.open(&[spec]).await.is_err());
}

pub(crate) async fn managed_table_can_have_a_composite_key<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.key = vec!["shop".to_owned(), "number".to_owned()];
    let number = H::declare(Kind::BigInt);
    spec.managed_columns = Some(vec![
        ("shop".to_owned(), number.clone()),
        ("number".to_owned(), number),
    ]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let item =
        |shop, number| new_item(&[("shop", Value::Int(shop)), ("number", Value::Int(number))]);
    let items = vec![item(2, 1), item(1, 2), item(1, 1)];
    fixture.try_enqueue(items).await.expect("enqueue");
    assert_eq!(keys(&fixture.claim(9).await), ["[1,1]", "[1,2]", "[2,1]"]);
}

pub(crate) async fn managed_table_rows_have_their_ready_time<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.key = vec!["id".to_owned()];
    spec.managed_columns = Some(vec![("payload".to_owned(), H::declare(Kind::Text))]);
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    let row = [("payload", text("by another program"))];
    fixture.harness.insert("made", &row).await;
    fixture.advance(100 * SECOND).await;
    let age = fixture.list(State::Ready).await[0].age.expect("an age");
    assert!(age >= 90 * SECOND && age < 200 * SECOND, "{age:?}");
}

pub(crate) async fn restart_leaves_items_of_a_managed_table_ready<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.managed_columns = Some(vec![("payload".to_owned(), H::declare(Kind::Text))]);
    spec.mirror = vec![mirror(
        State::Completed,
        "payload",
        MirrorValue::Literal(text("one")),
    )];
    let specs = [spec];
    drop(harness.open(&specs).await.expect("open"));
    let row = [("payload", text("one"))];
    harness.insert("made", &row).await;
    let again = Broker::new(harness.open(&specs).await.expect("open again"));
    assert_eq!(again.claim(9).await.len(), 1);
}

pub(crate) async fn order_and_groups_of_a_managed_table_can_change<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    let column = |name: &str| (name.to_owned(), H::declare(Kind::BigInt));
    spec.managed_columns = Some(vec![column("customer"), column("rank")]);
    // The last one replaces an index. Babelfish does not drop an index that was renamed.
    for (is_grouped, order) in [
        (false, "rank"),
        (true, "rank"),
        (false, "-rank"),
        (false, "id"),
    ] {
        spec.order = by(&[order]);
        spec.groups = is_grouped.then(|| groups(STRICT));
        harness.apply(&spec).await.expect("apply");
        assert_eq!(harness.check(&spec).await, Ok(Vec::new()));
        assert_eq!(harness.plan(&spec).await, Ok(Vec::new()));
    }
}

pub(crate) async fn running_broker_keeps_the_groups_of_its_managed_table<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    spec.managed_columns = Some(vec![("customer".to_owned(), H::declare(Kind::BigInt))]);
    spec.groups = Some(groups(STRICT));
    let fixture = Fixture::adopt(harness, vec![spec.clone()]).await;
    let settings = [("made".to_owned(), SettingsHash::new(&spec))];
    let mut running = instance("a:1", settings.into());
    let without_groups = QueueSpec {
        groups: None,
        ..spec.clone()
    };
    let limited = QueueSpec {
        limits: QueueLimits {
            max_leases: Some(1),
            rate: None,
        },
        ..without_groups.clone()
    };
    let parallel = QueueSpec {
        groups: Some(groups(PARALLEL)),
        ..spec.clone()
    };
    let renamed = QueueSpec {
        name: "other".to_owned(),
        ..without_groups.clone()
    };
    for other in [&without_groups, &limited, &parallel, &renamed] {
        // A slow database opens a store for longer than a silent process counts as running.
        announce(&fixture, &running).await;
        let opened = fixture.harness.open(std::slice::from_ref(other)).await;
        let error = opened.err().expect("refused").to_string();
        for part in [spec.group_policy(), other.group_policy(), "a:1".to_owned()] {
            assert!(error.contains(&part), "{error}");
        }
    }
    assert_eq!(fixture.harness.check(&spec).await, Ok(Vec::new()));
    assert!(fixture.harness.open(&[spec.clone()]).await.is_ok());
    running.draining = true;
    announce(&fixture, &running).await;
    let changed = fixture
        .harness
        .open(std::slice::from_ref(&without_groups))
        .await;
    changed.expect("no broker serves the queue");
    assert_eq!(fixture.harness.check(&without_groups).await, Ok(Vec::new()));
}

pub(crate) async fn declared_column_that_a_managed_table_lacks_is_named<H: Harness>() {
    let harness = H::start().await;
    let mut spec = queue("made");
    let mut columns = vec![("payload".to_owned(), H::declare(Kind::Text))];
    spec.managed_columns = Some(columns.clone());
    harness.apply(&spec).await.expect("apply");
    columns.push(("rank".to_owned(), H::declare(Kind::BigInt)));
    spec.managed_columns = Some(columns);
    let error = harness.apply(&spec).await.expect_err("refused");
    let names_it = |text: &String| text.contains("\"rank\"") && text.contains("ALTER TABLE");
    assert!(
        matches!(&error, StoreError::Misconfigured(text) if names_it(text)),
        "{error:?}"
    );
    assert!(harness.open(&[spec]).await.is_err());
}
