//! A connection: its stream, and the state that its calls share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lease_broker_model::call_source::CallSource;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::security::Login;

/// The number of requests of a connection that the client may reset before it has sent them completely. After them the connection
/// ends.
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
    /// The number of streams that the client has opened. It wraps around.
    pub(in crate::grpc) started_streams: AtomicUsize,
    /// The number of requests that have arrived in part.
    pub(in crate::grpc) incomplete_requests: AtomicUsize,
    /// The number of requests that the client has reset before they were complete.
    cut_requests: AtomicUsize,
    /// True while the client watches the health of the server.
    pub(in crate::grpc) has_watcher: AtomicBool,
    /// Decides who the calls come from.
    pub(in crate::grpc) login: Login,
    /// The certificates of the client, its own first. Empty: it has none.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// Cancelled when the client is asked to go elsewhere. Calls that it sends before it has read this are served.
    pub(super) stop: CancellationToken,
    /// Cancelled when the connection must end now, whether the client agrees or not.
    pub(super) end: CancellationToken,
}

impl Connection {
    pub(in crate::grpc) fn new(peer: Peer, login: Login, stop: CancellationToken) -> Self {
        Self {
            peer,
            login,
            certificates: Vec::new(),
            stop,
            end: CancellationToken::new(),
            source: CallSource::new(),
            started_streams: AtomicUsize::new(0),
            incomplete_requests: AtomicUsize::new(0),
            cut_requests: AtomicUsize::new(0),
            has_watcher: AtomicBool::new(false),
        }
    }

    /// Keeps the certificates of the client, as long as the connection lasts.
    pub(super) fn with_certificates(self, certificates: Vec<CertificateDer<'static>>) -> Self {
        Self {
            certificates,
            ..self
        }
    }

    /// Counts a request that the client has reset before it was complete.
    pub(in crate::grpc) fn count_cut_request(&self) {
        if self.cut_requests.fetch_add(1, Ordering::Relaxed) == MAX_CUT_REQUESTS {
            // The calls of a proxy's other clients are served to their end.
            if self.peer.is_proxy {
                self.stop.cancel();
            } else {
                self.end_now();
            }
        }
    }

    /// Ends the connection: from now on it refuses calls, and shortly after this it is closed, with the calls that it has left.
    pub(in crate::grpc) fn end_now(&self) {
        self.end.cancel();
    }

    /// Returns whether the connection refuses calls.
    pub(in crate::grpc) fn is_ending(&self) -> bool {
        self.end.is_cancelled()
    }
}
