//! Completions: at most one per item, each with exactly one follow-up.

use std::collections::{BTreeMap, HashMap};

use super::{Invariant, Violation};
use crate::chaos::history::{COMPLETED, History, Story};
use crate::chaos::journal::{Ending, Lease};

pub(super) fn check(
    history: &History,
    stories: &BTreeMap<Lease, Story>,
    violations: &mut Vec<Violation>,
) {
    let mut completed: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (lease, story) in stories {
        if story.is_applied(Ending::Complete) {
            completed.entry(lease.key).or_default().push(lease.fence);
        }
    }
    for (key, fences) in &completed {
        if fences.len() > 1 {
            let text = format!("item {key} was completed with the fencing tokens {fences:?}");
            violations.push(Violation::new(Invariant::CompletedOnce, text));
        }
    }
    let mut follow_ups: HashMap<&str, usize> = HashMap::new();
    for payload in &history.follow_ups {
        *follow_ups.entry(payload.as_str()).or_default() += 1;
    }
    for row in &history.rows {
        let lease = Lease {
            key: row.key,
            fence: row.fence,
        };
        let acknowledged = completed.get(&row.key).and_then(|fences| fences.last());
        if row.state != COMPLETED {
            if let Some(fence) = acknowledged {
                let text = format!("item {} was completed with {fence} and is {row:?}", row.key);
                violations.push(Violation::new(Invariant::CompletedOnce, text));
            }
            continue;
        }
        let story = stories.get(&lease);
        if !story.is_some_and(|story| story.may_be_applied(Ending::Complete)) {
            let text = format!("{row:?} is completed, and no call with its lease did it");
            violations.push(Violation::new(Invariant::CompletedOnce, text));
        }
        if acknowledged.is_some_and(|fence| *fence != row.fence) {
            let text = format!("{row:?} was completed with the fencing token {acknowledged:?}");
            violations.push(Violation::new(Invariant::CompletedOnce, text));
        }
        let expected = format!("{}:{}", row.key, row.fence);
        let count = follow_ups.remove(expected.as_str()).unwrap_or(0);
        if count != 1 {
            let text = format!("{row:?} is completed and has {count} follow-ups");
            violations.push(Violation::new(Invariant::FollowUps, text));
        }
    }
    for (payload, count) in follow_ups {
        let text = format!("{count} follow-ups {payload} belong to no completed item");
        violations.push(Violation::new(Invariant::FollowUps, text));
    }
}

mod tests {
    use super::super::check as check_all;
    use super::super::example::{Example, SECOND, assert_only};
    use super::*;

    #[test]
    fn items_that_are_completed_twice_are_found() {
        let mut example = Example::new();
        example.claim(1, 2, 20 * SECOND, 10);
        example.settle(1, 2, Ending::Complete, 21 * SECOND, Some(1));
        example.history.follow_ups.push("1:2".to_owned());
        let violations = check_all(&example.history);
        for invariant in [Invariant::CompletedOnce, Invariant::FollowUps] {
            let found = violations
                .iter()
                .any(|violation| violation.invariant == invariant);
            assert!(found, "{invariant:?}: {violations:?}");
        }
    }

    #[test]
    fn completions_whose_answer_is_unknown_pass() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.settle(2, 1, Ending::Complete, SECOND, None);
        example.assert_passes();
    }

    #[test]
    fn completions_without_a_call_are_found() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 1);
        example.settle(2, 1, Ending::Complete, 2 * SECOND, Some(2));
        let row = example.row(2);
        (row.state, row.fence, row.attempt) = (COMPLETED, 1, 1);
        example.history.follow_ups.push("2:1".to_owned());
        assert_only(Invariant::CompletedOnce, &example, check_all);
    }

    #[test]
    fn acknowledged_completions_that_are_undone_are_found() {
        let mut example = Example::new();
        example.row(1).state = 0;
        let violations = check_all(&example.history);
        let found = violations
            .iter()
            .any(|violation| violation.invariant == Invariant::CompletedOnce);
        assert!(found, "{violations:?}");
    }

    #[test]
    fn missing_and_doubled_follow_ups_are_found() {
        let mut example = Example::new();
        example.history.follow_ups.clear();
        assert_only(Invariant::FollowUps, &example, check_all);
        example.history.follow_ups = vec!["1:1".to_owned(); 2];
        assert_only(Invariant::FollowUps, &example, check_all);
        example.history.follow_ups = vec!["1:1".to_owned(), "2:1".to_owned()];
        assert_only(Invariant::FollowUps, &example, check_all);
    }
}
