//! Tests of `/metrics`: the documented names, the values, the labels, and the files that use the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lease_broker_proto::{ClaimBatchRequest, CompleteRequest, NextClaim};
use regex::Regex;
use tonic::client::Grpc;

use crate::command_line::workspace::Workspace;
use crate::support::client::{Client, completion, duration};
use crate::support::database::WriteLock;
use crate::support::http::get;
use crate::support::ports::free_port;
use crate::support::raw_call::send;
use crate::support::skipped::skipped;
use crate::support::timeout::{wait_until, wait_until_blocking, with_timeout};

const CONFIGURATION: &str = "
admin.listen = '127.0.0.1:0'
telemetry.stats_interval = '100ms'
# Nothing answers there. The metrics of the export exist only with an address.
telemetry.endpoint = 'http://127.0.0.1:1'
[queues.work]
managed_columns = { payload = 'text' }
max_attempts = 1
max_lease_age = '1s'
[queues.outbox]
managed_columns = { payload = 'text' }
[queues.orders]
managed_columns = { payload = 'text' }
max_attempts = 1
group = { column = 'payload', on_dead = 'halt' }
";

fn serving() -> (Workspace, Client, SocketAddr) {
    let mut workspace = Workspace::with(CONFIGURATION);
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let client = Client::new(process.channel(), "work");
    (workspace, client, admin)
}

/// Returns the value of each series.
fn series(admin: SocketAddr) -> BTreeMap<String, f64> {
    let text = get(admin, "/metrics").body;
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.filter_map(|line| line.rsplit_once(' '));
    samples
        .map(|(series, value)| (series.to_owned(), value.parse().expect("a number")))
        .collect()
}

/// Works so that every metric has a value: items are completed, failed, lost, expired, and one lease becomes too old.
async fn work(client: &Client, admin: SocketAddr) {
    client.enqueue(&["a", "b", "c", "d", "e"]).await;
    let claim = |lease| ClaimBatchRequest {
        lease_duration: Some(duration(Duration::from_secs(lease))),
        ..client.claim_request(1)
    };
    let completed = client
        .try_claim(claim(60))
        .await
        .expect("a lease")
        .remove(0);
    let outbox = vec![completion(&completed.lease_id, &[("outbox", "x")])];
    client.try_complete(outbox).await.expect("it is completed");
    client.complete(&["nonsense"]).await;
    let failed = client
        .try_claim(claim(60))
        .await
        .expect("a lease")
        .remove(0);
    client.fail(&failed.lease_id, "no luck").await;
    client.complete(&[&failed.lease_id]).await;
    client.try_claim(claim(1)).await.expect("a lease");
    let request = ClaimBatchRequest {
        request_id: "0c1f2d6e-0b7c-4a57-9a3d-5f1e2b3c4d5e".to_owned(),
        ..claim(3_600)
    };
    client.try_claim(request.clone()).await.expect("a lease");
    // The claim that is sent again counts no lease.
    let held = client.try_claim(request).await;
    let held = held.expect("a lease").remove(0);
    let extended = client.try_heartbeat(&[&held.lease_id], None).await;
    extended.expect("it is extended");
    client.for_queue("orders").enqueue(&["ada"]).await;
    let unknown = client.for_queue("nowhere");
    let refused = unknown.try_claim(unknown.claim_request(1)).await;
    refused.expect_err("the queue is unknown");
    wait_until_blocking("a lease expires and one is too old", || {
        let series = series(admin);
        let expired = "lease_broker_lease_ended_total{lease_broker_lease_outcome=\"expired\",lease_broker_queue_name=\"work\"}";
        let old = "lease_broker_lease_over_age{lease_broker_queue_name=\"work\"}";
        let dead =
            "lease_broker_items{lease_broker_item_state=\"dead\",lease_broker_queue_name=\"work\"}";
        let groups =
            "lease_broker_group_oldest_head_age_seconds{lease_broker_queue_name=\"orders\"}";
        let at_least = |name: &str, count| series.get(name).is_some_and(|value| *value >= count);
        at_least(expired, 1.0) && at_least(old, 1.0) && at_least(dead, 2.0) && at_least(groups, 0.0)
    });
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(path).expect("a file of the project")
}

