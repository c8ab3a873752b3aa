//! Brokers that do not answer, behind a load balancer: clients in each language get a status that says so and that their
//! retry policies know, in time, and with the broker's reason if there is one.

use std::path::Path;

use tonic::Code;
use tonic::transport::Endpoint;

use crate::balancers::balancer::{Balancer, Kind};
use crate::balancers::fleet::{self, Addresses, Member};
use crate::balancers::load::{Language, Load};
use crate::support::client::Client;
use crate::support::database::WriteLock;
use crate::support::http::is_ready;
use crate::support::ports::free_port;
use crate::support::process::PROGRAM;
use crate::support::timeout::{wait_until, with_timeout};

const SETTINGS: &str = "
server.max_connection_age = '0s'
[queues.work]
managed_columns = { payload = 'text' }
";
/// The number of calls that are sent at the same time to two brokers.
const CALLS: usize = 8;

/// In each language, every call of a client without a retry policy must fail with UNAVAILABLE and this text.
fn assert_unavailable(languages: &[Language], balancer: &Balancer, text: &str) {
    let address = balancer.address.to_string();
    let start = |language| {
        let mut client = Load::start(language, &address, "");
        client.wait_for_a_call();
        client
    };
    let clients: Vec<Load> = languages.iter().map(start).collect();
    for (language, client) in languages.iter().zip(clients) {
        let seen = client.stop();
        assert_eq!(seen.failures.len(), seen.calls, "{}", language.name());
        for failure in seen.failures {
            assert_eq!(
                failure.code(),
                Code::Unavailable,
                "{language:?} {failure:?}"
            );
            assert!(failure.2.contains(text), "{language:?} {failure:?}");
        }
    }
}

async fn no_broker_answers(kind: Kind, text: &str) {
    if !kind.is_installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let languages = Language::build_all(folder.path());
    let nothing = || Addresses {
        grpc: free_port(),
        admin: free_port(),
    };
    let balancer = Balancer::start(kind, &[nothing(), nothing()], folder.path()).await;
    assert_unavailable(&languages, &balancer, text);
}

#[tokio::test]
async fn without_a_broker_nginx_answers_unavailable() {
    no_broker_answers(Kind::Nginx, "no broker answers").await;
}

#[tokio::test]
async fn without_a_broker_haproxy_answers_unavailable() {
    no_broker_answers(Kind::Haproxy, "").await;
}

/// Starts two brokers and a load balancer, which has seen that both are ready.
async fn start(kind: Kind, folder: &Path) -> (Vec<Member>, Vec<Addresses>, Balancer) {
    let (brokers, addresses) = fleet::start(folder, Path::new(PROGRAM), SETTINGS, 2);
    let balancer = Balancer::start(kind, &addresses, folder).await;
    if kind == Kind::Haproxy {
        wait_until("haproxy sees the brokers", async || {
            balancer.takes_all_for("UP")
        })
        .await;
    }
    (brokers, addresses, balancer)
}

fn client_of(balancer: &Balancer) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{}", balancer.address));
    let endpoint = endpoint.expect("a URL");
    Client::new(endpoint.connect_lazy(), "work")
}

#[tokio::test]
async fn callers_behind_haproxy_hear_why_a_database_is_out() {
    if !Kind::Haproxy.is_installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let languages = Language::build_all(folder.path());
    let (_brokers, addresses, balancer) = start(Kind::Haproxy, folder.path()).await;
    let lock = WriteLock::acquire(&folder.path().join("q.db"));
    let client = client_of(&balancer);
    wait_until("haproxy takes both brokers for down", async || {
        // A broker notices an outage by calls.
        if addresses.iter().any(|address| is_ready(address.admin)) {
            for _ in 0..CALLS {
                client.start_enqueue();
            }
            return false;
        }
        balancer.takes_all_for("DOWN")
    })
    .await;
    assert_unavailable(&languages, &balancer, "the store is unavailable");
    drop(lock);
    wait_until("calls are served again", async || {
        client.start_enqueue().await.expect("a task").is_ok()
    })
    .await;
}

/// Stops one of two brokers with SIGSTOP, and sends calls. Returns how many have failed.
async fn calls_to_a_frozen_broker(kind: Kind) -> Option<usize> {
    if !kind.is_installed() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (brokers, _, balancer) = start(kind, folder.path()).await;
    let client = client_of(&balancer);
    let start_calls = || -> Vec<_> { (0..CALLS).map(|_| client.start_enqueue()).collect() };
    // The load balancer opens connections to both brokers.
    for call in start_calls() {
        call.await.expect("a task").expect("the call succeeds");
    }
    brokers[0].signal("STOP");
    // These calls have no deadline.
    let mut failures = 0;
    for call in start_calls() {
        match with_timeout(call).await.expect("a task") {
            Ok(_) => {}
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                failures += 1;
            }
        }
    }
    eprintln!("{kind:?}: {failures} of {CALLS} calls failed");
    assert!(failures < CALLS, "the other broker serves calls");
    Some(failures)
}

#[tokio::test]
async fn nginx_ends_calls_of_a_frozen_broker() {
    let failures = calls_to_a_frozen_broker(Kind::Nginx).await;
    assert!(failures.is_none_or(|failures| failures > 0));
}

#[tokio::test]
async fn haproxy_ends_calls_of_a_frozen_broker() {
    // None has failed if haproxy has noticed before the first call.
    calls_to_a_frozen_broker(Kind::Haproxy).await;
}
