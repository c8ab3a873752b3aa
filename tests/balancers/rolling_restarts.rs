//! Brokers are restarted one after the other, while clients in several languages work through a load balancer: in each
//! language one that repeats calls by the service config in `deploy`, and one that repeats nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use tonic::Code;

use crate::balancers::balancer::{Balancer, Kind};
use crate::balancers::fleet;
use crate::balancers::load::{Failure, Language, Load, Seen};
use crate::support::database::open;
use crate::support::earlier_program::earlier_program;
use crate::support::process::PROGRAM;
use crate::support::timeout::wait_until;

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

/// Language, status and message of a call whose response was cut.
const CUT_RESPONSES: [(&str, Code, &str); 8] = [
    ("python", Code::Unknown, "Data frame with END_STREAM"),
    ("python", Code::Internal, "RST_STREAM"),
    (
        "go",
        Code::Internal,
        "server closed the stream without sending trailers",
    ),
    ("go", Code::Internal, "RST_STREAM"),
    ("java", Code::Internal, "trailers"),
    ("java", Code::Internal, "RST_STREAM"),
    ("node", Code::Unknown, "trailers"),
    ("node", Code::Internal, "RST_STREAM"),
];

/// What the clients have seen.
struct Clients {
    /// Those with a retry policy, by language.
    with_policy: Vec<(&'static str, Seen)>,
    /// Those without.
    without: Vec<(&'static str, Seen)>,
}

impl Clients {
    fn all(&self) -> impl Iterator<Item = &(&'static str, Seen)> {
        self.with_policy.iter().chain(&self.without)
    }
}

/// Restarts brokers in turn. Returns what the clients have seen, or `None` if a program is missing.
async fn restart_in_turn(kind: Kind, signal: &str, brokers: usize) -> Option<Clients> {
    let program = Path::new(PROGRAM);
    restart_as(kind, signal, brokers, [program; 2]).await
}

/// Starts brokers of the first program. Does the same as [`restart_in_turn`], each round with the other program.
async fn restart_as(
    kind: Kind,
    signal: &str,
    count: usize,
    programs: [&Path; 2],
) -> Option<Clients> {
    if !kind.is_installed() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let languages = Language::build_all(folder.path());
    if languages.is_empty() {
        return None;
    }
    let (mut brokers, addresses) = fleet::start(folder.path(), programs[0], SETTINGS, count);
    let balancer = Balancer::start(kind, &addresses, folder.path()).await;
    if kind == Kind::Haproxy {
        wait_until("haproxy sees the brokers", async || {
            balancer.takes_all_for("UP")
        })
        .await;
    }
    let address = balancer.address.to_string();
    let [mut with_policy, mut without] = [SERVICE_CONFIG, ""].map(|service_config| {
        let start = |language| Load::start(language, &address, service_config);
        languages.iter().map(start).collect::<Vec<Load>>()
    });
    for client in with_policy.iter_mut().chain(&mut without) {
        client.wait_for_a_call();
    }
    for round in 1..=RESTARTS / count {
        for broker in &mut brokers {
            tokio::time::sleep(PAUSE).await;
            broker.restart(signal, programs[round % 2]);
        }
    }
    tokio::time::sleep(PAUSE).await;
    let stop = |clients: Vec<Load>| {
        let seen = clients.into_iter().map(Load::stop);
        languages.iter().map(Language::name).zip(seen).collect()
    };
    let clients = Clients {
        with_policy: stop(with_policy),
        without: stop(without),
    };
    for (policy, clients) in [
        ("with a policy", &clients.with_policy),
        ("without", &clients.without),
    ] {
        for (language, seen) in clients {
            eprintln!(
                "{kind:?} {signal}, {language} {policy}: {} of {} calls failed: {:?}",
                seen.failures.len(),
                seen.calls,
                by_rpc_and_code(seen)
            );
            // A slow machine makes few calls, but each restart must have met some.
            assert!(
                seen.calls > 20 * RESTARTS,
                "{language}: {} calls",
                seen.calls
            );
        }
    }
    assert_nothing_is_lost(&folder.path().join("q.db"), &clients);
    Some(clients)
}

fn by_rpc_and_code(seen: &Seen) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for failure in &seen.failures {
        let text = format!("{} {:?} {}", failure.0, failure.code(), failure.2);
        *counts.entry(text).or_insert(0) += 1;
    }
    counts
}

/// Every acknowledged item is in the table once, and no item was completed twice.
fn assert_nothing_is_lost(database: &Path, clients: &Clients) {
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
    for payload in clients.all().flat_map(|(_, seen)| &seen.added) {
        assert!(distinct.contains(payload), "{payload} is lost");
    }
    let completed: Vec<&String> = clients
        .all()
        .flat_map(|(_, seen)| &seen.completed)
        .collect();
    let distinct: BTreeSet<&&String> = completed.iter().collect();
    assert_eq!(
        distinct.len(),
        completed.len(),
        "no item was completed twice"
    );
}

fn assert_no_call_failed(clients: &[(&'static str, Seen)]) {
    for (language, seen) in clients {
        assert_eq!(seen.failures, [], "{language}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_hides_restarts_from_every_client() {
    let Some(clients) = restart_in_turn(Kind::Haproxy, "TERM", 3).await else {
        return;
    };
    assert_no_call_failed(&clients.with_policy);
    assert_no_call_failed(&clients.without);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_and_downgrades_behind_haproxy_lose_nothing() {
    let Some(earlier) = earlier_program() else {
        return;
    };
    let programs = [&earlier, Path::new(PROGRAM)];
    let Some(clients) = restart_as(Kind::Haproxy, "TERM", 2, programs).await else {
        return;
    };
    assert_no_call_failed(&clients.with_policy);
    assert_no_call_failed(&clients.without);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_and_a_policy_hide_killed_brokers() {
    let Some(clients) = restart_in_turn(Kind::Haproxy, "KILL", 2).await else {
        return;
    };
    assert_only_cut_responses(&clients.with_policy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_and_a_policy_hide_restarts() {
    let Some(clients) = restart_in_turn(Kind::Nginx, "TERM", 3).await else {
        return;
    };
    assert_no_call_failed(&clients.with_policy);
    // nginx does not see that a broker drains, so a restart can cost a client the calls that it sends at that moment. On a slow
    // machine the moment is longer.
    for (language, seen) in &clients.without {
        let failed = seen.failures.len();
        assert!(
            failed * 20 <= seen.calls,
            "{language}: {failed} of {}",
            seen.calls
        );
        for failure in &seen.failures {
            assert_eq!(failure.code(), Code::Unavailable, "{language}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_and_a_policy_hide_killed_brokers() {
    let Some(clients) = restart_in_turn(Kind::Nginx, "KILL", 2).await else {
        return;
    };
    assert_only_cut_responses(&clients.with_policy);
}

/// Checks that no call has failed except those whose broker died between two packets of the response. A client cannot repeat
/// such a call by its policy, because it has received a part of the response. haproxy 2.6 ends the rest of such a response
/// without trailers, and nginx resets its stream.
fn assert_only_cut_responses(clients: &[(&'static str, Seen)]) {
    for (language, seen) in clients {
        let is_cut = |failure: &&Failure| {
            let texts = CUT_RESPONSES.iter();
            texts
                .filter(|(of, ..)| of == language)
                .any(|(_, code, text)| failure.code() == *code && failure.2.contains(text))
        };
        let (cut, others): (Vec<_>, Vec<_>) = seen.failures.iter().partition(is_cut);
        assert_eq!(others, Vec::<&Failure>::new(), "{language}");
        assert!(cut.len() <= 2, "{language}: {cut:?}");
    }
}
