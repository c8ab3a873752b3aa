//! Connections that the broker ends: of callers that have lost their rights, and of clients that break rules.
//!
//! The clients are deaf: they acknowledge nothing, so that a connection that is closed politely stays open for
//! `max_connection_age_grace`, 70 s. Some read nothing either.

use lease_broker_proto::{ClaimBatchRequest, WakeRequest};
use prost::Message as _;
use prost_types::Duration as ProtoDuration;
use tonic::transport::Channel;

use crate::security::fixture::{Files, call, call_with};
use crate::security::tls_bridge;
use crate::support::certificates::Authority;
use crate::support::frames::{
    CANCEL, CLAIM_BATCH, DATA, END_STREAM, HEARTBEAT, NO_ERROR, PING, PREFACE, call_headers, frame,
    message, reset, settings,
};
use crate::support::http::get;
use crate::support::process::{BrokerProcess, run};
use crate::support::raw_connection::{RawConnection, blocking};
use crate::support::server::Server;
use crate::support::timeout::{TEST_TIMEOUT, wait_until, wait_until_blocking};

const WAKE: &str = "/leasebroker.v1.LeaseService/Wake";

/// Two tokens for workers of one identity, and one for another.
const AUTH: &str = "
[[auth.identities]]
name = 'fleet'
token = 'fleet'
roles = { worker = ['work'] }
[[auth.identities]]
name = 'others'
token = 'others'
roles = { worker = ['work'], producer = ['work'] }
";

/// Builds a call that every worker may make, and that is answered immediately.
fn wake(stream: u32, token: &str) -> Vec<u8> {
    let request = WakeRequest {
        queue: "work".to_owned(),
    };
    call_with(stream, WAKE, token, &request)
}

/// Builds a claim that waits for an item.
fn waiting_claim(stream: u32, token: &str) -> Vec<u8> {
    let request = ClaimBatchRequest {
        queue: "work".to_owned(),
        worker_id: "deaf".to_owned(),
        max_items: 1,
        wait_timeout: Some(ProtoDuration {
            seconds: 60,
            nanos: 0,
        }),
        ..ClaimBatchRequest::default()
    };
    call_with(stream, CLAIM_BATCH, token, &request)
}

/// Sends calls, and waits until as many answers more have arrived, or the broker has closed the connection. Returns how many of
/// all answers have a message.
fn send_answered(connection: &mut RawConnection, calls: &[u8], answers: usize) -> usize {
    let before = connection.received().answers;
    // The connection can be closed already.
    let _ = connection.send(calls);
    let (received, arrived) = connection.wait(TEST_TIMEOUT, |received| {
        received.answers >= before + answers || received.closed
    });
    assert!(arrived, "no answer: {received:?}");
    received.count(DATA)
}

#[tokio::test]
async fn deaf_client_is_not_served_after_five_wrong_tokens() {
    let files = Files::new();
    let token = files.add_token("fleet");
    let server = Server::with_config(&files.plain_text_settings(AUTH)).await;
    let address = server.address;
    blocking(move || {
        let mut connection = RawConnection::open(address);
        assert_eq!(send_answered(&mut connection, &wake(1, &token), 1), 1);
        let wrong = (0..5).flat_map(|call| wake(3 + 2 * call, "lb_wrong"));
        assert_eq!(
            send_answered(&mut connection, &wrong.collect::<Vec<_>>(), 5),
            1
        );
        connection.goaway();
        let valid = (0..100).flat_map(|call| wake(13 + 2 * call, &token));
        // The connection can be closed already.
        let _ = connection.send(&valid.collect::<Vec<_>>());
        connection.wait_until_closed();
        assert_eq!(connection.received().count(DATA), 1, "no call was served");
    })
    .await;
}

#[tokio::test]
async fn deaf_client_that_cuts_1025_requests_is_cut_off() {
    expect_cut_off(CANCEL).await;
}

#[tokio::test]
async fn client_that_cuts_1025_requests_without_error_is_cut_off() {
    expect_cut_off(NO_ERROR).await;
}

