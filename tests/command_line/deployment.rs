//! The files in `deploy` that are for other programs, as far as they depend on the broker: its settings, its names, its times.
//! `.ci/deployment` lets the validators of these programs read them.

use std::path::Path;

use lease_broker_proto::lease_service_server::SERVICE_NAME;
use regex::Regex;
use toml::Table;

use crate::command_line::workspace::Workspace;
use crate::support::process::program;

const COMPOSE: &str = include_str!("../../deploy/compose.full.yaml");
const PROMETHEUS: &str = include_str!("../../deploy/prometheus/prometheus.yml");
const HAPROXY: &str = include_str!("../../deploy/haproxy.cfg");
const POD: &str = include_str!("../../deploy/kubernetes/base/deployment.yaml");
const TLS: &str = include_str!("../../deploy/kubernetes/tls/deployment.yaml");
const SERVICE: &str = include_str!("../../deploy/kubernetes/base/service.yaml");
const CONFIG: &str = include_str!("../../deploy/kubernetes/base/config.toml");

/// Returns the first groups of all matches of a pattern.
fn found<'a>(pattern: &str, text: &'a str) -> Vec<&'a str> {
    let pattern = Regex::new(pattern).expect("a pattern");
    let matches = pattern.captures_iter(text);
    matches.map(|found| found.extract::<1>().1[0]).collect()
}

/// Returns the environment variables of brokers in a compose file, or in a manifest.
fn variables(text: &str) -> Vec<(&str, &str)> {
    let pattern = r"(?m)^ +(?:- name: )?(LEASE_BROKER_[A-Z_]+)(?:\n +value)?: (.+)$";
    let pattern = Regex::new(pattern).expect("a pattern");
    let variables = pattern.captures_iter(text).map(|found| {
        let (_, [name, value]) = found.extract();
        (name, value.trim_matches(['\'', '"']))
    });
    let settings = variables.filter(|(name, _)| name.contains("__"));
    settings.collect()
}

/// Lets the program read a configuration in `deploy` with these variables, as `serve` would, and look for the roles of a caller.
/// Returns its exit code and its messages.
fn read(config: &str, caller: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join(config);
    let mut command = program();
    command.args(["auth", "check", caller, "--config"]);
    command.arg(config).envs(variables.iter().copied());
    let checked = command.output().expect("the program runs");
    let messages = String::from_utf8_lossy(&checked.stderr).into_owned();
    (checked.status.code(), messages)
}

#[test]
fn full_compose_file_has_settings_that_the_broker_knows() {
    let variables = variables(COMPOSE);
    assert_eq!(variables.len(), 9, "{variables:?}");
    let valid = (Some(0), String::new());
    assert_eq!(
        read("deploy/compose.toml", "--anonymous", &variables),
        valid
    );
    let misspelt = [("LEASE_BROKER_ADMIN__HOST", "broker1")];
    assert_ne!(read("deploy/compose.toml", "--anonymous", &misspelt), valid);
}

#[test]
fn full_compose_file_opens_ports_on_this_host_only() {
    let ports = found(r"(?ms)^    ports:\n((?:      - [^\n]+\n)+)", COMPOSE);
    let ports: Vec<_> = ports.iter().flat_map(|lines| lines.lines()).collect();
    assert_eq!(ports.len(), 5, "{ports:?}");
    for port in ports {
        assert!(port.contains("\"127.0.0.1:"), "{port}");
    }
}

#[test]
fn full_compose_file_has_the_names_of_haproxy_and_prometheus() {
    let services = found(r"(?m)^  (broker\d):$", COMPOSE);
    assert_eq!(services, ["broker1", "broker2"]);
    for broker in services {
        assert!(HAPROXY.contains(&format!(" {broker}:50051 ")));
        assert!(PROMETHEUS.contains(&format!("\"{broker}:9464\"")));
    }
    let address = found(r"ipv4_address: (\S+)", COMPOSE);
    let trusted = format!("[\"{}\"]", address[0]);
    let setting = ("LEASE_BROKER_SERVER__TRUSTED_PROXIES", trusted.as_str());
    assert!(variables(COMPOSE).contains(&setting));
}

#[test]
fn configuration_for_kubernetes_is_valid_with_and_without_tls() {
    let secret = Workspace::with("");
    for name in ["fleet", "on-call"] {
        let made = secret.run(&format!("token new {name} --tokens-file tokens"));
        assert_eq!(made.code, 0, "{made:?}");
    }
    let tokens = secret.path("tokens").display().to_string();
    let read = |variables: &[(&str, &str)]| {
        let tokens = ("LEASE_BROKER_AUTH__TOKENS_FILE", tokens.as_str());
        let variables = [variables, &[tokens]].concat();
        read(
            "deploy/kubernetes/base/config.toml",
            "--token-name=fleet",
            &variables,
        )
    };
    let tls = variables(TLS);
    assert_eq!(tls.len(), 3, "{tls:?}");
    for variables in [&[], &tls[..]] {
        assert_eq!(read(variables), (Some(0), String::new()));
    }
    let (code, messages) = read(&tls[..1]);
    assert_eq!(code, Some(64), "{messages}");
    assert!(messages.contains("server.tls"), "{messages}");
}

#[test]
fn supervisors_wait_for_longer_than_a_drain_takes() {
    let defaults = include_str!("../../deploy/config.default.toml");
    let compose = include_str!("../../deploy/compose.yaml");
    let unit = include_str!("../../deploy/lease-broker.service");
    let delay = found("LEASE_BROKER_SERVER__DRAIN_DELAY: (.+)", COMPOSE);
    let full = format!("[server]\ndrain_delay = '{}'", delay[0]);
    for (grace, text, settings) in [
        ("terminationGracePeriodSeconds: ", POD, CONFIG),
        ("stop_grace_period: ", COMPOSE, &full),
        ("stop_grace_period: ", compose, ""),
        ("TimeoutStopSec=", unit, ""),
    ] {
        let [settings, defaults] =
            [settings, defaults].map(|text| -> Table { text.parse().expect("TOML") });
        let seconds = |section: &str, key: &str| -> u64 {
            let setting = |table: &Table| table.get(section)?.get(key)?.as_str().map(str::to_owned);
            let text = setting(&settings).or_else(|| setting(&defaults));
            let text = text.expect("a duration");
            text.trim_end_matches('s').parse().expect("seconds")
        };
        let drain = seconds("server", "drain_delay") + seconds("server", "drain_grace");
        let drain = drain + seconds("telemetry", "flush_timeout");
        let grace = found(&format!(r"(?m)^ *{grace}(\d+)s?$"), text);
        assert_eq!(grace.len(), 1, "{text}");
        assert!(grace[0].parse::<u64>().expect("a number") > drain, "{text}");
    }
}

#[test]
fn kubernetes_asks_ports_and_services_that_the_broker_has() {
    let config: Table = CONFIG.parse().expect("TOML");
    let grpc = config["server"]["listen"].as_str().expect("an address");
    let admin = config["admin"]["listen"].as_str().expect("an address");
    let listens: Vec<_> = [grpc, admin]
        .map(|address| address.rsplit(':').next())
        .into();
    let ports = found(r"containerPort: (\d+)", POD);
    assert_eq!(ports.iter().copied().map(Some).collect::<Vec<_>>(), listens);
    assert_eq!(found(r" port: (\d+)", SERVICE), ports);
    assert_eq!(found(r"service: (\S+)", POD), [SERVICE_NAME]);
    assert_eq!(found(r"(?s)grpc:\s+port: (\d+)", POD), ports[..1]);
    assert_eq!(found(r"path: (/livez|/readyz)", POD), ["/livez"]);
}
