//! A connection: its stream, and the state that its calls share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::broker::{Account, Budgets};
use crate::security::Login;

/// The bytes that a client may send beside its requests, such as headers and frames of PING, and those that it may send more for
/// each answered call. A call that is refused by its headers can bring a window of data that is not read.
pub(super) const CONTROL_BYTES: i64 = 4 << 20;
pub(super) const CONTROL_BYTES_OF_CALL: i64 = 272 << 10;
/// The number of requests of a connection that the client may reset before it has sent them completely. After them the connection
/// ends.
const MAX_CUT_REQUESTS: usize = 1_024;
/// The failed logins after which a connection is closed.
const MAX_FAILED_LOGINS: usize = 5;

/// The stream of a connection, without or with TLS.
///
/// It is one type, so that the code of HTTP/2 exists once. With a copy for each kind, less of it is inlined, and each call takes
/// 7 % more instructions.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The state of a connection that its calls share.
pub(in crate::grpc) struct Connection {
    /// Where the connection comes from, and what it holds.
    pub(in crate::grpc) account: Arc<Account>,
    pub(in crate::grpc) budgets: Arc<Budgets>,
    /// The number of streams that the client has opened. It wraps around.
    pub(in crate::grpc) started_streams: AtomicUsize,
    /// The bytes that the client may still send beside its requests.
    control_bytes: AtomicI64,
    /// The number of requests that the client has reset before they were complete.
    cut_requests: AtomicUsize,
    failed_logins: AtomicUsize,
    /// The time limit for the response that has just begun.
    response_limit: Mutex<Option<Duration>>,
    /// True while the client watches the health of the server.
    pub(in crate::grpc) has_watcher: AtomicBool,
    /// Decides who the calls come from.
    pub(in crate::grpc) login: Login,
    /// The certificates of the client, its own first. Empty: it has none.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// Cancelled when the client is asked to go elsewhere. Calls that it sends before it has read this are served.
    pub(super) stop: CancellationToken,
}

/// A stream of a connection whose response has not left.
pub(in crate::grpc) struct OpenStream(Arc<Connection>);

impl Connection {
    pub(super) fn new(
        account: Arc<Account>,
        budgets: Arc<Budgets>,
        (login, certificates): (Login, Vec<CertificateDer<'static>>),
        stop: CancellationToken,
    ) -> Self {
        Self {
            account,
            budgets,
            login,
            certificates,
            stop,
            started_streams: AtomicUsize::new(0),
            control_bytes: AtomicI64::new(CONTROL_BYTES),
            cut_requests: AtomicUsize::new(0),
            failed_logins: AtomicUsize::new(0),
            response_limit: Mutex::default(),
            has_watcher: AtomicBool::new(false),
        }
    }

    /// Ends the connection: from now on it refuses calls, and shortly after this it is closed, with the calls that it has left.
    pub(in crate::grpc) fn end_now(&self) {
        self.account.end.cancel();
    }

    /// Returns whether the connection refuses calls.
    pub(in crate::grpc) fn is_ending(&self) -> bool {
        self.account.end.is_cancelled()
    }

    /// Counts a stream.
    pub(in crate::grpc) fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.started_streams.fetch_add(1, Ordering::Relaxed);
        self.account.add_stream();
        OpenStream(self.clone())
    }

    /// Limits the time from now until the response of this stream has been sent. Must be called by the service of the connection
    /// while it answers.
    pub(in crate::grpc) fn limit_response(&self, limit: Duration) {
        *self.response_limit.lock() = Some(limit);
    }

    /// Takes the limit that [`Self::limit_response`] has set.
    pub(super) fn take_response_limit(&self) -> Option<Duration> {
        self.response_limit.lock().take()
    }

    /// Counts a call that has been answered.
    pub(in crate::grpc) fn count_answer(&self) {
        self.control_bytes
            .fetch_add(CONTROL_BYTES_OF_CALL, Ordering::Relaxed);
    }

    /// Counts bytes of a request that have been read.
    pub(in crate::grpc) fn count_request_bytes(&self, bytes: usize) {
        self.control_bytes
            .fetch_add(to_signed(bytes), Ordering::Relaxed);
    }

    /// Counts bytes that have arrived. Too many of them that belong to no request end the connection. Returns false if nothing more
    /// of it is read.
    pub(super) fn count_arrived(&self, bytes: usize) -> bool {
        let left = self.control_bytes.load(Ordering::Relaxed) - to_signed(bytes);
        let left = left.min(CONTROL_BYTES);
        self.control_bytes.store(left, Ordering::Relaxed);
        if left < 0 {
            self.end_for_abuse();
        }
        left >= 0 || self.account.is_proxy
    }

    /// Counts a request that the client has reset before it was complete. Too many end the connection.
    pub(in crate::grpc) fn count_cut_request(&self) {
        if self.cut_requests.fetch_add(1, Ordering::Relaxed) == MAX_CUT_REQUESTS {
            self.end_for_abuse();
        }
    }

    /// Counts a failed login. Too many end the connection. That of a proxy must outlive the failures of one client.
    pub(in crate::grpc) fn count_failed_login(&self) {
        let earlier = self.failed_logins.fetch_add(1, Ordering::Relaxed);
        if earlier + 1 >= MAX_FAILED_LOGINS && !self.account.is_proxy {
            self.end_now();
        }
    }

    /// Ends the connection. The calls of a proxy's other clients are served to their end.
    fn end_for_abuse(&self) {
        if self.account.is_proxy {
            self.stop.cancel();
        } else {
            self.end_now();
        }
    }
}

fn to_signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.account.remove_stream();
    }
}

#[cfg(test)]
impl Connection {
    /// Returns a connection from this host.
    pub(in crate::grpc) fn of_test(is_proxy: bool) -> Arc<Self> {
        let address = ([127, 0, 0, 1], 1).into();
        let config = crate::config::Sources::default().load();
        let budgets = Budgets::new(config.expect("the default").budgets);
        let open = crate::broker::Ledger::new(1).open(address, is_proxy);
        Arc::new(Self::new(
            open.expect("a place").account().clone(),
            Arc::new(budgets),
            (Login::default(), Vec::new()),
            CancellationToken::new(),
        ))
    }
}
