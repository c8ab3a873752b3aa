//! Removal of the parts that adoption added: the table is as it was before, and no fencing token is given twice.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, QueueSpec, SoftLockColumn};
use lease_broker_store::{Instance, StoreError};
use lease_broker_value::Value;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::errors::misconfigured;
use crate::harness::fixture::{
    Broker, Fixture, by, fail, item_table, keys, mirror, queue, release, text,
};
use crate::harness::table::{Kind, Table};

async fn remove<H: Harness>(harness: &H, spec: &QueueSpec) {
    for step in harness.plan_removal(spec).await.expect("plan").steps {
        harness.run(&step).await.expect(&step.sql);
    }
}

async fn refusal<H: Harness>(harness: &H, spec: &QueueSpec) -> String {
    misconfigured(harness.plan(spec).await)
}

async fn open<H: Harness>(harness: &H, spec: &QueueSpec) -> Broker {
    let store = harness.open(std::slice::from_ref(spec)).await;
    Broker::new(store.expect("open"))
}

/// A table with two columns that have names of soft-lock columns.
fn traced_table() -> Table {
    item_table("item")
        .column("trace_parent", Kind::Text)
        .column("lease_owner", Kind::Text)
}

async fn insert_traced<H: Harness>(harness: &H) {
    let row = [
        ("id", Value::Int(1)),
        ("trace_parent", text("mine")),
        ("lease_owner", text("tenant 7")),
    ];
    harness.insert("item", &row).await;
}

const OWN: [&str; 3] = ["id", "trace_parent", "lease_owner"];

/// Returns the schema of the table, and the values of its own columns.
async fn own_columns<H: Harness>(harness: &H) -> (Vec<String>, Vec<Vec<Value>>) {
    let schema = harness.describe("item").await;
    (schema, harness.rows("item", &OWN).await)
}

pub(crate) async fn own_columns_of_our_names_are_refused<H: Harness>() {
    let harness = H::start().await;
    harness.create(&traced_table()).await;
    insert_traced(&harness).await;
    let before = own_columns(&harness).await;
    let text = refusal(&harness, &queue("item")).await;
    for name in ["trace_parent", "lease_owner"] {
        let remedy = format!("soft_lock.{name} = \"lb_{name}\"");
        assert!(text.contains(&remedy), "{text}");
    }
    let removal = harness.plan_removal(&queue("item")).await.expect("plan");
    assert_eq!(removal.steps, []);
    assert_eq!(before, own_columns(&harness).await);
}

pub(crate) async fn renamed_soft_lock_columns_are_dropped_again<H: Harness>() {
    let harness = H::start().await;
    harness.create(&traced_table()).await;
    insert_traced(&harness).await;
    let before = own_columns(&harness).await;
    let mut spec = queue("item");
    for column in [SoftLockColumn::TraceParent, SoftLockColumn::Owner] {
        spec.soft_lock
            .map(column, format!("lb's {}", column.default_name()));
    }
    harness.apply(&spec).await.expect("apply");
    let broker = open(&harness, &spec).await;
    let item = broker.one().await;
    broker.complete(&item.lease).await;
    remove(&harness, &spec).await;
    assert_eq!(before, own_columns(&harness).await);
}

pub(crate) async fn confirmed_own_columns_are_used_and_kept<H: Harness>() {
    let harness = H::start().await;
    let owner = match H::declare(Kind::LongText).as_str() {
        "TEXT" => "TEXT",
        _ => "nvarchar(128)",
    };
    let create =
        format!("CREATE TABLE item (id int NOT NULL PRIMARY KEY, lease_owner {owner} NULL)");
    harness.run_sql(&create).await.expect(&create);
    harness.insert("item", &[("id", Value::Int(1))]).await;
    let before = harness.describe("item").await;
    let mut spec = queue("item");
    spec.soft_lock
        .map(SoftLockColumn::Owner, "lease_owner".to_owned());
    harness.apply(&spec).await.expect("apply");
    let broker = open(&harness, &spec).await;
    let item = broker.one().await;
    broker.complete(&item.lease).await;
    remove(&harness, &spec).await;
    assert_eq!(before, harness.describe("item").await);
    let rows = harness.rows("item", &["id", "lease_owner"]).await;
    assert_eq!(rows, [[Value::Int(1), text("worker")]]);
    let kept = harness.plan_removal(&spec).await.expect("plan").kept;
    assert!(kept[0].contains("lease_owner"), "{kept:?}");
}

