//! The server: its services, how it starts and how it drains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::sampling::Sampler;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tower::BoxError;

use super::answers::Answers;
use super::api::Api;
use super::call_metrics::CallMetrics;
use super::connections::Connections;
use super::guard::Guard;
use super::health;
use super::intake::{Incomplete, IntakeLimits};
use super::rpc_spans::CallSpans;
use super::service::Service;
use super::standard_services::{MAX_MESSAGE_BYTES, StandardServices};
use crate::broker::Broker;
use crate::config::{self, Config, Reflection};
use crate::security::Security;
use crate::span::Spans;

/// The time limit for sending the last responses after every call has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);

/// A server that accepts calls in background tasks.
///
/// Dropping it does not stop the tasks. Call [`RunningServer::drain`].
pub struct RunningServer {
    address: SocketAddr,
    /// The task that accepts connections.
    task: tokio::task::JoinHandle<()>,
    /// The task that updates the health service until the broker announces its drain.
    health: tokio::task::JoinHandle<()>,
    /// Cancelled when the server must accept no more calls.
    stop: CancellationToken,
    /// Cancelled when the connections that are left must be closed.
    cut: CancellationToken,
    connections: TaskTracker,
    /// The calls of the API whose requests have arrived completely.
    calls: TaskTracker,
    settings: config::Server,
    broker: Arc<Broker>,
}

/// Starts a server that passes calls from `listener` to `broker` until [`RunningServer::drain`] is called.
///
/// Must be called inside a tokio runtime. Besides the API, the server offers the standard services for health checks
/// and for reflection.
///
/// # Errors
/// Returns an error if the listener has no local address, if the API's descriptors cannot be decoded, or if a file of TLS or
/// of access control cannot be used.
pub fn serve(
    listener: TcpListener,
    broker: Arc<Broker>,
    config: &Config,
) -> Result<RunningServer, BoxError> {
    let observers = CallObservers {
        metrics: Arc::new(CallMetrics::new(|_, _, _| ())),
        spans: Spans::default(),
        sampler: Sampler::default(),
    };
    let security = Security::open(config)?;
    let server = serve_observed(listener, broker, config, security.clone(), observers)?;
    let stop = server.cut.clone();
    tokio::spawn(stop.run_until_cancelled_owned(security.watch_files()));
    Ok(server)
}

/// The receivers of a server's reports about its calls.
pub struct CallObservers {
    /// Counts the calls.
    pub metrics: Arc<CallMetrics>,
    /// Receives the spans of the calls that are recorded.
    pub spans: Spans,
    /// Decides which calls are recorded.
    pub sampler: Sampler,
}

/// Does the same as [`serve`] with files that have been read and are watched by the caller, and reports the calls.
///
/// # Errors
/// The same as [`serve`].
pub fn serve_observed(
    listener: TcpListener,
    broker: Arc<Broker>,
    config: &Config,
    security: Security,
    observers: CallObservers,
) -> Result<RunningServer, BoxError> {
    let settings = &config.server;
    let address = listener.local_addr()?;
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let health = tokio::spawn(health::report_changes(reporter, broker.clone()));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(lease_broker_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Command-line tools need these descriptors to print the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
    let (calls, connections) = (TaskTracker::new(), TaskTracker::new());
    let guard = security.access.map(|access| Arc::new(Guard::new(access)));
    let intake = Arc::new(IntakeLimits {
        broker: broker.clone(),
        guard: guard.clone(),
        max_message_bytes: settings.max_message_bytes,
        request_timeout: settings.request_timeout,
        incomplete: Incomplete::new(config.budgets.incomplete_requests),
        calls: calls.clone(),
        stop: stop.clone(),
    });
    let service = Service {
        broker: broker.clone(),
        max_message_bytes: settings.max_message_bytes,
    };
    let api = Api::new(service, settings.max_message_bytes);
    let (v1, v1alpha) = (reflection().build_v1()?, reflection().build_v1alpha()?);
    let routes = Routes::new(health_service)
        .add_service(v1.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(v1alpha.max_decoding_message_size(MAX_MESSAGE_BYTES));
    let answers = Answers {
        api,
        metrics: observers.metrics,
        spans: CallSpans::new(observers.spans, observers.sampler),
        standard: StandardServices {
            routes: routes.prepare(),
            intake: intake.clone(),
            response_timeout: settings.response_timeout,
            has_reflection: settings.reflection == Reflection::On,
        },
        intake,
        response_timeout: settings.response_timeout,
    };
    let accepting = Connections::new(
        Arc::new(answers),
        (broker.budgets().clone(), broker.ledger().clone()),
        settings,
        security.tls,
        (stop.clone(), cut.clone()),
        connections.clone(),
    );
    if let Some(guard) = guard {
        // Until the last connection has ended. One that drains must end too if its caller loses a right.
        tokio::spawn(guard.end_lost_connections(accepting.open(), cut.clone()));
    }
    Ok(RunningServer {
        address,
        task: tokio::spawn(accepting.run(listener)),
        health,
        stop,
        cut,
        connections,
        calls,
        settings: settings.clone(),
        broker,
    })
}

impl RunningServer {
    /// Returns the address and port that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server fails, and returns the cause. A server that does not fail runs until it is drained.
    pub async fn failed(&mut self) -> BoxError {
        match (&mut self.task).await {
            Ok(()) => "the server stopped without an error".into(),
            Err(error) => error.into(),
        }
    }

    /// Drains and stops the server. Returns `true` if all running calls finished in time.
    ///
    /// 1. The health service reports `NOT_SERVING`. For `drain_delay` all calls are served, so that no call fails until load
    ///    balancers have noticed.
    /// 2. No call is accepted any more, and requests that have not arrived completely are refused. Waiting claims are answered
    ///    without items. Calls whose requests are complete have `drain_grace` to finish.
    /// 3. The last responses have 300 ms to leave. Then all connections are closed.
    pub async fn drain(self) -> bool {
        self.broker.announce_drain();
        tokio::time::sleep(self.settings.drain_delay).await;
        self.give_way().await
    }

    /// Does the same as [`RunningServer::drain`] without `drain_delay`, because another server accepts connections on the same
    /// port.
    pub async fn give_way(self) -> bool {
        self.broker.announce_drain();
        // First, so that a client whose waiting claim ends sends the next one elsewhere.
        self.stop.cancel();
        let _ = self.task.await;
        self.broker.drain();
        self.calls.close();
        let all_finished = tokio::time::timeout(self.settings.drain_grace, self.calls.wait())
            .await
            .is_ok();
        self.connections.close();
        // A client that watches the health service, or that does not read, holds its connection open without end.
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, self.connections.wait()).await;
        self.cut.cancel();
        self.connections.wait().await;
        let _ = self.health.await;
        all_finished
    }
}
