//! The readiness of a broker on this host, from `/readyz` of its admin port.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::any_certificate::client_config;

/// The fields of the answer that a health check needs.
#[derive(Deserialize)]
pub(in crate::cli) struct Readiness {
    pub(in crate::cli) ready: bool,
    /// Why the broker is not ready. Empty: it is.
    pub(in crate::cli) reasons: Vec<String>,
    /// The database. `None`: the broker is starting.
    pub(in crate::cli) store: Option<StoreReadiness>,
    /// The absolute path of its database file. `None`: its database is on a server, or it is of an earlier version.
    #[serde(default)]
    pub(in crate::cli) database_file: Option<PathBuf>,
    /// Why the last run of a reaper failed, or left leases, by queue.
    #[serde(default)]
    pub(in crate::cli) reaper_errors: BTreeMap<String, String>,
}

/// The state of the database.
#[derive(Deserialize)]
pub(in crate::cli) struct StoreReadiness {
    pub(in crate::cli) up: bool,
    /// The time for which the oldest operation has run. Zero: none runs.
    pub(in crate::cli) oldest_operation_seconds: f64,
    /// Its last failure.
    pub(in crate::cli) error: Option<String>,
    /// When that occurred.
    pub(in crate::cli) error_time: Option<String>,
}

/// Returns the address at which a program on this host reaches a port that listens on `listen`.
pub(in crate::cli) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() && has_ipv6() => Ipv6Addr::LOCALHOST.into(),
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Returns whether this host has the address `::1`. Without it, a port that listens on `::` is reached over IPv4.
fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Asks the admin port of this host. `has_tls`: the port speaks TLS.
///
/// # Errors
/// The port cannot be reached, or the answer is not that of a broker.
pub(in crate::cli) async fn ask(
    address: SocketAddr,
    has_tls: bool,
) -> Result<Readiness, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    if !has_tls {
        return ask_on(stream, address).await;
    }
    let connector = TlsConnector::from(Arc::new(client_config()?));
    let stream = connector.connect(address.ip().into(), stream).await?;
    ask_on(stream, address).await
}

async fn ask_on<S>(
    stream: S,
    address: SocketAddr,
) -> Result<Readiness, Box<dyn Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/readyz").header("host", address.to_string());
    let response = sender.send_request(request.body(Empty::<bytes::Bytes>::new())?);
    let response = response.await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    if ![StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&status) {
        return Err(format!("the answer to GET /readyz has the HTTP status {status}").into());
    }
    Ok(serde_json::from_slice(&body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_addresses_are_reached_on_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:9464", "127.0.0.1:9464"),
            (
                "[::]:9464",
                if has_ipv6() {
                    "[::1]:9464"
                } else {
                    "127.0.0.1:9464"
                },
            ),
            ("192.0.2.7:1", "192.0.2.7:1"),
        ] {
            let listen = listen.parse().expect("an address");
            assert_eq!(reachable(listen).to_string(), reached);
        }
    }
}
