//! Defaults, file, environment, flags: the later one wins.

use std::time::Duration;

use lease_broker::config::{DEFAULT, LogFormat, Sources};
use lease_broker::queue::{OnComplete, Order};

use crate::test_sources::{Given, file, listen, variables};

#[test]
fn defaults_have_one_queue() {
    let config = Sources::default().load().expect("the defaults");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:50051");
    assert_eq!(config.limits.max_items, 1_000);
    assert_eq!(config.polling.min, Duration::from_millis(50));
    assert_eq!(config.queues.len(), 1);
    let queue = &config.queues[0];
    assert_eq!((&*queue.name, &*queue.table), ("default", "default"));
    let payload = ("payload".to_owned(), "text".to_owned());
    assert_eq!(queue.managed.as_deref(), Some(&[payload][..]));
    assert_eq!(queue.lease.default, Duration::from_secs(60));
    assert_eq!(queue.retry.max_attempts, Some(10));
    assert_eq!(queue.on_complete, OnComplete::Keep);
    assert_eq!(queue.order, Order::By(Vec::new()));
    assert!(queue.filtered_indexes);
}

#[test]
fn default_file_changes_nothing() {
    // Every setting, given once more with its own value, changes nothing.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("same.toml");
    std::fs::write(&path, DEFAULT).expect("a file");
    let sources = Sources {
        file: Some(path),
        ..Sources::default()
    };
    let (same, defaults) = (sources.load(), Sources::default().load());
    let [same, defaults] = [same, defaults].map(|config| format!("{:?}", config.expect("loads")));
    assert_eq!(same, defaults);
}

#[test]
fn file_needs_only_changed_settings() {
    let config = file("[server]\nlisten = '127.0.0.1:1'\n[log]\nformat = 'json'").expect("loads");
    assert_eq!(config.server.listen.port(), 1);
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.level, "info");
    assert_eq!(config.queues[0].name, "default");
}

#[test]
fn flag_overrides_variable_overrides_file() {
    let given = |flags| Given {
        file: "[server]\nlisten = '127.0.0.1:1'\ndrain_grace = '1s'\nmax_concurrent_calls = 5",
        variables: &[
            ("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:2"),
            ("LEASE_BROKER_SERVER__DRAIN_GRACE", "2s"),
        ],
        flags,
    };
    let config = given(Vec::new()).load().expect("loads");
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.server.max_concurrent_calls, 5);
    let config = given(vec![listen("127.0.0.1:3")]).load().expect("loads");
    assert_eq!(config.server.listen.port(), 3);
    assert_eq!(config.server.drain_grace, Duration::from_secs(2));
}

#[test]
fn default_queue_is_adjusted_or_replaced() {
    let config = variables(&[("LEASE_BROKER_QUEUES__DEFAULT__LEASE", "5m")]).expect("loads");
    assert_eq!(config.queues[0].lease.default, Duration::from_secs(300));
    assert!(config.queues[0].managed.is_some());
    let config = file("[queues.default]\ntable = 'Mine'").expect("loads");
    assert_eq!(config.queues[0].managed, None);
    let config = file("[queues.other]\n[queues.default]\nlease = '5m'").expect("loads");
    assert!(config.queues.iter().all(|queue| queue.managed.is_none()));
}

#[test]
fn variable_is_parsed_as_a_toml_value() {
    let config = variables(&[
        ("LEASE_BROKER_LIMITS__MAX_ITEMS", "7"),
        ("LEASE_BROKER_QUEUE_DEFAULTS__FILTERED_INDEXES", "false"),
        ("LEASE_BROKER_QUEUE_DEFAULTS__BACKOFF__FACTOR", "1.5"),
        (
            "LEASE_BROKER_QUEUE_DEFAULTS__ON_COMPLETE",
            "{ recur = \"15m\" }",
        ),
        ("LEASE_BROKER_QUEUES__WORK__KEY", "[\"a\", \"b\"]"),
        ("LEASE_BROKER_QUEUES__WORK__TABLE", "\"1984\""),
        ("LEASE_BROKER_LOG__LEVEL", "info,lease_broker=debug"),
    ])
    .expect("loads");
    assert_eq!(config.limits.max_items, 7);
    assert_eq!(config.log.level, "info,lease_broker=debug");
    let queue = &config.queues[0];
    assert_eq!((&*queue.name, &*queue.table), ("work", "1984"));
    assert_eq!(queue.key, ["a", "b"]);
    assert!(!queue.filtered_indexes);
    assert!((queue.retry.backoff.factor - 1.5).abs() < f64::EPSILON);
    assert_eq!(
        queue.on_complete,
        OnComplete::Recur(Duration::from_secs(900))
    );
}

#[test]
fn number_in_quotes_is_text() {
    let config = variables(&[("LEASE_BROKER_STORE__PATH", "\"2026\"")]).expect("loads");
    assert_eq!(config.store.path.to_str(), Some("2026"));
    let error = variables(&[("LEASE_BROKER_STORE__PATH", "2026")]).expect_err("a number");
    assert_eq!(error.key, "store.path");
}

#[test]
fn unrelated_variables_are_ignored() {
    variables(&[
        ("PATH", "/bin"),
        ("LEASE_BROKER_CONFIG", "elsewhere.toml"),
        ("LEASE_BROKER_ADDRESS", "http://127.0.0.1:1"),
        ("OTHER_SERVER__LISTEN", "nonsense"),
    ])
    .expect("loads");
}

#[test]
fn configured_queue_replaces_the_default() {
    let names = |config: lease_broker::config::Config| -> Vec<String> {
        config.queues.into_iter().map(|queue| queue.name).collect()
    };
    let config = file("[queues.b]\n[queues.a]").expect("loads");
    assert_eq!(names(config), ["a", "b"]);
    let config = variables(&[("LEASE_BROKER_QUEUES__WORK__TABLE", "work")]).expect("loads");
    assert_eq!(names(config), ["work"]);
}

#[test]
fn queue_inherits_from_queue_defaults() {
    let config = file(
        "[queue_defaults]
        lease = '5m'
        max_attempts = 0
        backoff = { initial = '1s' }
        [queues.own]
        lease = '10m'
        backoff = { max = '2s' }
        on_complete = 'delete'
        [queues.plain]",
    )
    .expect("loads");
    let [own, plain] = &config.queues[..] else {
        panic!("two queues");
    };
    assert_eq!(own.lease.default, Duration::from_secs(600));
    assert_eq!(plain.lease.default, Duration::from_secs(300));
    assert_eq!(plain.retry.max_attempts, None);
    assert_eq!(own.retry.backoff.initial, Duration::from_secs(1));
    assert_eq!(own.retry.backoff.max, Duration::from_secs(2));
    assert_eq!(plain.retry.backoff.max, Duration::from_secs(3_600));
    assert_eq!(own.on_complete, OnComplete::Delete);
    assert_eq!(plain.on_complete, OnComplete::Keep);
}
