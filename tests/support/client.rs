//! A gRPC client of one queue, and builders for its requests.
//!
//! For each rpc, `try_…` returns the status of a failed call. The method without `try_` panics if the call fails.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_proto::admin_service_client::AdminServiceClient;
use lease_broker_proto::column_value::Kind;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{
    ClaimBatchRequest, ColumnValue, CompleteRequest, Completion, EnqueueRequest, EnqueueResponse,
    FailRequest, Failure, FollowUp, HeartbeatRequest, HeartbeatResult, Lease, NewItem, Outcome,
    Refusal, RefusalReason, Release, ReleaseClaimsRequest, ReleaseRequest, Renewal, SettleResult,
};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::api_error::assert_api_error;
use super::timeout::with_timeout;

/// A client that works on one queue under one worker id.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) rpc: LeaseServiceClient<Channel>,
    pub(crate) admin: AdminServiceClient<Channel>,
    pub(crate) queue: String,
    pub(crate) worker: String,
}

impl Client {
    pub(crate) fn new(channel: Channel, queue: &str) -> Self {
        Self {
            admin: AdminServiceClient::new(channel.clone()),
            rpc: LeaseServiceClient::new(channel).max_decoding_message_size(usize::MAX),
            queue: queue.to_owned(),
            worker: "worker".to_owned(),
        }
    }

    /// Returns a client of another queue on the same connection.
    pub(crate) fn for_queue(&self, queue: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            ..self.clone()
        }
    }

    /// Returns a client with another worker id on the same connection.
    pub(crate) fn as_worker(&self, worker: &str) -> Self {
        Self {
            worker: worker.to_owned(),
            ..self.clone()
        }
    }

    /// Builds a claim that does not wait.
    pub(crate) fn claim_request(&self, max_items: i32) -> ClaimBatchRequest {
        ClaimBatchRequest {
            queue: self.queue.clone(),
            worker_id: self.worker.clone(),
            max_items,
            ..ClaimBatchRequest::default()
        }
    }

    /// Builds a claim that waits up to `wait` for an item.
    pub(crate) fn waiting_claim_request(
        &self,
        max_items: i32,
        wait: Duration,
    ) -> ClaimBatchRequest {
        ClaimBatchRequest {
            wait_timeout: Some(duration(wait)),
            ..self.claim_request(max_items)
        }
    }

    /// Waits until the server has received every request that was sent on this connection so far.
    ///
    /// The server reads the requests of one connection in order. The answer to a later request proves that it has read
    /// the earlier ones.
    pub(crate) async fn wait_until_received(&self) {
        tokio::task::yield_now().await;
        let unknown = self.for_queue("nowhere");
        let rejected = unknown.try_claim(unknown.claim_request(1)).await;
        rejected.expect_err("the queue is unknown");
    }

    pub(crate) async fn try_claim(
        &self,
        request: impl tonic::IntoRequest<ClaimBatchRequest>,
    ) -> Result<Vec<Lease>, Status> {
        let response = self.rpc.clone().claim_batch(request).await?;
        Ok(response.into_inner().leases)
    }

    pub(crate) async fn claim(&self, max_items: i32) -> Vec<Lease> {
        let claimed = self.try_claim(self.claim_request(max_items)).await;
        claimed.expect("the claim succeeds")
    }

    /// Claims one item. Panics if no item is ready.
    pub(crate) async fn claim_one(&self) -> Lease {
        let mut leases = self.claim(1).await;
        leases.pop().expect("an item is ready")
    }

    pub(crate) async fn try_enqueue(&self, items: Vec<NewItem>) -> Result<Vec<String>, Status> {
        let queue = self.queue.clone();
        let request = EnqueueRequest {
            queue,
            items,
            request_id: String::new(),
        };
        let response = self.rpc.clone().enqueue(request).await?;
        Ok(added_keys(response.into_inner()))
    }

    pub(crate) async fn enqueue(&self, payloads: &[&str]) -> Vec<String> {
        let items = payloads.iter().map(|payload| item(payload)).collect();
        self.try_enqueue(items).await.expect("the items are added")
    }

    /// Starts a call that adds an item.
    pub(crate) fn start_enqueue(&self) -> JoinHandle<Result<Vec<String>, Status>> {
        let client = self.clone();
        tokio::spawn(async move { client.try_enqueue(vec![item("x")]).await })
    }

    pub(crate) async fn try_heartbeat(
        &self,
        lease_ids: &[&str],
        lease: Option<Duration>,
    ) -> Result<Vec<HeartbeatResult>, Status> {
        let request = HeartbeatRequest {
            queue: self.queue.clone(),
            renewals: lease_ids.iter().map(|id| renewal(id)).collect(),
            lease_duration: lease.map(duration),
        };
        let response = self.rpc.clone().heartbeat(request).await?;
        Ok(response.into_inner().results)
    }

    pub(crate) async fn try_complete(
        &self,
        completions: Vec<Completion>,
    ) -> Result<Vec<SettleResult>, Status> {
        let queue = self.queue.clone();
        let request = CompleteRequest {
            queue,
            completions,
            next: None,
        };
        Ok(self
            .rpc
            .clone()
            .complete(request)
            .await?
            .into_inner()
            .results)
    }

    pub(crate) async fn complete(&self, lease_ids: &[&str]) -> Vec<SettleResult> {
        let completions = lease_ids.iter().map(|id| completion(id, &[])).collect();
        let results = self.try_complete(completions).await;
        results.expect("the completion succeeds")
    }

    pub(crate) async fn try_fail(
        &self,
        failures: Vec<Failure>,
    ) -> Result<Vec<SettleResult>, Status> {
        let queue = self.queue.clone();
        let request = FailRequest {
            queue,
            failures,
            next: None,
        };
        Ok(self.rpc.clone().fail(request).await?.into_inner().results)
    }

    pub(crate) async fn fail(&self, lease_id: &str, error: &str) -> SettleResult {
        let results = self.try_fail(vec![failure(lease_id, error)]).await;
        results.expect("the failure is recorded").remove(0)
    }

    pub(crate) async fn try_release(
        &self,
        lease_ids: &[&str],
        delay: Option<Duration>,
    ) -> Result<Vec<SettleResult>, Status> {
        let release = |id: &&str| Release {
            lease_id: (*id).to_owned(),
            delay: delay.map(duration),
            checkpoint: None,
        };
        let request = ReleaseRequest {
            queue: self.queue.clone(),
            releases: lease_ids.iter().map(release).collect(),
        };
        Ok(self
            .rpc
            .clone()
            .release(request)
            .await?
            .into_inner()
            .results)
    }

    /// Releases all leases of the claims with these request ids.
    pub(crate) async fn try_release_requests(&self, request_ids: &[String]) -> Result<i32, Status> {
        let request = ReleaseClaimsRequest {
            queue: self.queue.clone(),
            worker_id: self.worker.clone(),
            request_ids: request_ids.to_vec(),
        };
        let response = self.rpc.clone().release_claims(request).await?;
        Ok(response.into_inner().released)
    }

    pub(crate) async fn release(&self, lease_ids: &[&str]) -> Vec<SettleResult> {
        let results = self.try_release(lease_ids, None).await;
        results.expect("the release succeeds")
    }
}

