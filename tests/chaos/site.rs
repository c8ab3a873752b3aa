//! The programs of a run: brokers on one store, a load balancer, actors, and the network between them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex as SyncMutex};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;

use crate::balancers::balancer::{self, Balancer};
use crate::balancers::fleet::Addresses;
use crate::chaos::actor::{Actor, Role, Settings};
use crate::chaos::broker::Broker;
use crate::chaos::database::Database;
use crate::chaos::history::Pause;
use crate::chaos::journal::now;
use crate::chaos::plan::Plan;
use crate::chaos::schedule::{Fault, Link};
use crate::harness::proxy::{Direction, Proxy};
use crate::support::ports::free_port;
use crate::support::timeout::TEST_TIMEOUT;

/// A program that has one fault at a time.
type Slot<T> = Arc<Mutex<T>>;

/// The network between the programs.
pub(crate) struct Links {
    clients: Proxy,
    brokers: Vec<Proxy>,
    /// Empty if the store is a file.
    store: Vec<Proxy>,
}

impl Links {
    fn get(&self, link: Link) -> &Proxy {
        match link {
            Link::Clients => &self.clients,
            Link::Broker(broker) => &self.brokers[broker],
            Link::Store(broker) => &self.store[broker],
        }
    }
}

pub(crate) struct Site {
    pub(crate) database: Arc<Database>,
    /// One slot for all brokers: at least one of them is always up.
    brokers: Slot<Vec<Broker>>,
    balancer: Balancer,
    balancer_brokers: Vec<Addresses>,
    links: Arc<Links>,
    /// Held during a fault of the network.
    network: Slot<()>,
    store_lock: Slot<()>,
    workers: Vec<Slot<Actor>>,
    worker_settings: Vec<Settings>,
    producer: Actor,
    running: JoinSet<()>,
    pauses: Arc<SyncMutex<Vec<Pause>>>,
    pub(crate) faults: BTreeMap<&'static str, usize>,
    /// The number of open connections that faults have reset.
    pub(crate) cut_connections: usize,
}

impl Site {
    pub(crate) async fn start(plan: &Plan, database: Database, folder: &Path) -> Self {
        let new_addresses = |_| Addresses {
            grpc: free_port(),
            admin: free_port(),
        };
        let addresses: Vec<Addresses> = (0..plan.brokers).map(new_addresses).collect();
        let mut brokers = Vec::new();
        let (mut broker_links, mut store_links) = (Vec::new(), Vec::new());
        for (index, addresses) in addresses.iter().enumerate() {
            let store = match &database {
                Database::Sqlite(file) => format!("store.path = '{}'", file.display()),
                Database::Mssql { program, .. } => {
                    let proxy = Proxy::before(&program.connection_string).await;
                    // The first statement of a session takes a second on Babelfish, so there are few sessions.
                    let text = format!(
                        "store.kind = 'mssql'\nstore.max_connections = 4\nstore.command_timeout = '25s'
store.connection_string = '{}'",
                        proxy.connection_string()
                    );
                    store_links.push(proxy);
                    text
                }
            };
            let settings = plan.settings(&store, database.text_type());
            let name = format!("broker{}", index + 1);
            brokers.push(Broker::start(folder, &name, &settings, plan, *addresses).await);
            broker_links.push(Proxy::to_address(addresses.grpc).await);
        }
        let links = broker_links.iter().zip(&addresses);
        let balancer_brokers: Vec<Addresses> = links
            .map(|(link, addresses)| Addresses {
                grpc: ([127, 0, 0, 1], link.port()).into(),
                ..*addresses
            })
            .collect();
        let kind = balancer::Kind::Haproxy;
        let balancer = Balancer::start(kind, &balancer_brokers, folder).await;
        let clients = Proxy::to_address(balancer.address).await;
        let settings = |role: &Role, name: &str| Settings {
            role: role.clone(),
            name: name.to_owned(),
            folder: folder.to_owned(),
            url: format!("http://127.0.0.1:{}", clients.port()),
            seed: plan.seed,
        };
        let worker_settings: Vec<Settings> = (0..plan.workers)
            .map(|number| settings(&plan.worker(), &format!("worker{number}")))
            .collect();
        let workers = worker_settings.iter().map(Actor::start);
        let workers = workers.map(|actor| Arc::new(Mutex::new(actor))).collect();
        Self {
            producer: Actor::start(&settings(&plan.producer(), "producer")),
            database: Arc::new(database),
            brokers: Arc::new(Mutex::new(brokers)),
            balancer,
            balancer_brokers,
            links: Arc::new(Links {
                clients,
                brokers: broker_links,
                store: store_links,
            }),
            network: Arc::default(),
            store_lock: Arc::default(),
            workers,
            worker_settings,
            running: JoinSet::new(),
            pauses: Arc::default(),
            faults: BTreeMap::new(),
            cut_connections: 0,
        }
    }