/// Returns the name and the type of each metric in the table of the documentation.
fn documented() -> BTreeMap<String, String> {
    let row =
        Regex::new(r"(?m)^\| `([a-z_]+)` \| (counter|gauge|histogram) \|").expect("a pattern");
    let text = file("docs/observability.md");
    let rows = row.captures_iter(&text);
    rows.map(|row| (row[1].to_owned(), row[2].to_owned()))
        .collect()
}

/// Returns the labels of each metric in the same table.
fn documented_labels() -> BTreeMap<String, BTreeSet<String>> {
    let row = Regex::new(r"(?m)^\| `([a-z_]+)` \| (?:counter|gauge|histogram) \|([a-z_, ]*)\|");
    let text = file("docs/observability.md");
    let row = row.expect("a pattern");
    let labels = |text: &str| {
        let labels = text.split(',').map(str::trim);
        let labels = labels.filter(|label| !label.is_empty());
        labels.map(str::to_owned).collect()
    };
    row.captures_iter(&text)
        .map(|row| (row[1].to_owned(), labels(&row[2])))
        .collect()
}

#[tokio::test]
async fn labels_are_those_of_the_documentation() {
    let (_workspace, client, admin) = serving();
    work(&client, admin).await;
    let documented = documented_labels();
    let label = Regex::new(r#"([a-z_]+)=""#).expect("a pattern");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for series in series(admin).into_keys() {
        let (name, labels) = series.split_once('{').unwrap_or((&series, ""));
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        let name = histogram.unwrap_or(name);
        let labels = label.captures_iter(labels).map(|label| label[1].to_owned());
        let labels = labels.filter(|label| label != "le");
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found.remove("target_info");
    for (name, mut labels) in found {
        // Nothing fails here.
        let mut expected = documented[&name].clone();
        expected.remove("error_type");
        labels.remove("error_type");
        assert_eq!(labels, expected, "{name}");
    }
}

#[tokio::test]
async fn metrics_are_those_of_the_documentation() {
    let (_workspace, client, admin) = serving();
    work(&client, admin).await;
    let text = get(admin, "/metrics").body;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeMap<String, String> = types
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| *name != "target_info")
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    let mut documented = documented();
    // No claim on SQLite waits for its turn, so the histogram has no series.
    documented.remove("lease_broker_claim_turn_wait_duration_seconds");
    assert_eq!(exported, documented);
}

