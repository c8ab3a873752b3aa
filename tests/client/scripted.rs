//! A broker whose answers the test gives.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lease_broker_proto as proto;
use lease_broker_proto::Outcome;
use lease_broker_proto::lease_service_server::{LeaseService, LeaseServiceServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// A call that has arrived.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    /// The header `authorization`.
    pub(crate) authorization: Option<String>,
    /// The client's end of the connection.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) message: Message,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    Claim(proto::ClaimBatchRequest),
    Heartbeat(proto::HeartbeatRequest),
    Fail(proto::FailRequest),
    ReleaseClaims(proto::ReleaseClaimsRequest),
    Other,
}

/// The answers to calls, in order.
#[derive(Default)]
pub(crate) struct Answers {
    /// The errors of Wake and Complete, before other answers.
    pub(crate) errors: VecDeque<Status>,
    /// The errors of claims, before other answers.
    pub(crate) claim_errors: VecDeque<Status>,
    /// Without one left, a claim waits for ever.
    pub(crate) claims: VecDeque<proto::ClaimBatchResponse>,
    /// Without one left, each lease is extended by 30 s.
    pub(crate) heartbeats: VecDeque<proto::HeartbeatResponse>,
    /// Without one left, each completion has the outcome GONE.
    pub(crate) completions: VecDeque<proto::CompleteResponse>,
    /// Without one left, each failure is applied.
    pub(crate) failures: VecDeque<proto::FailResponse>,
}

/// The broker. Its answer to an Enqueue has no results.
#[derive(Clone)]
pub(crate) struct Scripted {
    answers: Arc<Mutex<Answers>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Scripted {
    /// Returns a broker with these errors of Wake and Complete, and one lease of 30 s.
    pub(crate) fn new(errors: impl IntoIterator<Item = Status>) -> Self {
        Self::with_answers(Answers {
            errors: errors.into_iter().collect(),
            claims: [claimed(lease(30))].into(),
            ..Answers::default()
        })
    }

    pub(crate) fn with_answers(answers: Answers) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers)),
            calls: Arc::default(),
        }
    }

    /// Serves until the test ends.
    pub(crate) async fn serve(&self, tls: Option<ServerTlsConfig>) -> SocketAddr {
        self.serve_on(([127, 0, 0, 1], 0).into(), tls).await
    }

    /// Serves at this address until the test ends.
    pub(crate) async fn serve_at(&self, address: SocketAddr) {
        self.serve_on(address, None).await;
    }

    async fn serve_on(&self, address: SocketAddr, tls: Option<ServerTlsConfig>) -> SocketAddr {
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let address = listener.local_addr().expect("an address");
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).expect("the certificates are valid");
        }
        let router = server.add_service(LeaseServiceServer::new(self.clone()));
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    /// Returns the calls that have arrived.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic").clone()
    }

    fn note<T>(&self, request: &Request<T>, message: Message) {
        let header = request.metadata().get("authorization");
        let authorization = header.map(|value| value.to_str().expect("text").to_owned());
        self.calls.lock().expect("no panic").push(Call {
            at: Instant::now(),
            authorization,
            peer: request.remote_addr(),
            message,
        });
    }

    /// Takes the next answer of a kind.
    fn next<T>(&self, of: impl FnOnce(&mut Answers) -> &mut VecDeque<T>) -> Option<T> {
        of(&mut self.answers.lock().expect("no panic")).pop_front()
    }
}

/// Returns a lease of this duration in seconds.
pub(crate) fn lease(seconds: i64) -> proto::Lease {
    proto::Lease {
        lease_id: "one".to_owned(),
        time_left: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..proto::Lease::default()
    }
}

pub(crate) fn claimed(lease: proto::Lease) -> proto::ClaimBatchResponse {
    proto::ClaimBatchResponse {
        leases: vec![lease],
        ..proto::ClaimBatchResponse::default()
    }
}