pub(crate) async fn own_columns_of_wrong_types_are_refused<H: Harness>() {
    let harness = H::start().await;
    let table = item_table("item")
        .column("lease_state", Kind::Text)
        .column("lease_due_time", Kind::Text);
    harness.create(&table).await;
    let mut spec = queue("item");
    for column in [SoftLockColumn::State, SoftLockColumn::DueTime] {
        spec.soft_lock.map(column, column.default_name().to_owned());
    }
    let problems = harness.check(&spec).await.expect("check").join("; ");
    for problems in [problems, refusal(&harness, &spec).await] {
        assert!(
            problems.contains("the column lease_state of table"),
            "{problems}"
        );
        assert!(
            problems.contains("the column lease_due_time of table"),
            "{problems}"
        );
    }
}

pub(crate) async fn own_states_that_are_no_states_are_refused<H: Harness>() {
    let harness = H::start().await;
    let table = item_table("item").defaulted("lease_state", Kind::Int, Value::Int(0));
    harness.create(&table).await;
    for (id, state) in [(1, 0), (2, 7), (3, -1)] {
        let row = [("id", Value::Int(id)), ("lease_state", Value::Int(state))];
        harness.insert("item", &row).await;
    }
    let mut spec = queue("item");
    spec.soft_lock
        .map(SoftLockColumn::State, "lease_state".to_owned());
    let problem = refusal(&harness, &spec).await;
    assert!(
        problem.contains("2 rows of table \"item\" have a value in lease_state"),
        "{problem}"
    );
}

pub(crate) async fn own_index_of_our_name_is_not_replaced<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let create = "CREATE INDEX item_lease_ready ON item (payload)";
    harness.run_sql(create).await.expect(create);
    let before = harness.describe("item").await;
    let problem = refusal(&harness, &queue("item")).await;
    assert!(
        problem.contains("already has an index item_lease_ready"),
        "{problem}"
    );
    assert_eq!(before, harness.describe("item").await);
}

pub(crate) async fn fence_counts_on_after_removal<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let spec = queue("item");
    for _ in 0..3 {
        let item = fixture.claim(1).await.remove(0);
        assert!(item.lease.fence <= 3);
        fixture.settle(&item.lease, release(Duration::ZERO)).await;
    }
    for expected in [4, 5] {
        remove(&fixture.harness, &spec).await;
        fixture.harness.apply(&spec).await.expect("apply");
        let broker = open(&fixture.harness, &spec).await;
        // Both rows continue with the highest token of the table, also the one that was never claimed.
        let fences: Vec<i64> = broker
            .claim(9)
            .await
            .iter()
            .map(|item| item.lease.fence)
            .collect();
        assert_eq!(fences, [expected, expected]);
    }
}

/// A queue whose completed rows say "done" in a column of the table.
fn mirrored_queue() -> QueueSpec {
    let mut spec = queue("item");
    spec.mirror = vec![mirror(
        State::Completed,
        "payload",
        MirrorValue::Literal(text("done")),
    )];
    spec
}

/// As after a removal that was interrupted, the table has fencing tokens and no column of the state, because it has another name now.
pub(crate) async fn finished_rows_are_marked_if_only_their_states_are_lost<H: Harness>() {
    let mut spec = mirrored_queue();
    let fixture = Fixture::<H>::over(&[item_table("item")], vec![spec.clone()]).await;
    fixture.insert(1..=3).await;
    let item = fixture.one().await;
    fixture.complete(&item.lease).await;
    spec.soft_lock.map(SoftLockColumn::State, "st".to_owned());
    let harness = fixture.harness;
    let steps = harness.plan(&spec).await.expect("plan");
    // The adoption is interrupted before the back-fill.
    for step in steps.iter().take_while(|step| !step.until_no_rows) {
        harness.run(step).await.expect(&step.sql);
    }
    let fixture = Fixture::adopt(harness, vec![spec]).await;
    assert_eq!(fixture.counts().await, [2, 0, 0, 1, 0]);
    let left = fixture.claim(9).await;
    assert!(!keys(&left).contains(&item.lease.key.to_string()));
}

