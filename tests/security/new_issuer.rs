//! The issuer of JSON Web Tokens while the configuration and the files of a running broker change.

use serde_json::{Value as Json, json};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::security::fixture::{Files, call};
use crate::security::published_keys::{Publisher, acceptor, key_and_token};
use crate::support::certificates::Authority;
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until;

const AUTH: &str = "
[[auth.identities]]
name = 'people'
jwt_subject = 'user:*'
roles = { worker = ['work'] }
";
const OTHERS: &str = "
[[auth.identities]]
name = 'others'
token = 'others'
roles = { worker = ['work'] }
";
const DOWN: &str =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A broker as a process of its own, and a token of its issuer.
struct Broker {
    process: BrokerProcess,
    files: Files,
    set: String,
    token: String,
    /// A connection on which the token was used.
    channel: Channel,
}

/// Returns the text of a set.
fn set(keys: &[&Json]) -> String {
    json!({"keys": keys}).to_string()
}

impl Broker {
    /// Starts a broker with a publisher of its keys. Its token was accepted.
    async fn start() -> (Self, Publisher) {
        let files = Files::new();
        let (key, token) = key_and_token(&files, "first");
        let set = set(&[&key]);
        let publisher = Publisher::start(&set, None).await;
        files.write("config.toml", &settings(&files, &publisher.url, AUTH));
        (Self::with_files(files, set, token).await, publisher)
    }

    async fn with_files(files: Files, set: String, token: String) -> Self {
        let process = BrokerProcess::serve(&files.file("q.db"), &files.file("config.toml"));
        let endpoint = Endpoint::from_shared(process.url()).expect("a URL");
        let broker = Self {
            channel: endpoint.connect_lazy(),
            process,
            files,
            set,
            token,
        };
        broker.wait_until_accepted(&broker.token).await;
        broker
    }

    /// Replaces the configuration, and waits until the log has this text.
    async fn reload(&self, settings: &str, logged: &str) {
        self.files.write("config.toml", settings);
        self.process.signal("HUP");
        wait_until(logged, async || self.process.log().contains(logged)).await;
    }

    async fn call(&self, token: &str) -> Code {
        let called = call(&self.channel, Some(token), "Wake", "work").await;
        called.map_or_else(|status| status.code(), |()| Code::Ok)
    }

    async fn wait_until_accepted(&self, token: &str) {
        wait_until("the token is accepted", async || {
            self.call(token).await == Code::Ok
        })
        .await;
    }
}

/// Returns the settings of a broker that fetches keys from this address.
fn settings(files: &Files, url: &str, auth: &str) -> String {
    let file = format!("jwks_file = \"{}\"", files.file("jwks.json").display());
    let url = format!("jwks_url = \"{url}\"");
    files.plain_text_settings(auth).replace(&file, &url)
}

#[tokio::test]
async fn address_without_keys_is_refused() {
    let (broker, _publisher) = Broker::start().await;
    let nowhere = Publisher::start(DOWN, None).await;
    let new = settings(&broker.files, &nowhere.url, AUTH);
    broker.reload(&new, "configuration not changed").await;
    let log = broker.process.log();
    let named = format!("auth.jwt.jwks_url: {}: ", nowhere.url);
    assert!(log.contains(&named), "{log}");
    assert_eq!(broker.call(&broker.token).await, Code::Ok);
    assert!(!log.contains("auth.lost"), "{log}");
}

#[tokio::test]
async fn new_address_of_the_keys_ends_no_connection() {
    let (broker, _publisher) = Broker::start().await;
    let auth = format!("{OTHERS}{AUTH}");
    let leaving = broker.files.add_token("others");
    let second = Publisher::start(&broker.set, None).await;
    let closed = second.gate.write().await;
    let moved = settings(&broker.files, &second.url, &auth);
    broker.files.write("config.toml", &moved);
    broker.process.signal("HUP");
    wait_until("the keys are fetched", async || second.requests() > 0).await;
    assert_eq!(broker.call(&broker.token).await, Code::Ok);
    drop(closed);
    let logged = "+auth.identities.others";
    wait_until(logged, async || broker.process.log().contains(logged)).await;
    assert_eq!(broker.call(&broker.token).await, Code::Ok);
    let endpoint = Endpoint::from_shared(broker.process.url()).expect("a URL");
    let other = endpoint.connect_lazy();
    let called = call(&other, Some(&leaving), "Wake", "work").await;
    called.expect("served");

    // The connection of the caller that leaves is checked last.
    let left = settings(&broker.files, &second.url, AUTH);
    broker.reload(&left, "auth.lost").await;
    assert_eq!(broker.call(&broker.token).await, Code::Ok);
    let log = broker.process.log();
    assert_eq!(log.matches("auth.lost").count(), 1, "{log}");
    assert!(!log.contains("identity=\"people\""), "{log}");
}

#[tokio::test]
async fn queues_change_while_the_issuer_is_down() {
    let (broker, publisher) = Broker::start().await;
    publisher.publish(DOWN);
    let old = settings(&broker.files, &publisher.url, AUTH);
    let new = format!("{old}\n[queues.more]\nmanaged_columns = {{ payload = 'text' }}\n");
    broker.reload(&new, "configuration ").await;
    let log = broker.process.log();
    assert!(log.contains("changes=\"+queues.more\""), "{log}");
    broker.wait_until_accepted(&broker.token).await;
}

#[tokio::test]
async fn replaced_authority_of_the_address_is_used() {
    let files = Files::new();
    let (key, token) = key_and_token(&files, "first");
    let set_of_first = set(&[&key]);
    let tls = acceptor(&files.authority.sign(&["localhost"]));
    let publisher = Publisher::start(&set_of_first, Some(tls)).await;
    files.write("issuer.crt", &files.authority.pem());
    let url = format!(
        "{}\", jwks_ca_file = \"{}",
        publisher.url,
        files.file("issuer.crt").display()
    );
    files.write("config.toml", &settings(&files, &url, AUTH));
    let broker = Broker::with_files(files, set_of_first, token).await;

    let renewed = Authority::named("Renewed authority");
    publisher.replace_certificate(acceptor(&renewed.sign(&["localhost"])));
    let (second, new) = key_and_token(&Files::new(), "second");
    publisher.publish(&set(&[&key, &second]));
    broker.files.write("issuer.crt", &renewed.pem());
    broker.process.signal("HUP");
    broker.wait_until_accepted(&new).await;
}

#[tokio::test]
async fn key_removed_at_the_address_is_refused_on_sighup() {
    let (broker, publisher) = Broker::start().await;
    let (other, _) = key_and_token(&Files::new(), "second");
    publisher.publish(&set(&[&other]));
    broker.process.signal("HUP");
    wait_until("the token is refused", async || {
        broker.call(&broker.token).await == Code::Unauthenticated
    })
    .await;
}
