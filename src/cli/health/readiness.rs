//! The readiness of a broker on this host, from `/readyz` of its admin port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use bytes::Bytes;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde::Deserialize;

use crate::cli::connection_failure::innermost_cause;

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

/// Asks the admin port of this host. `has_tls`: the port speaks TLS. Any certificate is accepted: the request has no secret, and the port
/// can rightly show another one than its file has, because the broker keeps the old pair until it can use the new one.
///
/// # Errors
/// The port cannot be reached, or the answer is not that of a broker.
pub(in crate::cli) async fn ask(address: SocketAddr, has_tls: bool) -> Result<Readiness, String> {
    let scheme = if has_tls { "https" } else { "http" };
    let answer = get(&format!("{scheme}://{address}/readyz")).await;
    let (status, body) = answer.map_err(|error| innermost_cause(&error))?;
    if ![StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&status) {
        return Err(format!(
            "the answer to GET /readyz has the HTTP status {status}"
        ));
    }
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

async fn get(url: &str) -> reqwest::Result<(StatusCode, Bytes)> {
    let client = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .tls_danger_accept_invalid_certs(true)
        .build()?;
    let answer = client.get(url).send().await?;
    Ok((answer.status(), answer.bytes().await?))
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
