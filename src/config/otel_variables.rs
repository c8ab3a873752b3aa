//! The environment variables of OpenTelemetry, and the settings that they stand for.
//!
//! Other programs on the same host may use these variables too. A value that the broker cannot read is therefore reported
//! and ignored, as OpenTelemetry demands, and does not stop the start.

use std::time::Duration;

use http::HeaderName;
use percent_encoding::percent_decode_str;
use toml::{Table, Value};

use super::collector_address::is_address;
use super::layer::{Layer, Origin};
use super::range::{DAY, MAX_SPANS, MILLISECOND, MIN_INTERVAL, MINUTE};

/// The environment variables of OpenTelemetry that a broker found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtelVariables {
    /// The names of those that it uses, sorted.
    pub used: Vec<String>,
    /// Those that it ignores, with the reason.
    pub ignored: Vec<(String, String)>,
}

/// The meaning of a variable's value.
#[derive(Clone, Copy)]
enum Meaning {
    /// The address of a collector. Without a scheme it is `https`, or `http` if the variable that ends with INSECURE says
    /// so.
    Address,
    Protocol,
    File,
    /// A number of spans.
    Count,
    /// At least the first and at most the second.
    Milliseconds(Duration, Duration),
}

/// Variables that stand for one setting of the section `telemetry`.
const SETTINGS: [(&str, &str, Meaning); 12] = {
    use Meaning::{Address, Count, File, Milliseconds, Protocol};
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "endpoint", Address),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "traces_endpoint",
            Address,
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            "metrics_endpoint",
            Address,
        ),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "protocol", Protocol),
        (
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "traces_protocol",
            Protocol,
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
            "metrics_protocol",
            Protocol,
        ),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca_file", File),
        (
            "OTEL_METRIC_EXPORT_INTERVAL",
            "metrics_interval",
            Milliseconds(MIN_INTERVAL, DAY),
        ),
        (
            "OTEL_BSP_SCHEDULE_DELAY",
            "schedule_delay",
            Milliseconds(MILLISECOND, MINUTE),
        ),
        (
            "OTEL_BSP_EXPORT_TIMEOUT",
            "export_timeout",
            Milliseconds(MILLISECOND, MINUTE),
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "queue_size", Count),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "batch_size", Count),
    ]
};

/// The two variables that together stand for `client_certificate_file` and `client_key_file`.
const CLIENT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
];

/// Checks the value of a variable.
type Check = fn(&str) -> Result<(), String>;

/// Variables that the exporter and the description of the process read themselves.
const READ_BY_EXPORTER: [(&str, Check); 15] = [
    ("OTEL_SERVICE_NAME", |_| Ok(())),
    ("OTEL_RESOURCE_ATTRIBUTES", check_pairs),
    ("OTEL_EXPORTER_OTLP_HEADERS", check_headers),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", check_headers),
    ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", check_headers),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", check_number),
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", check_number),
    ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", check_number),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", check_compression),
    ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", check_compression),
    ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", check_compression),
    ("OTEL_EXPORTER_OTLP_INSECURE", check_bool),
    ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", check_bool),
    ("OTEL_EXPORTER_OTLP_METRICS_INSECURE", check_bool),
    (
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        check_temporality,
    ),
];

/// Reads the variables. Returns the settings that they stand for, as a layer, and which variables were used.
pub(super) fn read(environment: &[(String, String)]) -> (Layer, OtelVariables) {
    let mut reader = Reader {
        environment,
        settings: Table::new(),
        names: Vec::new(),
        found: OtelVariables::default(),
    };
    for (name, key, meaning) in SETTINGS {
        reader.read(name, &[key], |text| {
            let insecure = [
                &name.replace("ENDPOINT", "INSECURE"),
                "OTEL_EXPORTER_OTLP_INSECURE",
            ]
            .iter()
            .find_map(|name| value_of(environment, name))
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
            Ok(vec![setting_value(text, meaning, insecure)?])
        });
    }
    reader.read(
        "OTEL_TRACES_SAMPLER",
        &["sample_ratio", "trust_parents"],
        |name| {
            let argument = value_of(environment, "OTEL_TRACES_SAMPLER_ARG");
            sampler(name, argument)
        },
    );
    let ratio = "OTEL_TRACES_SAMPLER_ARG";
    let sampler = value_of(environment, "OTEL_TRACES_SAMPLER").unwrap_or_default();
    if value_of(environment, ratio).is_some() && sampler.ends_with("traceidratio") {
        // Its value was read with that of the sampler.
        let is_used = reader
            .found
            .used
            .iter()
            .any(|name| name == "OTEL_TRACES_SAMPLER");
        reader.found.used.extend(is_used.then(|| ratio.to_owned()));
    } else {
        reader.read(ratio, &[], |_| {
            Err("OTEL_TRACES_SAMPLER names no sampler with an argument".to_owned())
        });
    }
    reader.read_client_files();
    reader.read_exported_signals();
    for (name, check) in READ_BY_EXPORTER {
        reader.read(name, &[], |text| check(text).map(|()| Vec::new()));
    }
    reader.found.used.sort();
    let mut table = Table::new();
    if !reader.settings.is_empty() {
        table.insert("telemetry".to_owned(), Value::Table(reader.settings));
    }
    let origin = Origin::Variables(reader.names);
    (Layer { table, origin }, reader.found)
}

