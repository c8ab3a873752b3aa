//! A queue of calls in which callers take turns.
//!
//! In the order of arrival, one caller that sends a thousand calls together would let every other caller wait for all of them.
//! Here callers advance together, measured in items, and the calls of one caller keep their order. Each call gets a start: the
//! present start of the queue, or the end of the caller's call before it. The call with the lowest start is next (start-time
//! fair queueing, Goyal and others 1996).

use std::collections::{BTreeMap, HashMap, HashSet};

use lease_broker_model::call_source::SourceNumber;

/// With fewer callers than this, none is forgotten while calls wait.
const MIN_PRUNE_THRESHOLD: usize = 1_024;

/// A waiting call, as far as its turn depends on it.
pub trait InTurn {
    /// Returns the caller.
    fn source(&self) -> SourceNumber;
    /// Returns the number of items that the call adds or asks for.
    fn items(&self) -> usize;
}

/// The turn of a call: its start, and the number of its arrival.
pub(in crate::broker) type Turn = (u64, u64);

/// Calls that wait.
pub struct FairQueue<C> {
    /// In the order of their turns. No two have the same, because each arrival has a number of its own.
    calls: BTreeMap<Turn, C>,
    /// The end of the last call of each caller.
    ends: HashMap<SourceNumber, u64>,
    /// The number of callers at which those without a call that waits are forgotten.
    prune_threshold: usize,
    /// The start of the call that was served last.
    now: u64,
    arrivals: u64,
}

impl<C> Default for FairQueue<C> {
    fn default() -> Self {
        Self {
            calls: BTreeMap::new(),
            ends: HashMap::new(),
            prune_threshold: MIN_PRUNE_THRESHOLD,
            now: 0,
            arrivals: 0,
        }
    }
}

impl<C: InTurn> FairQueue<C> {
    /// Adds a call behind the others of its caller.
    pub fn push(&mut self, call: C) {
        if self.calls.is_empty() {
            self.ends.clear();
        } else if self.ends.len() >= self.prune_threshold {
            // A call that waits for long would keep all callers that come and go meanwhile.
            let waiting: HashSet<_> = self.iter().map(C::source).collect();
            self.ends.retain(|source, _| waiting.contains(source));
            self.prune_threshold = (self.ends.len() * 2).max(MIN_PRUNE_THRESHOLD);
        }
        let end = self.ends.entry(call.source()).or_default();
        let start = self.now.max(*end);
        *end = start + u64::try_from(call.items().max(1)).unwrap_or(u64::from(u32::MAX));
        self.arrivals += 1;
        self.calls.insert((start, self.arrivals), call);
    }

    /// Takes the next call, and its turn.
    pub(crate) fn pop(&mut self) -> Option<(Turn, C)> {
        let (turn, call) = self.calls.pop_first()?;
        self.now = self.now.max(turn.0);
        Some((turn, call))
    }

    /// Puts a call back that was taken and not served. Callers that come next begin beside it.
    pub(in crate::broker) fn put_back(&mut self, turn: Turn, call: C) {
        self.now = self.now.min(turn.0);
        self.calls.insert(turn, call);
    }

    /// Removes the calls that fulfil the condition, and returns them.
    pub(in crate::broker) fn remove(&mut self, condition: impl Fn(&C) -> bool) -> Vec<C> {
        let meant = self.calls.iter().filter(|(_, call)| condition(call));
        let turns: Vec<Turn> = meant.map(|(turn, _)| *turn).collect();
        let turns = turns.iter();
        turns.filter_map(|turn| self.calls.remove(turn)).collect()
    }

    /// Takes all calls.
    pub(in crate::broker) fn take_all(&mut self) -> impl Iterator<Item = C> + use<C> {
        std::mem::take(&mut self.calls).into_values()
    }

    pub(in crate::broker) fn iter(&self) -> impl Iterator<Item = &C> {
        self.calls.values()
    }

    pub(in crate::broker) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(in crate::broker) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller, and a number of items.
    type Call = (u32, usize);

    impl InTurn for Call {
        fn source(&self) -> SourceNumber {
            SourceNumber(self.0)
        }

        fn items(&self) -> usize {
            self.1
        }
    }

    const GREEDY: Call = (1, 100);
    const MODEST: Call = (2, 1);

    fn queue(calls: &[Call]) -> FairQueue<Call> {
        let mut queue = FairQueue::default();
        for call in calls {
            queue.push(*call);
        }
        queue
    }

    fn order(queue: &mut FairQueue<Call>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop())
            .map(|(_, call)| call.0)
            .collect()
    }

    #[test]
    fn modest_caller_passes_a_greedy_one() {
        let mut queue = queue(&[GREEDY, GREEDY, GREEDY, MODEST, MODEST]);
        assert_eq!(order(&mut queue), [1, 2, 2, 1, 1]);
    }

    #[test]
    fn late_caller_is_next_and_does_not_catch_up() {
        let mut queue = queue(&[GREEDY, GREEDY, GREEDY, GREEDY, (3, 150)]);
        let taken = [(); 3].map(|()| queue.pop().expect("a call").1.0);
        assert_eq!(taken, [1, 3, 1]);
        // Caller 1 has got 200 items, caller 3 150. Caller 2 begins beside the last call that was taken.
        for call in [MODEST, (3, 150), MODEST] {
            queue.push(call);
        }
        assert_eq!(order(&mut queue), [2, 2, 3, 1, 1]);
    }

    #[test]
    fn calls_of_different_callers_keep_their_order() {
        let mut queue = queue(&[GREEDY, MODEST, (3, 99)]);
        assert_eq!(order(&mut queue), [1, 2, 3]);
    }

    #[test]
    fn call_that_is_put_back_keeps_its_turn() {
        let mut queue = queue(&[GREEDY, GREEDY, MODEST]);
        let (turn, call) = queue.pop().expect("a call");
        queue.put_back(turn, call);
        assert_eq!(queue.remove(|call| call.0 == 2), [MODEST]);
        queue.push((3, 1));
        assert_eq!(order(&mut queue), [1, 3, 1]);
    }

    #[test]
    fn callers_that_come_and_go_while_a_call_waits_are_forgotten() {
        let mut queue = FairQueue::<Call>::default();
        queue.push(GREEDY);
        for caller in 0..10_000 {
            queue.push((caller, 1));
            let (turn, waits) = queue.pop().expect("a call");
            queue.pop().expect("the call that came");
            queue.put_back(turn, waits);
        }
        let known = queue.ends.len();
        assert!(known <= MIN_PRUNE_THRESHOLD, "{known}");
    }
}
