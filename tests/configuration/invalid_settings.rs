//! Invalid settings: the error has the key, the reason, and the location (file and line, variable, or flag).

use lease_broker::config::Sources;

use crate::configuration::test_sources::{
    TestSources, from_file, from_variables, listen_flag, location,
};

/// Asserts that a file is rejected. Checks the key, the line, and a part of the message.
#[track_caller]
fn assert_rejected(text: &'static str, key: &str, line: usize, reason: &str) {
    let error = from_file(text).expect_err(text);
    assert_eq!(error.key, key, "{error}");
    assert_eq!(location(&error), format!("given.toml:{line}"), "{error}");
    assert!(error.reason.contains(reason), "{error}");
}

#[test]
fn unknown_key_is_located() {
    assert_rejected(
        "[server]\nlisten = '127.0.0.1:1'\nlitsen = 1",
        "server.litsen",
        3,
        "unknown",
    );
    assert_rejected("\n[srever]\nlisten = '127.0.0.1:1'", "srever", 2, "unknown");
    assert_rejected("[queues.a]\nleese = '1m'", "queues.a.leese", 2, "unknown");
    assert_rejected(
        "[queues.'a.b']\nleese = '1m'",
        "queues.a.b.leese",
        2,
        "unknown",
    );
    assert_rejected(
        "[queue_defaults]\nleese = '1m'",
        "queue_defaults.leese",
        2,
        "unknown",
    );
    assert_rejected(
        "[queues.a.backoff]\nfirst = '1m'",
        "queues.a.backoff.first",
        2,
        "unknown",
    );
    assert_rejected(
        "[store]\n\n\npassword = 'x'",
        "store.password",
        4,
        "unknown",
    );
    let error = from_variables(&[("LEASE_BROKER_QUEUES__DEFAULT__LEESE", "5m")]);
    let error = error.expect_err("an unknown key").to_string();
    let start = "environment variable LEASE_BROKER_QUEUES__DEFAULT__LEESE: queues.default.leese: ";
    assert!(
        error.starts_with(start) && error.contains("unknown"),
        "{error}"
    );
}

#[test]
fn wrong_type_is_located() {
    assert_rejected("[server]\nlisten = 5", "server.listen", 2, "");
    assert_rejected("[limits]\n\nmax_items = 'many'", "limits.max_items", 3, "");
    assert_rejected("[limits]\nmax_items = -1", "limits.max_items", 2, "");
    assert_rejected("[reaper]\nmax_interval = 5", "reaper.max_interval", 2, "");
    assert_rejected("[store]\nkind = 'oracle'", "store.kind", 2, "");
    assert_rejected("[log]\nformat = 'xml'", "log.format", 2, "");
    assert_rejected("server = 5", "server", 1, "");
    assert_rejected("queues = 5", "queues", 1, "");
    assert_rejected("[queues]\na = 5", "queues.a", 2, "");
    assert_rejected(
        "[queues.a]\nfiltered_indexes = 'no'",
        "queues.a.filtered_indexes",
        2,
        "",
    );
}

