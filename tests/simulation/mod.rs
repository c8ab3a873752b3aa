//! Deterministic simulation of the broker: group commit, claims, admission, the reaper and draining, over a store in memory that
//! follows the function `step`.
//!
//! A seed makes a [`Plan`]: brokers, workers and faults. The plan runs on one thread, and time passes only when every task waits. The
//! durations of all operations come from the seed, and with them the order in which tasks go on. So a seed always gives the same
//! history, and a failing seed fails again. A failing plan is made small before it is printed.

mod database;
mod operator;
mod plan;
mod run;
mod shrink;
mod store;
mod worker;

use std::str::FromStr;

use self::database::Sabotage;
use self::plan::Plan;
use self::run::run;
use self::shrink::shrink;

/// The number of seeds in the test suite.
const SEEDS: u64 = 1_000;

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse();
    Some(value.unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Returns the first seed that fails.
fn first_failure(first: u64, count: u64, sabotage: Sabotage) -> Option<Plan> {
    let plans = (first..first + count).map(|seed| Plan::new(seed, sabotage));
    plans.into_iter().find(|plan| run(plan).is_err())
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
    let seed = from_environment("LEASE_BROKER_TEST_SEED");
    let seeds = from_environment("LEASE_BROKER_TEST_SEEDS").unwrap_or(SEEDS);
    let (first, count) = seed.map_or((0, seeds), |seed| (seed, 1));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let share = count.div_ceil(threads);
    let failure = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads)
            .map(|thread| {
                let begin = thread * share;
                let count = share.min(count.saturating_sub(begin));
                scope.spawn(move || first_failure(first + begin, count, Sabotage::None))
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
    eprintln!("{count} seeds from {first}");
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
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

#[test]
fn seeds_find_each_sabotage_and_make_it_small() {
    for sabotage in Sabotage::ALL {
        let plan = first_failure(0, 200, sabotage);
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
