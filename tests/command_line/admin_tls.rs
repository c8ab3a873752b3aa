//! TLS on the admin port: with the certificate of the gRPC port, if the configuration says so.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::command_line::dashboard::field_of;
use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::certificates::{Authority, Signed};
use crate::support::ports::free_port;
use crate::support::timeout::{TEST_TIMEOUT, wait_until_blocking};

/// Sends a request over TLS, and returns the answer in lower case.
fn send(address: SocketAddr, authority: &Authority, request: &str, body: &str) -> String {
    send_as(None, address, authority, request, body)
}

/// Does the same with a certificate of the client.
fn send_as(
    own: Option<&Signed>,
    address: SocketAddr,
    authority: &Authority,
    request: &str,
    body: &str,
) -> String {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("a certificate");
    roots.add(root).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::from_pem_slice(own.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
            let config = config.with_client_auth_cert(vec![chain.expect("a certificate")], key);
            config.expect("a pair")
        }
    };
    let name = address.ip().into();
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(address).expect("the port accepts connections");
    let timeout = Some(TEST_TIMEOUT);
    stream.set_read_timeout(timeout).expect("a timeout");
    let mut stream = StreamOwned::new(client, stream);
    let length = body.len();
    let request = format!(
        "{request}\r\nHost: {address}\r\nOrigin: https://{address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    // The port refuses a handshake after the client has made its own. Then there is no answer.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    // The end of the connection can come without an alert.
    let _ = stream.read_to_string(&mut answer);
    answer.to_ascii_lowercase()
}

#[test]
fn admin_port_speaks_tls_with_the_certificate_of_the_server() {
    let authority = Authority::new();
    let mut workspace = Workspace::with("");
    let own = authority.sign(&["127.0.0.1"]);
    let [certificate, key] = own.write(workspace.folder.path(), "server");
    let address = free_port();
    let made = workspace.run("token new eye --tokens-file tokens");
    let token = made.out.trim();
    let tokens = workspace.path("tokens");
    workspace.write(
        "queues.toml",
        &format!(
            "admin = {{ listen = '{address}', tls = true }}
            server.tls = {{ certificate = '{}', key = '{}' }}
            [auth]
            tokens_file = '{}'
            [[auth.identities]]
            name = 'eye'
            token = 'eye'
            roles = {{ observer = ['*'] }}
            {QUEUES}",
            certificate.display(),
            key.display(),
            tokens.display(),
        ),
    );
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let line = format!("admin port: https://{address}\n");
    while process.next_line() != line {}
    let probe = send(address, &authority, "GET /livez HTTP/1.1", "");
    assert!(probe.starts_with("http/1.1 200"), "{probe}");
    // The cookie of the session never leaves by plain text.
    let login = "POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded";
    let answer = send(address, &authority, login, &format!("token={token}"));
    assert!(answer.starts_with("http/1.1 303"), "{answer}");
    assert!(answer.contains("; secure"), "{answer}");
    // Plain text gets no answer.
    let mut plain = TcpStream::connect(address).expect("the port accepts connections");
    plain
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("it is sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let process = workspace.process.as_ref().expect("a service");
    wait_until_blocking("the handshake is reported", || {
        process
            .log()
            .contains("TLS handshake of the admin port failed")
    });
    // The health check of the host accepts any certificate: the broker can have kept an old one.
    let health = workspace.run("health --admin --config queues.toml");
    assert_eq!(health.code, 0, "{health:?}");
    let other = authority.sign(&["127.0.0.1"]);
    std::fs::write(workspace.path("other.pem"), &other.certificate).expect("a file");
    let toml = std::fs::read_to_string(workspace.path("queues.toml")).expect("text");
    let certificate = certificate.display().to_string();
    let other = workspace.path("other.pem").display().to_string();
    workspace.write("other.toml", &toml.replace(&certificate, &other));
    let health = workspace.run("health --admin --config other.toml");
    assert_eq!(health.code, 0, "{health:?}");
}

#[test]
fn admin_tls_without_a_certificate_is_refused() {
    let workspace = Workspace::with(&format!("admin.tls = true\n{QUEUES}"));
    let refused = workspace.run("serve --config queues.toml --store q.db");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("admin.tls"), "{refused:?}");
}

