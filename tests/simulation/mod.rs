//! Deterministic simulation of the broker: group commit, claims, admission, the reaper and draining, over a store in memory that
//! follows the function `step`.
//!
//! A seed makes a [`Plan`]: brokers, workers and faults. The plan runs on one thread, and time passes only when every task waits. The
//! durations of all operations come from the seed, and with them the order in which tasks go on. So a seed always gives the same
//! history, and a failing seed fails again. A failing plan is made small before it is printed.

mod database;
mod operate;
mod operator;
mod plan;
mod retention;
mod run;
mod scripted_claims;
mod shrink;
mod store;
mod worker;

use std::ops::Range;

use lease_broker_store::Concurrency;

use self::database::Sabotage;
use self::plan::Plan;
use self::run::run;
use self::shrink::shrink;

/// The seeds in the test suite.
const SEEDS: Range<u64> = 0..1_000;

/// Returns the seeds that the environment asks for: one, a number of seeds, or a range such as `1000..2000`.
fn seeds() -> Range<u64> {
    let read = |name| std::env::var(name).ok();
    let number = |text: &str| -> u64 {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{text} is not the number of a seed"))
    };
    if let Some(seed) = read("LEASE_BROKER_TEST_SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    match read("LEASE_BROKER_TEST_SEEDS") {
        None => SEEDS,
        Some(text) => match text.split_once("..") {
            None => 0..number(&text),
            Some((first, end)) => number(first)..number(end),
        },
    }
}

/// Returns the first seed that fails.
fn first_failure(mut seeds: Range<u64>, sabotage: Sabotage) -> Option<Plan> {
    seeds.find_map(|seed| Some(Plan::new(seed, sabotage)).filter(|plan| run(plan).is_err()))
}

/// Makes a failing plan small, and ends the test with it.
fn fail(plan: &Plan) -> ! {
    let small = shrink(plan);
    let failure = run(&small).expect_err("the small plan fails too");
    panic!(
        "seed {} fails: LEASE_BROKER_TEST_SEED={} repeats it\n{small:#?}\n{}\n{}",
        plan.seed,
        plan.seed,
        failure.history.join("\n"),
        failure.problem
    );
}

#[test]
fn broker_keeps_its_promises_under_every_seed() {
    let seeds = seeds();
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let count = seeds.end.saturating_sub(seeds.start);
    let share = count.div_ceil(threads).max(1);
    let failure = std::thread::scope(|scope| {
        let shares: Vec<_> = seeds
            .clone()
            .step_by(usize::try_from(share).expect("a count"))
            .map(|first| {
                let share = first..seeds.end.min(first + share);
                scope.spawn(|| first_failure(share, Sabotage::None))
            })
            .collect();
        let failures = shares
            .into_iter()
            .filter_map(|share| share.join().expect("no panic"));
        failures.min_by_key(|plan| plan.seed)
    });
    if let Some(plan) = failure {
        fail(&plan);
    }
    eprintln!("{count} seeds, {seeds:?}");
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..40 {
        let plan = Plan::new(seed, Sabotage::None);
        let histories = [(); 2].map(|()| run(&plan).map_err(|failure| failure.problem));
        let [first, second] = histories;
        let (first, second) = (first.expect("holds"), second.expect("holds"));
        let differs = first
            .iter()
            .zip(&second)
            .position(|(one, other)| one != other);
        let around =
            |history: &[String]| differs.map(|at| history[at.saturating_sub(3)..=at].join("\n"));
        assert_eq!(around(&first), around(&second), "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

#[test]
fn operations_overlap_on_a_pipelined_store() {
    let overlaps = |concurrency, name: &str, mut seeds: Range<u64>| {
        let event = format!("{name} beside another one");
        seeds.any(|seed| {
            // During an outage a broker gives operations up that still run.
            let plan = Plan {
                concurrency,
                faults: Vec::new(),
                ..Plan::new(seed, Sabotage::None)
            };
            let history = run(&plan).expect("holds");
            history.iter().any(|line| line.ends_with(&event))
        })
    };
    for name in ["claim", "settle"] {
        assert!(overlaps(Concurrency::Pipelined, name, SEEDS), "{name}");
    }
    for max in [1, 4] {
        assert!(
            !overlaps(Concurrency::Parallel(max), "claim", 0..40),
            "{max}"
        );
    }
}

#[test]
fn seeds_find_each_sabotage_and_make_it_small() {
    for sabotage in Sabotage::ALL {
        let plan = first_failure(0..200, sabotage);
        let plan = plan.unwrap_or_else(|| panic!("200 seeds do not find {sabotage:?}"));
        let small = shrink(&plan);
        let failure = run(&small).expect_err("the small plan fails too");
        eprintln!(
            "{sabotage:?}: seed {}, {} parts, small {}: {}",
            plan.seed,
            plan.size(),
            small.size(),
            failure.problem
        );
        assert!(small.size() <= plan.size());
        assert_eq!(run(&small).expect_err("again").history, failure.history);
    }
}
