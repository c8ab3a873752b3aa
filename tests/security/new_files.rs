//! Files that change while the broker runs: certificates, authorities and tokens.

use std::path::Path;

use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

use crate::security::fixture::{Files, call, claims};
use crate::security::new_configuration::make_pipe;
use crate::support::certificates::{Authority, Signed};
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until;

const AUTH: &str = "
[[auth.identities]]
name = 'fleet'
spiffe = 'spiffe://test/fleet'
roles = { worker = ['work'] }
[[auth.identities]]
name = 'loader'
token = 'loader'
roles = { worker = ['work'] }
[[auth.identities]]
name = 'people'
jwt_subject = 'user:*'
roles = { worker = ['work'] }
";

/// A broker as a process of its own, because it reads the files again on SIGHUP.
pub(crate) struct Broker {
    pub(crate) process: BrokerProcess,
    pub(crate) files: Files,
}

impl Broker {
    fn start() -> Self {
        let files = Files::new();
        let settings = files.settings(AUTH);
        Self::with_settings(files, &settings)
    }

    pub(crate) fn with_settings(files: Files, settings: &str) -> Self {
        files.write("config.toml", settings);
        let (store, config) = (files.file("queues.db"), files.file("config.toml"));
        let process = BrokerProcess::serve(&store, &config);
        Self { process, files }
    }

    /// Connects a new client that trusts this authority.
    pub(crate) async fn connect(&self, ca: &Authority, own: Option<&Signed>) -> Option<Channel> {
        use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca.pem()))
            .domain_name("localhost");
        if let Some(own) = own {
            tls = tls.identity(Identity::from_pem(&own.certificate, &own.key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.process.address));
        let endpoint = endpoint.expect("a URL").tls_config(tls).expect("TLS");
        endpoint.connect().await.ok()
    }

    /// Connects a new client with this certificate and claims.
    pub(crate) async fn serves(&self, own: &Signed) -> bool {
        // With TLS 1.3 a client learns that its certificate is refused after it has connected.
        match self.connect(&self.files.authority, Some(own)).await {
            Some(channel) => Self::claim(&channel, None).await == Code::Ok,
            None => false,
        }
    }

    /// Claims on a connection. Returns the code of the answer.
    pub(crate) async fn claim(channel: &Channel, token: Option<&str>) -> Code {
        let called = call(channel, token, "ClaimBatch", "work").await;
        called.map_or_else(|status| status.code(), |()| Code::Ok)
    }
}

fn write_pair(folder: &Path, pair: &Signed) {
    pair.write(folder, "tls");
}

#[tokio::test]
async fn expired_certificate_replaces_no_valid_one() {
    let broker = Broker::start();
    let own = broker.files.authority.sign(&["spiffe://test/fleet"]);
    let expired = broker.files.authority.sign(&["localhost", "expired"]);
    write_pair(broker.files.path(), &expired);
    broker.process.signal("HUP");
    wait_until("the expired pair is refused", async || {
        broker
            .process
            .log()
            .contains("the certificate expired at 2020-01-01")
    })
    .await;
    assert!(broker.serves(&own).await);

    // A broker that starts with it warns, and takes a valid one.
    let Broker { files, .. } = broker;
    let settings = files.settings(AUTH);
    write_pair(files.path(), &expired);
    let broker = Broker::with_settings(files, &settings);
    let log = broker.process.log();
    assert!(log.contains("callers refuse the certificate"), "{log}");
    assert!(!broker.serves(&own).await);
    let valid = broker.files.authority.sign(&["localhost"]);
    write_pair(broker.files.path(), &valid);
    broker.process.signal("HUP");
    wait_until("the valid pair is used", async || broker.serves(&own).await).await;
}

#[tokio::test]
async fn new_certificate_is_used_and_a_bad_pair_is_not() {
    let broker = Broker::start();
    let own = broker.files.authority.sign(&["spiffe://test/fleet"]);
    let old_authority = &broker.files.authority;
    let open = broker.connect(old_authority, Some(&own)).await;
    let open = open.expect("connected");
    let new_authority = Authority::new();
    let folder = broker.files.path();

    // A certificate with the key of another one.
    let [first, second] = [0, 1].map(|_| new_authority.sign(&["localhost"]));
    let bad = Signed {
        certificate: first.certificate.clone(),
        ..second
    };
    write_pair(folder, &bad);
    broker.process.signal("HUP");
    wait_until("the bad pair is reported", async || {
        broker.process.log().contains("the old ones stay in use")
    })
    .await;
    let log = broker.process.log();
    assert!(log.contains("server.tls.key"), "{log}");
    assert!(broker.connect(old_authority, Some(&own)).await.is_some());

    write_pair(folder, &first);
    broker.process.signal("HUP");
    wait_until("new connections get the new certificate", async || {
        broker.connect(&new_authority, Some(&own)).await.is_some()
    })
    .await;
    assert!(broker.connect(old_authority, Some(&own)).await.is_none());
    assert_eq!(Broker::claim(&open, None).await, Code::Ok, "no call fails");
}