#[test]
fn certificate_of_an_identity_is_a_login() {
    let authority = Authority::new();
    let mut workspace = Workspace::with("");
    let server = authority.sign(&["127.0.0.1"]);
    let [certificate, key] = server.write(workspace.folder.path(), "server");
    let [ca, lists] = ["ca.pem", "revoked.pem"].map(|name| workspace.path(name));
    std::fs::write(&ca, authority.pem()).expect("a file");
    std::fs::write(&lists, authority.revoke(&[], 2099)).expect("a file");
    let address = free_port();
    let text = format!(
        "admin = {{ listen = '{address}', tls = true }}
        [server.tls]
        certificate = '{}'
        key = '{}'
        client_authorities = '{}'
        client_revocation_lists = '{}'
        client_certificates = 'required'
        [auth]
        [[auth.identities]]
        name = 'night'
        spiffe = 'spiffe://test/night'
        roles = {{ operator = ['*'] }}
        [[auth.identities]]
        name = 'eye'
        spiffe = 'spiffe://test/eye'
        roles = {{ observer = ['*'] }}
        {QUEUES}",
        certificate.display(),
        key.display(),
        ca.display(),
        lists.display(),
    );
    workspace.write("queues.toml", &text);
    workspace.serve();
    let [night, eye, nobody] =
        ["night", "eye", "nobody"].map(|name| authority.sign(&[&format!("spiffe://test/{name}")]));
    let page = |own: Option<&Signed>| send_as(own, address, &authority, "GET / HTTP/1.1", "");
    // Probes have no certificate, although clients of the API need one.
    let probe = send(address, &authority, "GET /livez HTTP/1.1", "");
    assert!(probe.starts_with("http/1.1 200"), "{probe}");
    for stranger in [None, Some(&nobody)] {
        let answer = page(stranger);
        assert!(answer.contains("location: /login"), "{answer}");
    }
    let refused =
        "event=\"dashboard.refused\" peer=127.0.0.1 cause=\"the certificate has no identity\"";
    let process = workspace.process.as_ref().expect("a service");
    wait_until_blocking("the stranger is reported", || {
        process.log().matches(refused).count() == 1
    });
    let foreign = Authority::named("foreign").sign(&["spiffe://test/night"]);
    assert_eq!(page(Some(&foreign)), "");

    let seen = page(Some(&night));
    assert!(seen.starts_with("http/1.1 200"), "{seen}");
    let form = |page| field_of(page, "form");
    let pause = |form: &str| {
        let request = "POST /pause HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded";
        let body = format!("form={form}&queue=work&mode=claims&reason=night");
        send_as(Some(&night), address, &authority, request, &body)
    };
    // A browser sends its certificate with each form, so the form must come from a page of the same identity.
    let of_another = page(Some(&eye));
    assert!(of_another.starts_with("http/1.1 200"), "{of_another}");
    assert!(!of_another.contains(form(&seen)), "{of_another}");
    let refused = pause("");
    assert!(refused.starts_with("http/1.1 403"), "{refused}");
    let paused = pause(form(&seen));
    assert!(paused.starts_with("http/1.1 303"), "{paused}");

    // A revoked certificate is refused as soon as the list is read.
    std::fs::write(&lists, authority.revoke(&[&night], 2099)).expect("a file");
    workspace.process.as_ref().expect("a service").signal("HUP");
    wait_until_blocking("the certificate is refused", || {
        page(Some(&night)).is_empty()
    });
    let seen = page(Some(&eye));
    assert!(seen.starts_with("http/1.1 200"), "{seen}");
}
