//! Leases: they last and do not overlap, late calls are refused, and fencing tokens grow.

use std::collections::{BTreeMap, HashMap};

use super::{Invariant, Violation};
use crate::chaos::history::{History, Outcome, Story};
use crate::chaos::journal::Lease;

/// The resolution of the stores' clocks, with room for rounding. In nanoseconds.
const CLOCK_RESOLUTION: u64 = 5_000_000;

pub(super) fn check(
    history: &History,
    stories: &BTreeMap<Lease, Story>,
    violations: &mut Vec<Violation>,
) {
    // The time at which a claim first returned a greater fencing token of the same key.
    let mut next: Option<(Lease, u64)> = None;
    for (lease, story) in stories.iter().rev() {
        let next_of_key = next.filter(|(next, _)| next.key == lease.key);
        if let Some((greater, taken_at)) = next_of_key {
            check_overlap(*lease, story, greater, taken_at, violations);
            check_late_calls(*lease, story, greater, taken_at, violations);
        }
        let granted_at = story.grants.iter().map(|grant| grant.at).min();
        next = match (granted_at, next_of_key) {
            (Some(at), Some((_, taken_at))) if at > taken_at => next_of_key,
            (Some(at), _) => Some((*lease, at)),
            (None, _) => next_of_key,
        };
    }
    for (lease, story) in stories {
        check_kept(*lease, story, violations);
    }
    check_fences(history, stories, violations);
}

/// Finds calls that were refused before the lease expired, and before another call could have ended it.
fn check_kept(lease: Lease, story: &Story, violations: &mut Vec<Violation>) {
    let granted = story.grants.iter();
    let granted = granted.map(|grant| grant.sent + grant.time_left_ms * 1_000_000);
    let Some(expiry) = granted.max() else {
        return;
    };
    let settled = story.uses.iter().filter(|used| used.ending.is_some());
    let first_settled = settled.map(|used| used.sent).min().unwrap_or(u64::MAX);
    for used in &story.uses {
        let answered = used.answered.unwrap_or(u64::MAX);
        let is_lost = used.result == Outcome::Refused && used.sent <= first_settled;
        if is_lost && answered + CLOCK_RESOLUTION < expiry {
            let left = (expiry - answered) / 1_000_000;
            let text = format!("{lease:?} was lost {left} ms before its expiry: {story:?}");
            violations.push(Violation::new(Invariant::HeldIsKept, text));
        }
    }
}

/// Returns the earliest time at which the holder of the lease took it for ended: when it sent its first settlement, or when the
/// lease expired by the holder's own clock. The time of sending is used, so that a finding is definite.
fn earliest_end(story: &Story) -> Option<u64> {
    let granted = story.grants.iter();
    let granted = granted.map(|grant| grant.sent + grant.time_left_ms * 1_000_000);
    let extended = story.uses.iter().filter_map(|used| match used.result {
        Outcome::Applied(time_left_ms) if used.ending.is_none() => {
            Some(used.sent + time_left_ms * 1_000_000)
        }
        _ => None,
    });
    let expiry = granted.chain(extended).max()?;
    let settled = story.uses.iter().filter(|used| used.ending.is_some());
    let settled = settled.map(|used| used.sent).min();
    Some(settled.map_or(expiry, |settled| settled.min(expiry)))
}

fn check_overlap(
    lease: Lease,
    story: &Story,
    greater: Lease,
    taken_at: u64,
    violations: &mut Vec<Violation>,
) {
    let Some(end) = earliest_end(story) else {
        return;
    };
    if taken_at + CLOCK_RESOLUTION < end {
        let early = (end - taken_at) / 1_000_000;
        let text = format!("{greater:?} was given {early} ms before {lease:?} ended: {story:?}");
        violations.push(Violation::new(Invariant::NoOverlap, text));
    }
}

fn check_late_calls(
    lease: Lease,
    story: &Story,
    greater: Lease,
    taken_at: u64,
    violations: &mut Vec<Violation>,
) {
    for used in &story.uses {
        if used.sent > taken_at && matches!(used.result, Outcome::Applied(_)) {
            let kind = used.ending;
            let text =
                format!("{kind:?} of {lease:?} was applied, sent after {greater:?} was given");
            violations.push(Violation::new(Invariant::LateIsRefused, text));
        }
    }
}

