//! The rows of operations on many items, and the brokers that take them.

use std::time::Duration;

use lease_broker_store::{
    LONGEST_HOLD, NewOperation, Operation, OperationKind, OperationState, StartedOperation,
};
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR, MINUTE, item_table, queue};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

fn new_operation(kind: OperationKind) -> NewOperation {
    NewOperation {
        id: Uuid::new_v4(),
        kind,
        definition: "{\"it's\": \"☂\\\\ 50%\"}".to_owned(),
        actor: "anna".to_owned(),
        reason: "night ☂".to_owned(),
    }
}

async fn start(broker: &Broker, operation: &NewOperation) -> StartedOperation {
    let started = broker
        .store
        .start_operation(broker.queue, operation.clone());
    started.await.expect("an answer")
}

/// Starts an operation that is new.
pub(super) async fn started(broker: &Broker, kind: OperationKind) -> Operation {
    match start(broker, &new_operation(kind)).await {
        StartedOperation::Started(operation) => operation,
        other => panic!("{other:?}"),
    }
}

/// Returns the operations of a queue that a broker can take, in the store's order.
async fn free_for(broker: &Broker, queue: &str, holder: Uuid) -> Vec<Uuid> {
    let queues = [queue.to_owned()];
    let orders = broker.store.read_orders(holder, &queues).await;
    let operations = orders.expect("orders").operations;
    operations.iter().map(|operation| operation.id).collect()
}

/// Returns whether a broker has got an operation.
pub(super) async fn takes(broker: &Broker, id: Uuid, holder: Uuid, time: Duration) -> bool {
    let taken = broker.store.take_operation(id, holder, time).await;
    let taken = taken.expect("an answer");
    let is_whole = |taken: &Operation| (taken.id, taken.holder) == (id, Some(holder));
    assert!(taken.as_ref().is_none_or(is_whole), "{taken:?}");
    taken.is_some()
}

pub(super) async fn read(broker: &Broker, id: Uuid) -> Operation {
    let found = broker.reads.operation(id).await.expect("a read");
    found.expect("the operation")
}

pub(crate) async fn operation_is_stored_once<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let new = new_operation(OperationKind::Redrive);
    let StartedOperation::Started(stored) = start(&fixture, &new).await else {
        panic!("it is new")
    };
    let expected = Operation {
        id: new.id,
        queue: "item".to_owned(),
        kind: new.kind.name().to_owned(),
        definition: new.definition.clone(),
        actor: new.actor.clone(),
        reason: new.reason.clone(),
        create_time: stored.create_time,
        state: OperationState::Running,
        end_time: None,
        batches: 0,
        position: None,
        examined: 0,
        changed: 0,
        refused: 0,
        error: None,
        holder: None,
        cancelled_by: None,
    };
    assert_eq!(stored, expected);
    let other = fixture.another().await;
    let again = start(&other, &new).await;
    assert_eq!(again, StartedOperation::Repeated(stored.clone()));
    let same_text = NewOperation {
        actor: "bert".to_owned(),
        reason: String::new(),
        ..new.clone()
    };
    let again = start(&other, &same_text).await;
    assert_eq!(again, StartedOperation::Repeated(stored.clone()));
    for other in [
        NewOperation {
            definition: "{}".to_owned(),
            ..new.clone()
        },
        NewOperation {
            kind: OperationKind::Purge,
            ..new.clone()
        },
    ] {
        let started = start(&fixture, &other).await;
        assert_eq!(started, StartedOperation::OtherDefinition);
    }
    assert_eq!(fixture.reads.operation(new.id).await, Ok(Some(stored)));
    assert_eq!(fixture.reads.operation(Uuid::new_v4()).await, Ok(None));
}

pub(crate) async fn queue_runs_one_operation_of_a_kind<H: Harness>() {
    let tables = [item_table("a"), item_table("b")];
    let queues = vec![queue("a"), queue("b")];
    let fixture = Fixture::<H>::over(&tables, queues).await;
    let first = started(&fixture, OperationKind::Redrive).await;
    let second = new_operation(OperationKind::Redrive);
    let refused = start(&fixture, &second).await;
    assert_eq!(refused, StartedOperation::Running(first.clone()));
    started(&fixture, OperationKind::Purge).await;
    started(&fixture.at(1), OperationKind::Redrive).await;
    let cancelled = fixture.store.cancel_operation(first.id, "bert").await;
    let cancelled = cancelled.expect("an answer").expect("the operation");
    assert_eq!(cancelled.state, OperationState::Cancelled);
    assert_eq!(cancelled.cancelled_by.as_deref(), Some("bert"));
    assert!(cancelled.end_time.is_some());
    let again = fixture.store.cancel_operation(first.id, "carl").await;
    assert_eq!(again, Ok(Some(cancelled)));
    let none = fixture.store.cancel_operation(Uuid::new_v4(), "x").await;
    assert_eq!(none, Ok(None));
    assert!(matches!(
        start(&fixture, &second).await,
        StartedOperation::Started(_)
    ));
}

