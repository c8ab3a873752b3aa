//! TLS. The broker requires it unless the connection string turns it off, and it accepts only a trusted certificate.

use std::io::Write as _;

use lease_broker_store::StoreError;

use crate::wire::database;
use crate::wire::fixture::{LONG_LIMITS, open_with, refused, responder};
use crate::wire::responder::certificate::{Authority, Identity};
use crate::wire::responder::log::Event;
use crate::wire::responder::server::{Encryption, Login, Server};

const HERE: &str = "127.0.0.1";

async fn server(identity: Identity) -> Server {
    let encryption = Encryption::Required(identity);
    Server::start(encryption, Login::Accept, database::answer).await
}

/// Asserts that the store cannot be opened and that no login was sent. Returns the error text.
async fn assert_refused(server: &Server, options: &str) -> String {
    let error = refused(server, options).await;
    let logins = server.count(|event| matches!(event, Event::Login { .. }));
    assert_eq!(logins, 0, "{error}");
    let StoreError::Misconfigured(text) = error else {
        panic!("not misconfigured: {error:?}");
    };
    text
}

/// Asserts that the store opens and that every login was encrypted.
async fn assert_accepted(server: &Server, options: &str) {
    let opened = open_with(server.address, LONG_LIMITS, options).await;
    opened.map(|_| ()).expect("opened");
    let logins = server.count(|event| *event == Event::Login { encrypted: true });
    // One connection for the start, one for the operations and one for the probe.
    assert_eq!(logins, 3);
    let clear = server.count(|event| *event == Event::Login { encrypted: false });
    assert_eq!(clear, 0);
}

/// Returns the option that names a file with the certificate of an authority, and the file.
fn trusting(authority: &Authority) -> (String, tempfile::NamedTempFile) {
    let mut file = tempfile::Builder::new()
        .suffix(".der")
        .tempfile()
        .expect("a file");
    file.write_all(authority.der()).expect("written");
    let option = format!("TrustServerCertificateCA={}", file.path().display());
    (option, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_tls_is_refused_before_the_login() {
    let server = responder().await;
    let text = assert_refused(&server, "").await;
    assert!(text.contains("encryption"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_signed_certificate_is_refused_by_default() {
    let server = server(Identity::self_signed(&[HERE])).await;
    let text = assert_refused(&server, "").await;
    assert!(text.contains("certificate"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_signed_certificate_can_be_accepted() {
    let server = server(Identity::self_signed(&[HERE])).await;
    assert_accepted(&server, "TrustServerCertificate=true").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_of_a_named_authority_is_accepted() {
    let authority = Authority::new();
    let server = server(authority.sign(&[HERE])).await;
    let (option, _file) = trusting(&authority);
    assert_accepted(&server, &option).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_of_another_authority_is_refused() {
    let server = server(Authority::new().sign(&[HERE])).await;
    let (option, _file) = trusting(&Authority::new());
    let text = assert_refused(&server, &option).await;
    assert!(text.contains("certificate"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let server = server(authority.sign(&["db.example.com"])).await;
    let (option, _file) = trusting(&authority);
    let text = assert_refused(&server, &option).await;
    assert!(text.contains("certificate"), "{text}");
}

/// Asserts that a refused certificate is reported with the address and the keywords that help, and without those of the driver.
fn assert_names_the_remedy(text: &str, server: &Server) {
    assert!(text.contains(&server.address.to_string()), "{text}");
    for keyword in [
        "TrustServerCertificateCA=FILE",
        "HostNameInCertificate=NAME",
        "TrustServerCertificate=true",
        "store.connection_string",
    ] {
        assert!(text.contains(keyword), "{keyword}: {text}");
    }
    assert!(
        !text.contains("Config::") && !text.contains("tiberius"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_certificate_is_reported_with_the_keywords() {
    let authority = Authority::new();
    let (option, _file) = trusting(&authority);
    let own = server(Identity::self_signed(&[HERE])).await;
    let other_host = server(authority.sign(&["db.example.com"])).await;
    for (server, options) in [(own, ""), (other_host, &*option)] {
        let text = assert_refused(&server, options).await;
        assert_names_the_remedy(&text, &server);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_of_an_authority_that_cannot_be_used_is_named() {
    let server = server(Identity::self_signed(&[HERE])).await;
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in [
        ("absent.pem", None),
        ("authority.toml", Some("")),
        ("empty.pem", Some("")),
        ("empty.der", Some("")),
        ("half.crt", Some("-----BEGIN CERTIFICATE-----\nMIIB")),
    ] {
        let path = folder.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).expect("written");
        }
        let path = path.display();
        let option = format!("TrustServerCertificateCA={path}");
        let text = assert_refused(&server, &option).await;
        for part in ["store.connection_string", "TrustServerCertificateCA"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains(&path.to_string()), "{text}");
    }
    let connections = server.count(|event| matches!(event, Event::Accepted));
    assert_eq!(connections, 0);
}

async fn strict_server(identity: Identity) -> Server {
    let encryption = Encryption::Strict(identity);
    Server::start(encryption, Login::Accept, database::answer).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_encryption_starts_with_tls() {
    let authority = Authority::new();
    let server = strict_server(authority.sign(&[HERE])).await;
    let (option, _file) = trusting(&authority);
    assert_accepted(&server, &format!("Encrypt=strict;{option}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_encryption_checks_the_certificate() {
    let server = strict_server(Identity::self_signed(&[HERE])).await;
    let text = assert_refused(&server, "Encrypt=strict").await;
    assert!(text.contains("certificate"), "{text}");
    let text = assert_refused(&server, "Encrypt=strict;TrustServerCertificate=true").await;
    assert!(text.contains("strict"), "{text}");
}
