//! Random operations, on the store and on the model, whose answers must agree.

use std::collections::VecDeque;
use std::time::Duration;

use lease_broker::lease::State;
use lease_broker::lease_id::LeaseRef;
use lease_broker::queue::{OnComplete, QueueSpec};
use lease_broker::store::{ClaimCall, Ending, Extension, NewItem, Settlement, StoreError};
use lease_broker::value::{Key, Value};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use crate::harness::Harness;
use crate::harness::bench::{Bench, Broker, about, by, item_table, new_item, queue};
use crate::harness::table::Kind;
use crate::items::{Answer, EVERY, End, Halves, MAX_ATTEMPTS, Model, Policy, id};

const BROKERS: usize = 3;
/// How many leases and requests are remembered to be used again, most of them lost.
const REMEMBERED: usize = 60;
/// How often all rows are compared.
const COMPARE_EVERY: usize = 25;

fn time(halves: Halves) -> Duration {
    Duration::from_secs(30) * u32::try_from(halves).expect("a short time")
}

fn spec(policy: Policy) -> QueueSpec {
    let mut spec = queue("item");
    spec.order = by(&["-rank"]);
    spec.retry.max_attempts = Some(MAX_ATTEMPTS);
    spec.on_complete = match policy {
        Policy::Keep => OnComplete::Keep,
        Policy::Delete => OnComplete::Delete,
        Policy::Archive => OnComplete::Archive("archive".to_owned()),
        Policy::Recur => OnComplete::Recur(time(EVERY)),
    };
    spec.filtered_indexes = policy != Policy::Delete;
    spec
}

/// What was done, shown if a comparison fails.
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
            eprintln!("the last steps with LEASE_BROKER_TEST_SEED={}:", self.seed);
            for step in &self.steps {
                eprintln!("  {step}");
            }
        }
    }
}

struct Run<H> {
    bench: Bench<H>,
    brokers: Vec<Broker>,
    model: Model,
    random: StdRng,
    leases: VecDeque<LeaseRef>,
    requests: VecDeque<(String, Uuid)>,
    next_id: i64,
    trace: Trace,
}

