//! Precedence of the sources: defaults, file, environment variables, flags. A later source overrides an earlier one.

use std::time::Duration;

use lease_broker::config::{DEFAULT, LogFormat, Sources};
use lease_broker_model::queue::{OnComplete, Order};

use crate::configuration::test_sources::{TestSources, from_file, from_variables, listen_flag};

#[test]
fn defaults_have_one_queue() {
    let config = Sources::default().load().expect("the defaults are valid");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:50051");
    assert_eq!(config.limits.max_items, 1_000);
    assert_eq!(config.polling.min_interval, Duration::from_millis(50));
    assert_eq!(config.queues.len(), 1);
    let queue = &config.queues[0];
    assert_eq!((&*queue.name, &*queue.table), ("default", "default"));
    let payload = ("payload".to_owned(), "text".to_owned());
    assert_eq!(queue.managed_columns.as_deref(), Some(&[payload][..]));
    assert_eq!(queue.lease.default, Duration::from_secs(60));
    assert_eq!(queue.retry.max_attempts, Some(10));
    assert_eq!(queue.on_complete, OnComplete::Keep);
    assert_eq!(queue.order, Order::By(Vec::new()));
    assert!(queue.filtered_indexes);
}

#[test]
fn default_file_changes_nothing() {
    // The default file is the documentation of every setting. If each of its values is the default, loading it changes
    // nothing.
    let folder = tempfile::tempdir().expect("a temporary folder is created");
    let path = folder.path().join("same.toml");
    std::fs::write(&path, DEFAULT).expect("the file is written");
    let sources = Sources {
        file: Some(path),
        ..Sources::default()
    };
    let load = |sources: Sources| format!("{:?}", sources.load().expect("valid"));
    assert_eq!(load(sources), load(Sources::default()));
}

#[test]
fn file_needs_only_changed_settings() {
    let config =
        from_file("[server]\nlisten = '127.0.0.1:1'\n[log]\nformat = 'json'").expect("valid");
    assert_eq!(config.server.listen.port(), 1);
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.level, "info");
    assert_eq!(config.queues[0].name, "default");
}

#[test]
fn flag_overrides_variable_overrides_file() {
    let sources = |flags| TestSources {
        file: "[server]\nlisten = '127.0.0.1:1'\ndrain_grace = '1s'\nmax_streams = 5",
        variables: &[
            ("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:2"),
            ("LEASE_BROKER_SERVER__DRAIN_GRACE", "2s"),
        ],
        flags,
    };
    let config = sources(Vec::new()).load().expect("valid");
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.server.max_streams, 5);
    let config = sources(vec![listen_flag("127.0.0.1:3")])
        .load()
        .expect("valid");
    assert_eq!(config.server.listen.port(), 3);
    assert_eq!(config.server.drain_grace, Duration::from_secs(2));
}

#[test]
fn default_queue_is_adjusted_or_replaced() {
    let config =
        from_variables(&[("LEASE_BROKER_QUEUES__DEFAULT__LEASE_DURATION", "5m")]).expect("valid");
    assert_eq!(config.queues[0].lease.default, Duration::from_secs(300));
    assert!(config.queues[0].managed_columns.is_some());
    let config = from_file("[queues.default]\ntable = 'Mine'").expect("valid");
    assert_eq!(config.queues[0].managed_columns, None);
    let config =
        from_file("[queues.other]\n[queues.default]\nlease_duration = '5m'").expect("valid");
    assert!(
        config
            .queues
            .iter()
            .all(|queue| queue.managed_columns.is_none())
    );
}

#[test]
fn variable_is_parsed_as_a_toml_value() {
    let config = from_variables(&[
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
    .expect("valid");
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
    let config = from_variables(&[("LEASE_BROKER_STORE__PATH", "\"2026\"")]).expect("valid");
    assert_eq!(config.store.path.to_str(), Some("2026"));
    let error =
        from_variables(&[("LEASE_BROKER_STORE__PATH", "2026")]).expect_err("the path is a number");
    assert_eq!(error.key, "store.path");
}

#[test]
fn unrelated_variables_are_ignored() {
    from_variables(&[
        ("PATH", "/bin"),
        ("LEASE_BROKER_CONFIG", "elsewhere.toml"),
        ("LEASE_BROKER_ADDRESS", "http://127.0.0.1:1"),
        ("OTHER_SERVER__LISTEN", "nonsense"),
    ])
    .expect("valid");
}

#[test]
fn configured_queue_replaces_the_default() {
    let names = |config: lease_broker::config::Config| -> Vec<String> {
        config.queues.into_iter().map(|queue| queue.name).collect()
    };
    let config = from_file("[queues.b]\n[queues.a]").expect("valid");
    assert_eq!(names(config), ["a", "b"]);
    let config = from_variables(&[("LEASE_BROKER_QUEUES__WORK__TABLE", "work")]).expect("valid");
    assert_eq!(names(config), ["work"]);
}

#[test]
fn queue_inherits_from_queue_defaults() {
    let config = from_file(
        "[queue_defaults]
        lease_duration = '5m'
        max_attempts = 0
        backoff = { initial = '1s' }
        [queues.changed]
        lease_duration = '10m'
        backoff = { max = '2s' }
        on_complete = 'delete'
        [queues.plain]",
    )
    .expect("valid");
    let [changed, plain] = &config.queues[..] else {
        panic!("there are two queues");
    };
    assert_eq!(changed.lease.default, Duration::from_secs(600));
    assert_eq!(plain.lease.default, Duration::from_secs(300));
    assert_eq!(plain.retry.max_attempts, None);
    assert_eq!(changed.retry.backoff.initial, Duration::from_secs(1));
    assert_eq!(changed.retry.backoff.max, Duration::from_secs(2));
    assert_eq!(plain.retry.backoff.max, Duration::from_secs(3_600));
    assert_eq!(changed.on_complete, OnComplete::Delete);
    assert_eq!(plain.on_complete, OnComplete::Keep);
}
