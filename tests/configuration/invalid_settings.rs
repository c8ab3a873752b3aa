//! A setting that does not do: its key, what is wrong, and where it stands.

use lease_broker::config::Sources;

use crate::test_sources::{Given, file, listen, place, variables};

/// Asserts what is said of a file: the key, the line, and a part of the problem.
#[track_caller]
fn refused(text: &'static str, key: &str, line: usize, problem: &str) {
    let error = file(text).expect_err(text);
    assert_eq!(error.key, key, "{error}");
    assert_eq!(place(&error), format!("given.toml:{line}"), "{error}");
    assert!(error.reason.contains(problem), "{error}");
}

#[test]
fn unknown_key_is_located() {
    refused(
        "[server]\nlisten = '127.0.0.1:1'\nlitsen = 1",
        "server.litsen",
        3,
        "unknown",
    );
    refused("\n[srever]\nlisten = '127.0.0.1:1'", "srever", 2, "unknown");
    refused("[queues.a]\nleese = '1m'", "queues.a.leese", 2, "unknown");
    refused(
        "[queue_defaults]\nleese = '1m'",
        "queue_defaults.leese",
        2,
        "unknown",
    );
    refused(
        "[queues.a.backoff]\nfirst = '1m'",
        "queues.a.backoff.first",
        2,
        "unknown",
    );
    refused(
        "[store]\n\n\npassword = 'x'",
        "store.password",
        4,
        "unknown",
    );
}

#[test]
fn wrong_type_is_located() {
    refused("[server]\nlisten = 5", "server.listen", 2, "");
    refused("[limits]\n\nmax_items = 'many'", "limits.max_items", 3, "");
    refused("[limits]\nmax_items = -1", "limits.max_items", 2, "");
    refused("[reaper]\nmax_sleep = 5", "reaper.max_sleep", 2, "");
    refused("[store]\nkind = 'oracle'", "store.kind", 2, "");
    refused("[log]\nformat = 'xml'", "log.format", 2, "");
    refused("server = 5", "server", 1, "");
    refused("queues = 5", "queues", 1, "");
    refused("[queues]\na = 5", "queues.a", 2, "");
    refused(
        "[queues.a]\nfiltered_indexes = 'no'",
        "queues.a.filtered_indexes",
        2,
        "",
    );
}

#[test]
fn value_out_of_range_is_explained() {
    let (address, span) = ("address", "not between");
    refused(
        "[server]\nlisten = 'localhost'",
        "server.listen",
        2,
        address,
    );
    refused("[server]\nthreads = 5000", "server.threads", 2, span);
    refused(
        "[server]\nmax_concurrent_calls = 0",
        "server.max_concurrent_calls",
        2,
        span,
    );
    refused(
        "[server]\nmax_message_bytes = 0",
        "server.max_message_bytes",
        2,
        span,
    );
    refused(
        "[server]\nkeepalive_interval = '1ms'",
        "server.keepalive_interval",
        2,
        span,
    );
    refused(
        "[server]\nkeepalive_timeout = '2days'",
        "server.keepalive_timeout",
        2,
        span,
    );
    refused(
        "[server]\ndrain_grace = 'soon'",
        "server.drain_grace",
        2,
        "\"soon\" is not a duration",
    );
    refused(
        "[limits]\nmax_items = 1001",
        "limits.max_items",
        2,
        "1001 is not between 1 and 1000",
    );
    refused("[limits]\nmax_items = 0", "limits.max_items", 2, span);
    refused(
        "[limits]\nmax_wait = '61s'",
        "limits.max_wait",
        2,
        "1m 1s is not between 0s and 1m",
    );
    refused(
        "[limits]\nmax_worker_id = 129",
        "limits.max_worker_id",
        2,
        span,
    );
    refused("[polling]\nmin = '0s'", "polling.min", 2, span);
    refused("[polling]\nmin = '2s'\nmax = '1s'", "polling.max", 3, span);
    refused("[polling]\nmax = '61s'", "polling.max", 2, span);
    refused("[reaper]\nmax_sleep = '1ms'", "reaper.max_sleep", 2, span);
    refused("[reaper]\nbatch = 0", "reaper.batch", 2, span);
    refused("[reaper]\nbatch = 1001", "reaper.batch", 2, span);
}

#[test]
fn invalid_toml_is_located() {
    let error = file("[server]\nlisten = \n").expect_err("no value");
    assert_eq!(place(&error), "given.toml:2");
    let error = file("[server]\n[server]\n").expect_err("twice");
    assert_eq!(place(&error), "given.toml:2");
}

#[test]
fn unreadable_file_is_named() {
    let sources = Sources {
        file: Some("/no/such/file.toml".into()),
        ..Sources::default()
    };
    let error = sources.load().expect_err("no file");
    assert!(
        error.to_string().starts_with("/no/such/file.toml: "),
        "{error}"
    );
}

#[test]
fn invalid_variable_is_named() {
    for (given, key) in [
        (
            &[("LEASE_BROKER_SERVER__LISTEN", "nowhere")],
            "server.listen",
        ),
        (&[("LEASE_BROKER_SERVER__LITSEN", "x")], "server.litsen"),
        (
            &[("LEASE_BROKER_LIMITS__MAX_ITEMS", "0")],
            "limits.max_items",
        ),
        (
            &[("LEASE_BROKER_LIMITS__MAX_ITEMS", "many")],
            "limits.max_items",
        ),
        (&[("LEASE_BROKER_QUEUES__A__LEASE", "0s")], "queues.a.lease"),
    ] {
        let error = variables(given).expect_err(key);
        assert_eq!(error.key, key, "{error}");
        assert_eq!(
            error.location,
            format!("environment variable {}", given[0].0)
        );
    }
}

#[test]
fn variable_as_value_and_section_fails() {
    let error = variables(&[
        ("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:1"),
        ("LEASE_BROKER_SERVER__LISTEN__PORT", "1"),
    ])
    .expect_err("both");
    assert_eq!(error.key, "server.listen.port");
    assert_eq!(
        error.location,
        "environment variable LEASE_BROKER_SERVER__LISTEN__PORT"
    );
}

#[test]
fn invalid_flag_is_named() {
    let given = Given {
        file: "[server]\nlisten = '127.0.0.1:1'",
        variables: &[("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:2")],
        flags: vec![listen("nowhere")],
    };
    let error = given.load().expect_err("nowhere");
    assert_eq!(
        (&*error.key, &*error.location),
        ("server.listen", "flag --listen")
    );
}

#[test]
fn overridden_invalid_value_is_ignored() {
    let given = Given {
        file: "[server]\nlisten = 'nowhere'",
        flags: vec![listen("127.0.0.1:3")],
        ..Given::default()
    };
    assert_eq!(given.load().expect("mended").server.listen.port(), 3);
}
