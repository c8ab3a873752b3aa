//! Several brokers and workers at the same time. The workers note which groups they work on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;
use lease_broker_sql::LeaseSql;
use lease_broker_sql::mssql::LEASE_SQL;
use lease_broker_store::{ClaimCall, ClaimedItem, Limited};
use lease_broker_value::Value;
use tokio::task::JoinSet;

use crate::harness::Harness;
use crate::harness::fixture::{Broker, Fixture, call, complete, queue, release, text};
use crate::harness::mssql::MssqlHarness;
use crate::harness::table::{Kind, Table};

const BROKERS: usize = 4;
const GROUPS: i64 = 8;
/// The number of items that a load completes.
const ITEMS: usize = 300;
/// How long a load may run.
const LONGEST: Duration = Duration::from_secs(180);

fn table() -> Table {
    Table::new("item")
        .required("id", Kind::BigInt)
        .required("customer", Kind::Text)
        .key(&["id"])
}

fn spec(run: u32, limits: QueueLimits) -> QueueSpec {
    QueueSpec {
        groups: Some(Groups {
            column: "customer".to_owned(),
            order: GroupOrder::Strict { halts: false, run },
            rate: None,
        }),
        limits,
        ..queue("item")
    }
}

/// Inserts rows as another program would, in one statement.
async fn insert<H: Harness>(fixture: &Fixture<H>, ids: impl Iterator<Item = i64>) {
    let rows = ids.map(|id| format!("({id}, 'g{:02}')", id.rem_euclid(GROUPS)));
    let rows: Vec<String> = rows.collect();
    let sql = format!("INSERT INTO item (id, customer) VALUES {}", rows.join(", "));
    fixture.harness.run_sql(&sql).await.expect("inserted");
}

fn group_of(item: &ClaimedItem) -> i64 {
    let Value::Int(id) = item.lease.key.0[0] else {
        panic!("{item:?}");
    };
    id.rem_euclid(GROUPS)
}

/// What the workers have seen.
#[derive(Default)]
struct Seen {
    /// The groups of which a worker has an item.
    working: Mutex<HashSet<i64>>,
    /// The number of times at which a group had two leases.
    overlaps: AtomicUsize,
    completed: AtomicUsize,
    failed_claims: AtomicUsize,
    stop: AtomicBool,
}

