//! Plans: all that a run does, made from a seed.

use std::time::Duration;

use lease_broker_store::Concurrency;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::database::Sabotage;

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) sabotage: Sabotage,
    /// The number of items at the start.
    pub(super) items: i64,
    pub(super) brokers: usize,
    /// Which store operations of a kind run at the same time.
    pub(super) concurrency: Concurrency,
    pub(super) lease: Duration,
    pub(super) workers: Vec<WorkerPlan>,
    pub(super) faults: Vec<(Duration, Fault)>,
}

#[derive(Clone, Debug)]
pub(super) struct WorkerPlan {
    pub(super) turns: Vec<Turn>,
}

/// A claim and what becomes of its leases.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) pause: Duration,
    pub(super) broker: usize,
    pub(super) max_items: usize,
    pub(super) wait: Option<Duration>,
    pub(super) has_request_id: bool,
    /// The caller goes away after this time.
    pub(super) gone_after: Option<Duration>,
    pub(super) work: Duration,
    pub(super) heartbeat: bool,
    pub(super) end: End,
    /// The settlement also claims the next items.
    pub(super) next: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Complete,
    Retry,
    DeadLetter,
    Release,
    /// The worker crashes. Its leases expire.
    Crash,
}

#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The store fails all operations for this time.
    Outage(Duration),
    /// The store's clock is stepped, in milliseconds.
    StepClock(i64),
    /// Another program inserts items.
    Insert(i64),
    /// A producer adds items through this broker. One list has an item that the table refuses.
    Enqueue(usize, usize, bool),
    /// An operator cancels the lease on this item.
    Cancel(i64),
    /// The broker is stopped, and another one starts.
    Stop(usize),
    /// The broker is killed, and another one starts.
    Kill(usize),
}

fn millis(random: &mut StdRng, most: u64) -> Duration {
    Duration::from_millis(random.random_range(0..=most))
}

impl Plan {
    pub(super) fn new(seed: u64, sabotage: Sabotage) -> Self {
        let random = &mut StdRng::seed_from_u64(seed);
        let workers = (0..random.random_range(1..=5))
            .map(|_| WorkerPlan {
                turns: (0..random.random_range(1..=6))
                    .map(|_| turn(random))
                    .collect(),
            })
            .collect();
        let faults = (0..random.random_range(0..=4))
            .map(|_| (millis(random, 20_000), fault(random)))
            .collect();
        Self {
            seed,
            sabotage,
            items: random.random_range(1..=8),
            brokers: random.random_range(1..=2),
            concurrency: [Concurrency::Pipelined, Concurrency::Parallel(4)]
                [random.random_range(0..2)],
            lease: Duration::from_secs([2, 6, 600][random.random_range(0..3)]),
            workers,
            faults,
        }
    }

    /// Returns whether nothing loses a lease: no worker crashes, and no broker.
    pub(super) fn loses_no_lease(&self) -> bool {
        let turns = || self.workers.iter().flat_map(|worker| &worker.turns);
        let crashes = turns().any(|turn| matches!(turn.end, End::Crash));
        let is_harmful = |fault: &Fault| {
            matches!(
                fault,
                Fault::Outage(_) | Fault::Kill(_) | Fault::Stop(_) | Fault::StepClock(_)
            )
        };
        !crashes && !self.faults.iter().any(|(_, fault)| is_harmful(fault))
    }

    /// Returns the number of parts that can be left out.
    pub(super) fn size(&self) -> usize {
        let turns = self.workers.iter().map(|worker| worker.turns.len());
        turns.sum::<usize>() + self.workers.len() + self.faults.len()
    }
}

fn turn(random: &mut StdRng) -> Turn {
    let ends = [
        End::Complete,
        End::Complete,
        End::Complete,
        End::Retry,
        End::DeadLetter,
        End::Release,
        End::Crash,
    ];
    Turn {
        pause: millis(random, 3_000),
        broker: random.random_range(0..4),
        max_items: random.random_range(1..=4),
        wait: random.random_bool(0.6).then(|| millis(random, 8_000)),
        has_request_id: random.random_bool(0.4),
        gone_after: random.random_bool(0.2).then(|| millis(random, 2_000)),
        work: millis(random, 3_000),
        heartbeat: random.random_bool(0.5),
        end: ends[random.random_range(0..ends.len())],
        next: random.random_bool(0.3),
    }
}

fn fault(random: &mut StdRng) -> Fault {
    match random.random_range(0..10) {
        0 | 8 | 9 => Fault::Outage(millis(random, 4_000)),
        1 => Fault::StepClock([5_000, -5_000][random.random_range(0..2)]),
        2 => Fault::Insert(random.random_range(1..=3)),
        3 | 4 => Fault::Enqueue(
            random.random_range(0..4),
            random.random_range(1..=3),
            random.random_bool(0.3),
        ),
        5 => Fault::Cancel(random.random_range(1..=8)),
        6 => Fault::Stop(random.random_range(0..4)),
        _ => Fault::Kill(random.random_range(0..4)),
    }
}
