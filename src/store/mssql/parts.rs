//! The parts of a list. A list is sent in one batch, and in parts if the server refuses one of its entries, or if another program has
//! locked the row of one: the server does not tell which.

use crate::{Rejection, StoreError};

/// The parts that are still to be sent, each as the indexes of its entries. The next one is the last.
///
/// n entries take at most 2n - 1 batches, and one refused entry among n takes about 2 log2(n).
pub(super) struct Parts(Vec<Vec<usize>>);

impl Parts {
    /// Returns one part with all entries.
    pub(super) fn of(indexes: Vec<usize>) -> Self {
        Self(vec![indexes])
    }

    pub(super) fn next(&mut self) -> Option<Vec<usize>> {
        self.0.pop()
    }

    /// Divides a part whose batch failed. Returns the index of the entry that the server refuses, if the part has no other.
    ///
    /// # Errors
    /// `error`, if it is no refusal of an entry.
    pub(super) fn divide(
        &mut self,
        part: &[usize],
        error: StoreError,
    ) -> Result<Option<(usize, Rejection)>, StoreError> {
        match error {
            StoreError::Rejected(rejection) if !part.is_empty() => {
                Ok(self.split(part, 2).map(|index| (index, rejection)))
            }
            error => Err(error),
        }
    }

    /// Divides a part into this number of parts, or less. Returns the index of its entry instead, if it has no other.
    pub(super) fn split(&mut self, part: &[usize], count: usize) -> Option<usize> {
        if let &[index] = part {
            return Some(index);
        }
        let parts = part.chunks(part.len().div_ceil(count).max(1));
        self.0.extend(parts.rev().map(<[usize]>::to_vec));
        None
    }
}
