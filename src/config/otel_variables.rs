//! The environment variables of OpenTelemetry, and the settings that they stand for.
//!
//! Other programs on the same host may use these variables too. A value that the broker cannot read is therefore reported
//! and ignored, as OpenTelemetry demands, and does not stop the start.

use toml::{Table, Value};

use super::collector_address::is_address;
use super::layer::{Layer, Origin};

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
    Count,
    Milliseconds,
}

/// Variables that stand for one setting of the section `telemetry`.
const SETTINGS: [(&str, &str, Meaning); 14] = {
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
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "client_certificate_file",
            File,
        ),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "client_key_file", File),
        (
            "OTEL_METRIC_EXPORT_INTERVAL",
            "metrics_interval",
            Milliseconds,
        ),
        ("OTEL_BSP_SCHEDULE_DELAY", "schedule_delay", Milliseconds),
        ("OTEL_BSP_EXPORT_TIMEOUT", "export_timeout", Milliseconds),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "queue_size", Count),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "batch_size", Count),
    ]
};

/// Variables that the exporter and the description of the process read themselves.
const READ_BY_EXPORTER: [&str; 16] = [
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
    "OTEL_EXPORTER_OTLP_INSECURE",
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    "OTEL_EXPORTER_OTLP_METRICS_INSECURE",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_TRACES_SAMPLER_ARG",
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
    reader.read_exported_signals();
    for name in READ_BY_EXPORTER {
        if value_of(environment, name).is_some() {
            reader.found.used.push(name.to_owned());
        }
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
    let number = || {
        let number = text.parse::<u32>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("{text:?} is not a positive number"))
    };
    Ok(match meaning {
        Meaning::File => Value::String(text.to_owned()),
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
        Meaning::Count => Value::Integer(number()?.into()),
        Meaning::Milliseconds => Value::String(format!("{}ms", number()?)),
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
    fn values_that_cannot_be_used_are_reported_and_ignored() {
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "not an address"),
        ] {
            let telemetry = load(&[(name, value)]).telemetry;
            let ignored = &telemetry.otel_variables.ignored;
            assert_eq!(ignored.len(), 1, "{name}={value}");
            assert_eq!(ignored[0].0, name);
            assert!(telemetry.otel_variables.used.is_empty());
        }
    }
}
