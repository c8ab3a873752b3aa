//! The server: services, layers, and how it stops.

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

use super::error_layer::ErrorLayer;
use super::health;
use super::proto::{DESCRIPTORS, lease_broker_service_server::LeaseBrokerServiceServer};
use super::service::Service;
use super::write_coalescing::CoalescedIo;
use crate::broker::Broker;
use crate::config;

/// How long answers may take to leave once every call is done.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// A server at work.
pub struct RunningServer {
    address: SocketAddr,
    task: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    health: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    draining: CancellationToken,
    calls: TaskTracker,
    settings: config::Server,
    broker: Arc<Broker>,
}

/// Serves `broker` on `listener` until [`RunningServer::drain`].
///
/// # Errors
/// If the listener has no address, or the API's descriptors can't be read.
pub fn serve(
    listener: TcpListener,
    broker: Arc<Broker>,
    settings: &config::Server,
) -> Result<RunningServer, BoxError> {
    let address = listener.local_addr()?;
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let draining = CancellationToken::new();
    let health = tokio::spawn(health::follow(reporter, broker.clone(), draining.clone()));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // So that tools can read the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let service = LeaseBrokerServiceServer::new(Service {
        broker: broker.clone(),
        max_message_bytes: settings.max_message_bytes,
    })
    .max_decoding_message_size(settings.max_message_bytes)
    // A single item may be larger than the bound; the client decides whether it takes it.
    .max_encoding_message_size(usize::MAX);
    let calls = TaskTracker::new();
    let service = ServiceBuilder::new()
        .layer(ErrorLayer {
            calls: calls.clone(),
        })
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::new(
            settings.max_concurrent_calls,
        ))
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
    /// Returns the address that is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the server to end by itself, which it does only when it fails.
    pub async fn failed(&mut self) -> BoxError {
        match (&mut self.task).await {
            Ok(Ok(())) => "the server has ended".into(),
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Stops: health goes down and waiting claims are answered, other calls go on for the configured delay, then those
    /// under way finish, bounded by the configured grace. Returns whether all of them did.
    pub async fn drain(self) -> bool {
        self.draining.cancel();
        self.broker.drain();
        tokio::time::sleep(self.settings.drain_delay).await;
        self.stop.cancel();
        // Streams of health watchers never end by themselves: what is waited for is calls, not connections.
        self.calls.close();
        let done = tokio::time::timeout(self.settings.drain_grace, self.calls.wait())
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
        done
    }
}
