//! The section `telemetry` of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use lease_broker_model::sampling::{Sampler, TraceSettings};
use serde::{Deserialize, Deserializer};

use super::collector_address::is_address;
use super::duration;
use super::error::InvalidSetting;
use super::otel_variables::OtelVariables;
use super::range::{
    DAY, MAX_SPANS, MILLISECOND, MIN_INTERVAL, MINUTE, check_count, check_duration,
};
use super::this_host::is_this_host;

/// Settings of the traces and metrics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// The base address of the collector. Empty: nothing is exported, unless one of the next two is set.
    pub endpoint: String,
    /// The address for spans. Empty: derived from `endpoint`.
    pub traces_endpoint: String,
    /// The address for metrics. Empty: derived from `endpoint`.
    pub metrics_endpoint: String,
    /// The protocol in which spans and metrics are sent.
    pub protocol: OtlpProtocol,
    /// The protocol for spans, if it is another one.
    #[serde(deserialize_with = "optional_protocol")]
    pub traces_protocol: Option<OtlpProtocol>,
    /// The protocol for metrics, if it is another one.
    #[serde(deserialize_with = "optional_protocol")]
    pub metrics_protocol: Option<OtlpProtocol>,
    /// What is exported.
    pub export: Vec<Signal>,
    /// A file with headers for the collector, one `name=value` per line. Empty: none.
    pub headers_file: PathBuf,
    /// A file with the certificates of the authorities that sign the collector's certificate. Empty: the system's.
    pub ca_file: PathBuf,
    /// A file with the broker's own certificate for the collector. Empty: none.
    pub client_certificate_file: PathBuf,
    /// A file with the private key of that certificate. Empty: none.
    pub client_key_file: PathBuf,
    /// The part of all traces that is recorded. 0 to 1.
    pub sample_ratio: f64,
    /// True: a trace that a caller has begun is recorded if, and only if, the caller records it.
    pub trust_parents: bool,
    /// The number of leases per second that are recorded although their traces are not, for each of failed, expired, cancelled
    /// and lost ones. 0 to 1,000,000.
    pub keep_per_second: usize,
    /// True: spans show the keys of items.
    pub item_keys: bool,
    /// True: spans show the error messages of workers.
    pub error_messages: bool,
    /// The number of spans per second that may enter the queue. 1 to 1,000,000.
    pub max_spans_per_second: usize,
    /// The number of spans that wait for a message. 1 to 1,000,000.
    pub queue_size: usize,
    /// The maximum number of spans in a message. 1 to 1,000,000. A message has at most `queue_size`.
    pub batch_size: usize,
    /// The longest time that a span waits for others. 1 ms to 1 minute.
    #[serde(with = "duration")]
    pub schedule_delay: Duration,
    /// The time limit of a message, retries included. 1 ms to 1 minute.
    #[serde(with = "duration")]
    pub export_timeout: Duration,
    /// The time limit for the last messages when the broker stops. Up to 1 minute.
    #[serde(with = "duration")]
    pub flush_timeout: Duration,
    /// The interval at which metrics are sent. 100 ms to 1 day.
    #[serde(with = "duration")]
    pub metrics_interval: Duration,
    /// The interval at which the statistics of each queue are read. 100 ms to 1 day.
    #[serde(with = "duration")]
    pub stats_interval: Duration,
    /// Which metrics tell queues apart.
    pub per_queue: PerQueue,
    /// The environment variables of OpenTelemetry that were found.
    #[serde(skip)]
    pub otel_variables: OtelVariables,
}

/// A protocol for spans and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum OtlpProtocol {
    /// OTLP over gRPC.
    #[serde(rename = "grpc")]
    Grpc,
    /// OTLP over HTTP, with messages in the binary format of Protocol Buffers.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

/// Which metrics have a series for each queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PerQueue {
    /// `Full` for up to 200 queues, `Essential` for more.
    Auto,
    /// All that are about queues.
    Full,
    /// The states and ages of items, and the leases and items that were claimed, ended, added and died. The others add up all queues.
    Essential,
}

/// A kind of data that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// Where a signal is sent to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The full address.
    pub endpoint: String,
    /// The protocol.
    pub protocol: OtlpProtocol,
}

impl Destination {
    /// Returns whether the collector is on this host.
    pub fn is_local(&self) -> bool {
        let uri = self.endpoint.parse::<Uri>();
        uri.is_ok_and(|uri| uri.host().is_some_and(is_this_host))
    }
}

