//! Attempts: a row counts its claims, without those that were released.

use std::collections::BTreeMap;

use super::{Invariant, Violation};
use crate::chaos::history::{History, Story};
use crate::chaos::journal::{Ending, Lease};

pub(super) fn check(
    history: &History,
    stories: &BTreeMap<Lease, Story>,
    violations: &mut Vec<Violation>,
) {
    for row in &history.rows {
        let all_of_key = Lease {
            key: row.key,
            fence: i64::MIN,
        }..=Lease {
            key: row.key,
            fence: i64::MAX,
        };
        let (mut released, mut unknown, mut known) = (0, 0, 0);
        for (_, story) in stories.range(all_of_key) {
            known += i64::from(!story.grants.is_empty());
            if story.is_applied(Ending::Release) {
                released += 1;
            } else if story.may_be_applied(Ending::Release) {
                unknown += 1;
            }
        }
        // The fencing token is the number of claims. If no worker received a lease, the broker may have released it.
        let undelivered = row.fence - known;
        let given_back = row.fence - row.attempt;
        if given_back < released || given_back > released + unknown + undelivered {
            let text = format!(
                "{row:?}: {released} leases were released, {unknown} perhaps, and {undelivered} reached no worker"
            );
            violations.push(Violation::new(Invariant::Attempts, text));
        }
    }
}

mod tests {
    use super::super::check as check_all;
    use super::super::example::{Example, SECOND, assert_only};
    use super::*;

    #[test]
    fn attempts_that_are_not_claims_are_found() {
        for attempt in [0, 2] {
            let mut example = Example::new();
            example.row(1).attempt = attempt;
            assert_only(Invariant::Attempts, &example, check_all);
        }
    }

    #[test]
    fn released_leases_are_no_attempts() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.settle(2, 1, Ending::Release, SECOND, Some(1));
        example.claim(2, 2, 2 * SECOND, 10);
        example.settle(2, 2, Ending::Complete, 3 * SECOND, Some(1));
        example.row(2).attempt = 1;
        example.assert_passes();
        example.row(2).attempt = 2;
        assert_only(Invariant::Attempts, &example, check_all);
    }

    #[test]
    fn releases_whose_answer_is_unknown_may_count() {
        for attempt in [1, 2] {
            let mut example = Example::new();
            example.claim(2, 1, 0, 1);
            example.settle(2, 1, Ending::Release, SECOND / 2, None);
            example.claim(2, 2, 2 * SECOND, 10);
            example.settle(2, 2, Ending::Complete, 3 * SECOND, Some(1));
            example.row(2).attempt = attempt;
            example.assert_passes();
        }
    }
}
