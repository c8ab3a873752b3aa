//! The connections of the server: accepts them, bounds their number and their lifetime, and ends them when the server
//! stops.
//!
//! tonic's own server does not limit the number of connections or the time before the HTTP/2 preface. It also tries again
//! at once if the process has no file descriptor left. This module therefore serves each connection with hyper:
//!
//! | state | limit | effect |
//! |---|---|---|
//! | no TLS handshake, or no HTTP/2 preface received | `handshake_timeout` | the connection is closed |
//! | serving | `max_connection_age`, `max_connection_idle` | GOAWAY: the client opens no further stream |
//! | serving, before the client is trusted | 10 s without a call | GOAWAY, further calls are refused |
//! | closing | `max_connection_age_grace` | the connection is closed |
//! | serving, closing | the caller has lost its rights, too many failed logins, more than 1,024 requests that the client reset before they were complete, 4 MiB received that belong to no request, minus 272 KiB for each answered call | GOAWAY, further calls are refused |
//! | ending | 1 s | the connection is closed, also if the client has not acknowledged GOAWAY |

mod connection;
mod handshakes;
#[cfg(test)]
mod hyper_canary;
mod lifetime;
mod open_connections;
mod serve;
mod streams;
mod timed_stream;
mod tls_port;
mod turn_io;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2::Builder;
use hyper_util::rt::TokioTimer;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Stream;
pub(super) use self::connection::{Connection, OpenStream};
use self::lifetime::LifetimeLimits;
pub(super) use self::open_connections::OpenConnections;
use self::streams::StreamExecutor;
use self::tls_port::TlsPort;
use super::answers::Answers;
use super::connection_counts::{ConnectionCounts, RefusedConnection};
use crate::broker::{Budgets, Ledger};
use crate::config;
use crate::security::{Login, ServerTls};

/// The number of streams of a connection that may break the rules of HTTP/2. After them the connection is closed. A
/// client opens some streams too many before it has read the server's settings, and each of them counts.
const MAX_LOCAL_ERROR_RESETS: usize = 1_024;
/// The number of streams that a client may reset before the server has begun to serve them. A busy client whose calls
/// all reach their deadline resets many at once.
const MAX_PENDING_RESETS: usize = 256;
/// The bytes that a client may send before the server has read them: on one stream, and on all streams of a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The bytes of a response that hyper takes before the client has room for them.
const MAX_SEND_BUFFER: usize = 64 << 10;

/// The pause after an error of the process. Without it, a process without free file descriptors would use a whole core until one is
/// free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections, and serves each in a task of its own.
pub(super) struct Connections {
    answers: Arc<Answers>,
    budgets: Arc<Budgets>,
    ledger: Arc<Ledger>,
    settings: config::Server,
    limits: LifetimeLimits,
    counts: Arc<ConnectionCounts>,
    open: Arc<OpenConnections>,
    /// `None`: plain text.
    tls: Option<TlsPort>,
    /// Cancelled when no further connection and no further stream is accepted.
    stop: CancellationToken,
    /// Cancelled when the connections that are left must be closed.
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl Connections {
    /// The connections end when `stop` is cancelled and their calls have been answered, or when `cut` is cancelled.
    pub(super) fn new(
        answers: Arc<Answers>,
        (budgets, ledger): (Arc<Budgets>, Arc<Ledger>),
        settings: &config::Server,
        tls: Option<Arc<ServerTls>>,
        (stop, cut): (CancellationToken, CancellationToken),
        tasks: TaskTracker,
    ) -> Self {
        Self {
            counts: answers.metrics.connections.clone(),
            answers,
            budgets,
            ledger,
            settings: settings.clone(),
            limits: LifetimeLimits::from(settings),
            open: Arc::default(),
            tls: tls.map(|tls| TlsPort::new(tls, settings.handshakes_per_second)),
            stop,
            cut,
            tasks,
        }
    }

    /// Returns the list of the open connections.
    pub(super) fn open(&self) -> Arc<OpenConnections> {
        self.open.clone()
    }

    /// Accepts connections until the server stops.
    pub(super) async fn run(self, listener: TcpListener) {
        let stop = self.stop.clone();
        let this = Arc::new(self);
        if this.tls.is_some() {
            let (this, cut) = (this.clone(), this.cut.clone());
            tokio::spawn(async move {
                if let Some(tls) = &this.tls {
                    let handshakes = tls.handshakes.run(cut.clone());
                    tokio::join!(tls.check_clients(&this.open, cut.clone()), handshakes);
                }
            });
        }
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => this.accept(stream, address),
                // Errors of one connection, which is gone.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted
                            | ErrorKind::ConnectionReset
                            | ErrorKind::ConnectionRefused
                            | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    // The log folds lines that repeat.
                    tracing::error!(%error, "connections cannot be accepted");
                    let pause = tokio::time::sleep(ACCEPT_PAUSE);
                    let _ = stop.run_until_cancelled(pause).await;
                }
            }
        }
    }

    /// Starts to serve a connection. If there is no place for it, closes it.
    fn accept(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        let proxies = &self.settings.trusted_proxies;
        let is_proxy = proxies.contains(&address.ip().to_canonical());
        let Some(open) = self.ledger.open(address, is_proxy) else {
            // A connection that is closed at once tells the client to try another broker. One that is left in the queue
            // of the listener makes it wait until its deadline. A reset leaves no socket behind.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            let max = self.settings.max_connections;
            // The log folds lines that repeat, and counts them.
            tracing::warn!(
                max,
                "connection refused: server.max_connections are open, or an address has its share of them; \
                 /debug/connections of the admin port names the addresses"
            );
            return self.counts.refuse(RefusedConnection::Full);
        };
        let _ = stream.set_nodelay(true);
        let this = self.clone();
        self.tasks.spawn(async move {
            let accepted_at = Instant::now();
            // A token of this connection alone: polling a token locks the list of all that wait for it.
            let stop = this.stop.child_token();
            let opened = match &this.tls {
                None => {
                    let (account, budgets) = (open.account().clone(), this.budgets.clone());
                    let login = (Login::default(), Vec::new());
                    let connection = Arc::new(Connection::new(account, budgets, login, stop));
                    this.open.add(&connection);
                    Some((Stream::Left(stream), connection))
                }
                // Boxed, so that a connection without TLS does not take the memory of one with TLS.
                Some(tls) => Box::pin(this.shake_hands(tls, stream, &open, stop)).await,
            };
            if let Some((stream, connection)) = opened {
                this.serve(stream, connection, accepted_at).await;
            }
            if open.account().has_lost_its_place() {
                this.counts.refuse(RefusedConnection::Displaced);
            }
            drop(open);
        });
    }

    /// Creates the builder of a connection.
    fn http(&self, streams: StreamExecutor) -> Builder<StreamExecutor> {
        let settings = &self.settings;
        let mut http = Builder::new(streams);
        http.timer(TokioTimer::new())
            .auto_date_header(false)
            .max_concurrent_streams(u32::try_from(settings.max_streams).ok())
            .max_local_error_reset_streams(MAX_LOCAL_ERROR_RESETS)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_header_list_size(u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(MAX_SEND_BUFFER)
            .keep_alive_interval(settings.keepalive_interval)
            .keep_alive_timeout(settings.keepalive_timeout);
        http
    }
}
