//! Tests of traces and metrics on their way to a collector: a broker process exports to a collector in the test.

mod support;

#[path = "telemetry/collector.rs"]
mod collector;
#[path = "telemetry/collector_config.rs"]
mod collector_config;
#[path = "telemetry/encrypted.rs"]
mod encrypted;
#[path = "telemetry/export.rs"]
mod export;
#[path = "telemetry/failing_collectors.rs"]
mod failing_collectors;
#[path = "telemetry/fixture.rs"]
mod fixture;
#[path = "telemetry/lease_spans.rs"]
mod lease_spans;
#[path = "telemetry/log_lines.rs"]
mod log_lines;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "telemetry/trace_queries.rs"]
mod trace_queries;
#[path = "telemetry/two_brokers.rs"]
mod two_brokers;
