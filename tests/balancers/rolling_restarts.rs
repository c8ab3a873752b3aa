//! Brokers are restarted one after the other, while two clients work through a load balancer: one that repeats calls by the
//! service config in `deploy`, and one that repeats nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::balancers::balancer::{Balancer, Kind};
use crate::balancers::fleet;
use crate::balancers::load::{Load, Seen};
use crate::support::database::open;
use crate::support::earlier_program::earlier_program;
use crate::support::process::PROGRAM;
use crate::support::skipped::skipped;
use crate::support::tools::{generate_python_client, python_with_grpc};

const SERVICE_CONFIG: &str = include_str!("../../deploy/service-config-balancer.json");
const SETTINGS: &str = "
server.drain_delay = '3s'
server.max_connection_age = '0s'
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '15s'
";
/// The number of restarts, of all brokers together.
const RESTARTS: usize = 6;
/// The time between two restarts. A load balancer takes a broker back in meanwhile.
const PAUSE: Duration = Duration::from_secs(2);

/// Restarts brokers in turn. Returns the calls of the client with a policy and of the one without, or `None` if a program is
/// missing.
async fn restart_in_turn(kind: Kind, signal: &str, brokers: usize) -> Option<[Seen; 2]> {
    let program = Path::new(PROGRAM);
    restart_as(kind, signal, brokers, [program; 2]).await
}

/// Starts brokers of the first program. Does the same as [`restart_in_turn`], each round with the other program.
async fn restart_as(
    kind: Kind,
    signal: &str,
    count: usize,
    programs: [&Path; 2],
) -> Option<[Seen; 2]> {
    if !kind.is_installed() {
        return None;
    }
    let Some(python) = python_with_grpc() else {
        skipped("no Python with grpcio and grpcio-tools; name one in LEASE_BROKER_TEST_PYTHON");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    generate_python_client(&python, folder.path());
    let (mut brokers, addresses) = fleet::start(folder.path(), programs[0], SETTINGS, count);
    let balancer = Balancer::start(kind, &addresses, folder.path()).await;
    // The load balancer checks the brokers for the first time.
    tokio::time::sleep(PAUSE).await;
    let address = balancer.address.to_string();
    let clients = [SERVICE_CONFIG, ""]
        .map(|service_config| Load::start(&python, folder.path(), &address, service_config));
    for round in 1..=RESTARTS / count {
        for broker in &mut brokers {
            tokio::time::sleep(PAUSE).await;
            broker.restart(signal, programs[round % 2]);
        }
    }
    tokio::time::sleep(PAUSE).await;
    let seen = clients.map(Load::stop);
    for (client, seen) in ["with a policy", "without"].iter().zip(&seen) {
        eprintln!(
            "{kind:?} {signal}, client {client}: {} of {} calls failed: {:?}",
            seen.failures.len(),
            seen.calls,
            by_method_and_code(seen)
        );
        // A slow machine makes few calls, but each restart must have met some.
        assert!(seen.calls > 20 * RESTARTS, "{} calls", seen.calls);
    }
    assert_nothing_is_lost(&folder.path().join("q.db"), &seen);
    Some(seen)
}

fn by_method_and_code(seen: &Seen) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (method, code, details) in &seen.failures {
        *counts
            .entry(format!("{method} {code} {details}"))
            .or_insert(0) += 1;
    }
    counts
}

/// Every acknowledged item is in the table once, and no item was completed twice.
fn assert_nothing_is_lost(database: &Path, seen: &[Seen; 2]) {
    let connection = open(database);
    let mut statement = connection
        .prepare("SELECT payload FROM work")
        .expect("a table");
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    let rows: Vec<String> = rows
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("texts");
    let distinct: BTreeSet<&String> = rows.iter().collect();
    assert_eq!(distinct.len(), rows.len(), "no item was added twice");
    for payload in seen.iter().flat_map(|seen| &seen.added) {
        assert!(distinct.contains(payload), "{payload} is lost");
    }
    let completed: Vec<&String> = seen.iter().flat_map(|seen| &seen.completed).collect();
    let distinct: BTreeSet<&&String> = completed.iter().collect();
    assert_eq!(
        distinct.len(),
        completed.len(),
        "no item was completed twice"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_hides_restarts_from_every_client() {
    let Some([with_policy, without]) = restart_in_turn(Kind::Haproxy, "TERM", 3).await else {
        return;
    };
    assert_eq!(with_policy.failures, []);
    assert_eq!(without.failures, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_and_downgrades_behind_haproxy_lose_nothing() {
    let Some(earlier) = earlier_program() else {
        return;
    };
    let programs = [&earlier, Path::new(PROGRAM)];
    let Some(seen) = restart_as(Kind::Haproxy, "TERM", 2, programs).await else {
        return;
    };
    for seen in seen {
        assert_eq!(seen.failures, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_and_a_policy_hide_killed_brokers() {
    let Some([with_policy, _]) = restart_in_turn(Kind::Haproxy, "KILL", 2).await else {
        return;
    };
    // haproxy 2.6 ends the rest of such a response without trailers.
    assert_only_cut_responses(&with_policy, "UNKNOWN", "Data frame with END_STREAM");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_and_a_policy_hide_restarts() {
    let Some([with_policy, without]) = restart_in_turn(Kind::Nginx, "TERM", 3).await else {
        return;
    };
    assert_eq!(with_policy.failures, []);
    // nginx does not see that a broker drains.
    let failed = without.failures.len();
    assert!(failed * 1_000 <= without.calls.max(3_000), "{failed}");
    for (_, code, _) in &without.failures {
        assert_eq!(code, "UNAVAILABLE");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_and_a_policy_hide_killed_brokers() {
    let Some([with_policy, _]) = restart_in_turn(Kind::Nginx, "KILL", 2).await else {
        return;
    };
    // nginx resets the stream of such a response.
    assert_only_cut_responses(&with_policy, "INTERNAL", "RST_STREAM");
}

/// Checks that no call has failed except those whose broker died between two packets of the response. A client cannot repeat
/// such a call by its policy, because it has received a part of the response.
fn assert_only_cut_responses(client: &Seen, code: &str, details: &str) {
    let is_cut =
        |failure: &&(String, String, String)| failure.1 == code && failure.2.contains(details);
    let (cut, others): (Vec<_>, Vec<_>) = client.failures.iter().partition(is_cut);
    assert_eq!(others, Vec::<&(String, String, String)>::new());
    assert!(cut.len() <= 2, "{cut:?}");
}
