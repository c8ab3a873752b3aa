//! Items: none is lost, and none is invented.

use std::collections::{HashMap, HashSet};

use super::{Invariant, Violation};
use crate::chaos::history::{History, Row};
use crate::chaos::journal::{Answer, Asked};

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let mut sent = HashSet::new();
    let by_payload: HashMap<&str, &Row> = history
        .rows
        .iter()
        .map(|row| (row.payload.as_str(), row))
        .collect();
    for call in &history.calls {
        let (Asked::Enqueue { payloads } | Asked::Insert { payloads }) = &call.asked else {
            continue;
        };
        sent.extend(payloads.iter().map(String::as_str));
        let keys: Vec<Option<i64>> = match &call.answered {
            Some((_, Answer::Enqueued { keys })) => keys.iter().copied().map(Some).collect(),
            Some((_, Answer::Inserted)) => vec![None; payloads.len()],
            _ => continue,
        };
        for (payload, key) in payloads.iter().zip(keys) {
            let row = by_payload.get(payload.as_str());
            let is_there = row.is_some_and(|row| key.is_none_or(|key| row.key == key));
            if !is_there {
                let text =
                    format!("{payload} was acknowledged with key {key:?}, the table has {row:?}");
                violations.push(Violation::new(Invariant::NothingLost, text));
            }
        }
    }
    let mut seen = HashSet::new();
    for row in &history.rows {
        let payload = row.payload.as_str();
        if !sent.contains(payload) {
            let text = format!("nothing sent the row {row:?}");
            violations.push(Violation::new(Invariant::NothingInvented, text));
        }
        if !seen.insert(payload) {
            let text = format!("{payload} is in the table twice");
            violations.push(Violation::new(Invariant::NothingInvented, text));
        }
    }
}

mod tests {
    use super::super::example::{Example, assert_only};
    use super::*;

    #[test]
    fn acknowledged_items_are_in_the_table() {
        Example::new().assert_passes();
        let mut example = Example::new();
        example.history.rows.remove(0);
        assert_only(Invariant::NothingLost, &example, items_only);
    }

    #[test]
    fn unacknowledged_items_may_be_missing() {
        let mut example = Example::new();
        example.history.rows.remove(0);
        example.history.calls[0].answered = None;
        let mut violations = Vec::new();
        check(&example.history, &mut violations);
        assert!(violations.is_empty(), "{violations:?}");
    }

    #[test]
    fn rows_that_nothing_sent_are_found() {
        let mut example = Example::new();
        example.history.rows[0].payload = "unknown".to_owned();
        example.history.calls[0].answered = None;
        assert_only(Invariant::NothingInvented, &example, items_only);
    }

    #[test]
    fn payloads_in_two_rows_are_found() {
        let mut example = Example::new();
        let twin = Row {
            key: 99,
            ..example.history.rows[0].clone()
        };
        example.history.rows.insert(0, twin);
        assert_only(Invariant::NothingInvented, &example, items_only);
    }

    fn items_only(history: &History) -> Vec<Violation> {
        let mut violations = Vec::new();
        check(history, &mut violations);
        violations
    }
}