#[tokio::test]
async fn counters_show_what_was_done() {
    let (_workspace, client, admin) = serving();
    work(&client, admin).await;
    let series = series(admin);
    let queue = "lease_broker_queue_name=\"work\"";
    for (name, value) in [
        (format!("lease_claimed_total{{{queue}}}"), 4.0),
        (format!("lease_extended_total{{{queue}}}"), 1.0),
        (
            format!("lease_ended_total{{lease_broker_lease_outcome=\"completed\",{queue}}}"),
            1.0,
        ),
        (
            format!("lease_ended_total{{lease_broker_lease_outcome=\"failed\",{queue}}}"),
            1.0,
        ),
        (
            format!("lease_ended_total{{lease_broker_lease_outcome=\"released\",{queue}}}"),
            0.0,
        ),
        (
            format!("lease_ended_total{{lease_broker_lease_outcome=\"expired\",{queue}}}"),
            1.0,
        ),
        (
            format!("item_dead_total{{lease_broker_item_dead_cause=\"failed\",{queue}}}"),
            1.0,
        ),
        (
            format!("item_dead_total{{lease_broker_item_dead_cause=\"expired\",{queue}}}"),
            1.0,
        ),
        (format!("item_enqueued_total{{{queue}}}"), 5.0),
        (
            "item_enqueued_total{lease_broker_queue_name=\"outbox\"}".to_owned(),
            1.0,
        ),
        (format!("lease_id_unknown_total{{{queue}}}"), 1.0),
        (
            format!(
                "settlement_refused_total{{{queue},lease_broker_settlement_operation=\"complete\",lease_broker_settlement_reason=\"lost\"}}"
            ),
            1.0,
        ),
        (
            format!("items{{lease_broker_item_state=\"ready\",{queue}}}"),
            1.0,
        ),
        (
            format!("items{{lease_broker_item_state=\"dead\",{queue}}}"),
            2.0,
        ),
        (format!("max_lease_age_seconds{{{queue}}}"), 1.0),
        (
            "call_refused_total{lease_broker_error_reason=\"QUEUE_NOT_FOUND\"}".to_owned(),
            1.0,
        ),
        ("store_up".to_owned(), 1.0),
    ] {
        let name = format!("lease_broker_{name}");
        assert_eq!(series.get(&name), Some(&value), "{name}: {series:#?}");
    }
    let claims = "rpc_server_call_duration_seconds_count{rpc_method=\"leasebroker.v1.LeaseService/ClaimBatch\",\
        rpc_response_status_code=\"OK\",rpc_system_name=\"grpc\"}";
    assert_eq!(series.get(claims), Some(&5.0), "{series:#?}");
    let offset = series["lease_broker_store_clock_offset_seconds"];
    assert!(offset.abs() < 10.0, "{offset}");
}

#[tokio::test]
async fn claims_without_a_lease_are_counted_by_their_reason() {
    let (workspace, client, admin) = serving();
    let count = |reason| {
        let labels =
            format!("lease_broker_held_back_reason=\"{reason}\",lease_broker_queue_name=\"work\"");
        series(admin)[&format!("lease_broker_claim_held_back_total{{{labels}}}")]
    };
    assert_eq!(client.claim(1).await.len(), 0);
    workspace.call("pause work --reason lunch");
    assert_eq!(client.claim(1).await.len(), 0);
    assert_eq!(client.claim(1).await.len(), 0);
    let counts = ["nothing_ready", "paused", "rate"].map(count);
    assert_eq!(counts.map(|count| count.to_string()), ["1", "2", "0"]);
}

#[tokio::test]
async fn groups_are_counted_by_their_state() {
    let (_workspace, client, admin) = serving();
    let orders = client.for_queue("orders");
    orders.enqueue(&["ada", "ada", "bob", "cyd"]).await;
    let lease = orders.claim_one().await;
    orders.fail(&lease.lease_id, "no luck").await;
    orders.claim_one().await;
    wait_until_blocking("the statistics are fresh", || {
        let series = series(admin);
        let count = |state| {
            let labels =
                format!("lease_broker_group_state=\"{state}\",lease_broker_queue_name=\"orders\"");
            series
                .get(&format!("lease_broker_groups{{{labels}}}"))
                .copied()
        };
        let counts = ["ready", "leased", "waiting", "halted", "paused"].map(count);
        counts == [1.0, 1.0, 0.0, 1.0, 0.0].map(Some)
    });
    let series = series(admin);
    let capped = "lease_broker_group_capped{lease_broker_queue_name=\"orders\"}";
    assert_eq!(series.get(capped), Some(&0.0), "{series:#?}");
    let without_groups =
        |name: &&String| name.starts_with("lease_broker_group") && name.contains("work");
    assert_eq!(series.keys().find(without_groups), None);
}

