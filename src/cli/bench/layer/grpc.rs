//! The load over gRPC, as workers anywhere put it.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message as _;
use prost::bytes::Bytes;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use super::{Ending, Layer, Place, Terms};
use crate::cli::CommandError;
use crate::cli::bench::keys::ItemKey;
use crate::cli::bench::ledger::Settled;
use crate::cli::bench::wire;
use crate::cli::client_args::proto_duration;
use crate::grpc::proto::{self, value::Kind};

const COMPLETE: &str = "/leasebroker.v1.LeaseBrokerService/Complete";

/// One worker's calls on a connection that it shares with others.
pub(in crate::cli::bench) struct OverGrpc {
    rpc: Grpc<Channel>,
    queue: Bytes,
    worker_id: Bytes,
    lease: Option<prost_types::Duration>,
    wait: Option<prost_types::Duration>,
    /// What is added each time, encoded once.
    item: Bytes,
}

/// A lease and the key of its item.
pub(in crate::cli::bench) struct Lease {
    id: Bytes,
    key: ItemKey,
}

impl From<wire::Lease> for Lease {
    fn from(lease: wire::Lease) -> Self {
        Self {
            id: lease.lease_id,
            key: ItemKey::of_text(&lease.item.unwrap_or_default().key),
        }
    }
}

impl OverGrpc {
    pub(in crate::cli::bench) fn new(
        channel: Channel,
        place: Place,
        queue: &str,
        terms: &Terms,
    ) -> Self {
        let kind = Some(Kind::StringValue(terms.payload.clone()));
        let item = proto::NewItem {
            columns: [(terms.column.clone(), proto::Value { kind })].into(),
            delay: None,
        };
        Self {
            rpc: Grpc::new(channel).max_decoding_message_size(usize::MAX),
            queue: Bytes::copy_from_slice(queue.as_bytes()),
            worker_id: place.worker_id().into(),
            lease: terms.lease.map(proto_duration),
            wait: terms.wait.map(proto_duration),
            item: item.encode_to_vec().into(),
        }
    }

    async fn call<Q, A>(&mut self, method: &'static str, request: Q) -> Result<A, CommandError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let ready = self.rpc.ready().await;
        ready.map_err(|error| {
            CommandError::unavailable(format!("the connection failed: {error}"))
        })?;
        let path = PathAndQuery::from_static(method);
        let request = tonic::Request::new(request);
        let answer = self.rpc.unary(request, path, ProstCodec::default()).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| CommandError::from(status).with_context(method))
    }

    fn lease_ids(&self, leases: &[Lease]) -> wire::LeaseIds {
        wire::LeaseIds {
            queue: self.queue.clone(),
            ids: leases.iter().map(|lease| lease.id.clone()).collect(),
            duration: None,
        }
    }

    fn endings(&self, leases: &[Lease], retry: Option<Duration>) -> wire::Endings {
        let ending = |lease: &Lease| wire::Ending {
            lease_id: lease.id.clone(),
            retry_delay: retry.map(proto_duration),
        };
        wire::Endings {
            queue: self.queue.clone(),
            endings: leases.iter().map(ending).collect(),
        }
    }
}

impl Layer for OverGrpc {
    type Lease = Lease;

    fn key(lease: &Lease) -> ItemKey {
        lease.key
    }

    async fn claim(&mut self, max_items: usize) -> Result<Vec<Lease>, CommandError> {
        let request = wire::ClaimBatchRequest {
            queue: self.queue.clone(),
            worker_id: self.worker_id.clone(),
            max_items: i32::try_from(max_items).unwrap_or(i32::MAX),
            lease_duration: self.lease,
            wait_timeout: self.wait,
        };
        let method = "/leasebroker.v1.LeaseBrokerService/ClaimBatch";
        let answer: wire::ClaimBatchResponse = self.call(method, request).await?;
        Ok(answer.leases.into_iter().map(Lease::from).collect())
    }

    async fn complete_and_claim(
        &mut self,
        leases: &[Lease],
        max_items: usize,
    ) -> Result<(Vec<Settled>, Vec<Lease>), CommandError> {
        let request = wire::CompleteRequest {
            queue: self.queue.clone(),
            completions: self.endings(leases, None).endings,
            next: Some(wire::NextClaim {
                worker_id: self.worker_id.clone(),
                max_items: i32::try_from(max_items).unwrap_or(i32::MAX),
                lease_duration: self.lease,
            }),
        };
        let answer: wire::CompleteResponse = self.call(COMPLETE, request).await?;
        expect_all(answer.results.len(), leases.len())?;
        let settled = |result: &wire::Outcome| {
            if is_applied(result.outcome) {
                Settled::Completed
            } else {
                Settled::Lost
            }
        };
        let settled = answer.results.iter().map(settled).collect();
        let next = answer.next_leases.into_iter().map(Lease::from);
        Ok((settled, next.collect()))
    }

    async fn heartbeat(&mut self, leases: &[Lease]) -> Result<u64, CommandError> {
        let mut request = self.lease_ids(leases);
        request.duration = self.lease;
        let method = "/leasebroker.v1.LeaseBrokerService/Heartbeat";
        let answer: wire::Outcomes = self.call(method, request).await?;
        expect_all(answer.results.len(), leases.len())?;
        let results = answer.results.iter();
        let lost = results.filter(|result| !is_applied(result.outcome));
        Ok(lost.count() as u64)
    }

    async fn settle(
        &mut self,
        ending: Ending,
        leases: &[Lease],
    ) -> Result<Vec<Settled>, CommandError> {
        let answer: wire::SettleResults = match ending {
            Ending::Complete => {
                let request = self.endings(leases, None);
                self.call(COMPLETE, request).await?
            }
            Ending::Fail => {
                let request = self.endings(leases, Some(Duration::ZERO));
                let method = "/leasebroker.v1.LeaseBrokerService/Fail";
                self.call(method, request).await?
            }
            Ending::Release => {
                let method = "/leasebroker.v1.LeaseBrokerService/Release";
                self.call(method, self.lease_ids(leases)).await?
            }
        };
        expect_all(answer.results.len(), leases.len())?;
        let settled = |result: &wire::SettleResult| match ending {
            _ if !is_applied(result.outcome) => Settled::Lost,
            Ending::Complete => Settled::Completed,
            Ending::Fail if result.state == proto::ItemState::Dead as i32 => Settled::Dead,
            Ending::Fail => Settled::Failed,
            Ending::Release => Settled::Released,
        };
        Ok(answer.results.iter().map(settled).collect())
    }

    async fn enqueue(&mut self, items: usize) -> Result<Vec<ItemKey>, CommandError> {
        let request = wire::EnqueueRequest {
            queue: self.queue.clone(),
            items: vec![self.item.clone(); items],
        };
        let method = "/leasebroker.v1.LeaseBrokerService/Enqueue";
        let answer: wire::EnqueueResponse = self.call(method, request).await?;
        expect_all(answer.keys.len(), items)?;
        let keys = answer.keys.iter();
        Ok(keys.map(|key| ItemKey::of_text(key)).collect())
    }
}

fn is_applied(outcome: i32) -> bool {
    outcome == proto::Outcome::Applied as i32
}

fn expect_all(answers: usize, asked: usize) -> Result<(), CommandError> {
    if answers == asked {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "bench: FAILED {answers} answers to {asked} items"
    )))
}
