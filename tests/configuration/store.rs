//! The `[store]` section, mainly for SQL Server, and the claim strategy of a queue.

use std::time::Duration;

use lease_broker::config::{ConfigError, StoreKind};
use secrecy::ExposeSecret as _;

use crate::configuration::test_sources::{TestSources, from_file, from_variables, location};

const SERVER: &str = "[store]\nkind = 'mssql'\nconnection_string = 'server=h;password=Sw0rdfish'\n";

/// Asserts that an error has this key and contains this text, and that it does not print the password.
#[track_caller]
fn assert_rejected(error: &ConfigError, key: &str, reason: &str) {
    assert_eq!(error.key, key, "{error}");
    assert!(error.reason.contains(reason), "{error}");
    assert!(!format!("{error:?}").contains("Sw0rdfish"), "{error}");
}

#[test]
fn server_needs_one_connection_string() {
    let error = from_file("[store]\nkind = 'mssql'").expect_err("the connection string is missing");
    assert_rejected(
        &error,
        "store.connection_string",
        "LEASE_BROKER_STORE__CONNECTION_STRING",
    );
    let error = from_file(
        "[store]\nkind = 'mssql'\nconnection_string = 'server=h;password=Sw0rdfish'\nconnection_string_file = '/f'",
    )
    .expect_err("both settings are given");
    assert_rejected(&error, "store.connection_string_file", "only one");
    assert_eq!(location(&error), "given.toml:4");
}

#[test]
fn path_that_names_no_file_is_located() {
    for text in ["[store]\npath = ''", "[store]\npath = \"a\\u0000b\""] {
        let error = from_file(text).expect_err("no path");
        assert_rejected(&error, "store.path", "the path of the database file");
        assert_eq!(location(&error), "given.toml:2");
    }
}

#[test]
fn connection_string_is_never_printed() {
    let from_file = from_file(SERVER).expect("valid");
    let from_variable = from_variables(&[
        ("LEASE_BROKER_STORE__KIND", "mssql"),
        (
            "LEASE_BROKER_STORE__CONNECTION_STRING",
            "server=h;password=Sw0rdfish",
        ),
    ]);
    for config in [from_file, from_variable.expect("valid")] {
        assert_eq!(config.store.kind, StoreKind::Mssql);
        let text = config.store.connection_string.expose_secret();
        assert_eq!(text, "server=h;password=Sw0rdfish");
        assert!(!format!("{config:?}").contains("Sw0rdfish"));
    }
}

#[test]
fn pool_setting_out_of_bounds_is_rejected() {
    for (setting, key) in [
        ("connect_timeout = '1ms'", "store.connect_timeout"),
        ("handshake_timeout = '2h'", "store.handshake_timeout"),
        ("command_timeout = '0s'", "store.command_timeout"),
        ("max_connection_age = '2d'", "store.max_connection_age"),
        ("max_connections = 0", "store.max_connections"),
        ("min_idle_connections = 1001", "store.min_idle_connections"),
    ] {
        let text: &'static str = format!("{SERVER}{setting}").leak();
        let error = from_file(text).expect_err(setting);
        assert_eq!(error.key, key, "{error}");
    }
    let config = from_file("[store]\ncommand_timeout = '3s'").expect("valid");
    assert_eq!(config.store.command_timeout, Duration::from_secs(3));
}

#[test]
fn unknown_claim_strategy_is_rejected() {
    use lease_broker_model::queue::ClaimStrategy::{AppLock, SkipLocked};

    let sources = TestSources {
        file: "[queues.a]\n[queues.b]\nclaim_strategy = 'app_lock'",
        ..TestSources::default()
    };
    let queues = sources.load().expect("valid").queues;
    let strategies: Vec<_> = queues.iter().map(|queue| queue.claim_strategy).collect();
    assert_eq!(strategies, [SkipLocked, AppLock]);
    let error =
        from_file("[queues.a]\nclaim_strategy = 'polite'").expect_err("the strategy is unknown");
    assert_eq!(error.key, "queues.a.claim_strategy");
    assert!(error.reason.contains("app_lock"), "{error}");
}