impl Seen {
    fn working(&self) -> std::sync::MutexGuard<'_, HashSet<i64>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that completes or releases its items until it is told to stop. It claims runs of up to `max_run` items.
async fn work(broker: Broker, seen: Arc<Seen>, number: usize, max_run: usize) {
    let mut turn = number;
    while !seen.stop.load(Ordering::Relaxed) {
        let call = ClaimCall {
            max_run,
            ..call(&format!("worker {number}"), 3 * max_run)
        };
        let claimed = broker
            .store
            .claim(broker.queue, [call].into(), usize::MAX)
            .await;
        let Ok(mut claimed) = claimed else {
            seen.failed_claims.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let items = claimed.remove(0).items;
        let runs: Vec<&[ClaimedItem]> = items
            .chunk_by(|left, right| left.run == right.run && left.run > 0)
            .collect();
        for run in &runs {
            // The group of leases that have ended was removed before their settlement was sent. So leases of two claims really overlap.
            if !seen.working().insert(group_of(&run[0])) {
                seen.overlaps.fetch_add(1, Ordering::Relaxed);
            }
        }
        for run in runs {
            process(&broker, &seen, run, &mut turn).await;
        }
    }
}

/// Processes the items of a run, one after the other.
async fn process(broker: &Broker, seen: &Seen, run: &[ClaimedItem], turn: &mut usize) {
    let complete = async |item: &ClaimedItem| {
        if broker.settle(&item.lease, complete()).await == Some(State::Completed) {
            seen.completed.fetch_add(1, Ordering::Relaxed);
        }
    };
    let end = || seen.working().remove(&group_of(&run[0]));
    let mut items = run.iter();
    while let Some(item) = items.next() {
        *turn += 1;
        match (*turn % 7, items.as_slice().first()) {
            (0, _) => {
                end();
                broker.settle(&item.lease, release(Duration::ZERO)).await;
                return;
            }
            // The worker finishes its item and gives the others back at the same time.
            (1, Some(next)) => {
                end();
                let rest = broker.settle(&next.lease, release(Duration::ZERO));
                tokio::join!(complete(item), rest);
                return;
            }
            (_, Some(_)) => complete(item).await,
            (_, None) => {
                end();
                complete(item).await;
            }
        }
    }
}

/// Runs workers on these brokers, beside a producer that inserts rows ahead of all others, until `is_over`.
async fn run<H: Harness>(
    fixture: &Fixture<H>,
    (brokers, max_run): (Vec<Broker>, usize),
    is_over: impl Fn(&Seen, Instant) -> bool,
) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let mut workers = JoinSet::new();
    for (number, broker) in brokers.into_iter().enumerate() {
        workers.spawn(work(broker, seen.clone(), number, max_run));
    }
    let (start, mut next) = (Instant::now(), 0);
    while !is_over(&seen, start) {
        // One row for each group, ahead of all others.
        next -= GROUPS;
        insert(fixture, next..next + GROUPS).await;
    }
    seen.stop.store(true, Ordering::Relaxed);
    workers.join_all().await;
    seen
}

pub(super) async fn groups_are_kept<H: Harness>(max_run: u32) {
    let spec = spec(max_run, QueueLimits::default());
    let fixture = Fixture::<H>::over(&[table()], vec![spec]).await;
    insert(&fixture, 0..100).await;
    let mut brokers = Vec::new();
    for _ in 0..BROKERS {
        brokers.push(fixture.another().await);
    }
    let workers = (brokers, max_run as usize);
    let seen = run(&fixture, workers, |seen, start| {
        seen.completed.load(Ordering::Relaxed) >= ITEMS || start.elapsed() > LONGEST
    })
    .await;
    assert_eq!(seen.overlaps.load(Ordering::Relaxed), 0);
    assert_eq!(seen.failed_claims.load(Ordering::Relaxed), 0);
    let completed = seen.completed.load(Ordering::Relaxed);
    assert!(completed >= ITEMS, "{completed} items in {LONGEST:?}");
}

pub(super) async fn claims_without_turns_are_found() {
    let turn = "UPDATE lease_broker_queue SET claims = claims + 1 WHERE queue = {queue_literal};";
    let groups = LEASE_SQL.groups.replacen(turn, "", 1);
    assert_ne!(groups, LEASE_SQL.groups);
    let sql = LeaseSql {
        groups: Box::leak(groups.into_boxed_str()),
        ..LEASE_SQL
    };
    let specs = vec![spec(1, QueueLimits::default())];
    let fixture = Fixture::<MssqlHarness>::over(&[table()], specs).await;
    insert(&fixture, 0..100).await;
    let mut brokers = Vec::new();
    for _ in 0..BROKERS {
        let store = fixture.harness.open_with_sql(&fixture.queues, &sql).await;
        brokers.push(Broker::new(store.expect("open")));
    }
    let seen = run(&fixture, (brokers, 1), |seen, start| {
        seen.overlaps.load(Ordering::Relaxed) > 0 || start.elapsed() > LONGEST
    })
    .await;
    let overlaps = seen.overlaps.load(Ordering::Relaxed);
    eprintln!("{overlaps} overlaps found");
    assert!(overlaps > 0, "the load does not find claims without turns");
}

pub(super) async fn limits_are_kept<H: Harness>() {
    const MAX_LEASES: usize = 5;
    const RATE: Rate = Rate {
        items: 10,
        per: Duration::from_secs(1),
        burst: 5,
    };
    let limits = QueueLimits {
        max_leases: u32::try_from(MAX_LEASES).ok(),
        rate: Some(RATE),
    };
    let fixture = Fixture::<H>::over(&[table()], vec![spec(1, limits)]).await;
    insert(&fixture, 0..200).await;
    let mut workers = JoinSet::new();
    let [held, most, given, limited] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    for _ in 0..BROKERS {
        let broker = fixture.another().await;
        let (held, most) = (held.clone(), most.clone());
        let (given, limited) = (given.clone(), limited.clone());
        workers.spawn(async move {
            // The first claims of a session can be slower than the rate.
            while given.load(Ordering::SeqCst) < 40 || limited.load(Ordering::SeqCst) == 0 {
                let number = given.load(Ordering::SeqCst);
                assert!(
                    start.elapsed() < LONGEST,
                    "{number} items, or the rate is never reached"
                );
                let calls = vec![call("worker", 3)];
                let claimed = broker.results(calls).await.remove(0);
                if let Some(Limited::Rate { wait }) = claimed.limited {
                    limited.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(wait.min(Duration::from_millis(5))).await;
                }
                let items = claimed.items;
                given.fetch_add(items.len(), Ordering::SeqCst);
                let now = held.fetch_add(items.len(), Ordering::SeqCst) + items.len();
                most.fetch_max(now, Ordering::SeqCst);
                for item in items {
                    // Before the settlement is sent, so that the number is never too large.
                    held.fetch_sub(1, Ordering::SeqCst);
                    broker.complete(&item.lease).await;
                }
            }
        });
    }
    workers.join_all().await;
    let most = most.load(Ordering::SeqCst);
    assert!(most <= MAX_LEASES, "{most}");
    if !H::moves_clock() {
        let given = u32::try_from(given.load(Ordering::SeqCst)).expect("a number");
        let bound = f64::from(RATE.burst) + f64::from(RATE.items) * start.elapsed().as_secs_f64();
        assert!(f64::from(given) <= bound, "{given} of {bound}");
    }
}

pub(super) async fn small_groups_are_served<H: Harness>() {
    const LARGE: i64 = 500;
    const SMALL: i64 = 30;
    let fixture = Fixture::<H>::over(&[table()], vec![spec(1, QueueLimits::default())]).await;
    let row = |id: i64, group: String| [("id", Value::Int(id)), ("customer", text(&group))];
    for id in 0..LARGE {
        fixture
            .harness
            .insert("item", &row(id, "large".to_owned()))
            .await;
    }
    for id in 0..SMALL {
        let group = if id % 2 == 0 { "a" } else { "z" };
        let row = row(LARGE + id, format!("{group}{id}"));
        fixture.harness.insert("item", &row).await;
    }
    // One round has a turn for each group.
    let mut served = Vec::new();
    for _ in 0..=SMALL {
        let item = fixture.claim(1).await.pop().expect("an item");
        served.push(item.lease.key.to_string());
        fixture.complete(&item.lease).await;
    }
    let large = served
        .iter()
        .filter(|key| key.parse::<i64>().expect("a number") < LARGE);
    assert_eq!(large.count(), 1, "{served:?}");
}
