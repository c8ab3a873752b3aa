//! Connections to one broker or to several.
//!
//! Each broker has a channel of its own, and calls use the brokers in turn. tonic's own balancer is not used: it prefers
//! the broker that answers fastest, which is the one that refuses every call.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt as _, Shared};
use tonic::transport::{Channel, Endpoint};

use super::credentials::{Credentials, FILE_INTERVAL, Texts};
use super::errors::WorkerError;
use lease_broker_proto::lease_service_client::LeaseServiceClient;

/// The time for which a broker that has failed is passed over, if there are others.
const PASS_OVER: Duration = Duration::from_secs(1);
/// The same for a broker that has not answered. It may be frozen, and the next call would take as long.
const PASS_OVER_SILENT: Duration = Duration::from_secs(30);
/// The shortest time between two resolutions of a name.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Find a connection that is dead at one end while a claim waits.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The parsed address of one broker or several.
#[derive(Clone)]
pub(super) struct Addresses {
    credentials: Credentials,
    /// The certificates of new connections.
    texts: Texts,
    /// Host and port of each broker.
    authorities: Vec<String>,
    /// The host and port of a name whose addresses are all used.
    name: Option<String>,
}

impl Addresses {
    /// Parses `host:port`, `dns:///host:port`, or several of the first kind with commas between them.
    pub(super) fn parse(text: &str, credentials: Credentials) -> Result<Self, WorkerError> {
        let mut addresses = Self {
            texts: credentials.read().map_err(WorkerError::Options)?,
            credentials,
            authorities: Vec::new(),
            name: None,
        };
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let name = part
                .strip_prefix("dns:")
                .map(|name| name.trim_start_matches('/'));
            let authority = name.unwrap_or(part).to_owned();
            if !is_host_and_port(&authority) {
                return Err(malformed(part));
            }
            addresses
                .credentials
                .check(host(&authority))
                .map_err(WorkerError::Options)?;
            addresses.endpoint(&authority, &authority)?;
            match name {
                Some(_) => addresses.name = Some(authority),
                None => addresses.authorities.push(authority),
            }
        }
        let count = addresses.authorities.len() + usize::from(addresses.name.is_some());
        if count == 0 || (addresses.name.is_some() && count > 1) {
            return Err(malformed(text));
        }
        Ok(addresses)
    }

    /// Returns the endpoint of one of the brokers.
    fn endpoint_of(&self, authority: &str) -> Result<Endpoint, WorkerError> {
        self.endpoint(authority, self.name.as_deref().unwrap_or(authority))
    }

    /// Returns the endpoint of a broker. `authority` is its host and port, `name` the host and port of its certificate.
    fn endpoint(&self, authority: &str, name: &str) -> Result<Endpoint, WorkerError> {
        let malformed = |cause: &str| WorkerError::Options(format!("address {authority}: {cause}"));
        let tls = self.credentials.tls_config(&self.texts, host(name));
        let tls = tls.map_err(|cause| malformed(&cause))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"));
        let endpoint = endpoint.and_then(|endpoint| match tls {
            Some(tls) => endpoint.tls_config(tls),
            None => Ok(endpoint),
        });
        let agent = concat!("lease-broker-rust/", env!("CARGO_PKG_VERSION"));
        let endpoint = endpoint.and_then(|endpoint| endpoint.user_agent(agent));
        let endpoint = endpoint.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            malformed(&cause.unwrap_or_else(|| error.to_string()))
        })?;
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT))
    }
}

fn malformed(address: &str) -> WorkerError {
    let hint = if address.starts_with("http") {
        "; leave the scheme out: Credentials::tls turns TLS on"
    } else {
        ""
    };
    WorkerError::Options(format!(
        "the address {address:?} is not host:port, a list of host:port, or one dns:///host:port{hint}"
    ))
}