pub(crate) async fn finished_rows_are_marked_after_removal<H: Harness>() {
    let spec = mirrored_queue();
    let fixture = Fixture::<H>::over(&[item_table("item")], vec![spec.clone()]).await;
    fixture.insert(1..=3).await;
    let item = fixture.one().await;
    fixture.complete(&item.lease).await;
    remove(&fixture.harness, &spec).await;
    fixture.harness.apply(&spec).await.expect("apply");
    let fixture = Fixture::adopt(fixture.harness, vec![spec]).await;
    assert_eq!(fixture.counts().await, [2, 0, 0, 1, 0]);
}

pub(crate) async fn held_leases_and_live_brokers_are_uses<H: Harness>() {
    let fixture = Fixture::<H>::items(2).await;
    let spec = queue("item");
    assert_eq!(fixture.harness.uses(&spec).await, [""; 0]);
    let items = fixture.claim(2).await;
    let uses = fixture.harness.uses(&spec).await;
    assert!(
        uses[0].contains("2 leases of its items are held"),
        "{uses:?}"
    );
    for item in items {
        fixture.complete(&item.lease).await;
    }
    let mut instance = Instance {
        id: Uuid::new_v4(),
        version: "1.2.3".to_owned(),
        address: "here:1".to_owned(),
        draining: false,
        settings: BTreeMap::new(),
        activity: BTreeMap::new(),
    };
    fixture
        .store
        .announce(instance.clone().into())
        .await
        .expect("announced");
    let uses = fixture.harness.uses(&spec).await;
    assert!(
        uses[0].contains("the broker here:1 (version 1.2.3) runs"),
        "{uses:?}"
    );
    instance.draining = true;
    fixture
        .store
        .announce(instance.into())
        .await
        .expect("announced");
    assert_eq!(
        fixture.harness.uses(&spec).await,
        [""; 0],
        "a broker that stops is no use"
    );
}

pub(crate) async fn interrupted_removal_continues<H: Harness>() {
    let spec = queue("item");
    let mut done = 0;
    loop {
        let harness = H::start().await;
        harness.create(&item_table("item")).await;
        let before = harness.describe("item").await;
        harness.apply(&spec).await.expect("apply");
        let steps = harness.plan_removal(&spec).await.expect("plan").steps;
        for step in steps.iter().take(done) {
            harness.run(step).await.expect(&step.sql);
        }
        remove(&harness, &spec).await;
        assert_eq!(before, harness.describe("item").await, "after {done} steps");
        if done == steps.len() {
            return;
        }
        // Every second step, because an interruption anywhere has the same effect.
        done = (done + 2).min(steps.len());
    }
}

pub(crate) async fn replaced_table_keeps_its_own_columns<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    // The queue had checkpoints once.
    let mut once = fixture.queues[0].clone();
    once.max_checkpoint_bytes = Some(100);
    fixture.harness.apply(&once).await.expect("apply");
    let first = fixture.one().await.lease.fence;
    let harness = fixture.harness;
    harness.drop_table("item").await;
    harness.create(&traced_table()).await;
    insert_traced(&harness).await;
    let before = harness.describe("item").await;
    let removal = harness.plan_removal(&queue("item")).await.expect("plan");
    assert_eq!(removal.steps, [], "the columns are those of another table");
    refusal(&harness, &queue("item")).await;
    let mut spec = queue("item");
    for column in [SoftLockColumn::TraceParent, SoftLockColumn::Owner] {
        spec.soft_lock
            .map(column, format!("lb_{}", column.default_name()));
    }
    harness.apply(&spec).await.expect("apply");
    let broker = open(&harness, &spec).await;
    let item = broker.one().await;
    assert!(item.lease.fence > first, "the fence went back");
    remove(&harness, &spec).await;
    assert_eq!(before, harness.describe("item").await);
    let rows = harness.rows("item", &OWN).await;
    assert_eq!(rows, [[Value::Int(1), text("mine"), text("tenant 7")]]);
}

