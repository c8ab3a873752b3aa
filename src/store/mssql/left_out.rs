//! The rows of a queue that claims leave out for some time, because a constraint or a trigger has refused their
//! leases, or because the server cannot read their columns.

use std::time::{Duration, Instant};

use lease_broker_model::key::Key;
use parking_lot::Mutex;

/// The time for which a row is left out. Then a claim tries it again.
const TIME: Duration = Duration::from_secs(60);
/// The most rows that are left out. The statements take them as a list.
const MAX_ROWS: usize = 100;

/// A row that is left out.
#[derive(Clone)]
pub(super) struct LeftOutRow {
    pub(super) key: Key,
    /// The greatest fencing token of the row with which it is left out.
    pub(super) fence: i64,
    until: Instant,
}

/// The rows that are left out, those first that were refused first.
#[derive(Default)]
pub(super) struct LeftOut(Mutex<Vec<LeftOutRow>>);

impl LeftOut {
    /// Returns the rows that are left out now.
    pub(super) fn rows(&self) -> Vec<LeftOutRow> {
        let mut rows = self.0.lock();
        if !rows.is_empty() {
            let now = Instant::now();
            rows.retain(|row| row.until > now);
        }
        rows.clone()
    }

    /// Leaves the row out no longer that is left out the longest. Returns whether there is one.
    pub(super) fn forget_oldest(&self) -> bool {
        let mut rows = self.0.lock();
        let has_rows = !rows.is_empty();
        if has_rows {
            rows.remove(0);
        }
        has_rows
    }

    /// Leaves a row out from now on. If there are too many, the oldest one is not left out any more.
    pub(super) fn add(&self, key: Key, fence: i64) {
        let mut rows = self.0.lock();
        rows.retain(|row| row.key != key);
        if rows.len() >= MAX_ROWS {
            rows.remove(0);
        }
        rows.push(LeftOutRow {
            key,
            fence,
            until: Instant::now() + TIME,
        });
    }
}

#[cfg(test)]
mod tests {
    use lease_broker_value::Value;

    use super::*;

    #[test]
    fn oldest_of_too_many_rows_is_tried_again() {
        let left_out = LeftOut::default();
        for id in 0..=100 {
            left_out.add(Key([Value::Int(id)].into()), 0);
        }
        let rows = left_out.rows();
        assert_eq!(rows.len(), MAX_ROWS);
        assert_eq!(rows[0].key, Key([Value::Int(1)].into()));
    }
}