    /// Starts a fault as soon as the program that it concerns has no other. Most faults last longer than this call.
    pub(crate) async fn start_fault(&mut self, fault: Fault, folder: &Path) {
        *self.faults.entry(fault.name()).or_default() += 1;
        match fault {
            Fault::KillBroker { .. }
            | Fault::TerminateBroker { .. }
            | Fault::PauseBroker { .. } => {
                let brokers = self.brokers.clone().lock_owned().await;
                self.running.spawn(broker_fault(brokers, fault));
            }
            Fault::KillWorker { worker } => {
                let mut actor = self.workers[worker].clone().lock_owned().await;
                actor.kill();
                let settings = &mut self.worker_settings[worker];
                settings.name = next_name(&settings.name);
                *actor = Actor::start(settings);
            }
            Fault::PauseWorker { worker, time } => {
                let actor = self.workers[worker].clone().lock_owned().await;
                let pauses = self.pauses.clone();
                self.running.spawn(pause_worker(actor, time, pauses));
            }
            Fault::Cut { link } => {
                let link = self.links.get(link);
                self.cut_connections += link.open();
                link.cut();
            }
            Fault::HalfOpen { .. } | Fault::Delay { .. } | Fault::Fragment { .. } => {
                let network = self.network.clone().lock_owned().await;
                let links = self.links.clone();
                self.running.spawn(network_fault(network, links, fault));
            }
            Fault::LockStore { time } => {
                let lock = self.store_lock.clone().lock_owned().await;
                let database = self.database.clone();
                self.running.spawn(async move {
                    database.hold_lock(time).await;
                    drop(lock);
                });
            }
            Fault::KillBalancer { down } => {
                self.balancer.kill();
                tokio::time::sleep(down).await;
                let (address, kind) = (self.balancer.address, balancer::Kind::Haproxy);
                let brokers = &self.balancer_brokers;
                self.balancer = Balancer::listening_on(address, kind, brokers, folder).await;
            }
        }
        while self.running.try_join_next().is_some() {}
    }

    /// Terminates a broker, and starts another build of the program in its place.
    pub(crate) async fn replace_broker(&self, broker: usize, program: &Path) {
        let mut brokers = self.brokers.lock().await;
        program.clone_into(&mut brokers[broker].program);
        brokers[broker].signal("TERM");
        brokers[broker].restart_after_end(Duration::ZERO).await;
    }

    /// Waits until the last faults have ended. Then the producer stops.
    pub(crate) async fn end_faults(&mut self) {
        while let Some(ended) = self.running.join_next().await {
            ended.expect("a fault ends");
        }
        tokio::task::block_in_place(|| self.producer.stop());
    }

    /// Waits for the first completed item. On a busy T-SQL server it can take a minute.
    pub(crate) async fn wait_for_first_completion(&self) {
        let completed = "SELECT COUNT(*) FROM work WHERE lease_state = 3";
        let end = tokio::time::Instant::now() + 3 * TEST_TIMEOUT;
        while self.database.number(completed).await == 0 {
            assert!(tokio::time::Instant::now() < end, "no item is completed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until all items are completed. Returns the number of those that are not.
    pub(crate) async fn wait_until_completed(&self) -> i64 {
        let open = "SELECT COUNT(*) FROM work WHERE lease_state <> 3";
        let end = tokio::time::Instant::now() + 2 * TEST_TIMEOUT;
        loop {
            let count = self.database.number(open).await;
            if count == 0 || tokio::time::Instant::now() > end {
                return count;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Stops the workers. Returns the times during which they were stopped by a signal.
    pub(crate) async fn stop_workers(&mut self) -> Vec<Pause> {
        for worker in &self.workers {
            let mut actor = worker.lock().await;
            tokio::task::block_in_place(|| actor.stop());
        }
        self.pauses.lock().expect("no panic").clone()
    }
}

async fn broker_fault(mut brokers: OwnedMutexGuard<Vec<Broker>>, fault: Fault) {
    match fault {
        Fault::KillBroker { broker, down } => {
            brokers[broker].signal("KILL");
            brokers[broker].restart_after_end(down).await;
        }
        Fault::TerminateBroker { broker } => {
            brokers[broker].signal("TERM");
            brokers[broker].restart_after_end(Duration::ZERO).await;
        }
        Fault::PauseBroker { broker, time } => {
            brokers[broker].signal("STOP");
            tokio::time::sleep(time).await;
            brokers[broker].signal("CONT");
        }
        other => panic!("{other:?} is no fault of a broker"),
    }
}

async fn pause_worker(
    actor: OwnedMutexGuard<Actor>,
    time: Duration,
    pauses: Arc<SyncMutex<Vec<Pause>>>,
) {
    let from = now();
    actor.signal("STOP");
    tokio::time::sleep(time).await;
    actor.signal("CONT");
    pauses.lock().expect("no panic").push(Pause {
        process: actor.name.clone(),
        from,
        to: now(),
    });
}

async fn network_fault(network: OwnedMutexGuard<()>, links: Arc<Links>, fault: Fault) {
    let (link, time) = match fault {
        Fault::HalfOpen {
            link,
            to_server,
            time,
        } => {
            let direction = if to_server {
                Direction::ToServer
            } else {
                Direction::ToClient
            };
            links.get(link).stall(direction, true);
            (link, time)
        }
        Fault::Delay { link, delay, time } => {
            links.get(link).delay(delay);
            (link, time)
        }
        Fault::Fragment { link, time } => {
            links.get(link).fragment(true);
            (link, time)
        }
        other => panic!("{other:?} is no fault of the network"),
    };
    tokio::time::sleep(time).await;
    if matches!(fault, Fault::HalfOpen { .. }) {
        // The bytes that were held back are lost.
        links.get(link).cut_and_restore();
    } else {
        links.get(link).restore();
    }
    drop(network);
}

/// Returns the name of the process that follows one with this name: `worker1`, `worker1-1`, `worker1-2`.
fn next_name(name: &str) -> String {
    let (base, number) = name.split_once('-').unwrap_or((name, "0"));
    let number: usize = number.parse().expect("a number");
    format!("{base}-{}", number + 1)
}