/// The queue has no checkpoints any more, and its owner has dropped their column.
pub(crate) async fn removal_goes_on_without_a_checkpoint_column<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    let before = harness.describe("item").await;
    let mut spec = queue("item");
    spec.max_checkpoint_bytes = Some(100);
    harness.apply(&spec).await.expect("apply");
    spec.max_checkpoint_bytes = None;
    let drop = "ALTER TABLE item DROP COLUMN lease_checkpoint";
    harness.run_sql(drop).await.expect("dropped");
    remove(&harness, &spec).await;
    assert_eq!(before, harness.describe("item").await);
}

/// The number of random tables, and the seed. `LEASE_BROKER_TEST_SEED` and `LEASE_BROKER_TEST_CASES` change them.
fn cases() -> (u64, u64) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("LEASE_BROKER_TEST_SEED").unwrap_or_else(rand::random);
    (number("LEASE_BROKER_TEST_CASES").unwrap_or(12), seed)
}

/// For random tables, also ones with columns and indexes of our names in any type: adoption refuses the table and changes
/// nothing, or work and removal give back the schema, the data and every row, and no fencing token is given twice.
pub(crate) async fn random_tables_are_given_back_as_they_were<H: Harness>() {
    let (cases, seed) = cases();
    eprintln!("seed {seed}, {cases} tables");
    let mut adopted = 0;
    for case in 0..cases {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(case));
        adopted += usize::from(random_table_is_given_back::<H>(&mut random).await);
    }
    eprintln!("{adopted} of {cases} tables were adopted");
}

const KINDS: [Kind; 9] = [
    Kind::Int,
    Kind::BigInt,
    Kind::Text,
    Kind::Blob,
    Kind::LongText,
    Kind::Bool,
    Kind::Decimal,
    Kind::Timestamp,
    Kind::Double,
];

fn random_value(random: &mut StdRng, kind: Kind) -> Value {
    match kind {
        Kind::Int | Kind::BigInt | Kind::Counter => Value::Int(random.random_range(-3..9)),
        Kind::Text | Kind::LongText => {
            text(["", "a", "O'Brien", "ß∂"].choose(random).expect("one"))
        }
        Kind::Blob | Kind::LongBlob => {
            Value::Bytes(vec![random.random(); random.random_range(1..4)])
        }
        Kind::Bool => Value::Bool(random.random()),
        Kind::Decimal => Value::Decimal(format!("{}.25", random.random_range(0..99))),
        Kind::Timestamp => Value::Timestamp {
            seconds: random.random_range(1_000_000_000..1_900_000_000),
            nanos: 0,
        },
        Kind::Double => Value::Double(f64::from(random.random_range(0..9_u8)) / 4.0),
    }
}

/// A random table, and the queue over it.
struct Case {
    table: Table,
    spec: QueueSpec,
    /// Columns that the table has and that the queue may write.
    shared: Vec<String>,
    /// Whether the table has a column or an index of our name that the queue's settings do not name.
    taken: bool,
}

fn random_case(random: &mut StdRng) -> Case {
    let mut table = item_table("item");
    let mut spec = queue("item");
    let (mut shared, mut taken) = (Vec::new(), false);
    for number in 0..random.random_range(0..4) {
        table = table.column(
            &format!("Column {number}"),
            *KINDS.choose(random).expect("one"),
        );
    }
    spec.max_checkpoint_bytes = random.random_bool(0.5).then_some(64);
    for column in SoftLockColumn::ALL {
        let name = column.default_name();
        let is_used = column != SoftLockColumn::Checkpoint || spec.max_checkpoint_bytes.is_some();
        if random.random_bool(0.15) {
            let kind = *KINDS.choose(random).expect("one");
            table = match kind {
                Kind::Int if random.random() => table.defaulted(name, kind, Value::Int(0)),
                _ => table.column(name, kind),
            };
            match random.random_range(0..5) {
                0 => {
                    spec.soft_lock.map(column, name.to_owned());
                    shared.push(name.to_owned());
                }
                1 => taken |= is_used,
                _ => spec.soft_lock.map(column, format!("lb {name}")),
            }
        } else if random.random_bool(0.1) {
            spec.soft_lock.map(column, format!("lb {name}"));
        }
    }
    spec.filtered_indexes = random.random();
    spec.completed_index = spec.filtered_indexes && random.random();
    if random.random() {
        spec.order = by(&["-payload"]);
    }
    Case {
        table,
        spec,
        shared,
        taken,
    }
}