struct Reader<'a> {
    environment: &'a [(String, String)],
    settings: Table,
    /// The parts of each key, and the variable that sets it.
    names: Vec<(Vec<String>, String)>,
    found: OtelVariables,
}

impl Reader<'_> {
    /// Sets these keys to the values that `parse` returns for the variable, if it is set.
    fn read(
        &mut self,
        name: &str,
        keys: &[&str],
        parse: impl Fn(&str) -> Result<Vec<Value>, String>,
    ) {
        let Some(text) = value_of(self.environment, name) else {
            return;
        };
        match parse(text) {
            Ok(values) => {
                for (key, value) in keys.iter().zip(values) {
                    self.settings.insert((*key).to_owned(), value);
                    let key = vec!["telemetry".to_owned(), (*key).to_owned()];
                    self.names.push((key, name.to_owned()));
                }
                self.found.used.push(name.to_owned());
            }
            Err(reason) => self.found.ignored.push((name.to_owned(), reason)),
        }
    }

    /// Reads the certificate of the broker for the collector, and its key.
    fn read_client_files(&mut self) {
        let environment = self.environment;
        let keys = ["client_certificate_file", "client_key_file"];
        for ((name, other), key) in CLIENT.into_iter().zip(CLIENT.into_iter().rev()).zip(keys) {
            self.read(name, &[key], |text| {
                let other_file = value_of(environment, other).ok_or_else(|| {
                    format!("a certificate and its key belong together; set {other} too")
                })?;
                check_file(other_file)?;
                Ok(vec![setting_value(text, Meaning::File, false)?])
            });
        }
    }

    /// Reads which signals are exported.
    fn read_exported_signals(&mut self) {
        let disabled = value_of(self.environment, "OTEL_SDK_DISABLED");
        if disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            self.read("OTEL_SDK_DISABLED", &["export"], |_| {
                Ok(vec![Value::Array(Vec::new())])
            });
            return;
        }
        let mut exported = Vec::new();
        for (name, signal) in [
            ("OTEL_TRACES_EXPORTER", "traces"),
            ("OTEL_METRICS_EXPORTER", "metrics"),
        ] {
            // No key: the two variables stand for one setting.
            self.read(name, &[], |text| match text {
                "none" | "otlp" => Ok(Vec::new()),
                other => Err(format!("{other:?} is not supported; otlp and none are")),
            });
            if value_of(self.environment, name) != Some("none") {
                exported.push(Value::String(signal.to_owned()));
            }
        }
        if exported.len() < 2 {
            self.settings
                .insert("export".to_owned(), Value::Array(exported));
        }
    }
}

/// Returns the value of a variable. Empty text counts as not set, as OpenTelemetry demands.
fn value_of<'a>(environment: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let variable = environment.iter().find(|(known, _)| known == name);
    variable
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

