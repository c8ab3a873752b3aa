//! Logins that a running broker can no longer make: refused credentials, a firewall, a certificate, a token file. They are outages of
//! the store, and cause few logins.

use std::path::Path;

use lease_broker::broker::{Broker, BrokerConfig, CallContext, Error};
use lease_broker::config::Sources;
use lease_broker_store::mssql::{MssqlSchema, MssqlStore, Settings};
use lease_broker_store::{Applied, Outage, OutageCause, StoreError, Upkeep as _};

use crate::harness::errors::unavailable;
use crate::harness::fixture::{new_item, queue, text};
use crate::support::timeout::with_timeout;
use crate::wire::answers::{OPERATION, enqueued, held};
use crate::wire::database;
use crate::wire::fixture::{Fixture, LONG_LIMITS, PLAIN, responder, settings};
use crate::wire::responder::certificate::Authority;
use crate::wire::responder::log::Event;
use crate::wire::responder::script::Reply;
use crate::wire::responder::server::{Encryption, Login, Server};
use crate::wire::responder::tokens::Tokens;

/// The errors about user or password.
const WRONG_CREDENTIALS: [u32; 5] = [18_456, 18_452, 18_486, 18_487, 18_488];

impl Fixture {
    async fn open(server: Server, settings: &Settings) -> Self {
        let queues = [queue("items")];
        let opened = with_timeout(Box::pin(MssqlStore::open(settings, &queues))).await;
        Self {
            server,
            store: opened.expect("the server is ready").into(),
        }
    }

    fn logins(&self) -> usize {
        let is_login = |event: &Event| matches!(event, Event::Login { .. });
        self.server.count(is_login)
    }

    /// Lets the server refuse logins with this error, and closes the connection of the operations.
    async fn refuse(&self, number: u32) {
        self.close_connection().await;
        let refusal = Tokens::new().error(number, "Login failed.");
        self.server.refuse_every_login(Some(refusal));
    }

    /// Asserts that operations and probes meet an outage that is a failed login, and returns it.
    async fn assert_no_login(&self) -> Outage {
        let mut outages = Vec::new();
        for outcome in [
            self.enqueue(1).await.map(drop),
            with_timeout(self.store.probe()).await,
            self.heartbeat(1).await.map(drop),
        ] {
            let outage = unavailable(outcome);
            assert_eq!(outage.cause, OutageCause::Login, "{outage}");
            assert_eq!(outage.applied, Applied::No, "{outage}");
            outages.push(outage);
        }
        outages.remove(0)
    }

    async fn assert_works(&self) {
        with_timeout(self.store.probe()).await.expect("a login");
        self.server.on(OPERATION, vec![Reply::Answer(held(1))]);
        self.heartbeat(1).await.expect("extended");
    }
}

