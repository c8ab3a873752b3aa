//! Completes items by the generated client alone: claims n items, and completes n with the next n. It is the measure for the
//! throughput of the library.

use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{ClaimBatchRequest, CompleteRequest, Completion, NextClaim};

use crate::journal::Journal;
use crate::{Error, Options};

pub(crate) async fn run(options: &Options, until: u64) -> Result<(), Error> {
    let address = format!("http://{}", options.address());
    let mut client = LeaseServiceClient::connect(address).await?;
    let queue = options.text("queue").unwrap_or_default().to_owned();
    let worker_id = options.text("worker_id").unwrap_or("raw").to_owned();
    let max_items = i32::try_from(options.concurrency())?;
    let journal = Journal::new(true, 0);
    journal.ready();
    let (mut items, mut leases) = (0, Vec::new());
    while items < until {
        if leases.is_empty() {
            let claim = ClaimBatchRequest {
                queue: queue.clone(),
                worker_id: worker_id.clone(),
                max_items,
                ..ClaimBatchRequest::default()
            };
            leases = client.claim_batch(claim).await?.into_inner().leases;
            continue;
        }
        items += leases.len() as u64;
        let completion = |lease: lease_broker_proto::Lease| Completion {
            lease_id: lease.lease_id,
            ..Completion::default()
        };
        let request = CompleteRequest {
            queue: queue.clone(),
            completions: leases.into_iter().map(completion).collect(),
            next: Some(NextClaim {
                worker_id: worker_id.clone(),
                max_items,
                ..NextClaim::default()
            }),
        };
        let next = client.complete(request).await?.into_inner().next;
        leases = next.unwrap_or_default().leases;
    }
    journal.done(items);
    Ok(())
}
