//! A connection: its stream, and the state that its calls share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lease_broker_model::call_source::CallSource;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::broker::Budgets;
use crate::security::Login;

/// The number of requests of a connection that the client may reset before it has sent them completely. After them the connection
/// takes no further call.
const MAX_CUT_REQUESTS: usize = 1_024;

/// The stream of a connection, without or with TLS.
///
/// It is one type, so that the code of HTTP/2 exists once. With a copy for each kind, less of it is inlined, and each call takes
/// 7 % more instructions.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The caller's end of a connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::grpc) struct Peer {
    /// The address that the connection comes from.
    pub(in crate::grpc) address: SocketAddr,
    /// The address is one of `server.trusted_proxies`: the connection carries the calls of many clients.
    pub(in crate::grpc) is_proxy: bool,
}

/// The state of a connection that its calls share.
pub(in crate::grpc) struct Connection {
    pub(in crate::grpc) peer: Peer,
    /// Calls of one connection have their share of budgets.
    pub(in crate::grpc) source: Arc<CallSource>,
    pub(in crate::grpc) budgets: Arc<Budgets>,
    /// The number of streams that the client has opened. It wraps around.
    pub(in crate::grpc) started_streams: AtomicUsize,
    /// The number of streams whose responses have not left.
    open_streams: AtomicUsize,
    /// The bytes of responses that have not left.
    unsent_bytes: AtomicUsize,
    /// The time limit for the response that has just begun, in milliseconds. 0: there is none.
    response_limit: AtomicU64,
    /// The number of requests that have arrived in part.
    pub(in crate::grpc) incomplete_requests: AtomicUsize,
    /// The number of requests that the client has reset before they were complete.
    cut_requests: AtomicUsize,
    /// True while the client watches the health of the server.
    pub(in crate::grpc) has_watcher: AtomicBool,
    /// Decides who the calls come from.
    pub(in crate::grpc) login: Login,
    /// Cancelled when the connection must take no further stream.
    pub(in crate::grpc) stop: CancellationToken,
}

/// A stream of a connection whose response has not left.
pub(in crate::grpc) struct OpenStream(Arc<Connection>);

impl Connection {
    pub(in crate::grpc) fn new(
        peer: Peer,
        budgets: Arc<Budgets>,
        login: Login,
        stop: CancellationToken,
    ) -> Self {
        Self {
            peer,
            budgets,
            login,
            stop,
            source: CallSource::new(),
            started_streams: AtomicUsize::new(0),
            open_streams: AtomicUsize::new(0),
            unsent_bytes: AtomicUsize::new(0),
            response_limit: AtomicU64::new(0),
            incomplete_requests: AtomicUsize::new(0),
            cut_requests: AtomicUsize::new(0),
            has_watcher: AtomicBool::new(false),
        }
    }

    /// Counts a request that the client has reset before it was complete.
    pub(in crate::grpc) fn count_cut_request(&self) {
        if self.cut_requests.fetch_add(1, Ordering::Relaxed) == MAX_CUT_REQUESTS {
            self.stop.cancel();
        }
    }

    /// Counts a stream.
    pub(in crate::grpc) fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.started_streams.fetch_add(1, Ordering::Relaxed);
        self.open_streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    /// Limits the time from now until the response of this stream has been sent. Must be called by the service of the connection
    /// while it answers.
    pub(in crate::grpc) fn limit_response(&self, limit: Duration) {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.response_limit.store(millis, Ordering::Relaxed);
    }

    /// Takes the limit that [`Self::limit_response`] has set.
    pub(super) fn take_response_limit(&self) -> Option<Duration> {
        let millis = self.response_limit.load(Ordering::Relaxed);
        if millis == 0 {
            return None;
        }
        self.response_limit.store(0, Ordering::Relaxed);
        Some(Duration::from_millis(millis))
    }

    /// Counts bytes of a response. Returns all that have not left.
    pub(in crate::grpc) fn add_unsent(&self, bytes: usize) -> usize {
        self.unsent_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Counts bytes of a response that has left or was dropped.
    pub(in crate::grpc) fn remove_unsent(&self, bytes: usize) {
        self.unsent_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Connection {
    /// Returns a connection from this host.
    pub(in crate::grpc) fn of_test(is_proxy: bool) -> Arc<Self> {
        let address = ([127, 0, 0, 1], 1).into();
        let config = crate::config::Sources::default().load();
        let budgets = Budgets::new(config.expect("the default").budgets);
        Arc::new(Self::new(
            Peer { address, is_proxy },
            Arc::new(budgets),
            Login::default(),
            CancellationToken::new(),
        ))
    }
}
