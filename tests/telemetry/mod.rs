//! Tests of traces and metrics on their way to a collector: a broker process exports to a collector in the test.

mod collector;
mod collector_config;
mod encrypted;
mod export;
mod failing_collectors;
mod fixture;
mod lease_spans;
mod log_lines;
mod trace_queries;
mod two_brokers;
