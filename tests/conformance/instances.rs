//! The list of broker processes on a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::{Activity, Instance, SettingsHash};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR};

pub(super) fn instance(address: &str, settings: BTreeMap<String, SettingsHash>) -> Instance {
    Instance {
        id: Uuid::new_v4(),
        version: "0.2.0".to_owned(),
        address: address.to_owned(),
        draining: false,
        settings,
        activity: BTreeMap::new(),
    }
}

/// Announces a process. Returns the others, by address.
pub(super) async fn announce(broker: &Broker, instance: &Instance) -> Vec<Instance> {
    let announced = broker.store.announce(Arc::new(instance.clone())).await;
    let mut others = announced.expect("announced");
    others.sort_by(|one, other| one.address.cmp(&other.address));
    others
}

pub(crate) async fn other_processes_are_listed_as_they_announced_themselves<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let other = fixture.another().await;
    let settings = SettingsHash::new(&fixture.queues[0]);
    let mut first = instance("a:1", [("item".to_owned(), settings)].into());
    let second = instance("b\u{e9}:2", BTreeMap::new());
    assert_eq!(announce(&fixture, &first).await, []);
    assert_eq!(announce(&other, &second).await, [first.clone()]);
    assert_eq!(
        announce(&fixture, &first).await,
        std::slice::from_ref(&second)
    );
    first.draining = true;
    first.settings.clear();
    announce(&fixture, &first).await;
    assert_eq!(announce(&other, &second).await, [first]);
}

pub(crate) async fn silent_process_is_left_out_and_later_forgotten<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let (silent, other) = (
        instance("a:1", BTreeMap::new()),
        instance("b:2", BTreeMap::new()),
    );
    announce(&fixture, &silent).await;
    assert_eq!(announce(&fixture, &other).await.len(), 1);
    fixture.advance(Duration::from_secs(20)).await;
    assert_eq!(announce(&fixture, &other).await, []);
    let addresses = async || {
        fixture
            .harness
            .rows("lease_broker_instance", &["address"])
            .await
    };
    assert_eq!(addresses().await.len(), 2);
    fixture.advance(23 * HOUR).await;
    announce(&fixture, &other).await;
    assert_eq!(addresses().await.len(), 2);
    fixture.advance(HOUR).await;
    announce(&fixture, &other).await;
    assert_eq!(addresses().await, [[Value::Text("b:2".to_owned())]]);
}

/// The first one was killed while the clock was ahead.
pub(crate) async fn process_seen_in_the_future_does_not_run<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let (killed, other) = (
        instance("a:1", BTreeMap::new()),
        instance("b:2", BTreeMap::new()),
    );
    let is_live = async || {
        let list = fixture.reads.brokers().await.expect("a list").brokers;
        let killed = list.iter().find(|broker| broker.instance.id == killed.id);
        killed.expect("it is listed").is_live()
    };
    announce(&fixture, &killed).await;
    fixture.harness.set_back(Duration::from_secs(8)).await;
    // A small step concerns no broker.
    assert_eq!(announce(&fixture, &other).await.len(), 1);
    assert!(is_live().await);
    fixture.harness.set_back(HOUR).await;
    assert_eq!(announce(&fixture, &other).await, []);
    assert!(!is_live().await);
    announce(&fixture, &killed).await;
    assert!(is_live().await);
}

pub(crate) async fn processes_that_announce_together_find_each_other<H: Harness>() {
    const PROCESSES: usize = 6;

    let fixture = Fixture::<H>::items(0).await;
    let instances: Vec<Instance> = (0..PROCESSES)
        .map(|number| instance(&format!("host{number}:1"), BTreeMap::new()))
        .collect();
    for _ in 0..3 {
        let announced = instances
            .iter()
            .map(|instance| announce(&fixture, instance));
        futures_util::future::join_all(announced).await;
    }
    for instance in &instances {
        let others = announce(&fixture, instance).await;
        assert_eq!(others.len(), PROCESSES - 1, "{others:?}");
    }
}

pub(crate) async fn activity_of_a_process_is_the_last_one_announced<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let other = fixture.another().await;
    let settings = SettingsHash::new(&fixture.queues[0]);
    let mut first = instance("a:1", [("item".to_owned(), settings)].into());
    announce(&fixture, &first).await;
    let activity = Activity {
        claimed: 12.5,
        waiting: 3,
        ..Activity::default()
    };
    first.activity = [("it's \"☂\"".to_owned(), activity)].into();
    announce(&fixture, &first).await;
    let second = instance("b:2", BTreeMap::new());
    assert_eq!(announce(&other, &second).await, [first.clone()]);
    fixture.advance(HOUR).await;
    announce(&other, &second).await;
    let listed = fixture.reads.brokers().await.expect("a list");
    let addresses = listed
        .brokers
        .iter()
        .map(|broker| &*broker.instance.address);
    assert_eq!(addresses.collect::<Vec<_>>(), ["b:2", "a:1"]);
    let silent = &listed.brokers[1];
    assert_eq!(silent.instance, first);
    assert!(!silent.is_live() && listed.brokers[0].is_live());
    assert!(silent.start_time <= listed.now);
}

pub(crate) async fn process_is_told_to_drain<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let other = fixture.another().await;
    let (first, second) = (
        instance("a:1", BTreeMap::new()),
        instance("b:2", BTreeMap::new()),
    );
    announce(&fixture, &first).await;
    announce(&other, &second).await;
    let is_told = async |instance: &Instance| {
        let orders = other.store.read_orders(instance.id, &[]).await;
        let orders = orders.expect("orders");
        assert_eq!(orders.operations, []);
        orders.drain
    };
    assert!(!is_told(&first).await);
    assert_eq!(other.store.request_drain(first.id).await, Ok(true));
    assert_eq!(other.store.request_drain(Uuid::new_v4()).await, Ok(false));
    assert!(is_told(&first).await && !is_told(&second).await);
    announce(&fixture, &first).await;
    assert!(is_told(&first).await, "an announcement does not end it");
}
