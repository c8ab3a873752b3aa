//! The model of the protocol as it ships: workers, a network that loses, repeats and delays, a store, a reaper and operators.

mod actions;
mod history;
mod mistakes;
mod world;

#[cfg(test)]
mod tests;

use std::time::Duration;

use lease_broker_model::item_state::{Backoff, RetryPolicy};
use lease_broker_model::queue::{LeaseBounds, OnComplete, Order, QueueSpec};
use stateright::{Model, Property};

pub use self::actions::Action;
pub use self::history::Promise;
pub use self::mistakes::Mistake;
pub use self::world::World;

use self::world::TICK;
use crate::domain::Replayed;
use crate::test_queue;

/// The number of workers.
pub const WORKERS: usize = 2;

/// What can happen, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of rows, 1 or 2. A claim takes all that are ready, so two rows share a token.
    pub rows: usize,
    /// The last moment, in ticks. A lease lasts two ticks, a delay one.
    pub ticks: i8,
    /// New claims of each worker.
    pub claims: u8,
    /// Other calls of each worker.
    pub calls: u8,
    /// Requests that arrive once more: sent again by the worker, or repeated by a balancer.
    pub copies: u8,
    /// Crashes of workers.
    pub crashes: u8,
    /// Cancellations by operators.
    pub cancels: u8,
    /// Redrives.
    pub redrives: u8,
    /// Steps of the store's clock by two ticks, forward.
    pub steps_forward: u8,
    /// Steps of the store's clock by two ticks, backward.
    pub steps_back: u8,
    /// Statements of another program, as `docs/plain-sql.md` has them.
    pub foreign: u8,
    /// Statements of another program that make a leased row ready and keep its token. `docs/plain-sql.md` warns of them.
    pub careless: u8,
    /// Restores of a backup that was made before.
    pub restores: u8,
}

impl Bounds {
    /// One row, one claim and one further call of each worker, and no faults but lost and late messages.
    pub const SMALL: Self = Self {
        rows: 1,
        ticks: 3,
        claims: 1,
        calls: 1,
        copies: 0,
        crashes: 0,
        cancels: 0,
        redrives: 0,
        steps_forward: 0,
        steps_back: 0,
        foreign: 0,
        careless: 0,
        restores: 0,
    };
}

/// The model.
#[derive(Clone, Debug)]
pub struct LeaseModel {
    /// The queue whose rules hold.
    pub queue: QueueSpec,
    /// What can happen.
    pub bounds: Bounds,
    /// A mistake in the store. `None`: it is correct.
    pub mistake: Option<Mistake>,
    /// What the replay runs through the stores. Each step of the model is among it.
    pub replayed: Replayed,
}

impl LeaseModel {
    /// Returns the model of a correct store. Items have two attempts.
    pub fn new(on_complete: OnComplete, bounds: Bounds) -> Self {
        Self {
            queue: queue(on_complete),
            bounds,
            mistake: None,
            replayed: Replayed::default(),
        }
    }
}

/// Returns the time until a completed item of a recurring queue is ready.
pub const fn recur_after() -> Duration {
    TICK
}

/// Returns a queue whose items have two attempts.
pub(crate) fn queue(on_complete: OnComplete) -> QueueSpec {
    let hour = Duration::from_secs(3_600);
    QueueSpec {
        order: Order::None,
        lease: LeaseBounds {
            default: hour,
            min: hour,
            max: hour,
        },
        retry: RetryPolicy {
            max_attempts: Some(2),
            backoff: Backoff {
                initial: TICK,
                factor: 1.0,
                max: TICK,
                jitter: 0.0,
            },
        },
        on_complete,
        max_item_bytes: usize::MAX,
        max_response_bytes: usize::MAX,
        enqueue_memory: hour,
        allows_purge: false,
        ..test_queue::spec("item")
    }
}

impl Model for LeaseModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // Nothing is looked at behind a broken promise.
        if world.broken.is_none() {
            world.actions(&self.bounds, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(self, action);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties: Vec<Property<Self>> = Promise::PROPERTIES.to_vec();
        properties.extend([
            Property::sometimes("an item is completed", |_, world: &World| {
                world.shows.completed
            }),
            Property::sometimes(
                "a second lease follows an expired one",
                |_, world: &World| world.shows.second_lease,
            ),
            Property::sometimes("a call comes too late", |_, world: &World| {
                world.shows.late_call
            }),
            Property::sometimes(
                "a settlement is recognized",
                |model: &Self, world: &World| {
                    let sends_again = model.bounds.copies > 0 || model.bounds.calls > 1;
                    world.shows.repeated || !sends_again
                },
            ),
        ]);
        properties
    }
}
