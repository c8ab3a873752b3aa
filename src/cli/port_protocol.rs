//! The protocol of a port. A command asks for it after a failure, so that its message names the cause and not a symptom
//! such as a broken pipe.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// The protocol by which a port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortProtocol {
    /// HTTP/2 without TLS.
    Http2,
    Tls,
    Http1,
    Unknown,
    /// The port closes connections and sends nothing.
    Closing,
    /// The port keeps connections open and sends nothing.
    Silent,
}

/// The reason why a port cannot be asked.
#[derive(Debug)]
pub(super) enum Unreachable {
    /// The name of the host has no address.
    NoAddress(io::Error),
    /// No connection can be made.
    NoConnection(io::Error),
}

/// The time to connect, and the time to answer.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// The preface of HTTP/2 with an empty SETTINGS frame.
const HTTP2_GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The size of a frame's header in HTTP/2.
const FRAME_HEADER_BYTES: usize = 9;

/// Greets the port by three protocols, on a connection for each, and returns the protocol by which it answers.
pub(super) async fn find(host: &str, port: u16) -> Result<PortProtocol, Unreachable> {
    if let Err(error) = lookup_host((host, port)).await {
        return Err(Unreachable::NoAddress(error));
    }
    let hello = client_hello(host);
    let get = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let (to_http2, to_tls, to_http1) = tokio::join!(
        answer(host, port, HTTP2_GREETING),
        answer(host, port, &hello),
        answer(host, port, get.as_bytes()),
    );
    let answers = [to_http2, to_tls, to_http1];
    let answers: Result<Vec<Answer>, io::Error> = answers.into_iter().collect();
    Ok(classify(&answers.map_err(Unreachable::NoConnection)?))
}

/// The first bytes that a port sends.
struct Answer {
    bytes: Vec<u8>,
    is_open: bool,
}

async fn answer(host: &str, port: u16, greeting: &[u8]) -> io::Result<Answer> {
    let connected = timeout(TIME_LIMIT, TcpStream::connect((host, port))).await;
    let mut stream = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let mut bytes = Vec::new();
    let exchange = async {
        stream.write_all(greeting).await?;
        while bytes.len() < FRAME_HEADER_BYTES && stream.read_buf(&mut bytes).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // A connection that was reset has ended, as one that was closed.
    let is_open = timeout(TIME_LIMIT, exchange).await.is_err();
    Ok(Answer { bytes, is_open })
}

/// Returns the protocol of the answers to the greetings of HTTP/2, TLS and HTTP/1. A port of TLS can answer the other two
/// by an alert or by an error of HTTP/1.
fn classify(answers: &[Answer]) -> PortProtocol {
    let any = |is_match: fn(&[u8]) -> bool| answers.iter().any(|answer| is_match(&answer.bytes));
    if any(is_settings_frame) {
        PortProtocol::Http2
    } else if any(is_tls_record) {
        PortProtocol::Tls
    } else if any(|bytes| bytes.starts_with(b"HTTP/1")) {
        PortProtocol::Http1
    } else if any(|bytes| !bytes.is_empty()) {
        PortProtocol::Unknown
    } else if answers.iter().any(|answer| answer.is_open) {
        PortProtocol::Silent
    } else {
        PortProtocol::Closing
    }
}

fn is_settings_frame(bytes: &[u8]) -> bool {
    const SETTINGS: u8 = 4;
    matches!(bytes, [_, _, _, SETTINGS, _, 0, 0, 0, 0, ..])
}

fn is_tls_record(bytes: &[u8]) -> bool {
    const ALERT: u8 = 0x15;
    const HANDSHAKE: u8 = 0x16;
    matches!(bytes, [ALERT | HANDSHAKE, 3, ..])
}

/// Returns the first message of a TLS client. Empty if it cannot be made.
fn client_hello(host: &str) -> Vec<u8> {
    let hello = || {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().ok()?;
        let builder = builder.with_root_certificates(RootCertStore::empty());
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(host.to_owned()).ok()?;
        let mut connection = ClientConnection::new(Arc::new(config), name).ok()?;
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).ok()?;
        Some(bytes)
    };
    hello().unwrap_or_default()
}