#[tokio::test]
async fn removed_authority_ends_its_connections() {
    let broker = Broker::start();
    let files = &broker.files;
    let clients = Authority::new();
    files.write("clients.crt", &(files.authority.pem() + &clients.pem()));
    broker.process.signal("HUP");
    let [stays, goes] = [&files.authority, &clients].map(|ca| ca.sign(&["spiffe://test/fleet"]));
    let connect = async |own| broker.connect(&files.authority, Some(own)).await;
    wait_until("the added authority is known", async || {
        broker.serves(&goes).await
    })
    .await;
    let staying = connect(&stays).await.expect("connected");
    let going = connect(&goes).await.expect("connected");
    assert_eq!(Broker::claim(&going, None).await, Code::Ok);

    files.write("clients.crt", &files.authority.pem());
    broker.process.signal("HUP");
    // The client connects again when its connection has ended, and is refused.
    wait_until("the connection of the removed authority ends", async || {
        Broker::claim(&going, None).await != Code::Ok
    })
    .await;
    assert!(!broker.serves(&goes).await);
    assert_eq!(Broker::claim(&staying, None).await, Code::Ok);
}

#[tokio::test]
async fn tokens_are_added_and_removed_without_a_restart() {
    let broker = Broker::start();
    let files = &broker.files;
    let channel = broker.connect(&files.authority, None).await;
    let channel = channel.expect("connected");
    let token = files.add_token("loader");
    broker.process.signal("HUP");
    wait_until("the added token is known", async || {
        let channel = broker.connect(&files.authority, None).await;
        let channel = channel.expect("connected");
        Broker::claim(&channel, Some(&token)).await == Code::Ok
    })
    .await;
    assert_eq!(Broker::claim(&channel, Some(&token)).await, Code::Ok);
    // A line that cannot be used leaves all tokens as they were.
    files.write("tokens", "loader:abc\n");
    broker.process.signal("HUP");
    wait_until("the bad line is reported", async || {
        broker
            .process
            .log()
            .contains("line 1: the hash must have 64")
    })
    .await;
    assert_eq!(Broker::claim(&channel, Some(&token)).await, Code::Ok);
    files.write("tokens", "# none\n");
    broker.process.signal("HUP");
    wait_until("the token is refused on its open connection", async || {
        Broker::claim(&channel, Some(&token)).await == Code::Unauthenticated
    })
    .await;
    let log = broker.process.log();
    assert!(!log.contains(&token[3..]), "{log}");
}

#[tokio::test]
async fn signing_key_beside_an_unknown_key_is_used() {
    let broker = Broker::start();
    let files = &broker.files;
    let next = Files::new();
    let mut set = files.jwks();
    let mut key = next.jwks()["keys"][0].clone();
    key["kid"] = json!("next");
    let unknown = json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "new", "pub": "AAAA"});
    let keys = set["keys"].as_array_mut().expect("keys");
    keys.extend([key, unknown]);
    files.write("jwks.json", &set.to_string());
    broker.process.signal("HUP");
    let claims = claims("user:ann").to_string();
    let token = next.sign_text(r#"{"alg":"ES256","kid":"next"}"#, &claims);
    wait_until("the new key is known", async || {
        let channel = broker.connect(&files.authority, None).await;
        let channel = channel.expect("connected");
        Broker::claim(&channel, Some(&token)).await == Code::Ok
    })
    .await;
    let log = broker.process.log();
    assert!(
        log.contains("key 3 (new): kty is not RSA, EC or OKP"),
        "{log}"
    );
}

#[tokio::test]
async fn last_key_is_taken_away() {
    let broker = Broker::start();
    let token = broker.files.sign(&claims("user:ann"));
    let channel = broker.connect(&broker.files.authority, None).await;
    let channel = channel.expect("connected");
    assert_eq!(Broker::claim(&channel, Some(&token)).await, Code::Ok);
    broker.files.write("jwks.json", r#"{"keys":[]}"#);
    broker.process.signal("HUP");
    wait_until("the token is refused", async || {
        Broker::claim(&channel, Some(&token)).await == Code::Unauthenticated
    })
    .await;
}

#[tokio::test]
async fn token_is_removed_beside_a_file_that_hangs() {
    let broker = Broker::start();
    let files = &broker.files;
    let token = files.add_token("loader");
    broker.process.signal("HUP");
    let channel = broker.connect(&files.authority, None).await;
    let channel = channel.expect("connected");
    wait_until("the token is known", async || {
        let channel = broker.connect(&files.authority, None).await;
        let channel = channel.expect("connected");
        Broker::claim(&channel, Some(&token)).await == Code::Ok
    })
    .await;
    assert_eq!(Broker::claim(&channel, Some(&token)).await, Code::Ok);
    let _pipe = make_pipe(files, "jwks.json");
    files.write("tokens", "");
    broker.process.signal("HUP");
    wait_until("the token is refused", async || {
        Broker::claim(&channel, Some(&token)).await == Code::Unauthenticated
    })
    .await;
    wait_until("the line names the file that hangs", async || {
        let log = broker.process.log();
        log.contains("not_in_use=\"auth.jwt.jwks_file: ") && log.contains("does not answer")
    })
    .await;
}