fn setting_value(text: &str, meaning: Meaning, insecure: bool) -> Result<Value, String> {
    Ok(match meaning {
        Meaning::File => {
            check_file(text)?;
            Value::String(text.to_owned())
        }
        Meaning::Protocol => match text {
            "grpc" | "http/protobuf" => Value::String(text.to_owned()),
            _ => return Err(format!("the protocol {text:?} is not supported")),
        },
        Meaning::Address => {
            let scheme = if insecure { "http" } else { "https" };
            let address = if text.contains("://") {
                text.to_owned()
            } else {
                format!("{scheme}://{text}")
            };
            if !is_address(&address) {
                return Err(format!("{text:?} is not an address"));
            }
            Value::String(address)
        }
        Meaning::Count => Value::Integer(number_up_to(text, 1, MAX_SPANS as u128)?.into()),
        Meaning::Milliseconds(min, max) => {
            let number = number_up_to(text, min.as_millis(), max.as_millis())?;
            Value::String(format!("{number}ms"))
        }
    })
}

fn number(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is not a positive number"))
}

fn number_up_to(text: &str, min: u128, max: u128) -> Result<u32, String> {
    let number = number(text)?;
    if (min..=max).contains(&number.into()) {
        return Ok(number);
    }
    Err(format!("{number} is not between {min} and {max}"))
}

fn check_number(text: &str) -> Result<(), String> {
    number(text).map(|_| ())
}

fn check_file(path: &str) -> Result<(), String> {
    let read = std::fs::File::open(path);
    read.map(|_| ()).map_err(|error| format!("{path}: {error}"))
}

fn check_compression(text: &str) -> Result<(), String> {
    check_one_of(text, &["gzip", "none"])
}

fn check_bool(text: &str) -> Result<(), String> {
    check_one_of(text, &["true", "false"])
}

fn check_temporality(text: &str) -> Result<(), String> {
    check_one_of(text, &["cumulative", "delta", "lowmemory"])
}

fn check_one_of(text: &str, known: &[&str]) -> Result<(), String> {
    if known.iter().any(|known| text.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let known = known.join(" and ");
    Err(format!("{text:?} is not supported; {known} are"))
}

/// Checks a list of `name=value`. The message contains no value, which can be a secret.
fn check_pairs(text: &str) -> Result<(), String> {
    let wrong = pair_list(text).position(|pair| pair.is_none());
    let problem = wrong.map(|index| {
        let number = index + 1;
        format!("part {number} has no effect, because it is not of the form name=value")
    });
    problem.map_or(Ok(()), Err)
}

fn check_headers(text: &str) -> Result<(), String> {
    check_pairs(text)?;
    let wrong = pairs(text).position(|(name, _)| HeaderName::try_from(name).is_err());
    let problem = wrong.map(|index| {
        let number = index + 1;
        format!("part {number} has no effect, because it does not begin with the name of a header")
    });
    problem.map_or(Ok(()), Err)
}

/// Returns the parts of a list of `name=value` that have this form. Values are percent-decoded.
pub fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    pair_list(text).flatten()
}

fn pair_list(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
    })
}

