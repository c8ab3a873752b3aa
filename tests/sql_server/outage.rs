//! A broker whose database server is unavailable for some seconds. Calls fail within a time limit, health follows, and
//! leases from before the outage stay valid.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lease_broker_store::mssql::Settings;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, patient_settings, start};
use crate::harness::proxy::{Direction, Proxy};
use crate::sql_server::service::{CONNECTIONS, Service, retry_while_unavailable};
use crate::support::api_error::assert_api_error;
use crate::support::client::{Client, completion, item, lease_ids};
use crate::support::timeout::{TEST_TIMEOUT, wait_until, with_timeout};

const CALLERS: usize = 50;
const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

struct TestBroker {
    service: Service,
    proxy: Proxy,
    program: Program,
    client: Client,
    _harness: MssqlHarness,
}

impl TestBroker {
    async fn start() -> Option<Self> {
        Self::with_settings(patient_settings).await
    }

    /// `settings` returns the settings for a connection string.
    async fn with_settings(settings: impl FnOnce(&str) -> Settings) -> Option<Self> {
        let (harness, program) = start().await?;
        let proxy = Proxy::before(&program.connection_string).await;
        let service = Service::with_settings(settings(proxy.connection_string())).await;
        let client = service.client().await;
        Some(Self {
            service,
            proxy,
            program,
            client,
            _harness: harness,
        })
    }

    /// Sends calls of all kinds at the same time, each in its own task. Each must fail with `STORE_UNAVAILABLE`. Returns the
    /// time that they took.
    async fn assert_calls_fail(&self, lease_id: &str) -> Duration {
        let start = Instant::now();
        let calls = (0..CALLERS).map(|at| {
            let (client, id) = (self.client.clone(), lease_id.to_owned());
            tokio::spawn(async move { call_of_kind(&client, at, &id).await })
        });
        for outcome in with_timeout(join_all(calls)).await {
            let outcome = outcome.expect("no panic");
            assert_api_error(outcome, Code::Unavailable, "STORE_UNAVAILABLE", true);
        }
        start.elapsed()
    }

    async fn health(&self) -> i32 {
        let mut health = HealthClient::new(self.service.channel().await);
        let check = health.check(HealthCheckRequest::default());
        with_timeout(check)
            .await
            .expect("an answer")
            .into_inner()
            .status
    }

    async fn wait_for_health(&self, status: i32) {
        wait_until(
            "the health check reports the state of the store",
            async || self.health().await == status,
        )
        .await;
    }

    /// Checks that the broker recovers. The leases from before the outage are still held, and the broker opens no more
    /// connections than its pool and the probe need. `connections`: the number that were opened before the recovery.
    async fn assert_recovery(self, lease_ids: &[String], connections: usize) {
        let start = Instant::now();
        self.wait_for_health(SERVING).await;
        let lease_ids: Vec<&str> = lease_ids.iter().map(String::as_str).collect();
        let calls = lease_ids.iter().map(|id| {
            let (client, id) = (self.client.clone(), (*id).to_owned());
            async move {
                let ids = [&*id];
                let held = retry_while_unavailable(|| client.try_heartbeat(&ids, None)).await;
                assert_eq!(held[0].outcome, 1, "the lease is still held");
                let completion = || client.try_complete(vec![completion(&id, &[])]);
                let completed = retry_while_unavailable(completion).await;
                assert_eq!(completed[0].outcome, 1, "the lease is completed");
            }
        });
        with_timeout(join_all(calls)).await;
        let opened = self.proxy.accepted() - connections;
        // A probe that takes longer than two seconds, as on a busy server, opens a new connection.
        let slow_probes = usize::try_from(start.elapsed().as_secs() / 2).expect("a short time");
        assert!(
            opened <= CONNECTIONS + 1 + slow_probes,
            "{opened} connections were opened"
        );
        let done = "SELECT COUNT(*) FROM work WHERE lease_state = 3 AND lease_fence = 1 AND payload <> N'10'";
        let done = self.program.number(done).await;
        assert_eq!(usize::try_from(done), Ok(lease_ids.len()));
        self.service.stop().await;
    }
}

async fn call_of_kind(client: &Client, at: usize, id: &str) -> Result<usize, Status> {
    match at % 5 {
        0 => client
            .try_claim(client.claim_request(1))
            .await
            .map(|leases| leases.len()),
        1 => client
            .try_heartbeat(&[id], None)
            .await
            .map(|results| results.len()),
        2 => client
            .try_complete(vec![completion(id, &[])])
            .await
            .map(|results| results.len()),
        3 => client
            .try_release(&[id], None)
            .await
            .map(|results| results.len()),
        // A waiting claim fails too.
        _ => {
            let wait = client.waiting_claim_request(1, Duration::from_secs(20));
            client.try_claim(wait).await.map(|leases| leases.len())
        }
    }
}

/// Returns ten leases, and an eleventh for the calls that fail. The outcome of those calls is unknown, so the tests do not
/// check that lease.
async fn leases(client: &Client) -> (Vec<String>, String) {
    let items: Vec<_> = (0..11).map(|at| item(&format!("{at}"))).collect();
    let keys = retry_while_unavailable(|| client.try_enqueue(items.clone())).await;
    assert_eq!(keys.len(), 11);
    let leases = retry_while_unavailable(|| client.try_claim(client.claim_request(11))).await;
    let mut leases: Vec<String> = lease_ids(&leases).into_iter().map(str::to_owned).collect();
    let spare = leases.pop().expect("eleven leases");
    (leases, spare)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_fail_calls_before_the_timeout() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let (leases, spare) = leases(&test.client).await;
    assert_eq!(test.health().await, SERVING);
    test.proxy.refuse(true);
    test.proxy.cut();
    let took = test.assert_calls_fail(&spare).await;
    assert!(took < TEST_TIMEOUT / 2, "{took:?}");
    test.wait_for_health(NOT_SERVING).await;
    let took = test.assert_calls_fail(&spare).await;
    assert!(took < TEST_TIMEOUT / 2, "{took:?}");
    // During the outage only the probe connects to the server, at most twice per second.
    let (start, before) = (Instant::now(), test.proxy.accepted());
    wait_until("the probe connects three times", async || {
        test.proxy.accepted() >= before + 3
    })
    .await;
    let probes = test.proxy.accepted() - before;
    let most = 2 + usize::try_from(start.elapsed().as_millis() / 400).expect("a short time");
    assert!(probes <= most, "{probes} connections, at most {most}");
    let before = test.proxy.accepted();
    test.proxy.restore();
    test.assert_recovery(&leases, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_server_fails_calls_in_time_then_immediately() {
    let Some(test) = TestBroker::with_settings(|string| Settings::new(string)).await else {
        return;
    };
    let (leases, spare) = leases(&test.client).await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        test.proxy.stall(direction, true);
    }
    let first = test.assert_calls_fail(&spare).await;
    assert_eq!(test.health().await, NOT_SERVING);
    // These calls do not wait for the server.
    let second = test.assert_calls_fail(&spare).await;
    assert!(second < first / 2, "{first:?}, then {second:?}");
    // As after a failover, the old connections are dead and the server accepts new ones.
    let before = test.proxy.accepted();
    test.proxy.cut_and_restore();
    test.assert_recovery(&leases, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_broken_connections_are_replaced_without_errors() {
    let Some(test) = TestBroker::start().await else {
        return;
    };
    let (leases, _) = leases(&test.client).await;
    let before = test.proxy.accepted();
    test.proxy.cut();
    test.assert_recovery(&leases, before).await;
}
