//! The calls of an actor. Each is written to the journal before it is sent, and again when it is answered.

use std::time::Duration;

use lease_broker_proto as proto;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{
    ClaimBatchRequest, CompleteRequest, EnqueueRequest, FailRequest, HeartbeatRequest, Outcome,
    Release, ReleaseRequest, SettleResult,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::chaos::journal::{Answer, Asked, Ending, Granted, Journal, Lease};
use crate::support::client::{completion, duration, failure, item, key, renewal};

pub(crate) const QUEUE: &str = "work";
/// The queue to which each completion adds an item. Its payload is the key and the fencing token of the completed item.
pub(crate) const FOLLOW_UPS: &str = "outbox";
/// The deadline of each call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait of a claim.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// A lease that the actor holds, with its id.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) lease: Lease,
}

/// A connection to the service, and the journal of the process.
pub(crate) struct Caller<'a> {
    journal: &'a Journal,
    rpc: LeaseServiceClient<Channel>,
    worker_id: String,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(journal: &'a Journal, url: &str, worker_id: &str) -> Self {
        let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL");
        let endpoint = endpoint.connect_timeout(Duration::from_secs(1));
        Self {
            journal,
            rpc: LeaseServiceClient::new(endpoint.connect_lazy()),
            worker_id: worker_id.to_owned(),
        }
    }

    pub(crate) async fn enqueue(
        &self,
        payloads: &[String],
        request_id: &str,
    ) -> Result<(), Status> {
        let request = EnqueueRequest {
            queue: QUEUE.to_owned(),
            items: payloads.iter().map(|payload| item(payload)).collect(),
            request_id: request_id.to_owned(),
        };
        let asked = Asked::Enqueue {
            payloads: payloads.to_vec(),
        };
        let call = async |mut rpc: LeaseServiceClient<_>| rpc.enqueue(timed(request)).await;
        let answer = |response: &proto::EnqueueResponse| Answer::Enqueued {
            keys: response
                .results
                .iter()
                .map(|result| number(&result.key))
                .collect(),
        };
        self.call(asked, call, answer).await.map(|_| ())
    }

    pub(crate) async fn claim(
        &self,
        max_items: i32,
        request_id: &str,
    ) -> Result<Vec<Held>, Status> {
        let request = ClaimBatchRequest {
            queue: QUEUE.to_owned(),
            worker_id: self.worker_id.clone(),
            max_items,
            wait_timeout: Some(duration(CLAIM_WAIT)),
            request_id: request_id.to_owned(),
            ..ClaimBatchRequest::default()
        };
        let asked = Asked::Claim {
            request_id: request_id.to_owned(),
        };
        let call = async |mut rpc: LeaseServiceClient<_>| rpc.claim_batch(timed(request)).await;
        let answer = |response: &proto::ClaimBatchResponse| Answer::Claimed {
            leases: response.leases.iter().map(granted).collect(),
        };
        let response = self.call(asked, call, answer).await?;
        let held = response.leases.into_iter().map(|lease| Held {
            lease: granted(&lease).lease,
            id: lease.lease_id,
        });
        Ok(held.collect())
    }

    pub(crate) async fn heartbeat(&self, held: &[Held]) -> Result<(), Status> {
        let request = HeartbeatRequest {
            queue: QUEUE.to_owned(),
            renewals: held.iter().map(|held| renewal(&held.id)).collect(),
            lease_duration: None,
        };
        let asked = Asked::Heartbeat {
            leases: leases(held),
        };
        let call = async |mut rpc: LeaseServiceClient<_>| rpc.heartbeat(timed(request)).await;
        let answer = |response: &proto::HeartbeatResponse| {
            let time_left = |result: &proto::HeartbeatResult| {
                let is_applied = result.outcome() == Outcome::Applied;
                is_applied.then(|| milliseconds(result.time_left.as_ref()))
            };
            Answer::Extended {
                time_left_ms: response.results.iter().map(time_left).collect(),
            }
        };
        self.call(asked, call, answer).await.map(|_| ())
    }

    pub(crate) async fn settle(&self, ending: Ending, held: &[Held]) -> Result<(), Status> {
        let asked = Asked::Settle {
            ending,
            leases: leases(held),
        };
        let queue = QUEUE.to_owned();
        match ending {
            Ending::Complete => {
                let completion = |held: &Held| {
                    let payload = format!("{}:{}", held.lease.key, held.lease.fence);
                    completion(&held.id, &[(FOLLOW_UPS, &payload)])
                };
                let request = CompleteRequest {
                    queue,
                    completions: held.iter().map(completion).collect(),
                    next: None,
                };
                let call =
                    async |mut rpc: LeaseServiceClient<_>| rpc.complete(timed(request)).await;
                let answer = |response: &proto::CompleteResponse| settled(&response.results);
                self.call(asked, call, answer).await.map(|_| ())
            }
            Ending::Fail => {
                let failures = held.iter().map(|held| failure(&held.id, "chaos")).collect();
                let request = FailRequest {
                    queue,
                    failures,
                    next: None,
                };
                let call = async |mut rpc: LeaseServiceClient<_>| rpc.fail(timed(request)).await;
                let answer = |response: &proto::FailResponse| settled(&response.results);
                self.call(asked, call, answer).await.map(|_| ())
            }
            Ending::Release => {
                let release = |held: &Held| Release {
                    lease_id: held.id.clone(),
                    ..Release::default()
                };
                let request = ReleaseRequest {
                    queue,
                    releases: held.iter().map(release).collect(),
                };
                let call = async |mut rpc: LeaseServiceClient<_>| rpc.release(timed(request)).await;
                let answer = |response: &proto::ReleaseResponse| settled(&response.results);
                self.call(asked, call, answer).await.map(|_| ())
            }
        }
    }

    async fn call<T>(
        &self,
        asked: Asked,
        call: impl AsyncFnOnce(LeaseServiceClient<Channel>) -> Result<Response<T>, Status>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Result<T, Status> {
        let number = self.journal.ask(asked);
        let outcome = call(self.rpc.clone()).await.map(Response::into_inner);
        let answer = match &outcome {
            Ok(response) => answer(response),
            Err(status) => Answer::from(status),
        };
        self.journal.answer(number, answer);
        outcome
    }
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}

fn leases(held: &[Held]) -> Vec<Lease> {
    held.iter().map(|held| held.lease).collect()
}

fn settled(results: &[SettleResult]) -> Answer {
    Answer::Settled {
        outcomes: results.iter().map(|result| result.outcome).collect(),
    }
}

fn granted(lease: &proto::Lease) -> Granted {
    Granted {
        lease: Lease {
            key: number(key(lease)),
            fence: lease.fencing_token,
        },
        attempt: lease.attempt.into(),
        time_left_ms: milliseconds(lease.time_left.as_ref()),
    }
}

fn number(key: &str) -> i64 {
    key.parse().expect("a key that is a number")
}

fn milliseconds(duration: Option<&prost_types::Duration>) -> u64 {
    let duration = duration.expect("a duration");
    let millis = duration.seconds * 1_000 + i64::from(duration.nanos / 1_000_000);
    u64::try_from(millis).expect("not negative")
}