#[tokio::test]
async fn walks_over_many_busy_groups_are_counted() {
    /// More groups than a claim of one item looks at in one statement.
    const GROUPS: usize = 200;

    let (_workspace, client, admin) = serving();
    let orders = client.for_queue("orders");
    let names: Vec<String> = (0..GROUPS).map(|group| format!("group {group}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    orders.enqueue(&names).await;
    assert_eq!(orders.claim(200).await.len(), GROUPS);
    orders.enqueue(&names).await;
    assert_eq!(orders.claim(1).await.len(), 0);
    let series = series(admin);
    let count = |name| series[&format!("{name}{{lease_broker_queue_name=\"orders\"}}")];
    assert!(count("lease_broker_claim_walk_cut_total") >= 2.0);
    assert!(count("lease_broker_claim_groups_visited_total") >= 400.0);
}

#[tokio::test]
async fn refused_next_claim_is_counted_by_its_limit() {
    let mut workspace = Workspace::with(&format!("budgets.working_calls = 1\n{CONFIGURATION}"));
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let client = Client::new(process.channel(), "work");
    client.enqueue(&["a", "b"]).await;
    let lease = client.claim_one().await;
    let lock = WriteLock::acquire(&workspace.path("q.db"));
    let adding = client.start_enqueue();
    let statements = |operation| {
        let labels = format!("db_operation_name=\"{operation}\",lease_broker_queue_name=\"work\"");
        series(admin)[&format!("lease_broker_statements_total{{{labels}}}")]
    };
    wait_until("the item has the only place", async || {
        statements("enqueue") > 1.0
    })
    .await;
    let refused = |limit| {
        let labels = format!(
            "lease_broker_error_reason=\"OVERLOADED\",lease_broker_overload_limit=\"{limit}\""
        );
        series(admin)[&format!("lease_broker_call_refused_total{{{labels}}}")].to_string()
    };
    assert_eq!(refused("working_calls"), "0");
    let completing = tokio::spawn({
        let request = CompleteRequest {
            queue: client.queue.clone(),
            completions: vec![completion(&lease.lease_id, &[])],
            next: Some(NextClaim {
                worker_id: client.worker.clone(),
                max_items: 1,
                ..NextClaim::default()
            }),
        };
        let mut rpc = client.rpc.clone();
        async move { rpc.complete(request).await }
    });
    wait_until("the item is being completed", async || {
        statements("settle") > 0.0
    })
    .await;
    drop(lock);
    with_timeout(adding).await.expect("a task").expect("added");
    let completed = with_timeout(completing).await.expect("a task");
    let error = completed.expect("completed").into_inner().next_error;
    assert_eq!(error.expect("a refused claim").reason, "OVERLOADED");
    assert_eq!(refused("working_calls"), "1");
    assert_eq!(refused("waiting_claims"), "0");
}

#[tokio::test]
async fn call_of_an_unknown_rpc_is_counted() {
    let (mut workspace, _, admin) = serving();
    let process = workspace.process.as_mut().expect("a service");
    let mut grpc = Grpc::new(process.channel());
    for path in [
        "/leasebroker.v1.LeaseService/Steal",
        "/marker.Service/Steal",
    ] {
        let refused = send(&mut grpc, path, Vec::new()).await;
        refused.expect_err("the rpc is unknown");
    }
    let series = series(admin);
    let calls = "rpc_server_call_duration_seconds_count{error_type=\"UNIMPLEMENTED\",rpc_method=\"_OTHER\",\
        rpc_response_status_code=\"UNIMPLEMENTED\",rpc_system_name=\"grpc\"}";
    assert_eq!(series.get(calls), Some(&2.0), "{series:#?}");
    let refused = "lease_broker_call_refused_total{lease_broker_error_reason=\"RPC_UNKNOWN\"}";
    assert_eq!(series.get(refused), Some(&2.0), "{series:#?}");
}

#[tokio::test]
async fn clients_choose_no_label() {
    let (_workspace, client, admin) = serving();
    work(&client, admin).await;
    let before: BTreeSet<String> = series(admin).into_keys().collect();
    for number in 0..300 {
        let worker = client.as_worker(&format!("marker-{number}"));
        worker.enqueue(&["marker"]).await;
        let lease = worker.claim_one().await;
        worker.fail(&lease.lease_id, "marker").await;
        let queue = client.for_queue(&format!("marker-{number}"));
        let refused = queue.try_claim(queue.claim_request(1)).await;
        refused.expect_err("the queue is unknown");
    }
    let after: BTreeSet<String> = series(admin).into_keys().collect();
    let new: Vec<&String> = after.difference(&before).collect();
    assert!(new.iter().all(|name| !name.contains("marker")), "{new:?}");
    // A status code or a bucket can appear that did not occur before, but nothing for each call.
    assert!(new.len() < 60, "{new:?}");
}

/// Returns a configuration with this number of queues.
fn many_queues(number: usize, per_queue: &str) -> String {
    let queue = |index| format!("[queues.q{index}]\nmanaged_columns = {{ payload = 'text' }}\n");
    let queues: String = (0..number).map(queue).collect();
    format!("admin.listen = '127.0.0.1:0'\ntelemetry.per_queue = '{per_queue}'\n{queues}")
}

#[test]
fn every_queue_of_a_large_installation_is_shown() {
    // The SDK keeps 2,000 series unless it is told more. Five per queue are more.
    const QUEUES: usize = 401;
    for (per_queue, warns) in [("auto", true), ("essential", false), ("full", false)] {
        let mut workspace = Workspace::with(&many_queues(QUEUES, per_queue));
        workspace.serve();
        let process = workspace.process.as_mut().expect("a service");
        let admin = process.admin_address();
        let last = format!(
            "lease_broker_lease_claimed_total{{lease_broker_queue_name=\"q{}\"}}",
            QUEUES - 1
        );
        wait_until_blocking("the broker works", || series(admin).contains_key(&last));
        let series = series(admin);
        let shows = |name: &str| {
            let series = series.keys().filter(|series| series.starts_with(name));
            let labels = series.filter_map(|series| {
                series
                    .split_once("lease_broker_queue_name=\"")?
                    .1
                    .split('"')
                    .next()
            });
            labels.collect::<BTreeSet<_>>().len()
        };
        assert_eq!(shows("lease_broker_lease_ended_total"), QUEUES);
        let calls = shows("lease_broker_statement_calls_total");
        assert_eq!(calls, if per_queue == "full" { QUEUES } else { 0 });
        let sum = "lease_broker_statement_calls_total{db_operation_name=\"claim\"}";
        assert_eq!(series.contains_key(sum), per_queue != "full");
        assert!(
            !series
                .keys()
                .any(|name| name.contains("otel_metric_overflow"))
        );
        let log = workspace.process.as_ref().expect("a service").log();
        assert_eq!(log.contains("telemetry.per_queue"), warns, "{log}");
    }
}

#[tokio::test]
async fn share_of_a_large_table_is_no_number_of_items() {
    let (workspace, _client, admin) = serving();
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)
        INSERT INTO work (payload, lease_state) SELECT 'x', CASE WHEN n < 9000 THEN 0 ELSE 3 END FROM n";
    workspace.database().execute_batch(fill).expect(fill);
    let items = |state| {
        format!(
            "lease_broker_items{{lease_broker_item_state=\"{state}\",lease_broker_queue_name=\"work\"}}"
        )
    };
    wait_until_blocking("the items are counted", || {
        series(admin).get(&items("ready")) == Some(&8_999.0)
    });
    let series = series(admin);
    assert_eq!(series.get(&items("completed")), None);
    let capped = "lease_broker_item_capped{lease_broker_item_state=\"completed\",lease_broker_queue_name=\"work\"}";
    assert_eq!(series.get(capped), Some(&1.0));
}

#[tokio::test]
async fn locked_store_delays_no_scrape() {
    let (workspace, client, admin) = serving();
    let lock = WriteLock::acquire(&workspace.path("q.db"));
    let blocked = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .try_enqueue(vec![crate::support::client::item("x")])
                .await
        }
    });
    client.wait_until_received().await;
    assert_eq!(get(admin, "/metrics").status, 200);
    // A scrape that needs the lock would have waited as long as the call, which fails after some seconds.
    client.wait_until_received().await;
    assert!(!blocked.is_finished(), "the scrape waited for the lock");
    drop(lock);
    with_timeout(blocked)
        .await
        .expect("a task")
        .expect("the item is added");
}

