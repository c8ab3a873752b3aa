//! The parts of a list. A list is sent in one batch, and in parts if the server refuses one of its entries, or if another program has
//! locked the row of one: the server does not tell which. Every operation that changes leases by a list divides it by these rules.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::error::is_locked;
use crate::{Refusal, Rejection, StoreError};

/// The number of parts into which a list is divided if another program has locked one of its rows. With more parts the search for the
/// row waits for fewer lock timeouts, and sends more batches.
const PARTS_BESIDE_LOCKS: usize = 8;
/// The time after which the search for locked rows ends. The parts that are left are sent, but not divided.
const MAX_SEARCH: Duration = Duration::from_secs(3);

/// The parts of one list.
///
/// n entries take at most 2n - 1 batches, and one refused entry among n takes about 2 log2(n).
pub(super) struct Parts {
    /// The parts that are still to be sent, each as the indexes of its entries.
    left: VecDeque<Vec<usize>>,
    /// The time at which the search for locked rows began.
    search: Option<Instant>,
    /// True: the batch of a part has succeeded.
    has_applied: bool,
}

/// The entries that an operation leaves out. It has changed nothing for them.
pub(super) enum LeftOut {
    /// The entry that the server refuses.
    Refused(usize, Rejection),
    /// Entries of which at least one has a locked row. All of them can be sent again.
    Locked(Vec<usize>),
}

impl LeftOut {
    /// Returns the refusal of each entry that is left out, with its index.
    pub(super) fn refusals(self) -> Vec<(usize, Refusal)> {
        match self {
            Self::Refused(index, rejection) => vec![(index, Refusal::of_row(rejection.problem))],
            Self::Locked(indexes) => indexes
                .into_iter()
                .map(|index| (index, Refusal::locked()))
                .collect(),
        }
    }
}

impl Parts {
    /// Returns one part with all entries.
    pub(super) fn of(indexes: Vec<usize>) -> Self {
        Self {
            left: [indexes].into(),
            search: None,
            has_applied: false,
        }
    }

    pub(super) fn next(&mut self) -> Option<Vec<usize>> {
        self.left.pop_front()
    }

    /// Notes that the batch of a part has succeeded.
    pub(super) fn note_success(&mut self) {
        self.has_applied = true;
    }

    /// Notes the result of a part's batch. If the batch failed, its part is divided. Returns the refusal of each entry that is left
    /// out instead, with its index.
    ///
    /// # Errors
    /// As for [`Self::divide`].
    pub(super) fn end(
        &mut self,
        part: Vec<usize>,
        result: Result<(), StoreError>,
    ) -> Result<Vec<(usize, Refusal)>, StoreError> {
        let Err(error) = result else {
            self.note_success();
            return Ok(Vec::new());
        };
        let left_out = self.divide(part, error)?;
        Ok(left_out.map_or_else(Vec::new, LeftOut::refusals))
    }

    /// Divides a part whose batch failed. Returns the entries that are left out instead, if it cannot be divided.
    ///
    /// # Errors
    /// `error`, if it is not about single entries.
    pub(super) fn divide(
        &mut self,
        part: Vec<usize>,
        error: StoreError,
    ) -> Result<Option<LeftOut>, StoreError> {
        match error {
            StoreError::Rejected(rejection) if !part.is_empty() => {
                if let &[index] = &*part {
                    return Ok(Some(LeftOut::Refused(index, rejection)));
                }
                // In the order of the list, because an entry can depend on an earlier one.
                for part in pieces(&part, 2).rev() {
                    self.left.push_front(part);
                }
                Ok(None)
            }
            error if is_locked(&error) => {
                let start = self.search.get_or_insert_with(Instant::now);
                let is_over = start.elapsed() >= MAX_SEARCH;
                if is_over && !self.has_applied {
                    // A lock of the whole table is likely. The other parts would wait for it in turn.
                    let left = self.left.drain(..).flatten();
                    return Ok(Some(LeftOut::Locked(
                        part.into_iter().chain(left).collect(),
                    )));
                }
                if is_over || part.len() == 1 {
                    return Ok(Some(LeftOut::Locked(part)));
                }
                // Behind the parts that were not sent yet, of which most are not locked.
                self.left.extend(pieces(&part, PARTS_BESIDE_LOCKS));
                Ok(None)
            }
            error => Err(error),
        }
    }
}

/// Divides a part into this number of parts, or less.
fn pieces(part: &[usize], count: usize) -> impl DoubleEndedIterator<Item = Vec<usize>> {
    let pieces = part.chunks(part.len().div_ceil(count).max(1));
    pieces.map(<[usize]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outage;

    fn locked() -> StoreError {
        StoreError::Unavailable(Outage {
            waited_for_lock: true,
            ..Outage::default()
        })
    }

    #[test]
    fn entries_that_were_not_sent_come_before_the_pieces_of_a_locked_part() {
        let mut parts = Parts::of((0..16).collect());
        for expected in [(0..16).collect(), vec![0, 1], vec![2, 3]] {
            let part = parts.next().expect("a part");
            assert_eq!(part, expected);
            assert!(parts.divide(part, locked()).expect("locked").is_none());
        }
        let left: Vec<_> = std::iter::from_fn(|| parts.next()).collect();
        assert_eq!(
            left.concat(),
            [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3]
        );
    }

    #[test]
    fn search_in_a_locked_table_ends_for_all_entries() {
        let mut parts = Parts::of((0..16).collect());
        let part = parts.next().expect("the list");
        assert!(parts.divide(part, locked()).expect("locked").is_none());
        parts.search = Instant::now().checked_sub(MAX_SEARCH);
        let part = parts.next().expect("a part");
        let Ok(Some(LeftOut::Locked(entries))) = parts.divide(part, locked()) else {
            panic!("no entries");
        };
        assert_eq!(entries, (0..16).collect::<Vec<_>>());
        assert!(parts.next().is_none());
    }
}