#[test]
fn value_out_of_range_is_explained() {
    let (address, range) = ("address", "not between");
    assert_rejected(
        "[server]\nlisten = 'localhost'",
        "server.listen",
        2,
        address,
    );
    assert_rejected("[server]\nthreads = 5000", "server.threads", 2, range);
    assert_rejected(
        "[server]\nmax_connections = 0",
        "server.max_connections",
        2,
        range,
    );
    assert_rejected("[server]\nmax_streams = 0", "server.max_streams", 2, range);
    assert_rejected(
        "[server]\nmax_message_bytes = 0",
        "server.max_message_bytes",
        2,
        range,
    );
    assert_rejected(
        "[server]\nkeepalive_interval = '1ms'",
        "server.keepalive_interval",
        2,
        range,
    );
    assert_rejected(
        "[server]\nkeepalive_timeout = '2days'",
        "server.keepalive_timeout",
        2,
        range,
    );
    assert_rejected(
        "[server]\ndrain_grace = 'soon'",
        "server.drain_grace",
        2,
        "\"soon\" is not a duration",
    );
    assert_rejected(
        "[limits]\nmax_items = 1001",
        "limits.max_items",
        2,
        "1001 is not between 1 and 1000",
    );
    assert_rejected("[limits]\nmax_items = 0", "limits.max_items", 2, range);
    assert_rejected(
        "[limits]\nmax_wait = '61s'",
        "limits.max_wait",
        2,
        "1m 1s is not between 0s and 1m",
    );
    assert_rejected(
        "[limits]\nmax_worker_id = 129",
        "limits.max_worker_id",
        2,
        range,
    );
    assert_rejected(
        "[limits]\nmax_item_bytes = 65535",
        "limits.max_item_bytes",
        2,
        range,
    );
    assert_rejected(
        "[budgets]\nresponse_bytes = 16777215",
        "budgets.response_bytes",
        2,
        range,
    );
    assert_rejected(
        "[polling]\nmin_interval = '0s'",
        "polling.min_interval",
        2,
        range,
    );
    assert_rejected(
        "[polling]\nmin_interval = '2s'\nmax_interval = '1s'",
        "polling.max_interval",
        3,
        range,
    );
    assert_rejected(
        "[polling]\nmax_interval = '61s'",
        "polling.max_interval",
        2,
        range,
    );
    assert_rejected(
        "[reaper]\nmax_interval = '1ms'",
        "reaper.max_interval",
        2,
        range,
    );
    assert_rejected("[reaper]\nmax_rows = 0", "reaper.max_rows", 2, range);
    assert_rejected("[reaper]\nmax_rows = 1001", "reaper.max_rows", 2, range);
}

#[test]
fn range_of_threads_includes_the_default() {
    let reason = "5000 is not between 0 and 1024";
    assert_rejected("[server]\nthreads = 5000", "server.threads", 2, reason);
}

#[test]
fn address_of_traces_is_a_web_address_with_the_id() {
    for wrong in [
        "abc",
        "-5s",
        "https://t.example/",
        "javascript:alert(1)//{trace_id}",
        r"https://t.example/{trace_id}\n",
        r"https://t.example/#{trace_id}\u0000",
    ] {
        let text = format!("[admin]\ntrace_url = \"{wrong}\"").leak();
        assert_rejected(text, "admin.trace_url", 2, "is not an address");
    }
    for right in ["", "http://t.example:1/?q={trace_id}#/{trace_id}"] {
        from_file(format!("[admin]\ntrace_url = '{right}'").leak()).expect("valid");
    }
}

