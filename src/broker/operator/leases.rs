//! Takes leases away from their workers without a running broker.

use lease_broker_store::Cancelled;

use super::Operator;
use crate::broker::cancel::CheckedCancel;
use crate::broker::error::Error;
use crate::broker::requests::CancelRequest;

impl Operator {
    /// Takes leases away from their workers. Returns one result per lease, in request order. Claims that wait get the items. A broker's own
    /// [`cancel_leases`](crate::broker::Broker::cancel_leases) also records the leases.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`], [`Error::LimitExceeded`], and those of the store.
    pub async fn cancel_leases(&self, request: CancelRequest) -> Result<Vec<Cancelled>, Error> {
        let (queue, _) = self.queue(&request.queue)?;
        let store = self.store()?;
        let checked =
            CheckedCancel::new(request, |text| store.reads().parse_key(queue, text), None)?;
        let cancelled = if checked.leases.is_empty() {
            Vec::new()
        } else {
            let (leases, cancellation) = (checked.leases.clone(), checked.cancellation.clone());
            let delay = cancellation.delay;
            let results = store.cancel(queue, leases, cancellation).await?.results;
            self.wake(queue, delay);
            results
        };
        Ok(checked.results(cancelled))
    }
}
