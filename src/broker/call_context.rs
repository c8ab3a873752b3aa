//! What the broker knows about a call besides its request.

use std::sync::Arc;

use lease_broker_model::call_source::{CallSource, SourceNumber};
use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_model::trace_context::Span;
use lease_broker_store::Beginning;

use super::error::Error;
use crate::call_trace::RecordedCall;

/// The context of a call. The default is that of a call from inside this process.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// The owner of the leases that the call gets, extends or ends.
    pub owner: LeaseOwner,
    /// The source whose turn and whose places the call takes. `None`: none.
    pub source: Option<Arc<CallSource>>,
    /// The call, if it is recorded.
    pub recorded: Option<Arc<RecordedCall>>,
    /// The beginning of the call's first store operation. It is withdrawn when the call's deadline passes.
    pub beginning: Beginning,
}

impl CallContext {
    /// Returns the number of the source.
    pub(super) fn source_number(&self) -> SourceNumber {
        let source = self.source.as_ref();
        source.map_or(SourceNumber::default(), |source| source.number())
    }

    /// Begins a store operation.
    ///
    /// # Errors
    /// [`Error::Withdrawn`] if the call has been answered because its deadline has passed.
    pub(super) fn begin(&self) -> Result<(), Error> {
        if self.beginning.begin() {
            Ok(())
        } else {
            Err(Error::Withdrawn)
        }
    }

    /// Returns the span of the call, if it is recorded.
    pub fn span(&self) -> Option<Span> {
        self.recorded.as_ref().map(|call| call.span())
    }
}
