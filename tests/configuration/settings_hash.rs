//! The settings of a queue as brokers compare them: which settings count, and a hash that never changes.

use lease_broker::config::{Config, Sources};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{SettingsDifference, SettingsHash};

fn queue(settings: &str) -> QueueSpec {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.toml");
    let text = format!("[queues.work]\nmanaged_columns = {{ payload = 'text' }}\n{settings}");
    std::fs::write(&file, text).expect("a file");
    let sources = Sources {
        file: Some(file),
        environment: Vec::new(),
        flags: Vec::new(),
    };
    let config: Config = sources.load().expect("a configuration");
    config.queues[0].clone()
}

fn difference(one: &str, other: &str) -> Option<SettingsDifference> {
    let [one, other] = [one, other].map(|settings| SettingsHash::new(&queue(settings)));
    one.difference(&other)
}

#[test]
fn settings_that_change_rows_differ() {
    let rows = Some(SettingsDifference::Rows);
    assert_eq!(difference("", "on_complete = 'delete'"), rows);
    assert_eq!(difference("", "order = ['-payload']"), rows);
    assert_eq!(difference("", "table = 'other'"), rows);
    assert_eq!(difference("", "group = 'payload'"), rows);
    let one = "group = { column = 'payload', max_leases = 5 }";
    assert_eq!(difference(one, &one.replace('5', "6")), None);
}

#[test]
fn rules_differ_and_limits_do_not() {
    let rules = Some(SettingsDifference::Rules);
    assert_eq!(difference("", "max_attempts = 7"), rules);
    assert_eq!(difference("", "lease_duration = '7s'"), rules);
    assert_eq!(difference("", "max_lease_age = '7s'"), None);
}

/// Two versions compare their hashes. If this test fails, raise `FORMAT`.
#[test]
fn hash_of_the_default_queue_never_changes() {
    let hash = serde_json::to_value(SettingsHash::new(&queue(""))).expect("JSON");
    let hashes = ["format", "rows", "rules"].map(|name| hash[name].clone());
    let expected = serde_json::json!([2, "1db9a52eeb932697", "98e4bd639a216f9a"]);
    assert_eq!(serde_json::json!(hashes), expected);
}