#[tokio::test]
async fn watchdog_names_each_old_lease_once() {
    let (workspace, client, admin) = serving();
    client.enqueue(&["a", "b"]).await;
    let leases = client.claim(2).await;
    assert_eq!(leases.len(), 2);
    let old = "lease_broker_lease_over_age{lease_broker_queue_name=\"work\"}";
    wait_until_blocking("both leases are too old", || {
        series(admin).get(old) == Some(&2.0)
    });
    let ready = get(admin, "/readyz");
    assert_eq!(ready.status, 200);
    let queue = &ready.json()["queues"][0];
    assert_eq!(
        (&queue["queue"], &queue["over_age"]),
        (&"work".into(), &2.into())
    );
    // The next refreshes must not report the leases again.
    let refreshes = "db_client_operation_duration_seconds_count{db_operation_name=\"other\",db_system_name=\"sqlite\",\
        lease_broker_queue_name=\"work\"}";
    let now = series(admin)[refreshes];
    wait_until_blocking("it is refreshed", || series(admin)[refreshes] > now + 2.0);
    client
        .complete(&[&leases[0].lease_id, &leases[1].lease_id])
        .await;
    wait_until_blocking("no lease is too old", || {
        series(admin).get(old) == Some(&0.0)
    });
    let log = workspace.process.as_ref().expect("a service").log();
    let warnings = log
        .lines()
        .filter(|line| line.contains("older than max_lease_age"));
    assert_eq!(warnings.count(), 2, "{log}");
    assert!(
        log.contains("worker=\"worker\"") && log.contains("key=\"1\""),
        "{log}"
    );
}

