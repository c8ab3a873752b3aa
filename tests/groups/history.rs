//! Random operations of two brokers and three workers. After each claim the rows say whether it was allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;
use lease_broker_store::{ClaimCall, Claimed, ClaimedItem, Ending, Settled};
use lease_broker_value::Value;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, HOUR, MINUTE, call, fail, queue, release, text};
use crate::harness::table::{Kind, Table};

const GROUP_NAMES: [&str; 6] = ["a", "b", "c", "d", "e", ""];
const MAX_LEASES: usize = 4;
/// The rate of the queue, and that of each group.
const RATE: Rate = Rate {
    items: 6,
    per: HOUR,
    burst: 6,
};
const GROUP_RATE: Rate = Rate {
    items: 4,
    per: HOUR,
    burst: 3,
};
/// The time that passes before a claim in some steps.
const PAUSE: Duration = Duration::from_secs(600);

/// The rules of the groups.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rules {
    Strict {
        halts: bool,
        /// The maximum number of items of a run.
        run: usize,
    },
    /// With a limit of leases and a rate of each group, and also of the queue if there is no burst.
    Parallel { bursts: bool },
}

impl Rules {
    /// Returns the names of the groups. A burst needs a time in which no other group can give an item, so there are few.
    const fn group_names(self) -> &'static [&'static str] {
        match self {
            Self::Parallel { bursts: true } => &["a", "b"],
            _ => &GROUP_NAMES,
        }
    }

    /// Returns the maximum number of leases of a group.
    const fn group_max_leases(self) -> usize {
        match self {
            Self::Parallel { bursts: false } => 2,
            Self::Parallel { bursts: true } | Self::Strict { .. } => 1,
        }
    }
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

    /// Returns the ready items, by group.
    fn ready(&self) -> BTreeMap<String, BTreeSet<i64>> {
        let ready = |rows: &Vec<Row>| {
            let rows = rows.iter().filter(|(_, state)| *state == 0);
            rows.map(|(id, _)| *id).collect()
        };
        let groups = self.0.iter();
        groups
            .map(|(name, rows)| (name.clone(), ready(rows)))
            .collect()
    }

    /// Returns the items that a claim with runs of up to `max_run` items may lease now, by group. Those of a burst are none of them.
    fn claimable(&self, rules: Rules, max_run: usize) -> BTreeMap<String, BTreeSet<i64>> {
        let mut claimable = BTreeMap::new();
        for (name, rows) in &self.0 {
            let ready = rows.iter().filter(|(_, state)| *state == 0);
            let ready = ready.map(|(id, _)| *id);
            let leased = rows.iter().filter(|(_, state)| *state == 1).count();
            let items: BTreeSet<i64> = match rules {
                _ if name.is_empty() => ready.collect(),
                Rules::Parallel { .. } => ready
                    .take(rules.group_max_leases().saturating_sub(leased))
                    .collect(),
                Rules::Strict { .. } if leased > 0 => BTreeSet::new(),
                Rules::Strict { halts, run } => {
                    let blocks = |state: i64| state == 2 || halts && state == 4;
                    let is_blocked = rows.iter().any(|(_, state)| blocks(*state));
                    let first = rows
                        .iter()
                        .position(|(_, state)| *state == 0 || blocks(*state));
                    let first = first.filter(|first| rows[*first].1 == 0);
                    let count = match (first, is_blocked) {
                        (None, _) => 0,
                        (Some(_), true) => 1,
                        (Some(_), false) => run.min(max_run).max(1),
                    };
                    ready.take(count).collect()
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

/// The claims until now.
struct Past {
    rules: Rules,
    turns: Turns,
    /// The times at which items were given out.
    given: Vec<Duration>,
    /// The same for each group.
    given_of: BTreeMap<String, Vec<Duration>>,
    /// The number of items that exceeded the limits of their groups.
    bursts: usize,
}

impl Past {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            turns: Turns::default(),
            given: Vec::new(),
            given_of: BTreeMap::new(),
            bursts: 0,
        }
    }

    /// Checks a claim that wanted this number of items, of the groups with these names, if there are some.
    fn check(
        &mut self,
        claimed: &Claimed,
        (before, call, named): (&Snapshot, &ClaimCall, &[&str]),
        now: Duration,
        step: usize,
    ) {
        let rules = self.rules;
        let mut claimable = before.claimable(rules, call.max_run);
        if !named.is_empty() {
            claimable.retain(|name, _| named.contains(&name.as_str()));
        }
        let may_burst = named.is_empty() && matches!(rules, Rules::Parallel { bursts: true });
        let may_be_leased = if may_burst {
            before.ready()
        } else {
            claimable.clone()
        };
        let served = groups_of(claimed, (before, &may_be_leased), rules, step);
        if may_burst && !claimed.is_held_back {
            let tokens = |name: &str| tokens(self.given_of.get(name), now);
            self.bursts += check_burst(claimed, &claimable, tokens, step);
        }
        let count = claimed.items.len();
        match rules {
            Rules::Parallel { bursts } => {
                if !bursts {
                    assert!(before.leased() + count <= MAX_LEASES.max(before.leased()));
                    self.given.extend(std::iter::repeat_n(now, count));
                    check_rate(&self.given, RATE);
                }
                for name in served.iter().filter(|name| !name.is_empty()) {
                    let given = self.given_of.entry(name.clone()).or_default();
                    given.push(now);
                    check_rate(given, GROUP_RATE);
                }
            }
            Rules::Strict { .. } if !claimed.is_held_back => {
                let allowed: usize = claimable.values().map(BTreeSet::len).sum();
                assert_eq!(
                    count,
                    allowed.min(call.max_items),
                    "step {step}: {claimed:?}"
                );
                check_runs(&claimed.items, &served, &claimable, step);
            }
            Rules::Strict { .. } => {}
        }
        if claimed.is_held_back || !named.is_empty() {
            // Suspects go alone, out of turn. A claim of named groups takes no turn.
            self.turns = Turns::default();
        } else {
            let has_token = |name: &String| tokens(self.given_of.get(name), now) > 0;
            let certain = claimable.into_keys().filter(has_token).collect();
            self.turns
                .serve(&certain, &served.into_iter().collect(), step);
        }
    }
}

fn spec(rules: Rules) -> QueueSpec {
    let mut spec = queue("item");
    spec.retry.max_attempts = Some(4);
    let order = match rules {
        Rules::Strict { halts, run } => GroupOrder::Strict {
            halts,
            run: u32::try_from(run).expect("a small number"),
        },
        Rules::Parallel { bursts } => GroupOrder::Parallel {
            max_leases: u32::try_from(rules.group_max_leases()).ok(),
            bursts,
        },
    };
    spec.groups = Some(Groups {
        column: "customer".to_owned(),
        order,
        rate: matches!(rules, Rules::Parallel { .. }).then_some(GROUP_RATE),
    });
    if let Rules::Parallel { bursts: false } = rules {
        spec.limits = QueueLimits {
            max_leases: u32::try_from(MAX_LEASES).ok(),
            rate: Some(RATE),
        };
    }
    spec
}

/// Checks that a claim got the first items of each group that it may lease, in their order, and as one run if there are several.
fn check_runs(
    items: &[ClaimedItem],
    groups: &[String],
    claimable: &BTreeMap<String, BTreeSet<i64>>,
    step: usize,
) {
    let mut got: BTreeMap<&str, (Vec<i64>, BTreeSet<u32>)> = BTreeMap::new();
    for (item, name) in items.iter().zip(groups) {
        let (ids, runs) = got.entry(name).or_default();
        ids.push(id_of(&item.lease));
        runs.insert(item.run);
    }
    let of_groups = got.iter().filter(|(name, _)| !name.is_empty());
    for (name, (ids, runs)) in of_groups {
        let first: Vec<i64> = claimable[*name].iter().take(ids.len()).copied().collect();
        assert_eq!(*ids, first, "step {step}: {name}");
        let is_run = runs.len() == 1 && !runs.contains(&0);
        assert!(is_run || ids.len() == 1, "step {step}: {name}: {runs:?}");
    }
}

fn id_of(lease: &LeaseRef) -> i64 {
    match lease.key.0[0] {
        Value::Int(id) => id,
        _ => panic!("{lease:?}"),
    }
}

/// A lease that a worker has got. It may have ended.
struct Held {
    lease: LeaseRef,
    run: u32,
}

impl Held {
    /// Returns whether this lease is one of the run of another, and behind it.
    fn is_behind(&self, other: &Self) -> bool {
        self.run > 0
            && self.lease.token == other.lease.token
            && self.run == other.run
            && id_of(&self.lease) > id_of(&other.lease)
    }
}

/// Returns the used attempts of the items that have these leases, by id.
async fn attempts_of<'a, H: Harness>(
    fixture: &Fixture<H>,
    leases: impl IntoIterator<Item = &'a Held>,
) -> BTreeMap<i64, Value> {
    let columns = ["id", "lease_state", "lease_fence", "lease_attempt"];
    let rows = fixture.harness.rows("item", &columns).await;
    let attempt = |held: &Held| {
        let lease = [
            Value::Int(id_of(&held.lease)),
            Value::Int(1),
            Value::Int(held.lease.fence),
        ];
        let row = rows.iter().find(|row| row[..3] == lease)?;
        Some((id_of(&held.lease), row[3].clone()))
    };
    leases.into_iter().filter_map(attempt).collect()
}

/// Settles a lease, and checks the answer and the leases behind it in its run. Returns whether the settlement was refused.
async fn settle<H: Harness>(
    fixture: &Fixture<H>,
    (broker, one, held): (&Broker, &Held, &[Held]),
    ending: Ending,
    step: usize,
) -> bool {
    let is_completion = matches!(ending, Ending::Complete { .. });
    let is_release = matches!(ending, Ending::Release { .. });
    let is_held = !attempts_of(fixture, [one]).await.is_empty();
    let earlier = held.iter().filter(|other| one.is_behind(other));
    let waits = !is_release && is_held && !attempts_of(fixture, earlier).await.is_empty();
    let later: Vec<&Held> = held.iter().filter(|other| other.is_behind(one)).collect();
    let before = attempts_of(fixture, later.iter().copied()).await;
    let outcome = broker.outcome(&one.lease, ending).await;
    let is_refused = matches!(outcome, Settled::Refused(_));
    assert_eq!(is_refused, waits, "step {step}: {outcome:?}");
    assert_eq!(
        matches!(outcome, Settled::Ended(_)),
        is_held && !waits,
        "step {step}: {outcome:?}"
    );
    let after = attempts_of(fixture, later.iter().copied()).await;
    if is_completion || !is_held || waits {
        assert_eq!(after, before, "step {step}");
    } else {
        assert!(after.is_empty(), "step {step}: {after:?}");
        let rows = fixture.harness.rows("item", &["id", "lease_attempt"]).await;
        for (id, attempt) in before {
            let Value::Int(attempt) = attempt else {
                panic!("{attempt:?}");
            };
            let back = vec![Value::Int(id), Value::Int(attempt - 1)];
            assert!(rows.contains(&back), "step {step}: {back:?}");
        }
    }
    is_refused
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

/// Returns the groups that a claim names. Most claims name none.
fn named_groups(random: &mut StdRng) -> Vec<&'static str> {
    if random.random_bool(0.7) {
        return Vec::new();
    }
    let names = GROUP_NAMES.iter().filter(|name| !name.is_empty());
    names.filter(|_| random.random_bool(0.4)).copied().collect()
}

/// Returns the group of each item that a claim has got. All must have been claimable.
fn groups_of(
    claimed: &Claimed,
    (before, claimable): (&Snapshot, &BTreeMap<String, BTreeSet<i64>>),
    rules: Rules,
    step: usize,
) -> Vec<String> {
    // A suspect goes alone. In a parallel group it may have others before it.
    let goes_alone = claimed.is_held_back && matches!(rules, Rules::Parallel { .. });
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
    let mut held: Vec<Held> = Vec::new();
    let mut past = Past::new(rules);
    let (mut next_id, mut leases, mut empty) = (1_000_i64, 0, 0);
    let (mut runs, mut refused) = (0, 0);
    let mut now = Duration::ZERO;
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
                let name = *rules.group_names().choose(&mut random).expect("a name");
                add_item(&fixture, id, name).await;
            }
            22..60 => {
                let before = Snapshot::read(&fixture).await;
                let worker = *["x", "y", "z"].choose(&mut random).expect("a worker");
                let wanted = random.random_range(1..6);
                let named = named_groups(&mut random);
                let claim = ClaimCall {
                    groups: named.iter().map(|&name| Key([text(name)].into())).collect(),
                    max_run: random.random_range(0..5),
                    ..call(worker, wanted)
                };
                let claimed = broker.results(vec![claim.clone()]).await.remove(0);
                let count = claimed.items.len();
                past.check(&claimed, (&before, &claim, &named), now, step);
                leases += count;
                empty += usize::from(count == 0);
                let items = claimed.items.into_iter();
                let got = items.map(|item| Held {
                    lease: item.lease,
                    run: item.run,
                });
                let got: Vec<Held> = got.collect();
                runs += got
                    .iter()
                    .filter(|one| got.iter().any(|other| one.is_behind(other)))
                    .count();
                held.extend(got);
            }
            60..88 if !held.is_empty() => {
                let one = held.swap_remove(random.random_range(0..held.len()));
                let ending = match random.random_range(0..10) {
                    0 => fail(None),
                    1 => fail(Some(MINUTE)),
                    2 => release(Duration::ZERO),
                    3 => release(MINUTE),
                    _ => crate::harness::fixture::complete(),
                };
                if settle(&fixture, (broker, &one, &held), ending, step).await {
                    refused += 1;
                    held.push(one);
                }
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
    let gives_runs = matches!(rules, Rules::Strict { run: 2.., .. });
    assert_eq!(runs > 0, gives_runs, "{runs} later items of runs");
    let is_refused_at_times = refused > 0 || runs <= 50;
    assert!(
        is_refused_at_times && (refused == 0 || gives_runs),
        "{refused} refused settlements, {runs} later items of runs"
    );
    let bursts = matches!(rules, Rules::Parallel { bursts: true });
    assert_eq!(bursts, past.bursts > 0, "{} items of bursts", past.bursts);
}

/// Returns the number of items that exceed the limits of their groups. There may be some only if every group that was `claimable`
/// within its limit has given its items, up to the `tokens` of its rate.
fn check_burst(
    claimed: &Claimed,
    claimable: &BTreeMap<String, BTreeSet<i64>>,
    tokens: impl Fn(&str) -> usize,
    step: usize,
) -> usize {
    let ids = claimed.items.iter().map(|item| match item.lease.key.0[0] {
        Value::Int(id) => id,
        _ => panic!("{item:?}"),
    });
    let ids: BTreeSet<i64> = ids.collect();
    let within: BTreeSet<i64> = claimable.values().flatten().copied().collect();
    let beyond = ids.difference(&within).count();
    for (name, items) in claimable.iter().filter(|_| beyond > 0) {
        let given = ids.intersection(items).count();
        let certain = match &**name {
            "" => items.len(),
            name => items.len().min(tokens(name)),
        };
        assert!(
            given >= certain,
            "step {step}: a burst, but {name:?} gave {given} of {certain}"
        );
    }
    beyond
}

/// Returns how many items the rate of a group certainly allows now, after it has given out items at these times.
fn tokens(given: Option<&Vec<Duration>>, now: Duration) -> usize {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let arrival = given.into_iter().flatten().fold(None, |arrival, time| {
        Some(GROUP_RATE.after(arrival, micros(*time), 1))
    });
    // A little time also passes between two operations.
    let certain = GROUP_RATE.tokens(arrival, micros(now.saturating_sub(MINUTE)));
    usize::try_from(certain).unwrap_or(usize::MAX)
}

/// Checks that no window of time, up to the last of these times, has more items than a rate per hour allows.
fn check_rate(given: &[Duration], rate: Rate) {
    let last = given.last().copied().unwrap_or_default();
    for (first, start) in given.iter().enumerate() {
        let window = last.saturating_sub(*start);
        // A little time also passes between two operations.
        let hours = (window + MINUTE).as_secs_f64() / 3_600.0;
        let count = given.len() - first;
        let bound = f64::from(rate.burst) + f64::from(rate.items) * hours;
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let given = count as f64;
        assert!(
            given <= bound,
            "{given} items in {window:?}, at most {bound}"
        );
    }
}