/// Returns whether a text is a name, an IPv4 address or an IPv6 address in brackets, followed by a port.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let ip = host.strip_prefix('[').and_then(|ip| ip.strip_suffix(']'));
    let is_name = |host: &str| !host.contains(|c: char| c.is_whitespace() || ":/@[]".contains(c));
    let is_host = ip.map_or_else(|| is_name(host), |ip| ip.parse::<Ipv6Addr>().is_ok());
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    is_host && !host.is_empty() && is_port && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Returns the host of `host:port`.
fn host(authority: &str) -> &str {
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

/// Returns the addresses of a host and port.
type Resolver = fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;

fn resolve(name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    async move { Ok(tokio::net::lookup_host(name).await?.collect()) }.boxed()
}

/// The connections of one thread. They belong to the runtime that makes the first call.
#[derive(Clone)]
pub(super) struct Transport(Arc<Mutex<Brokers>>);

/// A resolution of the name that runs. It goes on when the attempts that wait for it have ended.
type Resolution = Shared<BoxFuture<'static, Result<(), String>>>;

struct Brokers {
    addresses: Addresses,
    /// [`resolve`], except in a test.
    resolver: Resolver,
    /// The time at which the files of the credentials were read.
    read_at: Instant,
    all: Vec<Broker>,
    next: usize,
    resolved_at: Option<Instant>,
    resolution: Option<Resolution>,
}

struct Broker {
    authority: String,
    endpoint: Endpoint,
    channel: Channel,
    /// The number of the channel: how often it was replaced.
    generation: u64,
    /// The time until which it is passed over. `None`: the last attempt was answered.
    down_until: Option<Instant>,
}

/// The connection that an attempt uses.
pub(super) struct Route {
    authority: String,
    generation: u64,
    pub(super) client: LeaseServiceClient<Channel>,
}

impl Transport {
    pub(super) fn new(addresses: Addresses) -> Self {
        Self(Arc::new(Mutex::new(Brokers {
            addresses,
            resolver: resolve,
            read_at: Instant::now(),
            all: Vec::new(),
            next: 0,
            resolved_at: None,
            resolution: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Brokers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection for the next attempt. Waits only for the first resolution of a name.
    ///
    /// # Errors
    /// The name has no address.
    pub(super) async fn route(&self) -> Result<Route, String> {
        if let Some(resolution) = self.resolve() {
            resolution.await?;
        }
        let mut brokers = self.lock();
        brokers.read_files();
        let count = brokers.all.len();
        let first = brokers.next;
        let in_turn = |step: usize| (first + step) % count.max(1);
        let now = Instant::now();
        let is_up = |broker: &Broker| broker.down_until.is_none_or(|until| now >= until);
        let up = (0..count)
            .map(in_turn)
            .find(|index| is_up(&brokers.all[*index]));
        let index = up.unwrap_or_else(|| in_turn(0));
        brokers.next = index + 1;
        let broker = brokers.all.get(index).ok_or("the name has no address")?;
        Ok(Route {
            authority: broker.authority.clone(),
            generation: broker.generation,
            client: LeaseServiceClient::new(broker.channel.clone())
                .max_decoding_message_size(usize::MAX),
        })
    }

    /// Notes that an attempt was answered.
    pub(super) fn note_answer(&self, route: &Route) {
        if let Some(broker) = self.lock().find(route) {
            broker.down_until = None;
        }
    }

    /// Notes that the next attempt needs another broker, if there is one, or else a connection that works. `replace`: the
    /// next attempt makes a new connection, because this one may be dead or belongs to a broker that stops. `is_silent`: the attempt
    /// got no answer in its time.
    pub(super) fn note_failure(&self, route: &Route, replace: bool, is_silent: bool) {
        let now = Instant::now();
        let mut brokers = self.lock();
        let Some(broker) = brokers.find(route) else {
            return;
        };
        let pass_over = if is_silent {
            PASS_OVER_SILENT
        } else {
            PASS_OVER
        };
        broker.down_until = Some(now + pass_over);
        if replace {
            broker.generation += 1;
            broker.channel = broker.endpoint.connect_lazy();
        }
        let is_down = |broker: &Broker| broker.down_until.is_some_and(|until| now < until);
        if brokers.all.iter().all(is_down) {
            // Each has failed. One that was silent may have come back, as well as one that refuses may.
            let others = brokers.all.iter_mut();
            for other in others.filter(|broker| broker.authority != route.authority) {
                other.down_until = Some(now);
            }
        }
    }

    /// Sets the list of brokers at the first call. The addresses of a name are resolved again when calls fail. Returns the
    /// resolution if there is no broker before it.
    fn resolve(&self) -> Option<Resolution> {
        let mut brokers = self.lock();
        let Some(name) = brokers.addresses.name.clone() else {
            if brokers.all.is_empty() {
                let authorities = brokers.addresses.authorities.clone();
                brokers.set(authorities);
            }
            return None;
        };
        let is_fresh = brokers
            .resolved_at
            .is_some_and(|at| at.elapsed() < RESOLVE_INTERVAL);
        let is_up = brokers.all.iter().all(|broker| broker.down_until.is_none());
        let is_needed = brokers.all.is_empty() || !(is_fresh || is_up);
        if is_needed && brokers.resolution.is_none() {
            let resolution = self.clone().resolve_now(name, brokers.resolver);
            let resolution = tokio::spawn(resolution)
                .map(|ended| ended.unwrap_or_else(|error| Err(error.to_string())));
            brokers.resolution = Some(resolution.boxed().shared());
        }
        let resolution = brokers.resolution.clone();
        resolution.filter(|_| brokers.all.is_empty())
    }

    /// Resolves the name of the brokers. Keeps the old addresses if that fails: they may work again.
    ///
    /// # Errors
    /// There are no old addresses.
    async fn resolve_now(self, name: String, resolver: Resolver) -> Result<(), String> {
        let found = resolver(name.clone()).await;
        let mut brokers = self.lock();
        brokers.resolved_at = Some(Instant::now());
        brokers.resolution = None;
        match found {
            Ok(found) => {
                let mut authorities: Vec<_> = found.iter().map(SocketAddr::to_string).collect();
                authorities.sort_unstable();
                authorities.dedup();
                brokers.set(authorities);
                Ok(())
            }
            Err(error) if brokers.all.is_empty() => Err(format!("{name}: {error}")),
            Err(_) => Ok(()),
        }
    }
}

impl Brokers {
    fn find(&mut self, route: &Route) -> Option<&mut Broker> {
        let mut brokers = self.all.iter_mut();
        brokers.find(|broker| {
            broker.authority == route.authority && broker.generation == route.generation
        })
    }

    /// Replaces the list, and keeps the connections of brokers that remain.
    fn set(&mut self, authorities: Vec<String>) {
        let mut old = std::mem::take(&mut self.all);
        for authority in authorities {
            if let Some(index) = old.iter().position(|broker| broker.authority == authority) {
                self.all.push(old.swap_remove(index));
                continue;
            }
            if let Ok(endpoint) = self.addresses.endpoint_of(&authority) {
                let channel = endpoint.connect_lazy();
                self.all.push(Broker {
                    authority,
                    endpoint,
                    channel,
                    generation: 0,
                    down_until: None,
                });
            }
        }
    }

    /// Reads the files of the credentials from time to time. If they have changed, further calls use new connections.
    fn read_files(&mut self) {
        if self.read_at.elapsed() < FILE_INTERVAL {
            return;
        }
        self.read_at = Instant::now();
        let texts = match self.addresses.credentials.read() {
            Ok(texts) if texts != self.addresses.texts => texts,
            Ok(_) => return,
            Err(error) => return tracing::warn!(error, "the old certificates are used"),
        };
        let old = std::mem::replace(&mut self.addresses.texts, texts);
        let endpoint = |broker: &Broker| self.addresses.endpoint_of(&broker.authority);
        let endpoints: Result<Vec<_>, _> = self.all.iter().map(endpoint).collect();
        match endpoints {
            Ok(endpoints) => {
                for (broker, endpoint) in self.all.iter_mut().zip(endpoints) {
                    broker.channel = endpoint.connect_lazy();
                    broker.endpoint = endpoint;
                    broker.generation += 1;
                }
            }
            // The files may be in the middle of a change. They are read again.
            Err(error) => {
                self.addresses.texts = old;
                tracing::warn!(%error, "the old certificates are used");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use lease_broker_proto as proto;
    use tokio::sync::oneshot;
    use tonic::Code;

    use super::*;
    use crate::calls::Caller;
    use crate::credentials::{Pem, Tls};
    use crate::errors::Applied;

    fn refusal(address: &str, credentials: Credentials) -> String {
        let refused = Addresses::parse(address, credentials).err();
        refused.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn malformed_address_is_refused() {
        for address in [
            "",
            "localhost",
            "localhost:",
            ":1",
            "localhost:abc",
            "localhost:+1",
            "localhost:0",
            "localhost:99999",
            "::1:1",
            "[localhost]:1",
            "a@localhost:1",
            "localhost:1/path",
            "dns:///localhost:1,localhost:2",
            "localhost:1,dns:///localhost:2",
        ] {
            let refused = refusal(address, Credentials::plaintext_anywhere());
            assert!(refused.contains("is not host:port"), "{address}: {refused}");
        }
        for address in ["https://localhost:1", "http://localhost:1"] {
            let refused = refusal(address, Credentials::plaintext());
            assert!(
                refused.contains("Credentials::tls turns TLS on"),
                "{refused}"
            );
        }
    }

    #[test]
    fn plaintext_needs_an_address_of_this_machine() {
        for address in [
            "localhost:1",
            "LOCALHOST:1",
            "127.0.0.2:1",
            "[::1]:1",
            "dns:///localhost:1",
        ] {
            assert_eq!(refusal(address, Credentials::plaintext()), "");
        }
        for address in ["localhost.example:1", "10.0.0.1:1", "127.0.0.1:1,[::2]:1"] {
            let refused = refusal(address, Credentials::plaintext());
            assert!(
                refused.contains("not an address of this machine"),
                "{refused}"
            );
        }
    }

    #[tokio::test]
    async fn silent_broker_is_called_again_when_the_other_one_fails() {
        let addresses = Addresses::parse("127.0.0.1:1,127.0.0.1:2", Credentials::plaintext());
        let transport = Transport::new(addresses.expect("two addresses"));
        let silent = transport.route().await.expect("a connection");
        let refusing = transport.route().await.expect("a connection");
        transport.note_failure(&silent, true, true);
        let route = transport.route().await.expect("a connection");
        assert_eq!(route.authority, refusing.authority);
        transport.note_failure(&refusing, false, false);
        // It is no longer passed over: the wait before a retry can be longer.
        transport.note_answer(&refusing);
        let route = transport.route().await.expect("a connection");
        assert_eq!(route.authority, silent.authority);
    }

    thread_local! {
        /// The number of resolutions of a name. Each test has its own thread.
        static RESOLUTIONS: Cell<usize> = const { Cell::new(0) };
        /// The answer of the first resolution. The others are never answered.
        static ANSWER: RefCell<Option<oneshot::Receiver<Vec<SocketAddr>>>> = const { RefCell::new(None) };
    }

    fn resolve_once(_: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        RESOLUTIONS.set(RESOLUTIONS.get() + 1);
        let answer = ANSWER.take();
        async move {
            match answer {
                Some(answer) => Ok(answer.await.expect("an answer")),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    /// Returns connections to a name, and the sender of the name's addresses.
    fn to_a_name() -> (Transport, oneshot::Sender<Vec<SocketAddr>>) {
        let (send, answer) = oneshot::channel();
        ANSWER.set(Some(answer));
        let addresses = Addresses::parse("dns:///localhost:1", Credentials::plaintext());
        let transport = Transport::new(addresses.expect("a name"));
        transport.lock().resolver = resolve_once;
        (transport, send)
    }

    fn two_addresses() -> Vec<SocketAddr> {
        let hosts = [[127, 0, 0, 1], [127, 0, 0, 2]];
        hosts.map(|host| SocketAddr::from((host, 1))).to_vec()
    }

    #[tokio::test]
    async fn resolver_without_an_answer_delays_no_call_to_known_brokers() {
        let (transport, resolved) = to_a_name();
        resolved.send(two_addresses()).expect("a resolution");
        let failed = transport.route().await.expect("a connection");
        transport.note_failure(&failed, false, false);
        transport.lock().resolved_at = Instant::now().checked_sub(RESOLVE_INTERVAL);
        for _ in 0..2 {
            let route = transport.route().now_or_never().expect("no wait");
            let route = route.expect("a connection");
            assert_ne!(route.authority, failed.authority);
            tokio::task::yield_now().await;
        }
        assert_eq!(RESOLUTIONS.get(), 2);
    }

    #[tokio::test]
    async fn attempt_ends_in_its_time_while_a_name_is_resolved() {
        let (transport, resolved) = to_a_name();
        let caller = Caller {
            transport: transport.clone(),
            token: None,
            on_attempt: Arc::new(|_| {}),
            on_retry: Arc::new(|_, _| {}),
        };
        let request = proto::WakeRequest::default();
        let attempt = caller.attempt(request, Duration::from_millis(10), false);
        let ended = tokio::time::timeout(Duration::from_secs(60), attempt).await;
        let failure = ended.expect("an end").expect_err("no address");
        assert_eq!(
            (failure.code, failure.applied),
            (Code::Unavailable, Applied::No)
        );
        // The next attempt uses the answer that was too late for this one.
        resolved.send(two_addresses()).expect("a resolution");
        transport.route().await.expect("a connection");
        assert_eq!(RESOLUTIONS.get(), 1);
    }

    const PEM: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBbzCCARWgAwIBAgIUU1mI9amCem/B80vv2LeBt7BnyskwCgYIKoZIzj0EAwIw\n\
DDEKMAgGA1UEAwwBYTAgFw0yNjExMjcxMjQ3MDFaGA8yMTI2MTEwMzEyNDcwMVow\n\
DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJ8fZeq5kTem\n\
qjpihNHw6kA7MMvSJuRKvKAGg4eihmCdW6U1crd2uWrY0v8AeLtbG8dWsAwoUWA4\n\
uTEZ1HI6Q0CjUzBRMB0GA1UdDgQWBBTDxgerEgj0lxhbaNJHqiY5TVHocjAfBgNV\n\
HSMEGDAWgBTDxgerEgj0lxhbaNJHqiY5TVHocjAPBgNVHRMBAf8EBTADAQH/MAoG\n\
CCqGSM49BAMCA0gAMEUCIQD/0XoTPeFxJLMRJ+QKEsbuEtgLKWgg6934slTz9geX\n\
RQIgESMNBfcgwuh2rSHVxKRsdVucnLpCS/jTwRCqxGEfwI4=\n\
-----END CERTIFICATE-----";

    #[tokio::test]
    async fn malformed_certificates_do_not_replace_the_old_ones() {
        let file = std::env::temp_dir().join(format!("ca-{}", std::process::id()));
        std::fs::write(&file, PEM).expect("a file");
        let credentials = Credentials::tls(Tls {
            ca: Some(Pem::File(file.clone())),
            ..Tls::default()
        });
        let addresses = Addresses::parse("broker.example:1", credentials.clone());
        let transport = Transport::new(addresses.expect("a certificate"));
        transport.route().await.expect("a connection");
        let half = &PEM[..PEM.len() / 2];
        for (text, generation) in [
            ("", 0),
            ("garbage", 0),
            (half, 0),
            (PEM, 0),
            (&format!("{PEM}\n"), 1),
        ] {
            std::fs::write(&file, text).expect("a file");
            {
                let mut brokers = transport.lock();
                brokers.read_at -= FILE_INTERVAL;
            }
            let route = transport.route().await.expect("a connection");
            assert_eq!(route.generation, generation, "{text}");
            let is_refused = !refusal("broker.example:1", credentials.clone()).is_empty();
            assert_eq!(is_refused, !text.starts_with(PEM), "{text}");
        }
        std::fs::remove_file(&file).expect("the file");
    }
}
