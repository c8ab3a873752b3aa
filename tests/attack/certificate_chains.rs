//! Long chains of client certificates: their memory is free as soon as their connections have ended.

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::memory::Memory;
use crate::support::certificates::{Authority, Signed};
use crate::support::process::BrokerProcess;
use crate::support::skipped::skipped;

/// The connections of a round. Each carries a chain of about 50 KB.
const CONNECTIONS: usize = 150;

async fn connect(address: std::net::SocketAddr, ca: &Authority, own: &Signed) {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ca.pem()))
        .identity(Identity::from_pem(&own.certificate, &own.key))
        .domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("a URL");
    let channel = endpoint.tls_config(tls).expect("TLS").connect().await;
    let mut health =
        tonic_health::pb::health_client::HealthClient::new(channel.expect("connected"));
    let checked = health.check(tonic_health::pb::HealthCheckRequest::default());
    checked.await.expect("served");
}

#[tokio::test]
async fn ended_connections_hold_no_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let ca = Authority::new();
    ca.sign(&["localhost"]).write(folder.path(), "tls");
    std::fs::write(folder.path().join("ca.crt"), ca.pem()).expect("written");
    let path = folder.path().display();
    let config = format!(
        "[server.tls]\ncertificate = '{path}/tls.crt'\nkey = '{path}/tls.key'\nclient_authorities = '{path}/ca.crt'\n"
    );
    let file = folder.path().join("config.toml");
    std::fs::write(&file, config).expect("written");
    let broker = BrokerProcess::serve(&folder.path().join("queues.db"), &file);
    let names: Vec<_> = (0..2_000)
        .map(|index| format!("name-{index}.long.example"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut own = ca.sign(&["spiffe://test/fleet"]);
    own.certificate += &ca.sign(&names).certificate;
    for _ in 0..CONNECTIONS {
        connect(broker.address, &ca, &own).await;
    }
    let Some(memory) = Memory::start(broker.id()) else {
        skipped("the memory of a process is not known");
        return;
    };
    for _ in 0..CONNECTIONS {
        connect(broker.address, &ca, &own).await;
    }
    let grew = memory.peak_growth().expect("the memory");
    eprintln!("attack: chains of certificates: memory +{grew} MiB");
    // A round of chains that stay would take 7 MiB.
    assert!(grew < 4, "{grew} MiB");
}
