//! Random operations of two brokers and three workers. After each claim the rows say whether it was allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;
use lease_broker_store::{Claimed, ClaimedItem};
use lease_broker_value::Value;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::harness::Harness;
use crate::harness::fixture::{Fixture, HOUR, MINUTE, call, fail, queue, release, text};
use crate::harness::table::{Kind, Table};

const GROUP_NAMES: [&str; 6] = ["a", "b", "c", "d", "e", ""];
const GROUP_MAX_LEASES: usize = 2;
const MAX_LEASES: usize = 4;
const BURST: u32 = 6;
/// The time that passes before a claim in some steps.
const PAUSE: Duration = Duration::from_secs(600);

/// The rules of the groups.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rules {
    Strict {
        halts: bool,
    },
    /// With a limit of leases of a group and of the queue, and with a rate.
    Parallel,
}

/// A row: its key and its state.
type Row = (i64, i64);

/// The table at one time: the rows of each group, in their order.
struct Snapshot(BTreeMap<String, Vec<Row>>);

impl Snapshot {
    async fn read<H: Harness>(fixture: &Fixture<H>) -> Self {
        let rows = fixture
            .harness
            .rows("item", &["id", "customer", "lease_state"])
            .await;
        let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let (Value::Int(id), Value::Int(state)) = (&row[0], &row[2]) else {
                panic!("{row:?}");
            };
            let name = match &row[1] {
                Value::Text(name) => name.clone(),
                _ => String::new(),
            };
            groups.entry(name).or_default().push((*id, *state));
        }
        Self(groups)
    }

    fn leased(&self) -> usize {
        let rows = self.0.values().flatten();
        rows.filter(|(_, state)| *state == 1).count()
    }

    /// Returns the items that may be leased now, by group.
    fn claimable(&self, rules: Rules) -> BTreeMap<String, BTreeSet<i64>> {
        let mut claimable = BTreeMap::new();
        for (name, rows) in &self.0 {
            let ready = rows.iter().filter(|(_, state)| *state == 0);
            let ready = ready.map(|(id, _)| *id);
            let leased = rows.iter().filter(|(_, state)| *state == 1).count();
            let items: BTreeSet<i64> = match rules {
                _ if name.is_empty() => ready.collect(),
                Rules::Parallel => ready
                    .take(GROUP_MAX_LEASES.saturating_sub(leased))
                    .collect(),
                Rules::Strict { .. } if leased > 0 => BTreeSet::new(),
                Rules::Strict { halts } => {
                    let holds = |state: i64| state <= 2 || halts && state == 4;
                    let first = rows.iter().find(|(_, state)| holds(*state));
                    let first = first.filter(|(_, state)| *state == 0);
                    first.map(|(id, _)| *id).into_iter().collect()
                }
            };
            if !items.is_empty() {
                claimable.insert(name.clone(), items);
            }
        }
        claimable
    }
}

/// The groups that each group has to wait for: since it was served last, they could have been served at each claim.
#[derive(Default)]
struct Turns(BTreeMap<String, BTreeSet<String>>);

impl Turns {
    fn serve(&mut self, claimable: &BTreeSet<String>, served: &BTreeSet<String>, step: usize) {
        for waiting in self.0.values_mut() {
            waiting.retain(|group| claimable.contains(group));
        }
        for group in served {
            if let Some(waiting) = self.0.get(group) {
                let passed: Vec<_> = waiting.difference(served).collect();
                assert!(
                    passed.is_empty(),
                    "step {step}: {group} again before {passed:?}"
                );
            }
        }
        for waiting in self.0.values_mut() {
            waiting.retain(|group| !served.contains(group));
        }
        for group in served {
            let others = claimable.difference(served).cloned();
            self.0.insert(group.clone(), others.collect());
        }
    }
}

fn spec(rules: Rules) -> QueueSpec {
    let mut spec = queue("item");
    spec.retry.max_attempts = Some(4);
    let order = match rules {
        Rules::Strict { halts } => GroupOrder::Strict { halts },
        Rules::Parallel => GroupOrder::Parallel {
            max_leases: u32::try_from(GROUP_MAX_LEASES).ok(),
        },
    };
    spec.groups = Some(Groups {
        column: "customer".to_owned(),
        order,
        rate: None,
    });
    if let Rules::Parallel = rules {
        spec.limits = QueueLimits {
            max_leases: u32::try_from(MAX_LEASES).ok(),
            rate: Some(Rate {
                items: 6,
                per: HOUR,
                burst: BURST,
            }),
        };
    }
    spec
}

/// Inserts an item, unless one has its id.
async fn add_item<H: Harness>(fixture: &Fixture<H>, id: i64, group: &str) {
    let rows = fixture.harness.rows("item", &["id"]).await;
    if rows.contains(&vec![Value::Int(id)]) {
        return;
    }
    let customer = match group {
        "" => Value::Null,
        name => text(name),
    };
    let row = [("id", Value::Int(id)), ("customer", customer)];
    fixture.harness.insert("item", &row).await;
}

