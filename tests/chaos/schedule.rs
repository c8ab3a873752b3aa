//! The faults of a run, as a function of its seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// A connection between two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Clients,
    /// Between the load balancer and a broker.
    Broker(usize),
    /// Between a broker and the database server. There is none on an embedded file.
    Store(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    KillBroker {
        broker: usize,
        down: Duration,
    },
    TerminateBroker {
        broker: usize,
    },
    /// SIGSTOP, and SIGCONT after this time.
    PauseBroker {
        broker: usize,
        time: Duration,
    },
    KillWorker {
        worker: usize,
    },
    PauseWorker {
        worker: usize,
        time: Duration,
    },
    /// All connections are reset.
    Cut {
        link: Link,
    },
    /// One direction stalls, and then the connections are reset.
    HalfOpen {
        link: Link,
        to_server: bool,
        time: Duration,
    },
    Delay {
        link: Link,
        delay: Duration,
        time: Duration,
    },
    /// Each byte is sent by itself.
    Fragment {
        link: Link,
        time: Duration,
    },
    /// Another program locks the store.
    LockStore {
        time: Duration,
    },
    KillBalancer {
        down: Duration,
    },
}

impl Fault {
    /// Returns the name under which the fault is counted.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::KillBroker { .. } => "broker SIGKILL",
            Self::TerminateBroker { .. } => "broker SIGTERM",
            Self::PauseBroker { .. } => "broker SIGSTOP",
            Self::KillWorker { .. } => "worker SIGKILL",
            Self::PauseWorker { .. } => "worker SIGSTOP",
            Self::Cut { .. } => "all connections cut",
            Self::HalfOpen { .. } => "connections half open",
            Self::Delay { .. } => "connections delayed",
            Self::Fragment { .. } => "bytes one by one",
            Self::LockStore { .. } => "store locked",
            Self::KillBalancer { .. } => "balancer SIGKILL",
        }
    }
}

/// The properties of a run on which its faults depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) brokers: usize,
    pub(crate) workers: usize,
    /// Whether a network lies between brokers and store.
    pub(crate) has_store_links: bool,
    pub(crate) lease: Duration,
}

/// Returns the pauses and the faults of a run, without end. `mean_pause`: the mean time from one fault to the next.
pub(crate) fn schedule(
    seed: u64,
    shape: Shape,
    mean_pause: Duration,
) -> impl Iterator<Item = (Duration, Fault)> {
    let mut random = StdRng::seed_from_u64(seed);
    std::iter::from_fn(move || {
        let pause = mean_pause.mul_f64(random.random_range(0.0..2.0));
        Some((pause, fault(&mut random, shape)))
    })
}

fn fault(random: &mut StdRng, shape: Shape) -> Fault {
    let broker = random.random_range(0..shape.brokers);
    let worker = random.random_range(0..shape.workers);
    let links = if shape.has_store_links { 3 } else { 2 };
    let link = match random.random_range(0..links) {
        0 => Link::Clients,
        1 => Link::Broker(broker),
        _ => Link::Store(broker),
    };
    let up_to = |random: &mut StdRng, most: Duration| most.mul_f64(random.random_range(0.05..1.0));
    let second = Duration::from_secs(1);
    // The numbers are weights.
    match random.random_range(0..18) {
        0..4 => Fault::KillBroker {
            broker,
            down: up_to(random, second / 2),
        },
        4..6 => Fault::PauseBroker {
            broker,
            time: up_to(random, 2 * shape.lease),
        },
        6..8 => Fault::TerminateBroker { broker },
        8 => Fault::KillWorker { worker },
        9 => Fault::PauseWorker {
            worker,
            time: up_to(random, 2 * shape.lease),
        },
        10..13 => Fault::Cut { link },
        13 => Fault::HalfOpen {
            link,
            to_server: random.random(),
            time: up_to(random, 2 * second),
        },
        14 => Fault::Delay {
            link,
            delay: up_to(random, second / 10),
            time: up_to(random, 2 * second),
        },
        15 => Fault::Fragment {
            link,
            time: up_to(random, second),
        },
        16 => Fault::LockStore {
            time: up_to(random, 5 * second),
        },
        _ => Fault::KillBalancer {
            down: up_to(random, second / 2),
        },
    }
}

mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn first_faults(seed: u64) -> Vec<(Duration, Fault)> {
        let shape = Shape {
            brokers: 2,
            workers: 3,
            has_store_links: true,
            lease: Duration::from_secs(2),
        };
        schedule(seed, shape, Duration::from_secs(1))
            .take(500)
            .collect()
    }

    #[test]
    fn seed_decides_the_faults() {
        assert_eq!(first_faults(1), first_faults(1));
        assert_ne!(first_faults(1), first_faults(2));
    }

    #[test]
    fn every_kind_of_fault_occurs() {
        let names = first_faults(3);
        let names: BTreeSet<&str> = names.iter().map(|(_, fault)| fault.name()).collect();
        assert_eq!(names.len(), 11, "{names:?}");
    }
}
