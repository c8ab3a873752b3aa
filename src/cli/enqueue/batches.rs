//! The items of a file as batches. A thread reads them, so that the command can end while the file, such as a pipe, has no
//! more bytes yet.

use std::iter;

use lease_broker_proto as proto;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{Receiver, channel};
use uuid::{Builder, Uuid};

use crate::cli::CommandError;
use crate::cli::item_file::Items;

/// The items of one call.
pub(super) struct Batch {
    pub(super) items: Vec<proto::NewItem>,
    /// The line of each item.
    pub(super) lines: Vec<u64>,
    /// The number of items in the file before these.
    pub(super) position: u64,
}

/// Reads batches of up to `size` items. Skips the first `skip` items of the file. After an error, no batch follows.
pub(super) fn read(items: Items, size: usize, skip: u64) -> Receiver<Result<Batch, CommandError>> {
    let (sender, batches) = channel(1);
    let mut position = skip;
    let mut items = items.skip(usize::try_from(skip).unwrap_or(usize::MAX));
    let mut next = move || -> Option<Result<Batch, CommandError>> {
        let batch: Result<Vec<_>, _> = items.by_ref().take(size).collect();
        let (lines, items): (Vec<u64>, Vec<_>) = match batch {
            Ok(batch) if batch.is_empty() => return None,
            Ok(batch) => batch.into_iter().unzip(),
            Err(error) => return Some(Err(error)),
        };
        let batch = Batch {
            items,
            lines,
            position,
        };
        position += batch.items.len() as u64;
        Some(Ok(batch))
    };
    // The thread ends with the process if a read never ends.
    std::thread::spawn(move || {
        for batch in iter::from_fn(&mut next) {
            let is_last = batch.is_err();
            if sender.blocking_send(batch).is_err() || is_last {
                return;
            }
        }
    });
    batches
}

/// Returns the id of the request that adds the items at this position of a run. The same position of the same run has the
/// same id, so the service adds its items once.
pub(super) fn request_id(queue: &str, run_id: &str, position: u64) -> Uuid {
    let mut digest = Sha256::new();
    for text in ["lease-broker enqueue", queue, run_id] {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    }
    digest.update(position.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_id_depends_on_queue_run_and_position() {
        let first = request_id("a", "b", 0);
        assert_eq!(first, request_id("a", "b", 0));
        let others = [
            request_id("ab", "", 0),
            request_id("a", "c", 0),
            request_id("a", "b", 1),
        ];
        assert!(!others.contains(&first), "{others:?}");
    }
}
