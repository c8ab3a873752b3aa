//! A collector that only talks over TLS, and only to a broker with a certificate of its authority.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::support::client::item;
use crate::telemetry::collector::{Collector, Protocol};
use crate::telemetry::fixture::Fixture;

/// A certificate authority that signs the collector's certificate and the broker's.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// Signs a certificate for this name. Returns it with its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.0);
        (certificate.expect("a certificate"), key)
    }

    /// Writes the files for a broker. Returns its settings.
    fn broker_settings(&self, folder: &Path) -> String {
        let (certificate, key) = self.sign("broker");
        let files = [
            ("ca_file", self.0.pem()),
            ("client_certificate_file", certificate.pem()),
            ("client_key_file", key.serialize_pem()),
        ];
        let write = |(setting, pem): (&str, String)| {
            let path = folder.join(setting);
            std::fs::write(&path, pem).expect("a file");
            format!("{setting} = '{}'\n", path.display())
        };
        files.map(write).concat()
    }

    /// Starts the encrypted port of a collector. Returns its URL.
    async fn encrypt(&self, collector: &Collector, protocol: Protocol) -> String {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let (certificate, key) = self.sign("localhost");
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(verifier.expect("a verifier"))
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .expect("a certificate");
        config.alpn_protocols = match protocol {
            Protocol::Grpc => vec![b"h2".to_vec()],
            Protocol::Http => vec![b"http/1.1".to_vec()],
        };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let plain = collector.url.replace("http://", "");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptor.clone(), plain.clone());
                tokio::spawn(async move {
                    // A broker without a certificate ends here.
                    let mut encrypted = acceptor.accept(stream).await?;
                    let mut plain = TcpStream::connect(plain).await?;
                    tokio::io::copy_bidirectional(&mut encrypted, &mut plain).await
                });
            }
        });
        format!("https://localhost:{port}")
    }
}

/// Makes a call that is recorded as spans, stops the broker, and returns the number of exported spans and of others.
async fn call_once(url: &str, protocol: Protocol, settings: &str) -> (u64, u64) {
    let settings = format!(
        "endpoint = '{url}'\nprotocol = '{}'\nsample_ratio = 1\nexport = ['traces']\n{settings}",
        protocol.name()
    );
    let mut broker = Fixture::start(&settings, &[]);
    let added = broker.client.try_enqueue(vec![item("x")]).await;
    added.expect("the item is added");
    let spans = broker.stop();
    (spans["exported"], spans["failed"] + spans["dropped"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_are_sent_over_mutual_tls() {
    let authority = Authority::new();
    for protocol in Protocol::ALL {
        let folder = TempDir::new().expect("a folder");
        let collector = Collector::start(protocol).await;
        let url = authority.encrypt(&collector, protocol).await;
        let own = authority.broker_settings(folder.path());
        assert_eq!(
            call_once(&url, protocol, &own).await,
            (2, 0),
            "{protocol:?}"
        );
        assert_eq!(collector.received().spans.len(), 2);

        let only_authority = own.lines().next().expect("a line");
        let (exported, others) = call_once(&url, protocol, only_authority).await;
        assert_eq!((exported, others), (0, 2), "{protocol:?}, no certificate");

        let stranger = Authority::new().broker_settings(folder.path());
        let (exported, others) = call_once(&url, protocol, &stranger).await;
        assert_eq!((exported, others), (0, 2), "{protocol:?}, other authority");
        assert_eq!(collector.received().spans.len(), 2);
    }
}
