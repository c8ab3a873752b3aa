//! Tests of the program `lease-broker-bench`: its counts are correct, and it leaves no files or processes. They do not test speed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::process::{CommandOutput, PROGRAM};
use crate::support::signal;
use crate::support::timeout::wait_until_blocking;

/// Runs the command with its temporary files in the workspace's folder.
fn bench(workspace: &Workspace, arguments: &str) -> CommandOutput {
    let output = start(workspace, arguments)
        .wait_with_output()
        .expect("the bench ends");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

fn start(workspace: &Workspace, arguments: &str) -> Child {
    let program = Path::new(PROGRAM).with_file_name("lease-broker-bench");
    assert!(program.exists(), "build the program first: cargo build");
    Command::new(program)
        .args(arguments.split_whitespace())
        .current_dir(workspace.folder.path())
        .env("TMPDIR", workspace.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Runs the command, which must succeed, and returns its results.
fn results(workspace: &Workspace, arguments: &str) -> Json {
    let printed = bench(workspace, &format!("{arguments} --json -"));
    assert_eq!(printed.code, 0, "{printed:?}");
    serde_json::from_str(&printed.out).expect("JSON")
}

fn count(results: &Json, path: &str) -> u64 {
    let found = results.pointer(path);
    let count = found.unwrap_or_else(|| panic!("no {path} in {results:#}"));
    count
        .as_u64()
        .unwrap_or_else(|| panic!("{path}: {count} is not a count"))
}

fn leftovers(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with("lease-broker-bench-"))
        .collect()
}

#[test]
fn next_claims_items_by_completions() {
    let workspace = Workspace::with("");
    let results = results(&workspace, "--items 500 --workers 4 --next");
    let items = |name: &str| count(&results, &format!("/load/items/{name}"));
    assert_eq!((items("enqueued"), items("completed")), (500, 500));
    assert_eq!((items("unfinished"), items("leases_lost")), (0, 0));
    assert_eq!(count(&results, "/load/rpcs/complete/calls"), 500);
    let claims = count(&results, "/load/rpcs/claim_batch/calls");
    assert!(claims < 50, "{results:#}");
    assert_eq!(results["parameters"]["next"], true);
    assert_eq!(results["errors"], serde_json::json!([]));
}

#[test]
fn counts_match_the_brokers_statements() {
    let workspace = Workspace::with("");
    let results = results(
        &workspace,
        "--items 500 --workers 8 --connections 3 --batch 3",
    );
    let items = |name: &str| count(&results, &format!("/load/items/{name}"));
    assert_eq!((items("enqueued"), items("completed")), (500, 500));
    assert_eq!((items("unfinished"), items("leases_lost")), (0, 0));
    assert_eq!(count(&results, "/statements/claim/items"), 500);
    assert_eq!(count(&results, "/statements/settle/items"), 500);
    assert_eq!(count(&results, "/statements/enqueue/items"), 500);
    let completions = count(&results, "/load/rpcs/complete/calls");
    assert_eq!(count(&results, "/statements/settle/calls"), completions);
    // Claims that end after the last item is completed are not measured.
    let claims = count(&results, "/load/rpcs/claim_batch/calls");
    assert!(claims >= completions, "{results:#}");
    assert!(
        count(&results, "/statements/claim/calls") > claims,
        "{results:#}"
    );
    assert_eq!(results["store"], "sqlite");
    assert_eq!(count(&results, "/parameters/batch"), 3);
    assert_eq!(results["errors"], serde_json::json!([]));
    for number in [
        "/load/items_per_second",
        "/load/seconds",
        "/load/broker/cpu_cores",
        "/load/broker/resident_bytes_peak",
        "/load/generator/cpu_us_per_item",
        "/load/rpcs/complete/p999_us",
        "/load/store_bytes_end",
        "/statements/claim/statements_per_call",
        "/machine/cores",
    ] {
        let found = results.pointer(number);
        assert!(found.is_some_and(Json::is_number), "{number}: {results:#}");
    }
}

#[test]
fn failed_and_released_items_are_completed_in_the_end() {
    let workspace = Workspace::with("");
    let load = "--items 300 --workers 8 --batch 5 --queues 2 --on-complete delete";
    let results = results(
        &workspace,
        &format!("{load} --fail-ratio 0.2 --release-ratio 0.2 --heartbeats 1"),
    );
    let items = |name: &str| count(&results, &format!("/load/items/{name}"));
    assert_eq!((items("completed"), items("unfinished")), (300, 0));
    assert!(items("failed") > 0 && items("released") > 0, "{results:#}");
    let settled = items("completed") + items("failed") + items("released");
    assert_eq!(count(&results, "/statements/claim/items"), settled);
    assert_eq!(count(&results, "/statements/settle/items"), settled);
    assert_eq!(items("leases_extended"), settled);
}

#[test]
fn a_timed_run_enqueues_items_as_they_are_consumed() {
    let workspace = Workspace::with("");
    let load = "--duration 1s --warm-up 100ms --backlog 200 --workers 4 --on-complete archive";
    let results = results(&workspace, load);
    let items = |name: &str| count(&results, &format!("/load/items/{name}"));
    assert_eq!(
        items("enqueued"),
        items("completed") + items("unfinished"),
        "{results:#}"
    );
    assert!(items("completed") > 0);
}

#[test]
fn waiting_claims_end_with_the_run() {
    let workspace = Workspace::with("");
    let load = "--workers 300 --connections 4 --wait 50s --backlog 0 --warm-up 0s --duration 1s";
    let results = results(&workspace, load);
    assert_eq!(count(&results, "/load/items/enqueued"), 0);
    assert_eq!(count(&results, "/statements/claim/items"), 0);
    assert!(count(&results, "/statements/claim/calls") > 0);
    assert_eq!(count(&results, "/load/items/empty_claims"), 0);
}

#[test]
fn held_leases_are_extended_and_released() {
    let workspace = Workspace::with("");
    let load = "--hold-leases 100 --workers 4 --batch 10 --lease 6s --duration 1s";
    let results = results(&workspace, load);
    let items = |name: &str| count(&results, &format!("/load/items/{name}"));
    assert_eq!((items("enqueued"), items("released")), (100, 100));
    assert_eq!(items("leases_lost"), 0);
    assert!(items("leases_extended") >= 100, "{results:#}");
}

#[test]
fn rate_accounts_for_every_due_claim() {
    let workspace = Workspace::with("");
    let load = "--rate 200 --batch 2 --workers 4 --backlog 1000 --warm-up 0s --duration 1s";
    let results = results(&workspace, load);
    let claims = |name: &str| count(&results, &format!("/load/schedule/claims_{name}"));
    assert!(claims("sent") + claims("missed") >= 100, "{results:#}");
    assert!(claims("late") <= claims("sent"), "{results:#}");
}

#[test]
fn a_load_is_compared_with_empty_calls() {
    let workspace = Workspace::with("");
    let load = "--items 200 --workers 4 --batch 5 --fail-ratio 0.1";
    let results = results(&workspace, &format!("{load} --baseline noop"));
    let noop = &results["baselines"]["noop"];
    for round in ["before", "after"] {
        assert!(
            noop[round]["calls_per_second"].as_f64() > Some(0.0),
            "{noop:#}"
        );
    }
    assert!(noop["ratio_to_noop"].as_f64() > Some(0.0), "{noop:#}");
    assert_eq!(count(&results, "/load/items/completed"), 200);
}

#[test]
fn a_running_broker_is_measured() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=anothers");
    let process = workspace.process.as_ref().expect("a service");
    let address = format!("--address {} --queue work", process.url());
    let measured = results(&workspace, &format!("{address} --items 200 --workers 4"));
    let items = |name: &str| count(&measured, &format!("/load/items/{name}"));
    assert_eq!(items("enqueued"), 200);
    // The item from before the run is claimed too, but is not one of those that must be completed.
    assert_eq!((items("unfinished"), items("unexpected")), (0, 1));
    assert_eq!(measured["statements"], Json::Null);
    assert_eq!(measured["load"]["broker"]["cpu_cores"], Json::Null);
    let pid = process.id();
    let watched = results(
        &workspace,
        &format!("{address} --items 50 --workers 4 --broker-pid {pid}"),
    );
    assert!(count(&watched, "/load/broker/resident_bytes_end") > 0);
}

#[test]
fn a_configured_queue_is_measured() {
    let workspace = Workspace::with(&format!("[store]\npath = 'q.db'\n{QUEUES}"));
    let load = "--config queues.toml --queue outbox --items 100 --workers 4";
    let results = results(&workspace, load);
    assert_eq!(count(&results, "/load/items/completed"), 100);
    let stats = workspace.store("stats --output json").json();
    let outbox = stats.iter().find(|row| row["queue"] == "outbox");
    assert_eq!(outbox.expect("a row")["completed"], 100);
}

#[test]
fn an_item_settled_twice_fails_the_run() {
    let workspace = Workspace::with(
        "[queues.again]\nmanaged_columns = { payload = 'text' }\non_complete = { recur = '100ms' }",
    );
    let load = "--config queues.toml --queue again --workers 2 --backlog 2 --warm-up 0s";
    let printed = bench(&workspace, &format!("{load} --duration 3s"));
    assert_eq!(printed.code, 1, "{printed:?}");
    assert!(printed.err.contains("were settled twice"), "{printed:?}");
}

#[test]
fn tables_are_printed_beside_a_json_file() {
    let workspace = Workspace::with("");
    let printed = bench(&workspace, "--items 100 --workers 4 --json result.json");
    assert_eq!(printed.code, 0, "{printed:?}");
    for word in [
        "ClaimBatch",
        "p99.9",
        "items/s",
        "statements",
        "completed 100",
    ] {
        assert!(printed.out.contains(word), "{word}: {printed:?}");
    }
    let written = std::fs::read_to_string(workspace.path("result.json")).expect("a file");
    let results: Json = serde_json::from_str(&written).expect("JSON");
    assert_eq!(count(&results, "/load/items/completed"), 100);
}

#[test]
fn a_finished_run_leaves_no_files_or_processes() {
    let workspace = Workspace::with("");
    let results = results(&workspace, "--items 20 --workers 2");
    let broker = count(&results, "/load/broker/pid");
    assert!(!Path::new(&format!("/proc/{broker}")).exists());
    assert_eq!(leftovers(workspace.folder.path()), [] as [&str; 0]);
}

#[test]
fn an_interrupted_run_leaves_no_files_or_processes() {
    for name in ["INT", "TERM"] {
        let workspace = Workspace::with("");
        let child = start(&workspace, "--duration 1h --workers 2 --backlog 10");
        let mut broker = None;
        wait_until_blocking("the broker works", || {
            broker = child_of(child.id());
            let folders = leftovers(workspace.folder.path());
            let logs = folders
                .iter()
                .map(|name| workspace.path(name).join("bench.db-wal"));
            broker.is_some() && logs.into_iter().any(|log| log.exists())
        });
        signal::send(&child, name);
        let output = child.wait_with_output().expect("the bench ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("interrupted"), "{error}");
        let broker = broker.expect("a process");
        wait_until_blocking("the broker has ended", || {
            !Path::new(&format!("/proc/{broker}")).exists()
        });
        assert_eq!(leftovers(workspace.folder.path()), [] as [&str; 0]);
    }
}

/// Returns the id of a child process.
fn child_of(parent: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").expect("a list of processes");
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.into_iter().find(|id: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        status.contains(&format!("PPid:\t{parent}\n"))
    })
}

#[test]
fn a_broker_that_does_not_answer_or_start_is_reported() {
    let workspace = Workspace::with(
        "[queues.work]\nmanaged_columns = { payload = 'text' }\nlease_duration = 'never'",
    );
    let unreachable = bench(&workspace, "--address 127.0.0.1:1");
    assert_eq!(unreachable.code, 69, "{unreachable:?}");
    assert!(unreachable.err.contains("127.0.0.1:1"), "{unreachable:?}");
    let wrong = bench(&workspace, "--config queues.toml");
    assert_eq!(wrong.code, 64, "{wrong:?}");
    assert!(wrong.err.contains("lease_duration"), "{wrong:?}");
}

#[test]
fn overload_run_counts_refusals_and_judges_each_bar() {
    let workspace = Workspace::with(QUEUES);
    let printed = bench(&workspace, "--overload 3 --duration 1s --json -");
    // The checks depend on the machine. The exit code must say the same as the checks.
    let results: Json = serde_json::from_str(&printed.out).expect("JSON");
    let checks = results["checks"].as_array().expect("a list");
    assert!(checks.len() >= 6, "{results:#}");
    let all_hold = checks.iter().all(|check| check["holds"] == true);
    assert_eq!(printed.code, i32::from(!all_hold), "{printed:?}");
    for number in ["capacity", "offered"] {
        let number = results[number].as_f64();
        assert!(number.is_some_and(|number| number > 0.0), "{results:#}");
    }
    assert!(results["goodput"].is_f64(), "{results:#}");
    let refused = &results["honest_errors"]["heartbeat"]["OVERLOADED"];
    assert!(refused.is_null(), "{results:#}");
    assert!(results["errors"].is_object(), "{results:#}");
    assert_eq!(leftovers(workspace.folder.path()), [] as [String; 0]);
}

#[test]
fn refused_calls_are_counted_and_sent_again() {
    let mut workspace = Workspace::with(&format!("budgets.working_calls = 2\n{QUEUES}"));
    workspace.serve();
    let address = workspace.process.as_ref().expect("a service").url();
    let load = "--queue work --items 300 --workers 32 --connections 8";
    let results = results(&workspace, &format!("--address {address} {load}"));
    assert_eq!(count(&results, "/load/items/completed"), 300);
    let errors = results["load"]["errors"].as_object().expect("an object");
    let refused = errors
        .values()
        .filter_map(|reasons| reasons["OVERLOADED"].as_u64());
    assert!(refused.sum::<u64>() > 0, "{errors:?}");
}

#[test]
fn connections_that_the_broker_replaces_fail_no_call() {
    let mut workspace = Workspace::with(&format!("server.max_connection_age = '1s'\n{QUEUES}"));
    workspace.serve();
    let address = workspace.process.as_ref().expect("a service").url();
    let load = "--queue work --duration 5s --workers 8 --connections 4";
    let results = results(&workspace, &format!("--address {address} {load}"));
    assert!(count(&results, "/load/items/completed") > 0);
    assert_eq!(count(&results, "/load/items/leases_lost"), 0);
    assert_eq!(results["load"]["errors"], serde_json::json!({}));
}