pub(crate) async fn one_of_many_starts_at_one_moment_wins<H: Harness>() {
    const CALLS: usize = 8;

    let fixture = Fixture::<H>::items(0).await;
    let calls = (0..CALLS).map(|_| {
        let broker = (*fixture).clone();
        tokio::spawn(async move { start(&broker, &new_operation(OperationKind::Redrive)).await })
    });
    let mut won = Vec::new();
    let mut running = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        match call.await.expect("no panic") {
            StartedOperation::Started(operation) => won.push(operation),
            StartedOperation::Running(operation) => running.push(operation),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((won.len(), running.len()), (1, CALLS - 1));
    assert!(running.iter().all(|operation| *operation == won[0]));
    let new = new_operation(OperationKind::Purge);
    let calls = (0..CALLS).map(|_| {
        let (broker, new) = ((*fixture).clone(), new.clone());
        tokio::spawn(async move { start(&broker, &new).await })
    });
    let mut new_ones = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.expect("no panic") {
            StartedOperation::Started(_) => new_ones += 1,
            StartedOperation::Repeated(operation) => assert_eq!(operation.id, new.id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(new_ones, 1);
}

pub(crate) async fn operations_are_listed_in_pages<H: Harness>() {
    let names = ["a", "b", "it's \"c\""];
    let tables = ["a", "b", "c"].map(item_table);
    let mut queues = ["a", "b", "c"].map(queue);
    names[2].clone_into(&mut queues[2].name);
    let fixture = Fixture::<H>::over(&tables, queues.into()).await;
    let mut all = Vec::new();
    for at in 0..3 {
        for kind in OperationKind::ALL {
            all.push(started(&fixture.at(at), kind).await.id);
        }
    }
    fixture
        .store
        .cancel_operation(all[4], "")
        .await
        .expect("cancelled");
    let list = async |queues: &[&str], only_running, before, limit| {
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let listed = fixture
            .reads
            .operations(queues, only_running, before, limit);
        listed.await.expect("a list")
    };
    let whole = list(&names, false, None, 100).await;
    let times: Vec<i64> = whole
        .iter()
        .map(|operation| operation.create_time)
        .collect();
    assert!(times.is_sorted_by(|one, next| one >= next));
    let whole: Vec<Uuid> = whole.iter().map(|operation| operation.id).collect();
    let sorted = |mut ids: Vec<Uuid>| {
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(whole.clone()), sorted(all.clone()));
    let mut paged = Vec::new();
    loop {
        let page = list(&names, false, paged.last().copied(), 4).await;
        paged.extend(page.iter().map(|operation| operation.id));
        if page.len() < 4 {
            break;
        }
    }
    assert_eq!(paged, whole);
    let running = list(&names, true, None, 100).await;
    assert_eq!(running.len(), 8);
    let of_c = list(&names[2..], false, None, 100).await;
    assert!(of_c.len() == 3 && of_c.iter().all(|operation| operation.queue == names[2]));
    assert_eq!(list(&[], false, None, 100).await, []);
}

pub(crate) async fn one_broker_at_a_time_takes_an_operation<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let [one, other] = [(); 2].map(|()| Uuid::new_v4());
    assert!(!takes(&fixture, Uuid::new_v4(), one, LONGEST_HOLD).await);
    let id = started(&fixture, OperationKind::Redrive).await.id;
    fixture.advance(MINUTE).await;
    let later = started(&fixture, OperationKind::Purge).await.id;
    let free = async |broker| free_for(&fixture, "item", broker).await;
    assert_eq!(free(one).await, [id, later]);
    assert!(takes(&fixture, id, one, LONGEST_HOLD).await);
    // A broker takes its own one again, which renews its hold.
    assert!(takes(&fixture, id, one, LONGEST_HOLD).await);
    assert!(!takes(&fixture, id, other, LONGEST_HOLD).await);
    assert_eq!(free(one).await, [id, later]);
    assert_eq!(free(other).await, [later]);
    assert!(free_for(&fixture, "else", other).await.is_empty());
    fixture.advance(2 * HOUR).await;
    assert_eq!(free(other).await, [id, later]);
    assert!(takes(&fixture, id, other, LONGEST_HOLD).await);
    let cancelled = fixture.store.cancel_operation(id, "").await;
    cancelled.expect("cancelled");
    assert!(!takes(&fixture, id, other, LONGEST_HOLD).await);
}

pub(crate) async fn operation_held_before_the_clock_was_put_back_is_free<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let id = started(&fixture, OperationKind::Redrive).await.id;
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    // For a clock that was put back the hold seems this long.
    assert!(takes(&fixture, id, one, 2 * HOUR).await);
    assert_eq!(free_for(&fixture, "item", other).await, [id]);
    assert!(takes(&fixture, id, other, LONGEST_HOLD).await);
    assert!(!takes(&fixture, id, one, LONGEST_HOLD).await);
}

pub(crate) async fn operation_that_ended_is_forgotten_after_ten_days<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let old = started(&fixture, OperationKind::Redrive).await.id;
    let running = started(&fixture, OperationKind::Purge).await.id;
    fixture
        .store
        .cancel_operation(old, "")
        .await
        .expect("cancelled");
    fixture.advance(9 * DAY).await;
    started(&fixture, OperationKind::CancelLeases).await;
    assert!(
        fixture
            .reads
            .operation(old)
            .await
            .expect("a read")
            .is_some()
    );
    fixture.advance(2 * DAY).await;
    started(&fixture, OperationKind::Redrive).await;
    assert_eq!(fixture.reads.operation(old).await, Ok(None));
    let running = read(&fixture, running).await;
    assert_eq!(running.state, OperationState::Running);
}

pub(crate) async fn reader_without_tables_sees_no_operation<H: Harness>() {
    let harness = H::start().await;
    harness.create(&item_table("item")).await;
    harness.apply(&queue("item")).await.expect("adopted");
    let reader = harness
        .open_to_read(&[queue("item")])
        .await
        .expect("a reader");
    assert_eq!(reader.operation(Uuid::new_v4()).await, Ok(None));
    let listed = reader.operations(["item".to_owned()].into(), false, None, 9);
    assert_eq!(listed.await, Ok(Vec::new()));
    assert_eq!(reader.brokers().await.expect("a list").brokers, []);
}