/// Cuts requests with this error code until the broker ends the connection.
async fn expect_cut_off(code: u32) {
    let server = Server::start().await;
    let address = server.address;
    blocking(move || {
        let mut connection = RawConnection::open(address);
        let heartbeat = |stream: u32, flags: u8| {
            let body = message(stream, &[], flags);
            [call_headers(stream, HEARTBEAT, 0), body].concat()
        };
        let mut next = 1;
        while connection.received().goaway.is_none() {
            assert!(next < 2 * 2_000, "no GOAWAY");
            // They have begun when a later call has its answer. Resets of streams that the broker has not seen have a limit of
            // their own.
            let streams: Vec<u32> = (0..50).map(|index| next + 2 * index).collect();
            let mut begun: Vec<u8> = streams.iter().flat_map(|id| heartbeat(*id, 0)).collect();
            begun.extend(heartbeat(next + 100, END_STREAM));
            send_answered(&mut connection, &begun, 1);
            let mut cuts: Vec<u8> = streams.iter().flat_map(|id| reset(*id, code)).collect();
            cuts.extend(heartbeat(next + 102, END_STREAM));
            send_answered(&mut connection, &cuts, 1);
            next += 104;
        }
        connection.wait_until_closed();
    })
    .await;
}

/// A broker as a process of its own, which reads its files again on SIGHUP.
struct Broker {
    process: BrokerProcess,
    files: Files,
}

impl Broker {
    fn start(files: Files, settings: &str) -> Self {
        files.write("config.toml", settings);
        let (store, config) = (files.file("queues.db"), files.file("config.toml"));
        let process = BrokerProcess::serve(&store, &config);
        Self { process, files }
    }

    /// Opens a connection with a claim that waits. It acknowledges nothing.
    fn deaf_claim(&self, token: &str) -> RawConnection {
        let mut connection = RawConnection::open(self.process.address);
        connection.send(&waiting_claim(1, token)).expect("sent");
        // The claim waits when a later call has its answer.
        assert_eq!(send_answered(&mut connection, &wake(3, token), 1), 1);
        connection
    }

    /// Opens a connection with a claim that waits. It reads nothing at all.
    fn unread_claim(&self, token: &str) -> RawConnection {
        let mut connection = RawConnection::unread(self.process.address);
        connection.send(PREFACE).expect("sent");
        connection.send(&settings(&[])).expect("sent");
        connection.send(&waiting_claim(1, token)).expect("sent");
        connection
    }

    /// Adds an item, and claims it. It fails if the item was leased to somebody else.
    async fn expect_free_item(&self, token: &str) {
        let channel = self.channel();
        let folder = self.files.path();
        let address = format!("http://{}", self.process.address);
        let (token_file, arguments) = ("others.token", ["--address", &address, "--token-file"]);
        self.files.write(token_file, token);
        let file = self.files.file(token_file);
        let file = file.to_str().expect("UTF-8");
        let add = ["enqueue", "work", "--set", "payload=x"];
        let added = run(folder, &[&add[..], &arguments, &[file]].concat());
        assert_eq!(added.code, 0, "{added:?}");
        let claim = ["claim", "work", "--output", "json"];
        let claimed = run(folder, &[&claim[..], &arguments, &[file]].concat());
        assert_eq!(claimed.json().len(), 1, "the item was leased to another");
        call(&channel, Some(token), "Wake", "work")
            .await
            .expect("served");
    }

    fn channel(&self) -> Channel {
        let endpoint = tonic::transport::Endpoint::from_shared(self.process.url());
        endpoint.expect("a URL").connect_lazy()
    }
}

/// Waits until a connection that never reads is closed.
fn wait_until_refused(connection: &mut RawConnection) {
    let ping = frame(PING, 0, 0, &[0; 8]);
    wait_until_blocking("the unread connection is closed", || {
        connection.try_send(&ping).is_err()
    });
}

