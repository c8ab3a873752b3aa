//! The parts of a list. A list is sent in one batch, and in parts if the server refuses one of its entries: it does not tell which.

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
        mut part: Vec<usize>,
        error: StoreError,
    ) -> Result<Option<(usize, Rejection)>, StoreError> {
        match (error, &*part) {
            (StoreError::Rejected(rejection), &[index]) => Ok(Some((index, rejection))),
            (StoreError::Rejected(_), [_, _, ..]) => {
                let second = part.split_off(part.len() / 2);
                self.0.extend([second, part]);
                Ok(None)
            }
            (error, _) => Err(error),
        }
    }
}