/// Returns the sample ratio, and whether parents are trusted.
fn sampler(name: &str, argument: Option<&str>) -> Result<Vec<Value>, String> {
    let ratio = || {
        let ratio = argument.map_or(Ok(1.0), str::parse::<f64>).ok();
        ratio
            .filter(|ratio| (0.0..=1.0).contains(ratio))
            .ok_or("OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1")
    };
    let (kind, trust_parents) = match name.strip_prefix("parentbased_") {
        Some(kind) => (kind, true),
        None => (name, false),
    };
    let ratio = match kind {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => ratio()?,
        _ => return Err(format!("the sampler {name:?} is not supported")),
    };
    Ok(vec![Value::Float(ratio), Value::Boolean(trust_parents)])
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, OtlpProtocol, Signal, Sources};

    fn load(variables: &[(&str, &str)]) -> Config {
        let environment = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let sources = Sources {
            environment: environment.collect(),
            ..Sources::default()
        };
        sources.load().expect("valid")
    }

    #[test]
    fn nothing_is_exported_by_default() {
        let telemetry = load(&[]).telemetry;
        assert_eq!(telemetry.destination(Signal::Traces), None);
        assert_eq!(telemetry.destination(Signal::Metrics), None);
    }

    #[test]
    fn endpoint_for_all_signals_gets_their_paths_over_http() {
        let telemetry = load(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics:1"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
        ])
        .telemetry;
        let traces = telemetry.destination(Signal::Traces).expect("exported");
        assert_eq!(traces.endpoint, "http://collector:4318/v1/traces");
        assert_eq!(traces.protocol, OtlpProtocol::HttpProtobuf);
        let metrics = telemetry.destination(Signal::Metrics).expect("exported");
        assert_eq!(metrics.endpoint, "http://metrics:1");
        assert_eq!(metrics.protocol, OtlpProtocol::Grpc);
        let used = &telemetry.otel_variables.used;
        assert_eq!(used.len(), 4, "{used:?}");
    }

    #[test]
    fn endpoint_without_a_scheme_is_secure_unless_told_otherwise() {
        for (insecure, address) in [("", "https://one:4317"), ("true", "http://one:4317")] {
            let telemetry = load(&[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "one:4317"),
                ("OTEL_EXPORTER_OTLP_INSECURE", insecure),
            ])
            .telemetry;
            assert_eq!(telemetry.endpoint, address);
        }
    }

    #[test]
    fn own_variables_take_precedence() {
        let telemetry = load(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://one:4317"),
            ("LEASE_BROKER_TELEMETRY__ENDPOINT", "http://two:4317"),
        ])
        .telemetry;
        assert_eq!(telemetry.endpoint, "http://two:4317");
    }

    #[test]
    fn samplers_of_opentelemetry_set_ratio_and_trust() {
        for (name, argument, ratio, trust) in [
            ("always_on", "", 1.0, false),
            ("parentbased_always_off", "", 0.0, true),
            ("traceidratio", "0.25", 0.25, false),
            ("parentbased_traceidratio", "0.5", 0.5, true),
        ] {
            let telemetry = load(&[
                ("OTEL_TRACES_SAMPLER", name),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ])
            .telemetry;
            assert_eq!(
                telemetry.sampler(),
                lease_broker_model::sampling::Sampler::new(ratio, trust)
            );
        }
    }

    #[test]
    fn signals_can_be_turned_off() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://one:4317");
        for (name, value, traces, metrics) in [
            ("OTEL_SDK_DISABLED", "TRUE", false, false),
            ("OTEL_SDK_DISABLED", "false", true, true),
            ("OTEL_TRACES_EXPORTER", "none", false, true),
            ("OTEL_METRICS_EXPORTER", "none", true, false),
            ("OTEL_METRICS_EXPORTER", "otlp", true, true),
        ] {
            let telemetry = load(&[endpoint, (name, value)]).telemetry;
            let exported = [Signal::Traces, Signal::Metrics]
                .map(|signal| telemetry.destination(signal).is_some());
            assert_eq!(exported, [traces, metrics], "{name}={value}");
        }
    }

    #[test]
    fn queue_can_be_shorter_than_the_default_message() {
        let telemetry = load(&[("OTEL_BSP_MAX_QUEUE_SIZE", "100")]).telemetry;
        assert_eq!(telemetry.queue_size, 100);
    }

    #[test]
    fn client_certificate_is_used_with_its_key() {
        let telemetry = load(&[
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "Cargo.toml"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "Cargo.lock"),
        ])
        .telemetry;
        assert_eq!(
            telemetry.client_certificate_file.to_str(),
            Some("Cargo.toml")
        );
        assert_eq!(telemetry.client_key_file.to_str(), Some("Cargo.lock"));
        assert_eq!(telemetry.otel_variables.used.len(), 2);
    }

    #[test]
    fn argument_of_a_sampler_is_used_with_the_sampler() {
        let argument = ("OTEL_TRACES_SAMPLER_ARG", "0.5");
        for (sampler, used) in [("traceidratio", 2), ("always_on", 1), ("unknown", 0)] {
            let telemetry = load(&[("OTEL_TRACES_SAMPLER", sampler), argument]).telemetry;
            let variables = &telemetry.otel_variables;
            assert_eq!(variables.used.len(), used, "{sampler}: {variables:?}");
            assert_eq!(
                variables.ignored.len(),
                2 - used,
                "{sampler}: {variables:?}"
            );
        }
    }

    #[test]
    fn values_that_cannot_be_used_are_reported_and_ignored() {
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "not an address"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "1000001"),
            ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "120000"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "10"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "no-such-file"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "Cargo.toml"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "Cargo.toml"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,c"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "bad header=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=%ff"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ] {
            let telemetry = load(&[(name, value)]).telemetry;
            let ignored = &telemetry.otel_variables.ignored;
            assert_eq!(ignored.len(), 1, "{name}={value}");
            assert_eq!(ignored[0].0, name);
            assert!(telemetry.otel_variables.used.is_empty());
        }
    }
}
