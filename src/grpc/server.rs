//! The server: its services and layers, how it starts and how it drains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::LayerExt as _;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, ServiceBuilder};

use super::call_metrics::CallMetrics;
use super::counted_body::count_until_sent;
use super::error_layer::ErrorLayer;
use super::health;
use super::measured::MeasureLayer;
use super::proto::{DESCRIPTORS, lease_broker_service_server::LeaseBrokerServiceServer};
use super::rpc_spans::SpanLayer;
use super::service::Service;
use super::write_coalescing::CoalescedIo;
use crate::broker::Broker;
use crate::config;
use crate::sampling::Sampler;
use crate::span::Spans;

/// The time limit for sending the last responses after every call has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// A server that accepts calls in background tasks.
///
/// Dropping it does not stop the tasks. Call [`RunningServer::drain`].
pub struct RunningServer {
    address: SocketAddr,
    task: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    /// The task that updates the health service until `draining` is cancelled.
    health: tokio::task::JoinHandle<()>,
    draining: CancellationToken,
    /// Cancelled when the server must accept no more calls.
    stop: CancellationToken,
    /// The running calls of the API.
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
/// Returns an error if the listener has no local address or if the API's descriptors cannot be decoded.
pub fn serve(
    listener: TcpListener,
    broker: Arc<Broker>,
    settings: &config::Server,
) -> Result<RunningServer, BoxError> {
    let observers = CallObservers {
        metrics: Arc::new(CallMetrics::new(|_, _, _| ())),
        spans: Spans::default(),
        sampler: Sampler::default(),
    };
    serve_observed(listener, broker, settings, observers)
}

/// What a server reports about its calls, and to whom.
pub struct CallObservers {
    /// Counts the calls.
    pub metrics: Arc<CallMetrics>,
    /// Receives the spans of the calls that are recorded.
    pub spans: Spans,
    /// Decides which calls are recorded.
    pub sampler: Sampler,
}

/// Does the same as [`serve`], and reports the calls.
///
/// # Errors
/// The same as [`serve`].
pub fn serve_observed(
    listener: TcpListener,
    broker: Arc<Broker>,
    settings: &config::Server,
    observers: CallObservers,
) -> Result<RunningServer, BoxError> {
    let address = listener.local_addr()?;
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let draining = CancellationToken::new();
    let health = tokio::spawn(health::report_changes(
        reporter,
        broker.clone(),
        draining.clone(),
    ));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Command-line tools need these descriptors to print the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let service = LeaseBrokerServiceServer::new(Service {
        broker: broker.clone(),
        max_message_bytes: settings.max_message_bytes,
    })
    .max_decoding_message_size(settings.max_message_bytes)
    // One item can be larger than the limit. The client's own limit decides whether it accepts the response.
    .max_encoding_message_size(usize::MAX);
    let calls = TaskTracker::new();
    let service = ServiceBuilder::new()
        .layer(MeasureLayer(observers.metrics))
        .layer(SpanLayer {
            spans: observers.spans,
            sampler: observers.sampler,
        })
        .layer(ErrorLayer {
            calls: calls.clone(),
        })
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::new(
            settings.max_concurrent_calls,
        ))
        .map_response(count_until_sent)
        .into_inner()
        .named_layer(service);

    let mut server = Server::builder()
        .http2_keepalive_interval(Some(settings.keepalive_interval))
        .http2_keepalive_timeout(Some(settings.keepalive_timeout));
    if !settings.max_connection_age.is_zero() {
        server = server.max_connection_age(settings.max_connection_age);
    }
    let router = server
        .add_service(service)
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let incoming = TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        .map_ok(CoalescedIo::new);
    Ok(RunningServer {
        address,
        task: tokio::spawn(router.serve_with_incoming_shutdown(incoming, stopped)),
        health,
        stop,
        draining,
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
            Ok(Ok(())) => "the server stopped without an error".into(),
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Drains and stops the server. Returns `true` if all running calls finished in time.
    ///
    /// 1. The health service reports `NOT_SERVING`, and the broker answers waiting claims without items and refuses new
    ///    ones.
    /// 2. For `drain_delay`, all other calls are still accepted.
    /// 3. No call is accepted any more. Running calls have `drain_grace` to finish.
    pub async fn drain(self) -> bool {
        self.draining.cancel();
        self.broker.drain();
        tokio::time::sleep(self.settings.drain_delay).await;
        self.stop.cancel();
        // The wait is for calls of the API and not for connections. A client that watches the health service holds a
        // stream open without end.
        self.calls.close();
        let all_finished = tokio::time::timeout(self.settings.drain_grace, self.calls.wait())
            .await
            .is_ok();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(FLUSH_TIMEOUT, self.task)
            .await
            .is_err()
        {
            abort.abort();
        }
        let _ = self.health.await;
        all_finished
    }
}
