//! Numbers of the spans that the export queue took, sent and lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the spans of a process since its start. Once the export queue is closed, `emitted` is the sum of `exported`, `failed`
/// and `dropped`.
#[derive(Debug, Default)]
pub struct SpanCounters {
    emitted: AtomicU64,
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    not_kept: AtomicU64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $add:ident)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&self) -> u64 {
                self.$name.load(Ordering::Relaxed)
            }

            pub(super) fn $add(&self, spans: usize) {
                self.$name.fetch_add(spans as u64, Ordering::Relaxed);
            }
        )*
    };
}

impl SpanCounters {
    counters! {
        /// Returns the number of spans that the broker made.
        emitted add_emitted
        /// Returns the number of spans that the collector has accepted as part of a batch.
        exported add_exported
        /// Returns the number of spans of batches that could not be sent.
        failed add_failed
        /// Returns the number of spans for which there was no room or no time.
        dropped add_dropped
        /// Returns the number of leases that ended badly and have no span, because too many others did. No span was made.
        not_kept add_not_kept
    }
}