/// Takes `steps` random steps from `seed`.
pub(crate) async fn run<H: Harness>(policy: Policy, seed: u64, steps: usize) {
    let table = item_table("item").defaulted("rank", Kind::Int, Value::Int(0));
    let bench = Bench::<H>::over(&[table], vec![spec(policy)]).await;
    let mut brokers = Vec::new();
    for _ in 0..BROKERS {
        brokers.push(bench.another().await);
    }
    let mut run = Run {
        bench,
        brokers,
        model: Model {
            now: 0,
            items: std::collections::BTreeMap::new(),
            archived: 0,
            policy,
        },
        random: StdRng::seed_from_u64(seed),
        leases: VecDeque::new(),
        requests: VecDeque::new(),
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

    /// Some minutes and a half.
    fn some_time(&mut self) -> Halves {
        2 * self.random.random_range(0..6) + 1
    }

    fn no_time_or_some(&mut self) -> Halves {
        if self.chance(50) { 0 } else { self.some_time() }
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
            50..75 => self.settle().await,
            75..83 => self.reap().await,
            83..86 => self.redrive().await,
            86..97 => self.advance().await,
            97..99 => self.delete_by_another_program().await,
            _ => self.restart_a_broker().await,
        }
    }

    async fn enqueue(&mut self) {
        let mut items = Vec::new();
        let mut added = Vec::new();
        for _ in 0..=self.below(4) {
            let (rank, delay) = (self.random.random_range(0..3), self.no_time_or_some());
            added.push((self.next_id, rank, delay));
            let row = [("id", Value::Int(self.next_id)), ("rank", Value::Int(rank))];
            items.push(NewItem {
                delay: time(delay),
                ..new_item(&row)
            });
            self.next_id += 1;
        }
        let bad = self.chance(15).then(|| self.below(items.len()));
        if let Some(at) = bad {
            let taken = self.model.items.keys().next().copied();
            items[at].columns = match taken {
                Some(id) if self.chance(50) => vec![("id".to_owned(), Value::Int(id))],
                _ => vec![("nonsense".to_owned(), Value::Null)],
            };
        }
        self.trace.note(format!("enqueue {added:?}, bad: {bad:?}"));
        match (self.broker().try_enqueue(items).await, bad) {
            (Ok(keys), None) => {
                let ids: Vec<i64> = keys.iter().map(id).collect();
                let expected: Vec<i64> = added.iter().map(|(id, ..)| *id).collect();
                assert_eq!(ids, expected);
                for (id, rank, delay) in added {
                    self.model.add(id, rank, delay);
                }
            }
            (Err(StoreError::Rejected(rejection)), Some(at)) => assert_eq!(rejection.item, at),
            (answer, _) => panic!("{answer:?}"),
        }
    }

    async fn insert_by_another_program(&mut self) {
        let (id, rank) = (self.next_id, self.random.random_range(0..3));
        self.next_id += 1;
        self.trace.note(format!("another program inserts {id}"));
        let row = [("id", Value::Int(id)), ("rank", Value::Int(rank))];
        self.bench.harness.insert("item", &row).await;
        self.model.add(id, rank, 0);
    }

    async fn delete_by_another_program(&mut self) {
        if self.model.items.len() < 10 {
            return;
        }
        let at = self.below(self.model.items.len());
        let id = *self.model.items.keys().nth(at).expect("an item");
        self.trace.note(format!("another program deletes {id}"));
        self.bench
            .harness
            .delete("item", ("id", Value::Int(id)))
            .await;
        self.model.items.remove(&id);
    }

    /// A call of a worker: a new one, or a request sent again.
    fn call(&mut self, lasts: Halves) -> ClaimCall {
        let again = (!self.requests.is_empty() && self.chance(30))
            .then(|| self.below(self.requests.len()))
            .and_then(|at| self.requests.remove(at));
        let repeat = again.is_some() || self.chance(50);
        let (worker, token) = again.unwrap_or_else(|| {
            let worker = format!("worker {}", self.below(4));
            (worker, Uuid::from_u128(self.random.random()))
        });
        ClaimCall {
            worker,
            token,
            repeat,
            max_items: self.below(5),
            duration: time(lasts),
        }
    }

    async fn claim(&mut self) {
        let lasts = self.some_time();
        let calls: Vec<ClaimCall> = (0..=self.below(3)).map(|_| self.call(lasts)).collect();
        let wanted: Vec<_> = calls
            .iter()
            .map(|call| (&call.worker, call.token, call.repeat, call.max_items))
            .collect();
        self.trace.note(format!("claim {wanted:?}"));
        let answers = self.broker().calls(calls.clone()).await;
        for (call, items) in calls.into_iter().zip(answers) {
            let (token, repeat) = (call.token, call.repeat);
            let expected = self
                .model
                .claim(&call.worker, token, repeat, call.max_items, lasts);
            let got: Vec<i64> = items.iter().map(|item| id(&item.lease.key)).collect();
            assert_eq!(got, expected);
            for item in items {
                let model = &self.model.items[&id(&item.lease.key)];
                let lease = (item.lease.token, item.lease.fence, item.lease.attempt);
                assert_eq!(lease, (token, model.fence, model.attempt));
                let left = model.due.expect("leased") - self.model.now;
                assert!(about(item.held.time_left, time(left)), "{item:?}");
                if !self.leases.contains(&item.lease) {
                    self.leases.push_back(item.lease);
                }
            }
            if repeat {
                self.requests.push_back((call.worker, token));
            }
        }
        while self.leases.len() > REMEMBERED {
            self.leases.pop_front();
        }
        while self.requests.len() > REMEMBERED / 4 {
            self.requests.pop_front();
        }
    }

    /// Some of the leases that were ever given, now and then changed into one that was not.
    fn some_leases(&mut self) -> Vec<LeaseRef> {
        let mut leases = Vec::new();
        if self.leases.is_empty() {
            return leases;
        }
        for _ in 0..=self.below(4) {
            let at = self.below(self.leases.len());
            let mut lease = self.leases[at].clone();
            match self.below(40) {
                0 => lease.token = Uuid::from_u128(self.random.random()),
                1 => lease.fence += 1,
                2 => lease.fence -= 1,
                3 => lease.key = Key([Value::Int(self.next_id)].into()),
                _ => {}
            }
            leases.push(lease);
        }
        leases
    }

    async fn heartbeat(&mut self) {
        let lasts = self.some_time();
        let leases = self.some_leases();
        self.trace.note(format!("heartbeat {}", show(&leases)));
        let extensions = leases.iter().map(|lease| Extension {
            lease: lease.clone(),
            duration: time(lasts),
        });
        let broker = self.broker();
        let answers = broker
            .store
            .heartbeat(broker.queue, extensions.collect())
            .await;
        for (lease, held) in leases.iter().zip(answers.expect("heartbeat")) {
            assert_eq!(
                held.is_some(),
                self.model.heartbeat(lease, lasts),
                "{lease:?}"
            );
            assert!(held.is_none_or(|held| about(held.time_left, time(lasts))));
        }
    }

    async fn settle(&mut self) {
        let leases = self.some_leases();
        let mut settlements = Vec::new();
        for lease in leases {
            let end = match self.below(5) {
                0 | 1 => End::Complete,
                2 => End::Fail(None),
                3 => End::Fail(Some(self.some_time())),
                _ => End::Release(self.no_time_or_some()),
            };
            let times = if self.chance(25) { 2 } else { 1 };
            settlements.extend(std::iter::repeat_n((lease, end), times));
        }
        self.trace.note(format!(
            "settle {:?}",
            settlements
                .iter()
                .map(|(lease, end)| (id(&lease.key), lease.fence, end))
                .collect::<Vec<_>>()
        ));
        let asked = settlements.iter().map(|(lease, end)| Settlement {
            lease: lease.clone(),
            ending: ending(*end),
        });
        let broker = self.broker();
        let answers = broker.store.settle(broker.queue, asked.collect()).await;
        let answers = answers.expect("settle");
        assert_eq!(answers.len(), settlements.len());
        for ((lease, end), answer) in settlements.iter().zip(answers) {
            match self.model.settle(lease, *end) {
                Answer::Exactly(expected) => assert_eq!(answer, expected, "{lease:?} {end:?}"),
                Answer::PerhapsAgain(state) => {
                    assert!(
                        answer.is_none_or(|answer| answer == state),
                        "{lease:?} {end:?}"
                    );
                }
            }
            assert!(!self.model.is_held(lease));
        }
    }

    async fn reap(&mut self) {
        let limit = [1, 3, 1_000][self.below(3)];
        let broker = self.broker();
        let due = self.model.due();
        self.trace.note(format!("reap {limit} of {due:?}"));
        let reaped = broker.reap(limit).await;
        let delayed: Vec<i64> = broker
            .list(State::Delayed)
            .await
            .iter()
            .map(|i| id(&i.key))
            .collect();
        let mut done = Vec::new();
        for expired in reaped.expired {
            let item = &self.model.items[&id(&expired.lease.key)];
            assert_eq!(item.state, State::Leased);
            let lease = (
                Some(expired.lease.token),
                expired.lease.fence,
                expired.lease.attempt,
            );
            assert_eq!(lease, (item.token, item.fence, item.attempt));
            assert_eq!(expired.owner, item.owner);
            done.push((id(&expired.lease.key), item.due));
            assert_eq!(self.model.expire(id(&expired.lease.key)), expired.state);
        }
        let mut promoted = self.model.in_state(State::Delayed);
        promoted.retain(|id| !delayed.contains(id));
        assert_eq!(promoted.len(), reaped.promoted);
        for id in promoted {
            done.push((id, self.model.items[&id].due));
            self.model.promote(id);
        }
        assert_eq!(done.len(), due.len().min(limit));
        // What is left was not due any longer than what was done.
        let last = done.iter().map(|(_, due)| *due).max();
        for (id, _) in &done {
            assert!(due.contains(id), "{id} was not due");
        }
        let left = self.model.due();
        let first = left.first().map(|id| self.model.items[id].due);
        assert!(first.is_none_or(|first| last.is_none_or(|last| last <= first)));
        let next = self.model.items.values().filter_map(|item| item.due).min();
        match (reaped.next_due, next) {
            (None, None) => {}
            (Some(left), Some(due)) if due <= self.model.now => assert!(left.is_zero()),
            (Some(left), Some(due)) => assert!(about(left, time(due - self.model.now))),
            (got, expected) => panic!("next due {got:?}, not {expected:?}"),
        }
    }

    async fn redrive(&mut self) {
        let limit = [1, 2, 1_000][self.below(3)];
        let dead = self.model.in_state(State::Dead);
        self.trace.note(format!("redrive {limit} of {dead:?}"));
        let broker = self.broker();
        assert_eq!(broker.redrive(limit).await, dead.len().min(limit));
        let left: Vec<i64> = broker
            .list(State::Dead)
            .await
            .iter()
            .map(|i| id(&i.key))
            .collect();
        let (left, done): (Vec<_>, Vec<_>) = dead.into_iter().partition(|id| left.contains(id));
        let since = |ids: &[i64]| -> Vec<Halves> {
            ids.iter().map(|id| self.model.items[id].since).collect()
        };
        let (last, first) = (
            since(&done).into_iter().max(),
            since(&left).into_iter().min(),
        );
        assert!(first.is_none_or(|first| last.is_none_or(|last| last <= first)));
        for id in done {
            self.model.redrive(id);
        }
    }

    async fn advance(&mut self) {
        let halves = 2 * self.random.random_range(1..4);
        self.trace.note(format!("advance by {halves}"));
        self.bench.advance(time(halves)).await;
        self.model.now += halves;
    }

    async fn restart_a_broker(&mut self) {
        let at = self.below(BROKERS);
        self.trace.note(format!("restart broker {at}"));
        self.brokers[at] = self.bench.another().await;
    }

    /// Compares every row.
    async fn compare(&mut self) {
        let broker = self.broker();
        let counts = broker.counts().await;
        let now = self.model.now;
        for state in State::ALL {
            let mut listed = broker.list(state).await;
            let expected = self.model.in_state(state);
            assert_eq!(counts[state as usize], expected.len() as u64, "{state:?}");
            listed.sort_by_key(|item| id(&item.key));
            let ids: Vec<i64> = listed.iter().map(|item| id(&item.key)).collect();
            assert_eq!(ids, expected, "{state:?}");
            for row in listed {
                let item = &self.model.items[&id(&row.key)];
                let got = (
                    row.owner.clone(),
                    row.fence,
                    row.attempt,
                    row.error.is_some(),
                );
                let expected = (item.owner.clone(), item.fence, item.attempt, item.has_error);
                assert_eq!(got, expected, "{row:?}");
                match (row.due_in, item.due) {
                    (None, None) => {}
                    (Some(left), Some(due)) if due <= now => assert!(left.is_zero(), "{row:?}"),
                    (Some(left), Some(due)) => assert!(about(left, time(due - now)), "{row:?}"),
                    _ => panic!("{row:?} is due at {:?}", item.due),
                }
                let age = time(now - item.since);
                assert!(
                    row.age.is_none_or(|is| is >= age && is < age + time(1)),
                    "{row:?}"
                );
            }
        }
        if self.model.policy == Policy::Archive {
            let archived = self.bench.harness.rows("archive", &["id"]).await;
            assert_eq!(archived.len(), self.model.archived);
        }
    }
}

fn show(leases: &[LeaseRef]) -> String {
    let leases: Vec<_> = leases
        .iter()
        .map(|lease| (id(&lease.key), lease.fence))
        .collect();
    format!("{leases:?}")
}

fn ending(end: End) -> Ending {
    match end {
        End::Complete => Ending::Complete {
            follow_ups: Vec::new(),
        },
        End::Fail(retry) => Ending::Fail {
            error: "no luck".to_owned(),
            retry: retry.map(time),
        },
        End::Release(delay) => Ending::Release { delay: time(delay) },
    }
}