impl Telemetry {
    /// Returns the destination of a signal. `None`: it is not exported.
    pub fn destination(&self, signal: Signal) -> Option<Destination> {
        let (own, protocol, path) = match signal {
            Signal::Traces => (&self.traces_endpoint, self.traces_protocol, "v1/traces"),
            Signal::Metrics => (&self.metrics_endpoint, self.metrics_protocol, "v1/metrics"),
        };
        let protocol = protocol.unwrap_or(self.protocol);
        let base = self.endpoint.trim_end_matches('/');
        let endpoint = match (own.as_str(), base, protocol) {
            ("", "", _) => return None,
            ("", base, OtlpProtocol::Grpc) => base.to_owned(),
            ("", base, OtlpProtocol::HttpProtobuf) => format!("{base}/{path}"),
            (own, ..) => own.to_owned(),
        };
        let destination = Destination { endpoint, protocol };
        self.export.contains(&signal).then_some(destination)
    }

    /// Returns the decision which traces are recorded.
    pub fn sampler(&self) -> Sampler {
        Sampler::new(self.sample_ratio, self.trust_parents)
    }

    /// Returns the settings of the spans of leases.
    pub fn trace_settings(&self) -> TraceSettings {
        TraceSettings {
            sampler: self.sampler(),
            keep_per_second: u32::try_from(self.keep_per_second).unwrap_or(u32::MAX),
            item_keys: self.item_keys,
            error_messages: self.error_messages,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        for (key, endpoint) in [
            ("endpoint", &self.endpoint),
            ("traces_endpoint", &self.traces_endpoint),
            ("metrics_endpoint", &self.metrics_endpoint),
        ] {
            check_endpoint(key, endpoint)?;
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            let (key, ratio) = ("telemetry.sample_ratio", self.sample_ratio);
            return Err(InvalidSetting::out_of_range(key, ratio, 0, 1));
        }
        let (key, kept) = ("telemetry.keep_per_second", self.keep_per_second);
        if kept > 1_000_000 {
            return Err(InvalidSetting::out_of_range(key, kept, 0, 1_000_000));
        }
        for (key, value, max) in [
            ("max_spans_per_second", self.max_spans_per_second, 1_000_000),
            ("queue_size", self.queue_size, MAX_SPANS),
            ("batch_size", self.batch_size, MAX_SPANS),
        ] {
            check_count(format!("telemetry.{key}"), value, max)?;
        }
        for (key, value, min, max) in [
            ("schedule_delay", self.schedule_delay, MILLISECOND, MINUTE),
            ("export_timeout", self.export_timeout, MILLISECOND, MINUTE),
            ("flush_timeout", self.flush_timeout, Duration::ZERO, MINUTE),
            ("metrics_interval", self.metrics_interval, MIN_INTERVAL, DAY),
            ("stats_interval", self.stats_interval, MIN_INTERVAL, DAY),
        ] {
            check_duration(format!("telemetry.{key}"), value, min, max)?;
        }
        if (self.client_key_file.as_os_str().is_empty())
            != (self.client_certificate_file.as_os_str().is_empty())
        {
            return Err(InvalidSetting::new(
                "telemetry.client_key_file",
                "a certificate and its key belong together; set client_certificate_file and client_key_file, or none",
            ));
        }
        Ok(())
    }
}

/// Refuses text that is not the address of a collector. Empty text is accepted.
fn check_endpoint(key: &str, endpoint: &str) -> Result<(), InvalidSetting> {
    if endpoint.is_empty() || is_address(endpoint) {
        return Ok(());
    }
    Err(InvalidSetting::new(
        format!("telemetry.{key}"),
        format!("{endpoint:?} is not an address such as \"http://127.0.0.1:4317\""),
    ))
}

fn optional_protocol<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<OtlpProtocol>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected \"grpc\", \"http/protobuf\" or \"\"")]
    enum Setting {
        Protocol(OtlpProtocol),
        Text(String),
    }
    match Setting::deserialize(input)? {
        Setting::Protocol(protocol) => Ok(Some(protocol)),
        Setting::Text(text) if text.is_empty() => Ok(None),
        Setting::Text(text) => Err(serde::de::Error::unknown_variant(
            &text,
            &["grpc", "http/protobuf", ""],
        )),
    }
}
