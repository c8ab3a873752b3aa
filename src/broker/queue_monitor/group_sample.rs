//! The numbers of the groups of a queue.

use std::time::Duration;

use lease_broker_store::{FoundGroups, GroupSearch, GroupState};

/// The number of groups that are looked at.
const SIZE: usize = 1_000;

/// The numbers of the first 1,000 groups of a queue, in the order of their values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupSample {
    /// The numbers of groups, in the order of [`GroupState::ALL`].
    counts: [u64; GroupState::ALL.len()],
    /// The longest time for which a group that is not paused has waited at the same item: the one that decides about its state.
    /// `None`: there is no such group, or the times are not known.
    pub oldest_head: Option<Duration>,
    /// Whether the queue has more groups.
    pub is_partial: bool,
}

impl GroupSample {
    /// The search for the groups.
    pub(super) const SEARCH: GroupSearch = GroupSearch {
        after: None,
        state: None,
        limit: SIZE,
        max_examined: SIZE,
    };

    pub(super) fn new(found: &FoundGroups) -> Self {
        let count = |state| {
            let of_state = found.groups.iter().filter(|group| group.state == state);
            of_state.count() as u64
        };
        let not_paused = found
            .groups
            .iter()
            .filter(|group| group.state != GroupState::Paused);
        let since = not_paused.filter_map(|group| group.head.as_ref()?.state_time);
        let age = |since: i64| {
            Duration::from_millis(found.now.saturating_sub(since).max(0).unsigned_abs())
        };
        Self {
            counts: GroupState::ALL.map(count),
            oldest_head: since.min().map(age),
            is_partial: found.end.is_some(),
        }
    }

    /// Returns the number of groups in each state.
    pub fn counts(&self) -> impl Iterator<Item = (GroupState, u64)> {
        GroupState::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use lease_broker_model::item_state::State;
    use lease_broker_model::key::Key;
    use lease_broker_store::{GroupHead, ListedGroup};
    use lease_broker_value::Value;

    use super::*;

    fn group(number: i64, state: GroupState, state_time: Option<i64>) -> ListedGroup {
        let key = Key([Value::Int(number)].into());
        ListedGroup {
            group: key.clone(),
            state,
            leases: 0,
            head: Some(GroupHead {
                key,
                state: State::Ready,
                state_time,
                due_time: None,
            }),
            pause: None,
        }
    }

    #[test]
    fn groups_are_counted_by_state_and_a_paused_one_does_not_grow_old() {
        let found = FoundGroups {
            groups: vec![
                group(1, GroupState::Ready, Some(9_000)),
                group(2, GroupState::Halted, Some(4_000)),
                group(3, GroupState::Halted, None),
                group(4, GroupState::Paused, Some(1)),
            ],
            end: None,
            now: 10_000,
        };
        let sample = GroupSample::new(&found);
        let counts: Vec<u64> = sample.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 0, 0, 2, 1]);
        assert_eq!(sample.oldest_head, Some(Duration::from_secs(6)));
        assert!(!sample.is_partial);
    }
}
