//! A bridge from plain text to TLS, so that raw frames reach a broker with TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::support::certificates::{Authority, Signed};

/// Opens a port whose first connection reaches the broker with this certificate of a client.
pub(crate) async fn open(ca: &Authority, own: &Signed, broker: SocketAddr) -> SocketAddr {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca.pem().as_bytes());
    roots.add(ca.expect("PEM")).expect("an authority");
    let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.expect("PEM")], key.expect("PEM"))
        .expect("a certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut plain, _) = listener.accept().await.expect("a connection");
        let stream = TcpStream::connect(broker).await.expect("the broker");
        let name = ServerName::try_from("localhost").expect("a name");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let mut encrypted = connected.await.expect("a handshake");
        let _ = tokio::io::copy_bidirectional(&mut plain, &mut encrypted).await;
    });
    address
}