/// Waits for calls, and returns the number of those that were accepted. The others must have been refused because of overload.
pub(crate) async fn count_accepted<T: std::fmt::Debug>(
    calls: impl IntoIterator<Item = JoinHandle<Result<T, Status>>>,
) -> usize {
    let mut accepted = 0;
    for call in calls {
        match with_timeout(call).await.expect("a task") {
            Ok(_) => accepted += 1,
            refused => assert_api_error(refused, Code::ResourceExhausted, "OVERLOADED", true),
        }
    }
    accepted
}

pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).expect("the seconds fit"),
        nanos: i32::try_from(duration.subsec_nanos()).expect("nanoseconds fit"),
    }
}

pub(crate) fn text(text: &str) -> ColumnValue {
    ColumnValue {
        kind: Some(Kind::StringValue(text.to_owned())),
    }
}

/// Builds an item with one column, `payload`.
pub(crate) fn item(payload: &str) -> NewItem {
    item_with("payload", text(payload))
}

/// Returns an integer as a value of the API.
pub(crate) fn number(number: i64) -> ColumnValue {
    ColumnValue {
        kind: Some(Kind::Int64Value(number)),
    }
}

pub(crate) fn item_with(column: &str, value: ColumnValue) -> NewItem {
    NewItem {
        columns: BTreeMap::from([(column.to_owned(), value)]),
        ..NewItem::default()
    }
}

pub(crate) fn completion(lease_id: &str, follow_ups: &[(&str, &str)]) -> Completion {
    let follow_up = |(queue, payload): &(&str, &str)| FollowUp {
        queue: (*queue).to_owned(),
        item: Some(item(payload)),
    };
    Completion {
        columns: [].into(),
        lease_id: lease_id.to_owned(),
        follow_ups: follow_ups.iter().map(follow_up).collect(),
    }
}

pub(crate) fn renewal(lease_id: &str) -> Renewal {
    Renewal {
        lease_id: lease_id.to_owned(),
        checkpoint: None,
    }
}

pub(crate) fn failure(lease_id: &str, error: &str) -> Failure {
    Failure {
        lease_id: lease_id.to_owned(),
        error_message: error.to_owned(),
        ..Failure::default()
    }
}

pub(crate) fn lease_ids(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| &*lease.lease_id).collect()
}

/// Returns the text in the column `payload`.
pub(crate) fn payload(lease: &Lease) -> &str {
    let column = lease
        .item
        .as_ref()
        .and_then(|item| item.columns.get("payload"));
    match column.and_then(|value| value.kind.as_ref()) {
        Some(Kind::StringValue(text)) => text,
        other => panic!("payload is not a text: {other:?}"),
    }
}

pub(crate) fn key(lease: &Lease) -> &str {
    &lease.item.as_ref().expect("the lease has an item").key
}

/// Returns the keys of the items that a call has added.
pub(crate) fn added_keys(response: EnqueueResponse) -> Vec<String> {
    let results = response.results.into_iter();
    results.map(|result| result.key).collect()
}

/// Asserts that an entry of a call was refused because of this field.
pub(crate) fn assert_refused(
    outcome: Outcome,
    refusal: Option<&Refusal>,
    reason: RefusalReason,
    field: &str,
) {
    assert_eq!(outcome, Outcome::Refused, "{refusal:?}");
    let refusal = refusal.expect("a refused entry has a refusal");
    assert_eq!(
        (refusal.reason(), &*refusal.field),
        (reason, field),
        "{refusal:?}"
    );
    assert!(!refusal.message.is_empty());
}
