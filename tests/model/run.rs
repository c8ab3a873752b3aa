//! A run: random operations on the store and on the model. Both must give the same results.

#[path = "compare.rs"]
mod compare;
#[path = "maintenance.rs"]
mod maintenance;
#[path = "producers.rs"]
mod producers;
#[path = "workers.rs"]
mod workers;

use std::collections::VecDeque;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::NewItem;
use lease_broker_value::Value;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, by, item_table, queue};
use crate::harness::table::Kind;
use crate::model::queue_model::{Halves, MAX_ATTEMPTS, Model, Policy, RECUR_AFTER, time};

const BROKERS: usize = 3;
/// Number of steps between two comparisons of all rows.
const COMPARE_EVERY: usize = 25;

/// Returns whether `left` is `expected` minus at most half an hour. The clock of some stores runs during the test. Stores round
/// times to milliseconds, so it can be one more.
fn about(left: Duration, expected: Duration) -> bool {
    left <= expected + Duration::from_millis(1) && left + time(1) > expected
}

fn spec(policy: Policy) -> QueueSpec {
    let mut spec = queue("item");
    spec.order = by(&["-rank"]);
    spec.retry.max_attempts = Some(MAX_ATTEMPTS);
    spec.on_complete = match policy {
        Policy::Keep => OnComplete::Keep,
        Policy::Delete => OnComplete::Delete,
        Policy::Archive => OnComplete::Archive("archive".to_owned()),
        Policy::Recur => OnComplete::Recur(time(RECUR_AFTER)),
    };
    if policy != Policy::Delete {
        spec.writable = vec!["result".to_owned()];
    }
    spec.filtered_indexes = policy != Policy::Delete;
    spec.max_checkpoint_bytes = (policy != Policy::Delete).then_some(64);
    spec
}

/// The last 40 steps, printed if a comparison fails.
struct Trace {
    seed: u64,
    steps: VecDeque<String>,
}

impl Trace {
    fn note(&mut self, step: String) {
        if self.steps.len() == 40 {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last steps of LEASE_BROKER_TEST_SEED={}:", self.seed);
            for step in &self.steps {
                eprintln!("  {step}");
            }
        }
    }
}

struct Run<H> {
    fixture: Fixture<H>,
    brokers: Vec<Broker>,
    model: Model,
    random: StdRng,
    leases: VecDeque<LeaseRef>,
    requests: VecDeque<(String, Uuid)>,
    /// Enqueue requests with ids that were applied: their items and keys.
    enqueued: Vec<(Uuid, Vec<NewItem>, Vec<Key>)>,
    next_id: i64,
    trace: Trace,
}

/// Runs `steps` random steps, chosen from `seed`.
pub(crate) async fn run<H: Harness>(policy: Policy, seed: u64, steps: usize) {
    let table = item_table("item")
        .defaulted("rank", Kind::Int, Value::Int(0))
        .defaulted("result", Kind::Int, Value::Int(0));
    let fixture = Fixture::<H>::over(&[table], vec![spec(policy)]).await;
    let mut brokers = Vec::new();
    for _ in 0..BROKERS {
        brokers.push(fixture.another().await);
    }
    let mut run = Run {
        fixture,
        brokers,
        model: Model {
            now: 0,
            items: std::collections::BTreeMap::new(),
            suspects: lease_broker_proof::suspects::SuspectList::default(),
            archived: std::collections::BTreeMap::new(),
            policy,
            queue: spec(policy),
        },
        random: StdRng::seed_from_u64(seed),
        leases: VecDeque::new(),
        requests: VecDeque::new(),
        enqueued: Vec::new(),
        next_id: 1,
        trace: Trace {
            seed,
            steps: VecDeque::new(),
        },
    };
    for step in 0..steps {
        run.step().await;
        if step % COMPARE_EVERY == 0 {
            run.compare().await;
        }
    }
    run.compare().await;
}

impl<H: Harness> Run<H> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// Returns a random duration: a whole number of hours plus half an hour.
    fn random_time(&mut self) -> Halves {
        2 * self.random.random_range(0..6) + 1
    }

    fn zero_or_random_time(&mut self) -> Halves {
        if self.chance(50) {
            0
        } else {
            self.random_time()
        }
    }

    fn broker(&mut self) -> Broker {
        let at = self.below(BROKERS);
        self.brokers[at].clone()
    }

    async fn step(&mut self) {
        match self.below(100) {
            0..12 => self.enqueue().await,
            12..16 => self.insert_by_another_program().await,
            16..36 => self.claim().await,
            36..50 => self.heartbeat().await,
            50..72 => self.settle().await,
            72..75 => self.release_requests().await,
            75..83 => self.reap().await,
            83..86 => self.redrive().await,
            86..90 => self.cancel().await,
            90..97 => self.advance().await,
            97..99 => self.delete_by_another_program().await,
            _ => self.restart_a_broker().await,
        }
    }
}