#[test]
fn audit_file_is_no_other_file() {
    let text = "[store]\npath = 'q.db'\n[log]\naudit_file = './q.db'";
    assert_rejected(text, "log.audit_file", 4, "is the database file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("queues.toml");
    let text = format!("[log]\naudit_file = '{}'", file.display());
    std::fs::write(&file, text).expect("a file");
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    let error = sources.load().expect_err("refused");
    assert!(
        error.reason.contains("is the configuration file"),
        "{error}"
    );
}

#[test]
fn setting_that_another_one_excludes_names_both_places() {
    for (text, key, conflict) in [
        (
            "[polling]\nmin_interval = '5s'",
            "polling.max_interval",
            "; polling.min_interval is set at ",
        ),
        (
            "[queue_defaults]\nmax_lease_duration = '5s'\n[queues.a]",
            "queues.a.lease_duration",
            "; queues.a.max_lease_duration is set at ",
        ),
    ] {
        let error = from_file(text).expect_err(text);
        assert_eq!(error.key, key, "{error}");
        let (_, place) = error.reason.split_once(conflict).expect("the other place");
        assert!(place.ends_with("given.toml:2"), "{error}");
    }
}

#[test]
fn value_of_a_wrong_type_is_answered_with_those_that_are_allowed() {
    for (text, key, line, reason) in [
        (
            "[server]\nplain_text = 5",
            "server.plain_text",
            2,
            "expected `loopback` or `anywhere`",
        ),
        (
            "[store]\nkind = [1]",
            "store.kind",
            2,
            "expected `sqlite` or `mssql`",
        ),
        (
            "[telemetry]\nexport = [1]",
            "telemetry.export[0]",
            2,
            "expected `traces` or `metrics`",
        ),
        (
            "[queues.a]\non_complete = 5",
            "queues.a.on_complete",
            2,
            "expected one of `keep`, `delete`, `archive`, `recur`",
        ),
        (
            "[queues.a]\non_complete = { recur = '1s', archive = 'x' }",
            "queues.a.on_complete",
            2,
            "expected one of `keep`, `delete`, `archive`, `recur`",
        ),
        (
            "[queues.a]\nrate = 5",
            "queues.a.rate",
            2,
            "invalid type: integer `5`, expected { items = 100, per = \"1s\" }, and burst if it is not items",
        ),
        (
            "[queues.a]\nkeep_for = '30d'",
            "queues.a.keep_for",
            2,
            "expected ages such as { completed = \"30d\", dead = \"never\", archive = \"never\" }",
        ),
        (
            "[server]\ntls = 5",
            "server.tls",
            2,
            "expected a section of settings",
        ),
        (
            "[server]\nhandshakes_per_second = 0",
            "server.handshakes_per_second",
            2,
            "expected a whole number from 1 to 4294967295",
        ),
        (
            "[limits]\nmax_items = -1",
            "limits.max_items",
            2,
            "expected a whole number from 0",
        ),
        (
            "[queues.a]\nmanaged_columns = { b = 'text' }\nkeep_for.completed = '30s'",
            "queues.a.keep_for.completed",
            3,
            "30s is not between 1m and 10000days",
        ),
    ] {
        assert_rejected(text, key, line, reason);
    }
}

#[test]
fn number_that_is_too_large_is_explained() {
    let error = from_file("[limits]\nmax_items = 99999999999999999999").expect_err("too large");
    assert_eq!(location(&error), "given.toml:2");
    assert_eq!(error.reason, "the number does not fit into 64 bits");
}

#[test]
fn invalid_toml_is_located() {
    let error = from_file("[server]\nlisten = \n").expect_err("the value is missing");
    assert_eq!(location(&error), "given.toml:2");
    let error = from_file("[server]\n[server]\n").expect_err("the section is repeated");
    assert_eq!(location(&error), "given.toml:2");
}

#[test]
fn unreadable_file_is_named() {
    let sources = Sources {
        file: Some("/no/such/file.toml".into()),
        ..Sources::default()
    };
    let error = sources.load().expect_err("the file does not exist");
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
        (
            &[("LEASE_BROKER_QUEUES__A__LEASE_DURATION", "0s")],
            "queues.a.lease_duration",
        ),
    ] {
        let error = from_variables(given).expect_err(key);
        assert_eq!(error.key, key, "{error}");
        assert_eq!(
            error.location,
            format!("environment variable {}", given[0].0)
        );
    }
}

#[test]
fn variable_as_value_and_section_fails() {
    let error = from_variables(&[
        ("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:1"),
        ("LEASE_BROKER_SERVER__LISTEN__PORT", "1"),
    ])
    .expect_err("the variables contradict each other");
    assert_eq!(error.key, "server.listen.port");
    assert_eq!(
        error.location,
        "environment variable LEASE_BROKER_SERVER__LISTEN__PORT"
    );
}

#[test]
fn invalid_flag_is_named() {
    let sources = TestSources {
        file: "[server]\nlisten = '127.0.0.1:1'",
        variables: &[("LEASE_BROKER_SERVER__LISTEN", "127.0.0.1:2")],
        flags: vec![listen_flag("nowhere")],
    };
    let error = sources.load().expect_err("the address is invalid");
    assert_eq!(
        (&*error.key, &*error.location),
        ("server.listen", "flag --listen")
    );
}

#[test]
fn overridden_invalid_value_is_ignored() {
    let sources = TestSources {
        file: "[server]\nlisten = 'nowhere'",
        flags: vec![listen_flag("127.0.0.1:3")],
        ..TestSources::default()
    };
    assert_eq!(
        sources
            .load()
            .expect("the flag overrides the file")
            .server
            .listen
            .port(),
        3
    );
}
