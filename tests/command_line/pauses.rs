//! A broker process that was stopped says so when it goes on.

use std::time::Duration;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::http::get;
use crate::support::timeout::wait_until_blocking;

#[test]
fn broker_that_was_stopped_says_for_how_long() {
    let mut workspace = Workspace::with(&format!("admin.listen = '127.0.0.1:0'\n{QUEUES}"));
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    process.signal("STOP");
    // This is the pause.
    std::thread::sleep(Duration::from_secs(4));
    process.signal("CONT");
    let is_pause = |line: &&str| line.contains("the process was stopped");
    wait_until_blocking("it is logged", || {
        process.log().lines().any(|line| is_pause(&line))
    });
    let log = process.log();
    let line = log.lines().find(is_pause).expect("a line");
    let (_, seconds) = line.split_once("seconds=").expect("a duration");
    let seconds: f64 = seconds.trim().parse().expect("a number");
    assert!(seconds >= 3.0, "{line}");
    let metrics = get(admin, "/metrics").body;
    let count = metrics
        .lines()
        .find_map(|line| line.strip_prefix("lease_broker_process_pauses_total "));
    assert_ne!(count.expect("a counter"), "0");
}
