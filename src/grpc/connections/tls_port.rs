//! TLS on the port: handshakes, and the check of clients' certificates while their connections last.

use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::handshakes::Handshakes;
use crate::broker::Account;
use crate::security::{Login, ServerTls, TlsState};

/// The interval at which the certificates of connected clients are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The number of checks after which other tasks of the thread run.
const CHECKS_AT_ONCE: usize = 16;

/// The TLS side of a port.
pub(super) struct TlsPort {
    tls: Arc<ServerTls>,
    pub(super) handshakes: Handshakes,
    /// The connections of clients with a certificate. Those that have ended stay here until the next check, without their
    /// certificates.
    clients: Mutex<Vec<Weak<Connection>>>,
}

/// A connection after its handshake.
pub(super) struct Encrypted {
    pub(super) stream: TlsStream<TcpStream>,
    pub(super) login: Login,
    /// The certificates of the client, its own first. Empty: it has none.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// The state with which the client was checked.
    pub(super) state: Arc<TlsState>,
}

impl TlsPort {
    pub(super) fn new(tls: Arc<ServerTls>, handshakes_per_second: NonZeroU32) -> Self {
        Self {
            tls,
            handshakes: Handshakes::new(handshakes_per_second),
            clients: Mutex::default(),
        }
    }

    /// Makes the handshake of a connection. The caller limits its time.
    ///
    /// # Errors
    /// The client does not speak TLS or HTTP/2, or its certificate is not valid.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        account: &Account,
    ) -> io::Result<Encrypted> {
        // Up to here a client costs no cryptography.
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        self.handshakes.turn(account).await;
        let state = self.tls.state();
        let stream = start.into_stream(state.config.clone()).await?;
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(b"h2") {
            return Err(io::Error::other("the client does not offer HTTP/2 by ALPN"));
        }
        let certificates = session.peer_certificates().unwrap_or_default();
        let certificates = certificates.to_vec();
        let own = certificates.first().map(|own| state.names(own));
        let login = own.map_or_else(Login::default, Login::with_certificate);
        Ok(Encrypted {
            stream,
            login,
            certificates,
            state,
        })
    }

    /// Adds a connection whose client has certificates. They are checked again while the connection lasts, and now if the state is no
    /// longer the one of the handshake.
    pub(super) fn watch(&self, connection: &Arc<Connection>, handshake: &Arc<TlsState>) {
        self.clients.lock().push(Arc::downgrade(connection));
        let valid = self.tls.state();
        if !Arc::ptr_eq(&valid, handshake) && !valid.accepts(&connection.certificates) {
            end(connection);
        }
    }

    /// Closes the connections whose certificates have ended or whose authority was removed, until `stop` is cancelled.
    pub(super) async fn check_clients(&self, stop: CancellationToken) {
        let mut updates = self.tls.changes();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                changed = updates.changed() => if changed.is_err() {
                    return;
                }
            }
            let valid = self.tls.state();
            let clients = std::mem::take(&mut *self.clients.lock());
            let mut left = Vec::with_capacity(clients.len());
            for (index, client) in clients.into_iter().enumerate() {
                let Some(connection) = client.upgrade() else {
                    continue;
                };
                if valid.accepts(&connection.certificates) {
                    left.push(client);
                } else {
                    end(&connection);
                }
                if index % CHECKS_AT_ONCE == CHECKS_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
            self.clients.lock().append(&mut left);
        }
    }
}

/// Ends a connection whose certificate is not valid any more.
fn end(connection: &Connection) {
    let peer = connection.account.peer.ip();
    tracing::warn!(
        target: "lease_broker::audit",
        event = "tls.ended",
        %peer,
        "connection closed: the client's certificate is not valid any more"
    );
    connection.end_now();
}
