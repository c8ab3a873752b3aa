//! A broker whose answers the test gives.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lease_broker_proto as proto;
use lease_broker_proto::Outcome;
use lease_broker_proto::lease_service_server::{LeaseBrokerService, LeaseBrokerServiceServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// A call that has arrived: its moment, and its header `authorization`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    pub(crate) authorization: Option<String>,
}

/// The answers to Wake and Complete, in order. Without an answer left, Wake succeeds, and Complete has the outcome GONE.
/// A claim returns one lease of 30 s, and then waits.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    failures: Arc<Mutex<VecDeque<Status>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    claims: Arc<Mutex<usize>>,
}

impl Scripted {
    pub(crate) fn new(failures: impl IntoIterator<Item = Status>) -> Self {
        let failures = failures.into_iter().collect();
        Self {
            failures: Arc::new(Mutex::new(failures)),
            ..Self::default()
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
        let router = server.add_service(LeaseBrokerServiceServer::new(self.clone()));
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    /// Returns the Wake and Complete calls that have arrived.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic").clone()
    }

    fn note<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let header = request.metadata().get("authorization");
        let authorization = header.map(|value| value.to_str().expect("text").to_owned());
        let at = Instant::now();
        self.calls
            .lock()
            .expect("no panic")
            .push(Call { at, authorization });
        let failure = self.failures.lock().expect("no panic").pop_front();
        failure.map_or(Ok(()), Err)
    }
}

#[tonic::async_trait]
impl LeaseBrokerService for Scripted {
    async fn wake(
        &self,
        request: Request<proto::WakeRequest>,
    ) -> Result<Response<proto::WakeResponse>, Status> {
        self.note(&request)?;
        Ok(Response::new(proto::WakeResponse {}))
    }

    async fn claim_batch(
        &self,
        _: Request<proto::ClaimBatchRequest>,
    ) -> Result<Response<proto::ClaimBatchResponse>, Status> {
        let claims = {
            let mut claims = self.claims.lock().expect("no panic");
            *claims += 1;
            *claims
        };
        if claims > 1 {
            std::future::pending::<()>().await;
        }
        let lease = proto::Lease {
            lease_id: "one".to_owned(),
            time_left: Some(prost_types::Duration {
                seconds: 30,
                nanos: 0,
            }),
            ..proto::Lease::default()
        };
        Ok(Response::new(proto::ClaimBatchResponse {
            leases: vec![lease],
            too_large: Vec::new(),
        }))
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> Result<Response<proto::CompleteResponse>, Status> {
        self.note(&request)?;
        let completions = request.into_inner().completions;
        let gone = |completion: proto::Completion| proto::SettleResult {
            lease_id: completion.lease_id,
            outcome: Outcome::Gone.into(),
            ..proto::SettleResult::default()
        };
        Ok(Response::new(proto::CompleteResponse {
            results: completions.into_iter().map(gone).collect(),
            ..proto::CompleteResponse::default()
        }))
    }

    async fn release(
        &self,
        _: Request<proto::ReleaseRequest>,
    ) -> Result<Response<proto::ReleaseResponse>, Status> {
        Ok(Response::new(proto::ReleaseResponse::default()))
    }

    async fn heartbeat(
        &self,
        _: Request<proto::HeartbeatRequest>,
    ) -> Result<Response<proto::HeartbeatResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn fail(
        &self,
        _: Request<proto::FailRequest>,
    ) -> Result<Response<proto::FailResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn cancel_leases(
        &self,
        _: Request<proto::CancelLeasesRequest>,
    ) -> Result<Response<proto::CancelLeasesResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn enqueue(
        &self,
        _: Request<proto::EnqueueRequest>,
    ) -> Result<Response<proto::EnqueueResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}
