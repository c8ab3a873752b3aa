//! The results of a bench. Their JSON has keys in `snake_case` that name the unit; an unknown value is null.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::{LoadArgs, OnComplete, TargetArgs};
use super::child_broker::StatementCounts;
use super::latency::RpcSummary;
use super::process_stats::Machine;
use super::samples::Measured;
use crate::cli::CommandError;
use crate::cli::output::write_line;

/// All results.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    /// The kind of store, if it is known.
    pub(super) store: Option<&'static str>,
    pub(super) parameters: Parameters,
    pub(super) load: Measured,
    /// `None`: the broker at `--address` keeps running.
    pub(super) statements: Option<StatementCounts>,
    pub(super) baselines: Baselines,
    pub(super) errors: Vec<String>,
}

/// The flags of the command, with the defaults that were used.
#[derive(Serialize)]
pub(super) struct Parameters {
    address: Option<String>,
    config: Option<PathBuf>,
    queues: Vec<String>,
    on_complete: Option<OnComplete>,
    #[serde(flatten)]
    pub(super) load: LoadArgs,
}

impl Parameters {
    pub(super) fn new(args: &TargetArgs, queues: Vec<String>, load: LoadArgs) -> Self {
        Self {
            address: args.address.clone(),
            config: args.config.clone(),
            queues,
            on_complete: args.is_temporary().then_some(args.on_complete),
            load,
        }
    }
}

/// The results of each `--baseline`.
#[derive(Serialize)]
pub(super) struct Baselines {
    pub(super) noop: Option<NoopBaseline>,
}

/// Empty calls before and after the load.
#[derive(Serialize)]
pub(super) struct NoopBaseline {
    pub(super) before: RpcSummary,
    pub(super) after: RpcSummary,
    /// The load's calls per second divided by the empty calls per second.
    pub(super) ratio_to_noop: Option<f64>,
}

impl NoopBaseline {
    pub(super) fn new(before: RpcSummary, after: RpcSummary, load: &Measured) -> Self {
        let noop = f64::midpoint(before.calls_per_second, after.calls_per_second);
        Self {
            before,
            after,
            ratio_to_noop: (noop > 0.0).then(|| load.calls_per_second / noop),
        }
    }
}

/// Writes results as JSON to a file, or to standard output for `-`.
pub(super) fn write_json(results: &impl Serialize, file: &Path) -> Result<(), CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::io(format!("--json {}: {error}", file.display()))
    };
    let json = serde_json::to_string_pretty(results).map_err(|error| failed(&error))?;
    if file == Path::new("-") {
        write_line(&json);
        return Ok(());
    }
    std::fs::write(file, json + "\n").map_err(|error| failed(&error))
}
