//! Tests of `brokers` and `drain`.

use serde_json::json;

use crate::command_line::both_ways::both;
use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until_blocking;

#[test]
fn brokers_are_listed_and_drained() {
    let mut workspace = Workspace::serving();
    let mut second = BrokerProcess::serve(&workspace.path("q.db"), &workspace.path("queues.toml"));
    let address = second.url().replace("http://", "");
    wait_until_blocking("both are listed", || {
        workspace.call("brokers").json().len() == 2
    });
    for listed in both(&workspace, "brokers --output json") {
        assert!(
            listed
                .json()
                .iter()
                .all(|broker| broker["state"] == json!("running"))
        );
    }
    let wrong = workspace.call("drain 127.0.0.1:1");
    assert_eq!(wrong.code, 1, "{wrong:?}");
    let told = workspace.call(&format!("drain {address} --reason update"));
    assert_eq!(told.json()[0]["address"], json!(address), "{told:?}");
    assert!(second.wait().success());
    let first = workspace.process.as_mut().expect("a service");
    assert!(first.is_running());
    let listed = workspace.call("brokers").json();
    let stopped = listed
        .iter()
        .find(|broker| broker["address"] == json!(address));
    let stopped = stopped.expect("a row");
    assert_eq!(stopped["state"], json!("gone"));
    let id = stopped["broker_id"].as_str().expect("an id");
    let refused = workspace.call(&format!("drain {id}"));
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("has ended already"), "{refused:?}");
}

#[test]
fn drain_waits_for_the_end_of_the_broker_that_answers() {
    let mut workspace = Workspace::serving();
    let broker = workspace.call("brokers").json();
    let id = broker[0]["broker_id"].as_str().expect("an id");
    let drained = workspace.call(&format!("drain {} --wait --timeout 2s", &id[..8]));
    assert_eq!(drained.code, 0, "{drained:?}");
    assert_eq!(drained.json()[0]["state"], json!("gone"));
    assert!(
        workspace
            .process
            .as_mut()
            .expect("a service")
            .wait()
            .success()
    );
}

#[test]
fn signal_to_a_broker_that_an_operator_drains_cuts_no_call() {
    let mut workspace = Workspace::with(&format!("[server]\ndrain_delay = '60s'\n{QUEUES}"));
    workspace.serve();
    let id = workspace.call("brokers").json()[0]["broker_id"].clone();
    let told = workspace.call(&format!("drain {}", id.as_str().expect("an id")));
    assert_eq!(told.code, 0, "{told:?}");
    let process = workspace.process.as_mut().expect("a service");
    wait_until_blocking("it drains", || process.log().contains("draining"));
    process.signal("TERM");
    wait_until_blocking("the signal is logged", || {
        process.log().contains("the drain goes on")
    });
    assert!(process.is_running());
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(1), "{}", process.log());
}

#[test]
fn queue_that_all_brokers_have_left_is_named() {
    let mut workspace = Workspace::serving();
    let stop = |workspace: &mut Workspace| {
        let process = workspace.process.as_mut().expect("a service");
        process.signal("TERM");
        assert!(process.wait().success());
    };
    stop(&mut workspace);
    let (kept, _) = QUEUES.split_once("[queues.outbox]").expect("two queues");
    workspace.write("queues.toml", kept);
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    wait_until_blocking("the queue is logged", || {
        process.log().contains("none serves it now") && process.log().contains("outbox")
    });
    let doctor = workspace.store("doctor --side broker --json");
    assert!(doctor.out.contains("queue outbox"), "{doctor:?}");
    // With the queue, nobody has left one.
    stop(&mut workspace);
    workspace.write("queues.toml", QUEUES);
    workspace.serve();
    let doctor = workspace.store("doctor --side broker --json");
    assert!(doctor.out.contains("table of outbox"), "{doctor:?}");
    assert!(!doctor.out.contains("queue outbox"), "{doctor:?}");
}