fn connection_string(server: &Server, more: &str) -> String {
    let (host, port) = (server.address.ip(), server.address.port());
    format!("server=tcp:{host},{port};user=broker;password=x;database=work;{more}")
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::write(path, bytes).expect("the file is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_credentials_are_an_outage_and_one_login() {
    for number in WRONG_CREDENTIALS {
        let fixture = Fixture::start().await;
        fixture.refuse(number).await;
        let before = fixture.logins();
        let outage = fixture.assert_no_login().await;
        assert_eq!((outage.number, outage.tries), (Some(number), 1));
        for _ in 0..20 {
            fixture.claim().await.expect_err("no login");
        }
        assert_eq!(fixture.logins() - before, 1, "{number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_refused_by_a_firewall_is_tried_once_per_operation() {
    for number in [40_615, 47_073, 40_914, 916] {
        let fixture = Fixture::start().await;
        fixture.refuse(number).await;
        let before = fixture.logins();
        let outage = fixture.assert_no_login().await;
        assert_eq!((outage.number, outage.tries), (Some(number), 1));
        assert_eq!(fixture.logins() - before, 3, "{number}");
        fixture.server.refuse_every_login(None);
        fixture.assert_works().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_account_is_reported_with_the_way_out() {
    let fixture = Fixture::start().await;
    fixture.refuse(18_486).await;
    let outage = fixture.assert_no_login().await;
    for part in ["18486", "ALTER LOGIN", "UNLOCK", "store.connection_string"] {
        assert!(outage.reason.contains(part), "{part}: {outage}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_connection_string_is_tried_immediately() {
    let server = responder().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("connection-string");
    let old = connection_string(&server, PLAIN);
    write(&file, &old);
    let settings = Settings {
        connection_string_file: Some(file.clone()),
        ..settings(&old, LONG_LIMITS)
    };
    let fixture = Fixture::open(server, &settings).await;
    fixture.refuse(18_456).await;
    fixture.assert_no_login().await;
    let before = fixture.logins();
    // A text that cannot be parsed is no misconfiguration while the broker runs, and causes no login.
    write(&file, "=;=;{");
    fixture.assert_no_login().await;
    assert_eq!(fixture.logins(), before);
    write(&file, old.replace("password=x", "password=y"));
    fixture.assert_no_login().await;
    assert_eq!(fixture.logins() - before, 1, "the second is refused too");
    fixture.server.refuse_every_login(None);
    write(&file, old.replace("password=x", "password=z"));
    fixture.assert_works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_token_file_is_an_outage_until_it_is_back() {
    let server = responder().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    write(&file, "token");
    let settings = Settings {
        access_token_file: Some(file.clone()),
        ..settings(&connection_string(&server, PLAIN), LONG_LIMITS)
    };
    let fixture = Fixture::open(server, &settings).await;
    fixture.close_connection().await;
    std::fs::remove_file(&file).expect("removed");
    let outage = fixture.assert_no_login().await;
    assert!(
        outage.reason.contains("cannot read the access token file"),
        "{outage}"
    );
    write(&file, "token");
    fixture.assert_works().await;
    fixture.refuse(18_456).await;
    fixture.assert_no_login().await;
    // The token has been renewed.
    fixture.server.refuse_every_login(None);
    write(&file, "next token");
    fixture.assert_works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_token_file_is_a_misconfiguration_at_the_start() {
    let server = responder().await;
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        access_token_file: Some(folder.path().join("token")),
        ..settings(&connection_string(&server, PLAIN), LONG_LIMITS)
    };
    let opened = Box::pin(MssqlStore::open(&settings, &[queue("items")])).await;
    let error = opened.map(drop).expect_err("no token");
    assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_the_schema_log_in_with_the_token() {
    let server = responder().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let with_token = Settings {
        access_token_file: Some(file.clone()),
        ..settings(&connection_string(&server, PLAIN), LONG_LIMITS)
    };
    let open = async || {
        let settings = with_token.clone();
        let opened = tokio::task::spawn_blocking(move || MssqlSchema::open(&settings).map(drop));
        opened.await.expect("no panic")
    };
    let missing = open().await.expect_err("no token");
    assert!(
        matches!(missing, StoreError::Misconfigured(_)),
        "{missing:?}"
    );
    write(&file, "token");
    open().await.expect("a login");
    let refusal = Tokens::new().error(18_456, "Login failed.");
    server.refuse_every_login(Some(refusal));
    let refused = open().await.expect_err("the login is refused");
    assert!(
        matches!(refused, StoreError::Misconfigured(_)),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_succeeds_while_a_connection_is_left() {
    let fixture = Fixture::start().await;
    fixture.claim().await.expect_err("no answer is scripted");
    let refusal = Tokens::new().error(18_456, "Login failed.");
    fixture.server.refuse_every_login(Some(refusal));
    with_timeout(fixture.store.probe())
        .await
        .expect("the kept connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_of_a_new_authority_is_an_outage() {
    let (old, new) = (Authority::new(), Authority::new());
    let encryption = Encryption::Required(old.sign(&["127.0.0.1"]));
    let server = Server::start(encryption, Login::Accept, database::answer).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("authority.der");
    write(&file, old.der());
    let option = format!("TrustServerCertificateCA={}", file.display());
    let settings = settings(&connection_string(&server, &option), LONG_LIMITS);
    let fixture = Fixture::open(server, &settings).await;
    fixture.close_connection().await;
    write(&file, new.der());
    let before = fixture.logins();
    let outage = fixture.assert_no_login().await;
    assert!(outage.reason.contains("certificate"), "{outage}");
    assert_eq!(fixture.logins(), before);
    write(&file, old.der());
    fixture.assert_works().await;
}

pub(super) fn broker_config() -> BrokerConfig {
    let sources = Sources::default().load();
    BrokerConfig::from(&sources.unwrap_or_else(|error| panic!("the defaults: {error}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_that_cannot_log_in_is_unhealthy() {
    let fixture = Fixture::start().await;
    fixture.refuse(18_456).await;
    let store = fixture.store.clone();
    let broker = Broker::start(store, &[queue("items")], broker_config());
    let context = CallContext::default();
    let enqueue = async || {
        let item = new_item(&[("payload", text("a"))]);
        with_timeout(broker.enqueue(&context, "items", vec![item], None)).await
    };
    let assert_unavailable = async || {
        let error = enqueue()
            .await
            .map(|added| added.keys)
            .expect_err("no login");
        assert!(matches!(error, Error::StoreUnavailable { .. }), "{error:?}");
        assert!(error.to_string().contains("cannot log in"), "{error}");
    };
    assert_unavailable().await;
    let mut health = broker.store_health();
    let unhealthy = health.wait_for(|healthy| !healthy);
    drop(with_timeout(unhealthy).await.expect("the broker runs"));
    for _ in 0..20 {
        assert_unavailable().await;
    }
    let status = broker.store_status();
    let failure = status.last_failure.expect("a failure");
    assert!(!status.up);
    assert_eq!(failure.cause, OutageCause::Login);
    assert!(failure.reason.contains("18456"), "{failure:?}");
    assert!(broker.store_failures(OutageCause::Login) > 0);
    fixture.server.refuse_every_login(None);
    fixture
        .server
        .always(&["insert into [items]"], Reply::Answer(enqueued(1..=1)));
    let healthy = health.wait_for(|healthy| *healthy);
    drop(with_timeout(healthy).await.expect("the broker runs"));
}
