//! The list of broker processes on a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_store::{Instance, SettingsHash};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR};

fn instance(address: &str, settings: BTreeMap<String, SettingsHash>) -> Instance {
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
async fn announce(broker: &Broker, instance: &Instance) -> Vec<Instance> {
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