fn check_fences(
    history: &History,
    stories: &BTreeMap<Lease, Story>,
    violations: &mut Vec<Violation>,
) {
    let fences: HashMap<i64, i64> = history
        .rows
        .iter()
        .map(|row| (row.key, row.fence))
        .collect();
    for (lease, story) in stories {
        let requests = story.grants.iter().map(|grant| &grant.request_id);
        let first = requests.clone().next();
        if requests.clone().any(|request| Some(request) != first) {
            let text = format!("two claims got {lease:?}: {story:?}");
            violations.push(Violation::new(Invariant::Fences, text));
        }
        if fences
            .get(&lease.key)
            .is_some_and(|last| lease.fence > *last)
        {
            let last = fences[&lease.key];
            let text = format!("{lease:?} was given, and its row has the fencing token {last}");
            violations.push(Violation::new(Invariant::Fences, text));
        }
    }
}

mod tests {
    use super::super::check as check_all;
    use super::super::example::{Example, SECOND, assert_only};
    use super::*;
    use crate::chaos::journal::Ending;

    #[test]
    fn overlapping_leases_are_found() {
        // The second lease was given one second before the first one expired.
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.claim(2, 2, 9 * SECOND, 10);
        example.settle(2, 2, Ending::Complete, 10 * SECOND, Some(1));
        assert_only(Invariant::NoOverlap, &example, check_all);
    }

    #[test]
    fn expired_and_settled_leases_do_not_overlap() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.claim(2, 2, 11 * SECOND, 10);
        example.settle(2, 2, Ending::Fail, 12 * SECOND, None);
        example.claim(2, 3, 13 * SECOND, 10);
        example.settle(2, 3, Ending::Complete, 14 * SECOND, Some(1));
        example.assert_passes();
    }

    #[test]
    fn heartbeats_extend_a_lease() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.heartbeat(2, 1, 5 * SECOND, Some(10));
        example.claim(2, 2, 11 * SECOND, 10);
        example.settle(2, 2, Ending::Complete, 12 * SECOND, Some(1));
        assert_only(Invariant::NoOverlap, &example, check_all);
    }

    #[test]
    fn late_calls_that_are_applied_are_found() {
        for is_heartbeat in [true, false] {
            let mut example = Example::new();
            example.claim(2, 1, 0, 1);
            example.claim(2, 2, 2 * SECOND, 10);
            if is_heartbeat {
                // The lease was extended after it had expired, and for less time than has passed.
                example.heartbeat(2, 1, 3 * SECOND, Some(0));
            } else {
                example.settle(2, 1, Ending::Fail, 3 * SECOND, Some(1));
            }
            example.settle(2, 2, Ending::Complete, 4 * SECOND, Some(1));
            let violations = check_all(&example.history);
            let late = violations
                .iter()
                .filter(|violation| violation.invariant == Invariant::LateIsRefused);
            assert_eq!(late.count(), 1, "{violations:?}");
        }
    }

    #[test]
    fn leases_that_are_lost_early_are_found() {
        for is_heartbeat in [true, false] {
            let mut example = Example::new();
            example.claim(2, 1, 0, 10);
            if is_heartbeat {
                example.heartbeat(2, 1, 3 * SECOND, None);
            } else {
                example.settle(2, 1, Ending::Fail, 3 * SECOND, Some(2));
            }
            assert_only(Invariant::HeldIsKept, &example, check_all);
        }
    }

    #[test]
    fn release_that_is_sent_twice_may_be_refused() {
        // The first copy was applied, and another worker got the item before the second copy came.
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.settle(2, 1, Ending::Release, SECOND, Some(2));
        example.claim(2, 2, 2 * SECOND, 10);
        example.settle(2, 2, Ending::Complete, 3 * SECOND, Some(1));
        example.row(2).attempt = 1;
        example.assert_passes();
    }

    #[test]
    fn settled_leases_may_be_lost() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.settle(2, 1, Ending::Complete, SECOND, None);
        example.heartbeat(2, 1, 3 * SECOND, None);
        example.assert_passes();
    }

    #[test]
    fn late_calls_that_are_refused_pass() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 1);
        example.claim(2, 2, 2 * SECOND, 10);
        example.heartbeat(2, 1, 3 * SECOND, None);
        example.settle(2, 1, Ending::Complete, 3 * SECOND, Some(2));
        example.settle(2, 2, Ending::Complete, 4 * SECOND, Some(1));
        example.assert_passes();
    }

    #[test]
    fn leases_of_two_claims_are_found() {
        let mut example = Example::new();
        example.claim(2, 1, 0, 10);
        example.claim(2, 1, SECOND, 10);
        example.settle(2, 1, Ending::Complete, 2 * SECOND, Some(1));
        assert_only(Invariant::Fences, &example, check_all);
    }

    #[test]
    fn fences_beyond_that_of_the_row_are_found() {
        let mut example = Example::new();
        example.claim(1, 2, 0, 10);
        let violations = check_all(&example.history);
        let found = violations
            .iter()
            .any(|violation| violation.invariant == Invariant::Fences);
        assert!(found, "{violations:?}");
    }
}
