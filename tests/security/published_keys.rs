//! Keys that an issuer publishes at an address.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::RwLock;
use tokio_rustls::TlsAcceptor;
use tonic::{Code, Status};

use crate::security::fixture::{Files, call, claims};
use crate::support::api_error::ApiError;
use crate::support::certificates::Signed;
use crate::support::server::Server;
use crate::support::timeout::wait_until;

const AUTH: &str = "
[[auth.identities]]
name = 'people'
jwt_subject = 'user:*'
roles = { worker = ['work'] }
";

/// A server that answers every request with this text.
pub(super) struct Publisher {
    pub(super) url: String,
    answer: Arc<Mutex<String>>,
    /// No request is answered while a test holds it.
    pub(super) gate: Arc<RwLock<()>>,
    tls: Arc<Mutex<Option<TlsAcceptor>>>,
    requests: Arc<AtomicUsize>,
    failed_handshakes: Arc<AtomicUsize>,
}

impl Publisher {
    pub(super) async fn start(answer: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(Mutex::new(answer.to_owned()));
        let requests = Arc::new(AtomicUsize::new(0));
        let failed_handshakes = Arc::new(AtomicUsize::new(0));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let tls = Arc::new(Mutex::new(tls));
        let gate: Arc<RwLock<()>> = Arc::default();
        let this = Self {
            tls: tls.clone(),
            gate: gate.clone(),
            url: format!("{scheme}://localhost:{port}/keys"),
            answer: answer.clone(),
            requests: requests.clone(),
            failed_handshakes: failed_handshakes.clone(),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.lock().expect("not poisoned").clone();
                let (answer, requests, gate) = (answer.clone(), requests.clone(), gate.clone());
                let failed = failed_handshakes.clone();
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &answer, &requests, &gate).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &answer, &requests, &gate).await,
                            Err(_) => {
                                failed.fetch_add(1, Ordering::Relaxed);
                            }
                        },
                    }
                });
            }
        });
        this
    }

    pub(super) fn publish(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().expect("not poisoned"));
    }

    /// Shows another certificate from now on.
    pub(super) fn replace_certificate(&self, tls: TlsAcceptor) {
        *self.tls.lock().expect("not poisoned") = Some(tls);
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Answers one request. The answer is the whole text if it starts with HTTP, else the body.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &Mutex<String>,
    requests: &AtomicUsize,
    gate: &RwLock<()>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        request.push(byte);
    }
    requests.fetch_add(1, Ordering::Relaxed);
    let _open = gate.read().await;
    let body = answer.lock().expect("not poisoned").clone();
    let answer = if body.starts_with("HTTP") {
        body
    } else {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Starts a broker that fetches the keys, with these further settings of `auth.jwt`.
async fn start(files: &Files, publisher: &Publisher, more: &str) -> Server {
    let file = format!("jwks_file = \"{}\"", files.file("jwks.json").display());
    let url = format!("jwks_url = \"{}\"{more}", publisher.url);
    Server::with_config(&files.settings(AUTH).replace(&file, &url)).await
}

async fn claim(files: &Files, server: &Server, token: &str) -> Result<(), Status> {
    // A connection of its own, because one with five failures is closed.
    let channel = files.connect(server, None).await;
    call(&channel, Some(token), "ClaimBatch", "work").await
}

async fn wait_until_accepted(files: &Files, server: &Server, token: &str) {
    wait_until("the token is accepted", async || {
        claim(files, server, token).await.is_ok()
    })
    .await;
}

/// Returns the public key of an issuer, and a token that it has signed, both with this key id.
pub(super) fn key_and_token(issuer: &Files, id: &str) -> (serde_json::Value, String) {
    let mut key = issuer.jwks()["keys"][0].clone();
    key["kid"] = json!(id);
    let header = json!({"alg": "ES256", "kid": id}).to_string();
    (
        key,
        issuer.sign_text(&header, &claims("user:ann").to_string()),
    )
}

/// Returns a server of TLS with this certificate.
pub(super) fn acceptor(signed: &Signed) -> TlsAcceptor {
    let chain = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).expect("PEM");
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain], key);
    TlsAcceptor::from(Arc::new(config.expect("a certificate")))
}

