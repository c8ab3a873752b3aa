//! The parts of a list. A list is sent in one batch, and in parts if the server refuses one of its entries, or if another program has
//! locked the row of one: the server does not tell which. Every operation that changes leases by a list divides it by these rules.

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
    /// The parts that are still to be sent, each as the indexes of its entries. The next one is the last.
    left: Vec<Vec<usize>>,
    /// The time at which the search for locked rows began.
    search: Option<Instant>,
    /// True: the batch of a part has succeeded.
    has_applied: bool,
}

/// The entries that an operation leaves out. It has changed nothing for them.
pub(super) enum LeftOut {
    /// The entry that the server refuses.
    Refused(usize, Rejection),
    /// Entries of which at least one has a locked row. They can be sent again.
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
            left: vec![indexes],
            search: None,
            has_applied: false,
        }
    }

    pub(super) fn next(&mut self) -> Option<Vec<usize>> {
        self.left.pop()
    }

    /// Notes that the batch of a part has succeeded.
    pub(super) fn note_success(&mut self) {
        self.has_applied = true;
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
                let single = self.split(&part, 2);
                Ok(single.map(|index| LeftOut::Refused(index, rejection)))
            }
            error if is_locked(&error) => {
                let start = self.search.get_or_insert_with(Instant::now);
                if start.elapsed() < MAX_SEARCH {
                    let single = self.split(&part, PARTS_BESIDE_LOCKS);
                    return Ok(single.map(|index| LeftOut::Locked(vec![index])));
                }
                // If no part has succeeded, a lock of the whole table is likely. The other parts would wait for it in turn.
                if self.has_applied {
                    Ok(Some(LeftOut::Locked(part)))
                } else {
                    Err(error)
                }
            }
            error => Err(error),
        }
    }

    /// Divides a part into this number of parts, or less. Returns the index of its entry instead, if it has no other.
    fn split(&mut self, part: &[usize], count: usize) -> Option<usize> {
        if let &[index] = part {
            return Some(index);
        }
        let parts = part.chunks(part.len().div_ceil(count).max(1));
        self.left.extend(parts.rev().map(<[usize]>::to_vec));
        None
    }
}
