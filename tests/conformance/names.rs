//! Names of tables, columns and queues that need quoting, such as keywords and fragments of SQL.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, QueueSpec, SoftLockColumn};
use lease_broker_store::{FollowUp, NewItem, QueueIndex, StoreError};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, by, complete_with, fail, mirror, new_item, queue, text,
};
use crate::harness::table::{Kind, Table};

const HOSTILE: [&str; 9] = [
    "select",
    "a \"quoted\" name",
    "a [bracketed] name",
    "it's; DROP TABLE item; --",
    "{table} {key} {{}}",
    "naïve 表 🦀",
    " ",
    "dots.and, commas",
    "/* ?1 :a @b $c */",
];

fn hostile_queue<H: Harness>(name: &str) -> (Table, QueueSpec) {
    let [key, payload, rank, mirrored, archive] =
        ["k", "p", "r", "m", "archive"].map(|suffix| format!("{name}{suffix}"));
    let table = Table::new(name)
        .required(&key, Kind::BigInt)
        .required(&payload, Kind::Text)
        .column(&rank, Kind::Int)
        .column(&mirrored, Kind::Text)
        .key(&[&key])
        .unique(&[&payload]);
    let mut spec = queue(name);
    spec.table = H::table_name(name);
    spec.key = vec![key];
    spec.order = by(&[&rank]);
    spec.on_complete = OnComplete::Archive(H::table_name(&archive));
    for state in [State::Ready, State::Leased, State::Completed] {
        spec.mirror
            .push(mirror(state, &mirrored, MirrorValue::Literal(text(name))));
    }
    for column in SoftLockColumn::ALL {
        let own = format!("{name}{}", column.default_name());
        spec.soft_lock.map(column, own);
    }
    (table, spec)
}

pub(crate) async fn any_identifier_is_accepted<H: Harness>() {
    let (tables, queues): (Vec<_>, Vec<_>) = HOSTILE.into_iter().map(hostile_queue::<H>).unzip();
    let fixture = Fixture::<H>::over(&tables, queues).await;
    for (at, name) in HOSTILE.into_iter().enumerate() {
        let queue = fixture.at(at);
        let column = |suffix: &str| format!("{name}{suffix}");
        let item = |id: i64| -> NewItem {
            let payload = format!("payload {id}");
            let columns = [
                (column("k"), Value::Int(id)),
                (column("p"), text(&payload)),
                (column("r"), Value::Int(-id)),
            ];
            NewItem {
                columns: columns.to_vec(),
                ..new_item(&[])
            }
        };
        let items = vec![item(1), item(2), item(3)];
        queue.try_enqueue(items).await.expect(name);
        let token = Uuid::new_v4();
        let items = queue.request(token, 3).await;
        assert_eq!(queue.request(token, 3).await.len(), 3, "{name}");
        assert_eq!(items[0].columns[0], Value::Int(3), "{name}");
        let follow_up = FollowUp {
            queue: QueueIndex(at),
            item: item(4),
        };
        let done = complete_with(vec![follow_up]);
        let settled = queue.settle(&items[0].lease, done).await;
        assert_eq!(settled, Some(State::Completed), "{name}");
        queue
            .settle(&items[1].lease, fail(Some(MINUTE)))
            .await
            .expect(name);
        queue.heartbeat(&items[2].lease, MINUTE).await.expect(name);
        queue.claim(1).await;
        fixture.advance(10 * MINUTE).await;
        let reaped = queue.reap(9).await;
        assert_eq!((reaped.expired.len(), reaped.promoted), (1, 1), "{name}");
        assert_eq!(queue.counts().await, [2, 1, 0, 0, 0], "{name}");
        let archive = column("archive");
        let archived = fixture
            .harness
            .rows(&archive, &[&column("k"), &column("m")])
            .await;
        assert_eq!(archived, [[Value::Int(3), text(name)]]);
        fixture.advance(HOUR).await;
    }
}

pub(crate) async fn constraint_error_names_its_column<H: Harness>() {
    for name in HOSTILE {
        let (table, spec) = hostile_queue::<H>(name);
        let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
        let columns = [(format!("{name}k"), Value::Int(1))];
        let item = NewItem {
            columns: columns.to_vec(),
            ..new_item(&[])
        };
        let error = fixture.try_enqueue(vec![item]).await.expect_err(name);
        let StoreError::Rejected(rejection) = error else {
            panic!("{name}: {error:?}");
        };
        assert_eq!(
            rejection.column,
            Some(format!("{name}p")),
            "{}",
            rejection.problem
        );
    }
}

pub(crate) async fn queue_name_can_differ_from_its_table<H: Harness>() {
    let name = "quite; \"another\" {name}".to_owned();
    let fixture = Fixture::<H>::with(1, |spec| spec.name = name).await;
    let lease = fixture.one().await.lease;
    assert_eq!(fixture.complete(&lease).await, Some(State::Completed));
}