#[test]
fn alerts_and_dashboard_use_documented_metrics() {
    let documented = documented();
    let labels: BTreeSet<String> = documented_labels().into_values().flatten().collect();
    let name =
        Regex::new(r"\b(?:lease_broker|rpc_server|db_client|process)_[a-z_]+").expect("a pattern");
    for path in [
        "deploy/prometheus/alerts.yml",
        "deploy/grafana/lease-broker.json",
        "docs/observability.md",
    ] {
        let text = file(path);
        let mut seen = 0;
        for name in name.find_iter(&text).map(|found| found.as_str()) {
            // A table of the broker, whose rights the page explains.
            if name == "lease_broker_instance" || labels.contains(name) {
                continue;
            }
            seen += 1;
            let histogram = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|suffix| name.strip_suffix(suffix))
                .any(|name| documented.get(name).is_some_and(|kind| kind == "histogram"));
            assert!(documented.contains_key(name) || histogram, "{path}: {name}");
        }
        assert!(seen >= 9, "{path} has only {seen} names");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&file("deploy/grafana/lease-broker.json")).expect("JSON");
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            assert!(name.is_match(query), "{panel}");
        }
    }
}

#[test]
fn each_alert_is_described_and_leads_to_a_section() {
    let alerts = file("deploy/prometheus/alerts.yml");
    let operations = file("docs/operations.md");
    let observability = file("docs/observability.md");
    let alerts: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 20, "{alerts:?}");
    for alert in alerts {
        let (name, rest) = alert.split_once('\n').expect("lines");
        let quoted = format!("`{name}`");
        for page in [&operations, &observability] {
            assert!(page.contains(&quoted), "{name}");
        }
        let (_, runbook) = rest.split_once("runbook: \"").expect("a runbook");
        let (runbook, _) = runbook.split_once('"').expect("a text");
        let (page, anchor) = runbook.split_once('#').expect("a section");
        let text = file(page);
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let mut anchors = headings.map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            words.replace('\'', "").replace(' ', "-")
        });
        assert!(anchors.any(|known| known == anchor), "{name}: {runbook}");
    }
}

