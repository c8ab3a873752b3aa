//! Runs the checker on a model, and says how large the model was.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Representative};

/// Raises the bounds of the models. 0, the default, is the size for the test suite.
pub const BOUND_VARIABLE: &str = "LEASE_BROKER_TEST_PROOF";

/// Returns the number in [`BOUND_VARIABLE`].
///
/// # Panics
/// If the variable is not a number.
pub fn bound() -> u8 {
    std::env::var(BOUND_VARIABLE).map_or(0, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{BOUND_VARIABLE}={text} is not a number from 0 to 255"))
    })
}

/// A finished check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The number of different states.
    pub states: usize,
    /// The promise that is broken, and the actions that lead to it. `None`: all promises hold in all states.
    pub broken: Option<(&'static str, Vec<String>)>,
    /// The situations that must be possible in the model and that were not found. A model without them proves nothing.
    pub missing: Vec<&'static str>,
}

impl Checked {
    /// Checks that all promises hold, and that the model reaches all situations that it is about.
    ///
    /// # Panics
    /// If a promise is broken, with the actions that break it.
    pub fn assert_holds(&self, name: &str) {
        eprintln!("{name}: {} states", self.states);
        if let Some((promise, actions)) = &self.broken {
            panic!("{name}: broken: {promise}\n  {}", actions.join("\n  "));
        }
        assert!(
            self.missing.is_empty(),
            "{name} never shows {:?}",
            self.missing
        );
    }

    /// Checks that this promise is broken.
    ///
    /// # Panics
    /// If all promises hold, or another one is broken.
    pub fn assert_breaks(&self, name: &str, promise: &str) {
        let broken = self.broken.as_ref().map(|(promise, _)| *promise);
        assert_eq!(broken, Some(promise), "{name}, {} states", self.states);
        let steps = self.broken.as_ref().map_or(0, |(_, actions)| actions.len());
        eprintln!(
            "{name}: {promise:?} is broken after {steps} steps, {} states",
            self.states
        );
    }
}

/// Visits all states, and stops at the first broken promise. States that differ only in the numbers of the workers count once.
pub fn with_symmetry<M>(model: M) -> Checked
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Representative + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let start = Instant::now();
    let checker = model
        .checker()
        .threads(threads())
        .symmetry()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs()
        .join();
    finish(&checker, start)
}

/// Visits all states, those with the shortest ways first, and stops at the first broken promise.
pub fn shortest_first<M>(model: M) -> Checked
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let start = Instant::now();
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    finish(&checker, start)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn finish<M>(checker: &impl Checker<M>, start: Instant) -> Checked
where
    M: Model,
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    let found = checker.discoveries();
    let mut broken = None;
    let mut missing = Vec::new();
    for property in checker.model().properties() {
        let path = found.get(property.name);
        match (property.expectation.discovery_is_failure(), path) {
            (true, Some(path)) if broken.is_none() => {
                let actions = path.clone().into_actions();
                let actions = actions.iter().map(|action| format!("{action:?}"));
                broken = Some((property.name, actions.collect()));
            }
            (false, None) => missing.push(property.name),
            _ => {}
        }
    }
    eprintln!(
        "{} states, {} steps between them, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    Checked {
        states: checker.unique_state_count(),
        broken,
        missing,
    }
}
