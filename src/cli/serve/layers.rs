//! The layers that serve one configuration: telemetry, the store, the broker and the gRPC server.

use std::net::TcpListener;
use std::sync::Arc;

use lease_broker_store::Store;

use super::super::CommandError;
use super::memory_limit;
use crate::broker::{self, Broker, LeaseOperations};
use crate::config::Config;
use crate::grpc::{self, RunningServer};
use crate::process;
use crate::security::{Rules, Security};
use crate::telemetry::Telemetry;

/// A configuration with what it opens. Nothing has started yet.
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) store: Arc<dyn Store>,
    pub(super) security: Security,
}

/// The running layers of a configuration.
pub(super) struct Layers {
    pub(super) config: Config,
    pub(super) broker: Arc<Broker>,
    pub(super) server: RunningServer,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) security: Security,
}

impl Layers {
    /// Starts the broker, and the server on a port that other layers may serve too. `rules`: the identities of the new configuration.
    /// `None`: they have not changed.
    pub(super) fn start(
        parts: Parts,
        rules: Option<Rules>,
        telemetry: Arc<Telemetry>,
        listener: &TcpListener,
        lease_operations: LeaseOperations,
    ) -> Result<Self, CommandError> {
        let Parts {
            config,
            store,
            security,
        } = parts;
        let failed = |error: &dyn std::fmt::Display| CommandError::io(error.to_string());
        let listener = listener.try_clone();
        let listener = listener.and_then(tokio::net::TcpListener::from_std);
        let listener = listener.map_err(|error| failed(&error))?;
        let settings = broker::BrokerConfig {
            lease_operations,
            ..broker::BrokerConfig::from(&config)
        };
        let broker = Arc::new(Broker::start_observed(
            store,
            &config.queues,
            settings,
            telemetry.broker_observers(),
        ));
        telemetry.observe_broker(&broker);
        tokio::spawn(memory_limit::end_heaviest_connections(Arc::downgrade(
            broker.ledger(),
        )));
        let observers = grpc::CallObservers {
            metrics: telemetry.call_metrics(),
            spans: telemetry.spans(),
            sampler: config.telemetry.sampler(),
        };
        // Before the first call, so that no queue is served by rules that do not know it. All that can fail has been done: the server
        // starts on a port that is served already.
        security.replace_rules(rules);
        let server = grpc::serve_observed(
            listener,
            broker.clone(),
            &config,
            security.clone(),
            observers,
        );
        let server = server.map_err(|error| failed(&error))?;
        broker.announce(broker::Identity {
            id: telemetry.instance_id(),
            address: process::host_address(server.address()),
        });
        Ok(Self {
            config,
            broker,
            server,
            telemetry,
            security,
        })
    }

    /// Drains the server, and stops the broker and telemetry.
    pub(super) async fn drain(self) -> Drained {
        let all_finished = self.server.drain().await;
        stop(self.broker, self.telemetry, all_finished).await
    }

    /// Does the same for layers that others have replaced on the same port. New connections reach those, so no load balancer
    /// has to notice it first. Only the others stand for the process, in the list of brokers and at a collector.
    pub(super) async fn give_way(self) -> Drained {
        self.broker.hand_over();
        let (all_finished, ()) =
            tokio::join!(self.server.give_way(), self.telemetry.stop_metrics());
        stop(self.broker, self.telemetry, all_finished).await
    }
}

/// Layers that have stopped.
pub(super) struct Drained {
    pub(super) broker: Arc<Broker>,
    pub(super) telemetry: Arc<Telemetry>,
    /// True if all running calls finished in time.
    pub(super) all_finished: bool,
}

async fn stop(broker: Arc<Broker>, telemetry: Arc<Telemetry>, all_finished: bool) -> Drained {
    broker.stop().await;
    telemetry.close().await;
    Drained {
        broker,
        telemetry,
        all_finished,
    }
}