/// Returns the refusal of a field.
pub(crate) fn refusal(field: &str) -> proto::Refusal {
    proto::Refusal {
        reason: proto::RefusalReason::InvalidField.into(),
        field: field.to_owned(),
        message: "scripted".to_owned(),
        ..proto::Refusal::default()
    }
}

pub(crate) fn settled(outcome: impl Into<i32>) -> proto::SettleResult {
    proto::SettleResult {
        outcome: outcome.into(),
        ..proto::SettleResult::default()
    }
}

#[tonic::async_trait]
impl LeaseService for Scripted {
    async fn wake(
        &self,
        request: Request<proto::WakeRequest>,
    ) -> Result<Response<proto::WakeResponse>, Status> {
        self.note(&request, Message::Other);
        match self.next(|answers| &mut answers.errors) {
            Some(error) => Err(error),
            None => Ok(Response::new(proto::WakeResponse {})),
        }
    }

    async fn claim_batch(
        &self,
        request: Request<proto::ClaimBatchRequest>,
    ) -> Result<Response<proto::ClaimBatchResponse>, Status> {
        self.note(&request, Message::Claim(request.get_ref().clone()));
        if let Some(error) = self.next(|answers| &mut answers.claim_errors) {
            return Err(error);
        }
        match self.next(|answers| &mut answers.claims) {
            Some(answer) => Ok(Response::new(answer)),
            None => std::future::pending().await,
        }
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> Result<Response<proto::CompleteResponse>, Status> {
        self.note(&request, Message::Other);
        if let Some(error) = self.next(|answers| &mut answers.errors) {
            return Err(error);
        }
        let answer = self.next(|answers| &mut answers.completions);
        let completions = request.into_inner().completions.len();
        Ok(Response::new(answer.unwrap_or_else(|| {
            proto::CompleteResponse {
                results: vec![settled(Outcome::Gone); completions],
                ..proto::CompleteResponse::default()
            }
        })))
    }

    async fn fail(
        &self,
        request: Request<proto::FailRequest>,
    ) -> Result<Response<proto::FailResponse>, Status> {
        self.note(&request, Message::Fail(request.get_ref().clone()));
        let answer = self.next(|answers| &mut answers.failures);
        let failures = request.into_inner().failures.len();
        Ok(Response::new(answer.unwrap_or_else(|| {
            proto::FailResponse {
                results: vec![settled(Outcome::Applied); failures],
                ..proto::FailResponse::default()
            }
        })))
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> Result<Response<proto::ReleaseResponse>, Status> {
        self.note(&request, Message::Other);
        let releases = request.into_inner().releases.len();
        Ok(Response::new(proto::ReleaseResponse {
            results: vec![settled(Outcome::Applied); releases],
        }))
    }

    async fn release_claims(
        &self,
        request: Request<proto::ReleaseClaimsRequest>,
    ) -> Result<Response<proto::ReleaseClaimsResponse>, Status> {
        self.note(&request, Message::ReleaseClaims(request.get_ref().clone()));
        Ok(Response::new(proto::ReleaseClaimsResponse::default()))
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> Result<Response<proto::HeartbeatResponse>, Status> {
        // A worker connects its keeper by a heartbeat without leases.
        if request.get_ref().renewals.is_empty() {
            return Ok(Response::new(proto::HeartbeatResponse::default()));
        }
        self.note(&request, Message::Heartbeat(request.get_ref().clone()));
        let answer = self.next(|answers| &mut answers.heartbeats);
        let extended = proto::HeartbeatResult {
            outcome: Outcome::Applied.into(),
            time_left: lease(30).time_left,
            ..proto::HeartbeatResult::default()
        };
        let renewals = request.into_inner().renewals.len();
        Ok(Response::new(answer.unwrap_or_else(|| {
            proto::HeartbeatResponse {
                results: vec![extended; renewals],
            }
        })))
    }

    async fn enqueue(
        &self,
        request: Request<proto::EnqueueRequest>,
    ) -> Result<Response<proto::EnqueueResponse>, Status> {
        self.note(&request, Message::Other);
        Ok(Response::new(proto::EnqueueResponse::default()))
    }
}
