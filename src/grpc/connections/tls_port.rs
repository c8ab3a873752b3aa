//! TLS on the port: handshakes, and the check of clients' certificates while their connections last.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::handshakes::Handshakes;
use super::open_connections::OpenConnections;
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
}

/// The login of a client by its certificates, and these, its own first. Empty: it has none.
type CertificateLogin = (Login, Vec<CertificateDer<'static>>);

impl TlsPort {
    pub(super) fn new(tls: Arc<ServerTls>, handshakes_per_second: NonZeroU32) -> Self {
        Self {
            tls,
            handshakes: Handshakes::new(handshakes_per_second),
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
    ) -> io::Result<(TlsStream<TcpStream>, CertificateLogin, Arc<TlsState>)> {
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
        Ok((stream, (login, certificates), state))
    }

    /// Checks the certificates of a client again, if the state is no longer the one of its handshake.
    pub(super) fn check_after(&self, handshake: &Arc<TlsState>, connection: &Connection) {
        let valid = self.tls.state();
        if !Arc::ptr_eq(&valid, handshake) {
            check(&valid, connection);
        }
    }

    /// Closes the open connections whose certificates have ended or whose authority was removed, until `stop` is cancelled.
    pub(super) async fn check_clients(&self, open: &OpenConnections, stop: CancellationToken) {
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
            let clients = open
                .all()
                .filter(|connection| !connection.certificates.is_empty());
            for (index, connection) in clients.enumerate() {
                check(&valid, &connection);
                if index % CHECKS_AT_ONCE == CHECKS_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// Ends a connection whose certificates are not valid any more.
fn check(valid: &TlsState, connection: &Connection) {
    if connection.certificates.is_empty() || valid.accepts(&connection.certificates) {
        return;
    }
    let peer = connection.account.peer.ip();
    tracing::warn!(
        target: "lease_broker::audit",
        event = "tls.ended",
        %peer,
        "connection closed: the client's certificate is not valid any more"
    );
    connection.end_now();
}