#[tokio::test]
async fn replaced_key_is_fetched_when_a_token_names_it() {
    let files = Files::new();
    let (first, old) = key_and_token(&files, "first");
    let publisher = Publisher::start(&json!({"keys": [first]}).to_string(), None).await;
    let server = start(&files, &publisher, "").await;
    wait_until_accepted(&files, &server, &old).await;
    assert_eq!(publisher.requests(), 1);

    let (second, new) = key_and_token(&Files::new(), "second");
    publisher.publish(&json!({"keys": [second]}).to_string());
    let refused = claim(&files, &server, &new)
        .await
        .expect_err("not known yet");
    let error = ApiError::from_status(&refused);
    let seen = (error.code, &*error.reason);
    assert_eq!(seen, (Code::Unauthenticated, "CREDENTIALS_INVALID"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
    wait_until_accepted(&files, &server, &new).await;
    assert_eq!(publisher.requests(), 2);
    let gone = claim(&files, &server, &old).await;
    gone.expect_err("the issuer has taken the key back");
}

#[tokio::test]
async fn set_that_cannot_be_used_leaves_the_last_one() {
    let files = Files::new();
    let (key, token) = key_and_token(&files, "first");
    let good = json!({"keys": [key]}).to_string();
    let publisher = Publisher::start(&good, None).await;
    let server = start(&files, &publisher, "").await;
    wait_until_accepted(&files, &server, &token).await;
    let (_, unknown) = key_and_token(&Files::new(), "unknown");
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        publisher.url
    );
    for bad in [
        r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#,
        &redirect,
        &format!("{good}{}", " ".repeat(1 << 20)),
    ] {
        publisher.publish(bad);
        let before = publisher.requests();
        wait_until("the set is fetched", async || {
            let refused = claim(&files, &server, &unknown).await;
            refused.expect_err("the key is unknown");
            publisher.requests() > before
        })
        .await;
        claim(&files, &server, &token).await.expect("valid");
    }
}

#[tokio::test]
async fn tokens_with_unknown_keys_cause_few_fetches() {
    let files = Files::new();
    let (key, token) = key_and_token(&files, "first");
    let publisher = Publisher::start(&json!({"keys": [key]}).to_string(), None).await;
    let start_time = Instant::now();
    let server = start(&files, &publisher, "").await;
    wait_until_accepted(&files, &server, &token).await;
    let issuer = Files::new();
    for id in 0..60 {
        let (_, unknown) = key_and_token(&issuer, &format!("unknown {id}"));
        let refused = claim(&files, &server, &unknown).await;
        refused.expect_err("the key is unknown");
    }
    // One at the start, three at once, and one every 10 s.
    let most = 4 + start_time.elapsed().as_secs() / 10;
    let requests = u64::try_from(publisher.requests()).expect("a number");
    assert!(requests <= most, "{requests} > {most}");
}

#[tokio::test]
async fn address_must_prove_its_name() {
    let files = Files::new();
    let acceptor = acceptor(&files.authority.sign(&["localhost"]));
    let (key, token) = key_and_token(&files, "first");
    let set = json!({"keys": [key]}).to_string();
    let publisher = Publisher::start(&set, Some(acceptor)).await;
    let ca = format!(
        ", jwks_ca_file = \"{}\"",
        files.file("clients.crt").display()
    );
    let server = start(&files, &publisher, &ca).await;
    wait_until_accepted(&files, &server, &token).await;
    // No authority of this system has signed the certificate, and the address never gets a request.
    let before = publisher.requests();
    let other = start(&files, &publisher, "").await;
    wait_until("the handshake has failed", async || {
        publisher.failed_handshakes.load(Ordering::Relaxed) > 0
    })
    .await;
    let refused = claim(&files, &other, &token).await;
    refused.expect_err("there are no keys");
    assert_eq!(publisher.requests(), before);
}