/// Returns whether the table was adopted.
async fn random_table_is_given_back<H: Harness>(random: &mut StdRng) -> bool {
    let Case {
        table,
        spec,
        shared,
        taken,
    } = random_case(random);
    let harness = H::start().await;
    harness.create(&table).await;
    harness
        .create(&Table::new("log").column("id", Kind::BigInt))
        .await;
    for id in 1..random.random_range(1..8) {
        let mut row = vec![("id", Value::Int(id))];
        for column in &table.columns[1..] {
            if column.default.is_none() && random.random_bool(0.7) {
                row.push((&*column.name, random_value(random, column.kind)));
            }
        }
        harness.insert("item", &row).await;
    }
    if random.random() {
        let trigger = H::update_trigger("item", "log");
        harness.run_sql(&trigger).await.expect(&trigger);
    }
    let mut own_index = false;
    if random.random_bool(0.3) {
        let name = ["own_index", "item_lease_due", "item_lease_dead"]
            .choose(random)
            .expect("one");
        let create = format!("CREATE INDEX {name} ON item (payload, id)");
        harness.run_sql(&create).await.expect(&create);
        own_index = *name != "own_index";
    }
    let own: Vec<&str> = table
        .columns
        .iter()
        .map(|column| &*column.name)
        .filter(|name| !shared.iter().any(|shared| shared == name))
        .collect();
    let mut schema = harness.describe("item").await;
    let data = harness.rows("item", &own).await;
    let mut fences: BTreeMap<String, i64> = BTreeMap::new();
    for _ in 0..2 {
        match harness.plan(&spec).await {
            Ok(_) => assert!(!taken, "took a column of another program: {spec:?}"),
            Err(StoreError::Misconfigured(text)) => {
                assert!(taken || own_index || !shared.is_empty(), "{text}: {spec:?}");
                assert_eq!(schema, harness.describe("item").await, "{spec:?}");
                assert_eq!(data, harness.rows("item", &own).await, "{spec:?}");
                return false;
            }
            Err(error) => panic!("{error}: {spec:?}"),
        }
        if random.random_bool(0.3) {
            let steps = harness.plan(&spec).await.expect("plan");
            for step in &steps[..random.random_range(0..steps.len())] {
                harness.run(step).await.expect(&step.sql);
            }
        }
        harness.apply(&spec).await.expect("apply");
        let store = harness.open(std::slice::from_ref(&spec)).await;
        let broker = Broker::new(store.expect("open"));
        for item in broker.claim(5).await {
            let key = item.lease.key.to_string();
            let last = fences.insert(key, item.lease.fence).unwrap_or(0);
            assert!(item.lease.fence > last, "the fence went back: {spec:?}");
            match random.random_range(0..5) {
                0 => drop(broker.complete(&item.lease).await),
                1 => drop(broker.settle(&item.lease, fail(None)).await),
                2 => drop(broker.settle(&item.lease, fail(Some(Duration::ZERO))).await),
                3 => drop(broker.settle(&item.lease, release(Duration::ZERO)).await),
                _ => {}
            }
        }
        drop(broker);
        if let Err(StoreError::Misconfigured(text)) = harness.plan_removal(&spec).await {
            // Babelfish would drop the trigger with a column, so the removal is refused.
            assert!(text.contains("has triggers"), "{text}");
            let drop_trigger = "DROP TRIGGER watch";
            harness.run_sql(drop_trigger).await.expect(drop_trigger);
            schema.retain(|line| line != "trigger watch");
        }
        if random.random_bool(0.3) {
            let steps = harness.plan_removal(&spec).await.expect("plan").steps;
            for step in &steps[..random.random_range(0..steps.len())] {
                harness.run(step).await.expect(&step.sql);
            }
        }
        remove(&harness, &spec).await;
        assert_eq!(schema, harness.describe("item").await, "{spec:?}");
        assert_eq!(data, harness.rows("item", &own).await, "{spec:?}");
    }
    true
}
