//! A broker whose server is away for some seconds: what its callers are told and how soon, and what is left when it is back.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::mssql::MssqlHarness;
use crate::program::{Program, start};
use crate::proxy::{Proxy, Way};
use crate::service::{CONNECTIONS, Service, patiently};
use crate::support::api_error::assert_api_error;
use crate::support::client::{Client, completion, item, lease_ids};
use crate::support::timeout::{wait_until, with_timeout};

const CALLERS: usize = 50;
const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

struct Site {
    service: Service,
    proxy: Proxy,
    program: Program,
    client: Client,
    _harness: MssqlHarness,
}

impl Site {
    async fn start() -> Option<Self> {
        let (harness, program) = start().await?;
        let proxy = Proxy::before(&program.connection_string).await;
        let service = Service::start(proxy.connection_string()).await;
        let client = service.client().await;
        Some(Self {
            service,
            proxy,
            program,
            client,
            _harness: harness,
        })
    }

    /// Calls of every kind at once, each from a task of its own; each must be told that the store is away.
    async fn call_in_vain(&self, lease_id: &str) -> Duration {
        let start = Instant::now();
        let calls = (0..CALLERS).map(|at| {
            let (client, id) = (self.client.clone(), lease_id.to_owned());
            tokio::spawn(async move { one(&client, at, &id).await })
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

    async fn until_health_is(&self, status: i32) {
        wait_until("health follows the store", async || {
            self.health().await == status
        })
        .await;
    }

    /// Everything works again: the leases that were given before are still good, and no more connections are opened than
    /// the pool and the probe need.
    async fn comes_back(self, lease_ids: &[String], connections: usize) {
        let start = Instant::now();
        self.until_health_is(SERVING).await;
        let lease_ids: Vec<&str> = lease_ids.iter().map(String::as_str).collect();
        let calls = lease_ids.iter().map(|id| {
            let (client, id) = (self.client.clone(), (*id).to_owned());
            async move {
                let ids = [&*id];
                let held = patiently(|| client.try_heartbeat(&ids, None)).await;
                assert_eq!(held[0].outcome, 1, "the lease is still good");
                let completion = || client.try_complete(vec![completion(&id, &[])]);
                let completed = patiently(completion).await;
                assert_eq!(completed[0].outcome, 1, "the lease is completed");
            }
        });
        with_timeout(join_all(calls)).await;
        let opened = self.proxy.accepted() - connections;
        // A probe that takes longer than two seconds, as on a server under load, dials anew.
        let slow_probes = usize::try_from(start.elapsed().as_secs() / 2).expect("a short time");
        assert!(
            opened <= CONNECTIONS + 1 + slow_probes,
            "{opened} connections"
        );
        let done = "SELECT COUNT(*) FROM work WHERE lease_state = 3 AND lease_fence = 1 AND payload <> N'10'";
        let done = self.program.number(done).await;
        assert_eq!(usize::try_from(done), Ok(lease_ids.len()));
        self.service.stop().await;
    }
}

async fn one(client: &Client, at: usize, id: &str) -> Result<usize, Status> {
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
        // Long polls hear of it too.
        _ => {
            let wait = client.waiting_claim_request(1, Duration::from_secs(20));
            client.try_claim(wait).await.map(|leases| leases.len())
        }
    }
}

/// Ten leases, given while all is well, and one for calls in vain: what becomes of it nobody is told.
async fn leases(client: &Client) -> (Vec<String>, String) {
    let items: Vec<_> = (0..11).map(|at| item(&format!("{at}"))).collect();
    let keys = patiently(|| client.try_enqueue(items.clone())).await;
    assert_eq!(keys.len(), 11);
    let leases = patiently(|| client.try_claim(client.claim_request(11))).await;
    let mut leases: Vec<String> = lease_ids(&leases).into_iter().map(str::to_owned).collect();
    let spare = leases.pop().expect("eleven leases");
    (leases, spare)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_fail_calls_within_a_second() {
    let Some(site) = Site::start().await else {
        return;
    };
    let (leases, spare) = leases(&site.client).await;
    assert_eq!(site.health().await, SERVING);
    site.proxy.refuse(true);
    site.proxy.cut();
    let took = site.call_in_vain(&spare).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    site.until_health_is(NOT_SERVING).await;
    let took = site.call_in_vain(&spare).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    // While it is away it is asked now and then, and by one alone.
    let before = site.proxy.accepted();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = site.proxy.accepted() - before;
    assert!(
        (1..=5).contains(&asked),
        "{asked} connections in two seconds"
    );
    let before = site.proxy.accepted();
    site.proxy.clear_up();
    site.comes_back(&leases, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_server_fails_calls_in_eight_seconds_then_immediately() {
    let Some(site) = Site::start().await else {
        return;
    };
    let (leases, spare) = leases(&site.client).await;
    for way in [Way::ToServer, Way::ToClient] {
        site.proxy.stall(way, true);
    }
    let took = site.call_in_vain(&spare).await;
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(site.health().await, NOT_SERVING);
    let took = site.call_in_vain(&spare).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    // As after a failover: the old connections are dead, new ones are taken.
    let before = site.proxy.accepted();
    site.proxy.clear_up_after_cut();
    site.comes_back(&leases, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_broken_connections_are_replaced_without_errors() {
    let Some(site) = Site::start().await else {
        return;
    };
    let (leases, _) = leases(&site.client).await;
    let before = site.proxy.accepted();
    site.proxy.cut();
    site.comes_back(&leases, before).await;
}
