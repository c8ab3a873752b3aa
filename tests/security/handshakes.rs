//! Handshakes with the TLS of Python: which clients may connect, and with which versions.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde::Deserialize;
use serde_json::json;

use crate::security::fixture::Files;
use crate::support::certificates::{Authority, Signed};
use crate::support::frames::{PREFACE, SETTINGS, frame};
use crate::support::raw_connection::blocking;
use crate::support::server::Server;
use crate::support::skipped::skipped;
use crate::support::timeout::{TEST_TIMEOUT, with_timeout};

/// The result of a connection.
#[derive(Debug, Deserialize)]
struct Seen {
    /// The version of TLS. `None`: the handshake failed.
    version: Option<String>,
    /// The broker has sent its SETTINGS, the first frame of HTTP/2.
    has_settings: bool,
    /// A session ticket was received.
    has_ticket: bool,
}

/// Connects once for each scenario. `None`: there is no Python.
async fn connect(address: std::net::SocketAddr, scenarios: serde_json::Value) -> Option<Vec<Seen>> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/security/handshakes.py");
    let output = blocking(move || {
        let python =
            std::env::var_os("LEASE_BROKER_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        Command::new(python)
            .args([
                program,
                &address.ip().to_string(),
                &address.port().to_string(),
            ])
            .arg(scenarios.to_string())
            .output()
    });
    let output = match output.await {
        Ok(output) => output,
        Err(error) => {
            skipped(&format!("handshakes of Python: {error}"));
            return None;
        }
    };
    assert!(output.status.success(), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).expect("a list"))
}

fn files_of(signed: &Signed, folder: &Path, name: &str) -> serde_json::Value {
    json!(signed.write(folder, name))
}

#[tokio::test]
async fn only_http2_over_tls_is_served() {
    let files = Files::new();
    let server = files.start("anonymous = ['worker']").await;
    let (own, expired) = (["spiffe://a/b"], ["spiffe://a/b", "expired"]);
    let folder = files.path();
    let own = files_of(&files.authority.sign(&own), folder, "own");
    let expired = files_of(&files.authority.sign(&expired), folder, "expired");
    let stranger = Authority::new().sign(&["spiffe://a/b"]);
    let stranger = files_of(&stranger, folder, "stranger");
    let scenarios = json!([
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["h2"]},
        {"versions": ["TLSv1_2", "TLSv1_2"], "alpn": ["h2"]},
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["h2"], "certificate": own},
        {"versions": ["TLSv1_2", "TLSv1_3"], "alpn": ["http/1.1", "h2"]},
        {"versions": ["TLSv1_1", "TLSv1_1"], "alpn": ["h2"]},
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["http/1.1"]},
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": []},
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["h2"], "certificate": expired},
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["h2"], "certificate": stranger},
        {"versions": [], "alpn": []},
    ]);
    let Some(seen) = connect(server.address, scenarios).await else {
        return;
    };
    eprintln!("{seen:#?}");
    let has_settings: Vec<bool> = seen.iter().map(|one| one.has_settings).collect();
    let expected = [
        true, true, true, true, false, false, false, false, false, false,
    ];
    assert_eq!(has_settings, expected);
    let versions: Vec<_> = seen.iter().map(|one| one.version.as_deref()).collect();
    assert_eq!(
        versions[..3],
        [Some("TLSv1.3"), Some("TLSv1.2"), Some("TLSv1.3")]
    );
    assert!(seen.iter().all(|one| !one.has_ticket), "{seen:#?}");
}

#[tokio::test]
async fn required_certificate_and_lowest_version_hold() {
    let files = Files::new();
    let settings = files.settings("anonymous = ['worker']").replace(
        "[auth]",
        "client_certificates = 'required'\nmin_version = '1.3'\n[auth]",
    );
    let server = Server::with_config(&settings).await;
    let own = files.authority.sign(&["spiffe://a/b"]);
    let own = files_of(&own, files.path(), "own");
    let scenarios = json!([
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["h2"], "certificate": own},
        {"versions": ["TLSv1_3", "TLSv1_3"], "alpn": ["h2"]},
        {"versions": ["TLSv1_2", "TLSv1_2"], "alpn": ["h2"], "certificate": own},
    ]);
    let Some(seen) = connect(server.address, scenarios).await else {
        return;
    };
    let has_settings: Vec<bool> = seen.iter().map(|one| one.has_settings).collect();
    assert_eq!(has_settings, [true, false, false], "{seen:#?}");
}

#[tokio::test]
async fn silent_connection_is_closed_before_its_handshake() {
    use std::io::Read as _;

    let files = Files::new();
    let server = files.start("anonymous = ['worker']").await;
    let address = server.address;
    blocking(move || {
        let mut silent = std::net::TcpStream::connect(address).expect("connected");
        silent.set_read_timeout(Some(TEST_TIMEOUT)).expect("set");
        let read = silent.read(&mut [0; 64]);
        let timed_out =
            matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(
            !timed_out && read.unwrap_or(0) == 0,
            "the connection stays open"
        );
    })
    .await;
}

/// Returns the first message of a handshake.
pub(crate) fn client_hello() -> Vec<u8> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let client = rustls::ClientConnection::new(config.into(), name);
    let mut hello = Vec::new();
    let written = client.expect("a client").write_tls(&mut hello);
    written.expect("a message");
    hello
}

#[tokio::test]
async fn stopped_handshakes_do_not_keep_others_out() {
    let files = Files::new();
    let settings = files.settings("anonymous = ['worker']");
    let settings = format!("server.handshake_timeout = '1m'\n{settings}");
    let server = Server::with_config(&settings).await;
    let address = server.address;
    let stopped = blocking(move || {
        let hello = client_hello();
        let stop_after_hello = |_| {
            let mut stream = TcpStream::connect(address).expect("connected");
            stream.write_all(&hello).expect("sent");
            stream
        };
        (0..200).map(stop_after_hello).collect::<Vec<_>>()
    });
    let stopped = stopped.await;
    with_timeout(files.connect(&server, None)).await;
    drop(stopped);
}

/// A client that has received the broker's first answer, and has not sent its own certificate yet.
pub(crate) struct HalfHandshake {
    session: ClientConnection,
    stream: TcpStream,
}

impl HalfHandshake {
    /// `authority`: that of the broker, as PEM. `own`: the certificate and the key of the client.
    pub(crate) fn begin(address: SocketAddr, authority: &str, own: &(String, String)) -> Self {
        let parse = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(parse(authority)).expect("an authority");
        let key = PrivateKeyDer::from_pem_slice(own.1.as_bytes()).expect("a key");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![parse(&own.0)], key);
        let mut config = config.expect("a pair");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = "localhost".try_into().expect("a name");
        let mut session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let mut stream = TcpStream::connect(address).expect("connected");
        while session.wants_write() {
            session.write_tls(&mut stream).expect("sent");
        }
        // The request for a certificate is behind the broker's first message.
        while session.peer_certificates().is_none() {
            session.read_tls(&mut stream).expect("received");
            session.process_new_packets().expect("an answer");
        }
        Self { session, stream }
    }

    /// Finishes the handshake, and reads until the broker ends the connection. Returns the time that it has lasted.
    pub(crate) fn finish(mut self) -> Duration {
        let start = Instant::now();
        let mut stream = rustls::Stream::new(&mut self.session, &mut self.stream);
        let settings = frame(SETTINGS, 0, 0, &[]);
        let greeting = [PREFACE, &settings].concat();
        let _ = stream.write_all(&greeting);
        let _ = stream.read_to_end(&mut Vec::new());
        start.elapsed()
    }
}