#[tokio::test]
async fn revoked_token_ends_the_claims_that_it_sent() {
    let files = Files::new();
    let [revoked, kept] = ["fleet", "others"].map(|name| files.add_token(name));
    let settings = files.plain_text_settings(AUTH);
    let mut broker = Broker::start(files, &settings);
    let admin = broker.process.admin_address();
    let (deaf, mut unread) = (broker.deaf_claim(&revoked), broker.unread_claim(&revoked));
    let staying = broker.deaf_claim(&kept);
    wait_until("three claims wait", async || {
        let waiting = "lease_broker_claim_waiting{lease_broker_queue_name=\"work\"} 3";
        get(admin, "/metrics").body.contains(waiting)
    })
    .await;

    let files = &broker.files;
    let config = files.file("config.toml");
    let config = config.to_str().expect("UTF-8");
    let revoke = [
        "auth",
        "revoke",
        "--config",
        config,
        "--token-name",
        "fleet",
    ];
    let done = run(files.path(), &revoke);
    assert_eq!(done.code, 0, "{done:?}");
    broker.process.signal("HUP");
    let deaf = blocking(move || {
        deaf.wait_until_closed();
        wait_until_refused(&mut unread);
        deaf.received()
    })
    .await;
    assert_eq!(deaf.count(DATA), 1, "only the first call was served");
    let log = broker.process.log();
    // Both connections have one line, because they are of one caller.
    let line = log.lines().find(|line| line.contains("auth.lost"));
    assert!(line.is_some_and(|line| line.contains("fleet")), "{log}");
    assert!(!staying.received().closed, "the other identity is served");
    drop(staying);
    broker.expect_free_item(&kept).await;
}

#[tokio::test]
async fn proxy_with_many_tokens_stays_connected() {
    let files = Files::new();
    let fleet: Vec<String> = (0..40).map(|_| files.add_token("fleet")).collect();
    let lines = std::fs::read_to_string(files.file("tokens")).expect("tokens");
    let revoked = files.add_token("others");
    let settings = files.plain_text_settings(AUTH);
    let settings = format!("server.trusted_proxies = ['127.0.0.1']\n{settings}");
    let broker = Broker::start(files, &settings);
    let address = broker.process.address;
    let calls = move |first: u32| -> Vec<u8> {
        let streams = (first..).step_by(2).zip(&fleet);
        let calls = streams.flat_map(|(stream, token)| wake(stream, token));
        calls.collect()
    };
    let first_calls = calls(1);
    let mut proxy = blocking(move || {
        let mut proxy = RawConnection::open(address);
        assert_eq!(send_answered(&mut proxy, &first_calls, 40), 40);
        proxy
    })
    .await;
    let other = broker.deaf_claim(&revoked);

    broker.files.write("tokens", &lines);
    broker.process.signal("HUP");
    // The connections are checked in the order of their first calls.
    blocking(move || other.wait_until_closed()).await;
    blocking(move || {
        assert_eq!(send_answered(&mut proxy, &calls(101), 40), 80);
    })
    .await;
    let log = broker.process.log();
    assert_eq!(log.matches("connection closed").count(), 1, "{log}");
}

#[tokio::test]
async fn removed_authority_cuts_a_deaf_client() {
    let files = Files::new();
    let clients = Authority::new();
    files.write("clients.crt", &(files.authority.pem() + &clients.pem()));
    let settings = files.settings(
        "[[auth.identities]]\nname = 'fleet'\nspiffe = 'spiffe://test/fleet'\nroles = { worker = ['work'] }",
    );
    let broker = Broker::start(files, &settings);
    let own = clients.sign(&["spiffe://test/fleet"]);
    let bridge = tls_bridge::open(&broker.files.authority, &own, broker.process.address).await;
    let request = WakeRequest {
        queue: "work".to_owned(),
    };
    let wake = move |stream: u32| {
        let body = message(stream, &request.encode_to_vec(), END_STREAM);
        [call_headers(stream, WAKE, 0), body].concat()
    };
    let first = wake(1);
    let mut connection = blocking(move || {
        let mut connection = RawConnection::open(bridge);
        assert_eq!(send_answered(&mut connection, &first, 1), 1);
        connection
    })
    .await;
    broker
        .files
        .write("clients.crt", &broker.files.authority.pem());
    broker.process.signal("HUP");
    wait_until(
        "the broker says that it closes the connection",
        async || broker.process.log().contains("tls.ended"),
    )
    .await;
    blocking(move || {
        let calls: Vec<u8> = (0..100).flat_map(|call| wake(3 + 2 * call)).collect();
        // The connection can be closed already.
        let _ = connection.send(&calls);
        connection.wait_until_closed();
        assert_eq!(connection.received().count(DATA), 1, "no call was served");
    })
    .await;
}