/// Returns a command that runs a program of Prometheus, or `None` with a line that says so if it is not installed.
fn prometheus_program(name: &str) -> Option<Command> {
    let installed = Command::new(name).arg("--version").output().is_ok();
    if !installed {
        skipped(&format!("{name} is not installed"));
    }
    installed.then(|| Command::new(name))
}

#[tokio::test]
async fn promtool_accepts_the_metrics_and_the_alerts() {
    let Some(mut check) = prometheus_program("promtool") else {
        return;
    };
    let (_workspace, client, admin) = serving();
    work(&client, admin).await;
    let mut child = check
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let text = get(admin, "/metrics").body;
    let mut input = child.stdin.take().expect("standard input is piped");
    input
        .write_all(text.as_bytes())
        .expect("it reads the metrics");
    drop(input);
    let checked = child.wait_with_output().expect("promtool ends");
    assert!(checked.status.success(), "{checked:?}");
    let rules = Command::new("promtool")
        .args(["test", "rules", "deploy/prometheus/alerts.test.yml"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("promtool runs");
    assert!(rules.status.success(), "{rules:?}");
}

/// A Prometheus server that scrapes a broker every second. Dropping it kills the process.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn scraping(mut program: Command, admin: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let configuration = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: lease-broker\n    static_configs:\n      \
             - targets: ['{admin}']\n"
        );
        std::fs::write(&configuration, text).expect("a file");
        let address = free_port();
        let child = program
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus starts");
        wait_until_blocking("prometheus is ready", || {
            std::net::TcpStream::connect(address).is_ok() && get(address, "/-/ready").status == 200
        });
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    /// Returns the values of the series that a query returns.
    fn query(&self, query: &str) -> Vec<f64> {
        let encode = |text: String, byte| format!("{text}%{byte:02x}");
        let encoded = query.bytes().fold(String::new(), encode);
        let answer = get(self.address, &format!("/api/v1/query?query={encoded}"));
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        let answer = answer.json();
        let series = answer["data"]["result"].as_array().expect("a vector");
        let value = |series: &serde_json::Value| series["value"][1].as_str()?.parse().ok();
        series.iter().filter_map(value).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn prometheus_answers_the_documented_questions() {
    let Some(program) = prometheus_program("prometheus") else {
        return;
    };
    let (_workspace, client, admin) = serving();
    let prometheus = Prometheus::scraping(program, admin);
    wait_until_blocking("it scrapes", || {
        prometheus.query("up{job=\"lease-broker\"}") == [1.0]
    });
    work(&client, admin).await;
    let total = "sum(lease_broker_lease_ended_total{lease_broker_queue_name=\"work\"})";
    wait_until_blocking("it has scraped the work", || {
        prometheus.query(total) == [3.0]
    });
    let failing = "sum by (lease_broker_queue_name) (rate(lease_broker_lease_ended_total{lease_broker_lease_outcome=~\"expired|failed\"}[5m])) / sum by (lease_broker_queue_name) \
        (rate(lease_broker_lease_ended_total[5m]))";
    let share = prometheus.query(failing);
    assert!(
        share.iter().any(|share| (share - 2.0 / 3.0).abs() < 0.01),
        "{share:?}"
    );
    let text = file("docs/observability.md");
    let blocks = text.split("```promql\n").skip(1);
    let queries = blocks.filter_map(|rest| rest.split_once("```"));
    let queries = queries.flat_map(|(block, _)| block.lines().map(str::to_owned));
    let mut answered = 0;
    for query in queries.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        answered += usize::from(!prometheus.query(&query).is_empty());
    }
    assert!(answered >= 5, "{answered} queries have an answer");
}
