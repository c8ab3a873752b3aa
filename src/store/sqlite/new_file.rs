//! Keeps the store from creating a file that no queue could use. A relative path in the wrong folder would leave one there.

use std::path::Path;

use lease_broker_model::queue::QueueSpec;

use crate::StoreError;

/// Checks that the file exists, or that the broker creates the tables of all queues.
///
/// # Errors
/// [`StoreError::Io`] with the absolute path of the missing file, and with a table that would be missing in a new one.
pub fn refuse_missing_file(path: &Path, queues: &[QueueSpec]) -> Result<(), StoreError> {
    let foreign = queues.iter().find(|queue| queue.managed_columns.is_none());
    match foreign {
        Some(queue) if matches!(path.try_exists(), Ok(false)) => {
            let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            Err(StoreError::Io(format!(
                "the file {} does not exist, and the table {:?} of queue {:?} should be in it: name the file with --store or store.path, \
                 where a relative path begins in the current folder",
                file.display(),
                queue.table,
                queue.name
            )))
        }
        _ => Ok(()),
    }
}
