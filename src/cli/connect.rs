//! Connects a command to a running service: tries until a time limit, and warns while it tries.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::CommandError;
use super::connection_failure::{Failure, explain};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// The time after which a command that still tries says so, and the time between two such warnings.
const FIRST_WARNING: Duration = Duration::from_secs(2);
const WARNING_INTERVAL: Duration = Duration::from_secs(30);
/// The longest attempt if there are several addresses.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// The addresses of a service.
pub struct Addresses {
    /// The addresses as the user gave them.
    pub(super) text: String,
    /// At least one. Each has a port.
    pub(super) endpoints: Vec<Endpoint>,
}

/// How often a command tries to connect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempts {
    /// Each address is tried once, without a warning.
    One,
    /// All addresses are tried again until the time limit, unless another attempt cannot help. A warning on standard error says so.
    UntilLimit,
}

impl Addresses {
    /// Returns host and port of each address, with commas between them. The worker library takes no scheme.
    pub(super) fn authorities(&self) -> String {
        let authority = |endpoint: &Endpoint| {
            let uri = endpoint.uri();
            let port = uri.port_u16().unwrap_or_default();
            format!("{}:{port}", uri.host().unwrap_or_default())
        };
        let authorities: Vec<_> = self.endpoints.iter().map(authority).collect();
        authorities.join(",")
    }

    /// Connects to the first address that answers. Returns the connection and its endpoint.
    pub(super) async fn connect(
        &self,
        limit: Duration,
        attempts: Attempts,
    ) -> Result<(Channel, Endpoint), CommandError> {
        let last = Mutex::new(None);
        tokio::select! {
            connected = self.try_until(limit, attempts, &last) => connected.map_err(|failure| self.error(&failure)),
            never = self.warn(limit, &last), if attempts == Attempts::UntilLimit => match never {},
        }
    }

    /// Opens this number of connections, to the addresses in turn.
    ///
    /// # Errors
    /// The first connection that fails, with its cause.
    pub async fn connect_all(&self, connections: usize) -> Result<Vec<Channel>, CommandError> {
        let mut channels = Vec::with_capacity(connections);
        for endpoint in self.endpoints.iter().cycle().take(connections) {
            match endpoint.connect().await {
                Ok(channel) => channels.push(channel),
                Err(error) => return Err(self.error(&explain(endpoint, &error).await)),
            }
        }
        Ok(channels)
    }

    /// Returns the error of a failure.
    fn error(&self, failure: &Failure) -> CommandError {
        let address = &self.text;
        CommandError::unavailable(format!(
            "cannot connect to the service at {address}: {failure}"
        ))
    }

    async fn try_until(
        &self,
        limit: Duration,
        attempts: Attempts,
        last: &Mutex<Option<Failure>>,
    ) -> Result<(Channel, Endpoint), Failure> {
        let begun = Instant::now();
        loop {
            let mut lasting = None;
            let mut passing = None;
            for endpoint in &self.endpoints {
                let left = limit.saturating_sub(begun.elapsed()).max(PAUSE);
                let left = match self.endpoints.len() {
                    1 => left,
                    _ => left.min(ATTEMPT_LIMIT),
                };
                let failure = match timeout(left, self.connect_to(endpoint)).await {
                    Ok(Ok(channel)) => return Ok((channel, endpoint.clone())),
                    Ok(Err(error)) => explain(endpoint, &error).await,
                    Err(elapsed) => explain(endpoint, &elapsed).await,
                };
                let first = if failure.can_pass {
                    &mut passing
                } else {
                    &mut lasting
                };
                first.get_or_insert(failure);
            }
            let is_over = attempts == Attempts::One || begun.elapsed() + PAUSE >= limit;
            match (passing, lasting) {
                (Some(failure), _) if !is_over => {
                    *last.lock() = Some(failure);
                }
                (Some(failure), _) | (None, Some(failure)) => return Err(failure),
                (None, None) => return Err(Failure::no_address()),
            }
            sleep(PAUSE).await;
        }
    }

    /// Connects to an address. With several, also waits for an answer: the kernel accepts connections for a broker that is frozen.
    async fn connect_to(&self, endpoint: &Endpoint) -> Result<Channel, tonic::transport::Error> {
        let channel = endpoint.connect().await?;
        if self.endpoints.len() > 1 {
            // Any answer will do, also an error.
            let mut health = HealthClient::new(channel.clone());
            let _ = health.check(HealthCheckRequest::default()).await;
        }
        Ok(channel)
    }

    /// Warns on standard error for as long as it runs.
    async fn warn(&self, limit: Duration, last: &Mutex<Option<Failure>>) -> Infallible {
        let begun = Instant::now();
        let mut pause = FIRST_WARNING;
        loop {
            sleep(pause).await;
            pause = WARNING_INTERVAL;
            let address = &self.text;
            let cause = match &*last.lock() {
                Some(failure) => failure.cause.clone(),
                None => "no answer".to_owned(),
            };
            let left = limit.saturating_sub(begun.elapsed()).as_secs();
            let left = humantime::format_duration(Duration::from_secs(left.max(1)));
            // The reader of standard error may have ended.
            let _ = writeln!(
                io::stderr(),
                "lease-broker: cannot connect to the service at {address}: {cause}; trying for {left} more"
            );
        }
    }
}
