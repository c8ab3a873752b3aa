//! The order of calls that wait for the store: their sources take turns.
//!
//! In the order of arrival, one source that sends a thousand calls together would let every other source wait for all of them.
//! Here the sources advance together, measured in items. The calls of one source keep their order.

use std::collections::{HashMap, VecDeque};

use lease_broker_model::call_source::SourceNumber;

/// The items that each source has got since the calls have exceeded an operation.
#[derive(Default)]
pub(super) struct Turns {
    served: HashMap<SourceNumber, u64>,
}

/// A waiting call, as far as its turn depends on it.
pub(super) trait InTurn {
    fn source(&self) -> SourceNumber;
    /// The number of items that the call adds or asks for.
    fn items(&self) -> usize;
}

impl Turns {
    /// Orders the waiting calls, of which the next operation takes at most `max_items` items and `max_calls` calls.
    pub(super) fn order<C: InTurn>(
        &mut self,
        calls: &mut VecDeque<C>,
        max_items: usize,
        max_calls: usize,
    ) {
        let Some(first) = calls.front().map(C::source) else {
            return;
        };
        let items: usize = calls.iter().map(C::items).sum();
        let fits = items <= max_items && calls.len() <= max_calls;
        if fits || calls.iter().all(|call| call.source() == first) {
            return;
        }
        // A new source starts at the lowest count of the waiting sources. Otherwise it would be served alone until it had caught
        // up.
        let present = calls
            .iter()
            .filter_map(|call| self.served.get(&call.source()));
        let fewest = present.min().copied().unwrap_or_default();
        let mut next_starts: HashMap<SourceNumber, u64> = HashMap::new();
        let mut in_turn: Vec<_> = calls
            .drain(..)
            .map(|call| {
                let source = call.source();
                let served = self.served.get(&source).copied().unwrap_or(fewest);
                let next_start = next_starts.entry(source).or_insert(served);
                let start = *next_start;
                *next_start += cost(&call);
                (start, call)
            })
            .collect();
        // The sort is stable: calls that start together keep the order of their arrival.
        in_turn.sort_by_key(|(start, _)| *start);
        calls.extend(in_turn.into_iter().map(|(_, call)| call));
        // Sources without calls begin anew with their next one.
        self.served
            .retain(|source, _| next_starts.contains_key(source));
        for source in next_starts.into_keys() {
            self.served.entry(source).or_insert(fewest);
        }
    }

    /// Notes that an operation takes a call.
    pub(super) fn takes<C: InTurn>(&mut self, call: &C) {
        if let Some(served) = self.served.get_mut(&call.source()) {
            *served += cost(call);
        }
    }

    /// Notes that an operation takes all calls.
    pub(super) fn reset(&mut self) {
        self.served.clear();
    }
}

fn cost(call: &impl InTurn) -> u64 {
    u64::try_from(call.items().max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source, and a number of items.
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

    fn order(turns: &mut Turns, calls: &mut VecDeque<Call>) -> Vec<u32> {
        turns.order(calls, 200, 10);
        calls.iter().map(|call| call.0).collect()
    }

    #[test]
    fn modest_source_passes_a_greedy_one() {
        let mut turns = Turns::default();
        let mut calls = VecDeque::from([GREEDY, GREEDY, GREEDY, MODEST, MODEST]);
        assert_eq!(order(&mut turns, &mut calls), [1, 2, 2, 1, 1]);
    }

    #[test]
    fn late_source_is_next_although_another_was_served_before() {
        let mut turns = Turns::default();
        let mut calls = VecDeque::from([GREEDY, GREEDY, GREEDY, GREEDY, (3, 150)]);
        assert_eq!(order(&mut turns, &mut calls), [1, 3, 1, 1, 1]);
        for _ in 0..2 {
            let call = calls.pop_front().expect("a call");
            turns.takes(&call);
        }
        calls.extend([MODEST, (3, 150)]);
        // The first source has got 100 items, the third one 150. The second one begins beside the first one.
        assert_eq!(order(&mut turns, &mut calls), [1, 2, 3, 1, 1]);
    }

    #[test]
    fn calls_that_one_operation_takes_keep_their_order() {
        let mut turns = Turns::default();
        let mut calls = VecDeque::from([GREEDY, MODEST, (3, 99)]);
        assert_eq!(order(&mut turns, &mut calls), [1, 2, 3]);
        assert!(turns.served.is_empty());
    }
}
