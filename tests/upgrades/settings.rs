//! Brokers list themselves in the database, and report settings that differ from those of another broker.

use std::path::Path;

use crate::support::database::{open, query_value};
use crate::support::http::get;
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until_blocking;

const DIFFERENT_ROWS: &str = "another broker reads or writes the rows of the queue in another way";
const DIFFERENT_RULES: &str = "another broker has other rules for the queue";

/// Starts two brokers on one file, with more settings of the queue `work` for each.
fn start(folder: &Path, more: [&str; 2]) -> [BrokerProcess; 2] {
    let store = folder.join("q.db");
    let [first, second] = [1, 2].map(|number: usize| {
        let config = folder.join(format!("broker{number}.toml"));
        let queue = more[number - 1];
        let text = format!(
            "server.drain_delay = '20s'\n[queues.work]\nmanaged_columns = {{ payload = 'text' }}\n{queue}"
        );
        std::fs::write(&config, text).expect("a file");
        config
    });
    [
        BrokerProcess::start(&store, &first, &["--admin-listen", "127.0.0.1:0"]),
        BrokerProcess::second(&store, &second),
    ]
}

fn differing_queues(broker: &mut BrokerProcess) -> String {
    let metrics = get(broker.admin_address(), "/metrics").body;
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.starts_with("lease_broker_queue_differing"));
    let value = line.and_then(|line| line.rsplit_once(' '));
    value.expect("the metric").1.to_owned()
}

#[test]
fn brokers_with_different_rows_report_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut brokers = start(
        folder.path(),
        ["on_complete = 'keep'", "on_complete = 'delete'"],
    );
    for broker in &brokers {
        wait_until_blocking("the broker reports the difference", || {
            broker.log().contains(DIFFERENT_ROWS)
        });
    }
    let addresses = brokers.each_ref().map(|broker| broker.address.to_string());
    assert!(
        brokers[0].log().contains(&addresses[1]),
        "{}",
        brokers[0].log()
    );
    assert!(
        brokers[1].log().contains(&addresses[0]),
        "{}",
        brokers[1].log()
    );
    assert_eq!(differing_queues(&mut brokers[0]), "1");
}

#[test]
fn stopped_broker_is_not_compared_with_its_successor() {
    let folder = tempfile::tempdir().expect("a folder");
    let [store, config] = ["q.db", "broker.toml"].map(|name| folder.path().join(name));
    let write = |settings: &str| {
        let queue = "[queues.work]\nmanaged_columns = { payload = 'text' }\n";
        std::fs::write(&config, format!("{queue}{settings}")).expect("a file");
    };
    write("on_complete = 'keep'");
    let mut stopped = BrokerProcess::serve(&store, &config);
    let database = open(&store);
    let number = |sql: &str| query_value::<i64>(&database, sql);
    wait_until_blocking("the broker is listed", || {
        number("SELECT count(*) FROM lease_broker_instance") == 1
    });
    stopped.signal("TERM");
    assert!(stopped.wait().success());
    let idle = "SELECT count(*) FROM lease_broker_instance WHERE draining = 1 AND activity = '{}'";
    assert_eq!(number(idle), 1);
    write("on_complete = 'delete'");
    let successor = BrokerProcess::second(&store, &config);
    wait_until_blocking("the successor has compared", || {
        number(
            "SELECT count(*) FROM lease_broker_instance WHERE seen_time > start_time AND draining = 0",
        ) == 1
    });
    let log = successor.log();
    assert!(!log.contains(DIFFERENT_ROWS), "{log}");
}

#[test]
fn brokers_with_different_rules_warn() {
    let folder = tempfile::tempdir().expect("a folder");
    let brokers = start(folder.path(), ["max_attempts = 3", "max_attempts = 4"]);
    for broker in &brokers {
        wait_until_blocking("the broker warns", || {
            broker.log().contains(DIFFERENT_RULES)
        });
        assert!(!broker.log().contains(DIFFERENT_ROWS), "{}", broker.log());
    }
}

#[test]
fn brokers_list_themselves_and_their_drain() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut brokers = start(folder.path(), ["", ""]);
    let database = open(&folder.path().join("q.db"));
    let number = |sql: &str| query_value::<i64>(&database, sql);
    let seen_again = "SELECT count(*) FROM lease_broker_instance WHERE seen_time > start_time";
    wait_until_blocking("both brokers announce themselves again", || {
        number(seen_again) == 2
    });
    for broker in &brokers {
        let address = broker.address;
        let listed = format!(
            "SELECT count(*) FROM lease_broker_instance WHERE address = '{address}' AND version = '{}' AND draining = 0",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(number(&listed), 1);
        assert!(!broker.log().contains("another broker"), "{}", broker.log());
    }
    assert_eq!(differing_queues(&mut brokers[0]), "0");
    brokers[0].signal("TERM");
    wait_until_blocking("the broker is listed as draining", || {
        number("SELECT count(*) FROM lease_broker_instance WHERE draining = 1") == 1
    });
}