/// Returns the groups of the items that a claim has got. All must have been claimable.
fn groups_of(
    claimed: &Claimed,
    before: &Snapshot,
    claimable: &BTreeMap<String, BTreeSet<i64>>,
    rules: Rules,
    step: usize,
) -> BTreeSet<String> {
    // A suspect goes alone. In a parallel group it may have others before it.
    let goes_alone = claimed.is_held_back && matches!(rules, Rules::Parallel);
    let group_of = |item: &ClaimedItem| {
        let Value::Int(id) = item.lease.key.0[0] else {
            panic!("{item:?}");
        };
        let mut groups = claimable.iter();
        let group = groups.find(|(name, items)| {
            items.contains(&id) || goes_alone && before.0[*name].contains(&(id, 0))
        });
        let (group, _) =
            group.unwrap_or_else(|| panic!("step {step}: {id} must not be leased: {:?}", before.0));
        group.clone()
    };
    claimed.items.iter().map(group_of).collect()
}

pub(super) async fn run<H: Harness>(rules: Rules, seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("customer", Kind::Text)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![spec(rules)]).await;
    let brokers = [(*fixture).clone(), fixture.another().await];
    let mut held: Vec<LeaseRef> = Vec::new();
    let mut turns = Turns::default();
    let (mut next_id, mut leases, mut empty) = (1_000_i64, 0, 0);
    // The items that were given out, with the time at which they were.
    let (mut given, mut now) = (Vec::new(), Duration::ZERO);
    for step in 0..steps {
        let broker = brokers.choose(&mut random).expect("a broker");
        match random.random_range(0..100) {
            0..22 => {
                let id = if random.random_bool(0.3) {
                    // Ahead of most others.
                    random.random_range(0..1_000)
                } else {
                    next_id
                };
                next_id += 1;
                let name = *GROUP_NAMES.choose(&mut random).expect("a name");
                add_item(&fixture, id, name).await;
            }
            22..60 => {
                let before = Snapshot::read(&fixture).await;
                let claimable = before.claimable(rules);
                let worker = *["x", "y", "z"].choose(&mut random).expect("a worker");
                let wanted = random.random_range(1..6);
                let claimed = broker.results(vec![call(worker, wanted)]).await.remove(0);
                let served = groups_of(&claimed, &before, &claimable, rules, step);
                let count = claimed.items.len();
                let mut allowed: usize = claimable.values().map(BTreeSet::len).sum();
                if let Rules::Parallel = rules {
                    assert!(before.leased() + count <= MAX_LEASES.max(before.leased()));
                    allowed = allowed.min(MAX_LEASES.saturating_sub(before.leased()));
                    given.extend(std::iter::repeat_n(now, count));
                    check_rate(&given);
                    if let Some(lease_broker_store::Limited::Rate { .. }) = claimed.limited {
                        allowed = 0;
                    }
                }
                if !claimed.is_held_back && !matches!(rules, Rules::Parallel) {
                    assert_eq!(count, allowed.min(wanted), "step {step}: {claimed:?}");
                }
                if claimed.is_held_back {
                    // Suspects go alone, out of turn.
                    turns = Turns::default();
                } else {
                    turns.serve(&claimable.into_keys().collect(), &served, step);
                }
                leases += count;
                empty += usize::from(count == 0);
                held.extend(claimed.items.into_iter().map(|item| item.lease));
            }
            60..88 if !held.is_empty() => {
                let lease = held.swap_remove(random.random_range(0..held.len()));
                let ending = match random.random_range(0..10) {
                    0 => fail(None),
                    1 => fail(Some(MINUTE)),
                    2 => release(Duration::ZERO),
                    3 => release(MINUTE),
                    _ => crate::harness::fixture::complete(),
                };
                broker.settle(&lease, ending).await;
            }
            88..92 => {
                now += PAUSE;
                fixture.advance(PAUSE).await;
                broker.reap(100).await;
            }
            92..94 => {
                // Every lease expires: its worker has crashed.
                now += 2 * HOUR;
                fixture.advance(2 * HOUR).await;
                broker.reap(100).await;
                held.clear();
            }
            94..98 => {
                broker.redrive(1).await;
            }
            _ => {}
        }
    }
    assert!(
        leases > steps / 20 && empty > 0,
        "{leases} leases, {empty} empty claims"
    );
}

/// Checks that no window of time has more items than the burst and the rate allow.
fn check_rate(given: &[Duration]) {
    for (first, start) in given.iter().enumerate() {
        let window = given[given.len() - 1].saturating_sub(*start);
        // A little time also passes between two operations.
        let hours = (window + MINUTE).as_secs_f64() / 3_600.0;
        let count = given.len() - first;
        let bound = f64::from(BURST) + 6.0 * hours;
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let count = count as f64;
        assert!(
            count <= bound,
            "{count} items in {window:?}, at most {bound}"
        );
    }
}
