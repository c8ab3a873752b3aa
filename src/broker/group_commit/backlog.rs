//! The calls that arrive faster than operations take them. Callers take turns, and calls that wait too long are refused.

use lease_broker_model::call_source::SourceNumber;
use tokio::sync::mpsc;

use super::call_group::{Call, CallFailure, CallGroup};
use crate::broker::admission::{FairQueue, InTurn, Shedding};

pub(super) struct Backlog<I, R> {
    calls: FairQueue<Call<I, R>>,
    shedding: Shedding,
}

impl<I, R> Backlog<I, R> {
    pub(super) fn new(shedding: Shedding) -> Self {
        Self {
            calls: FairQueue::default(),
            shedding,
        }
    }

    /// Adds the next calls to a group, until it takes no further call.
    pub(super) fn fill(
        &mut self,
        group: &mut CallGroup<I, R>,
        inbox: &mut mpsc::UnboundedReceiver<Call<I, R>>,
    ) {
        if !group.takes_calls() {
            return;
        }
        while let Ok(call) = inbox.try_recv() {
            self.calls.push(call);
        }
        let too_late = self.shedding.too_late();
        while group.takes_calls()
            && let Some((_, call)) = self.calls.pop()
        {
            if call.arrival.is_too_late(too_late) {
                let refused = CallFailure::Refused(self.shedding.refuse());
                let _ = call.reply.send(Err(refused));
            } else {
                group.push(call);
            }
        }
    }

    /// Notes that an operation starts. `takes_all`: no call is left outside the backlog.
    pub(super) fn operation_starts(&mut self, takes_all: bool) {
        let takes_all = takes_all && self.calls.is_empty();
        self.shedding.operation_starts(takes_all);
    }
}

impl<I, R> InTurn for Call<I, R> {
    fn source(&self) -> SourceNumber {
        self.source
    }

    fn items(&self) -> usize {
        self.items.len()
    }
}
