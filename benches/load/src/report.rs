//! The results of a bench. Their JSON has keys in `snake_case` that name the unit; an unknown value is null.

use std::path::{Path, PathBuf};

use lease_broker::cli::CommandError;
use lease_broker::cli::output::write_line;
use serde::Serialize;

use crate::args::{LoadArgs, OnComplete, TargetArgs};
use crate::child_broker::StatementCounts;
use crate::latency::RpcSummary;
use crate::process_stats::Machine;
use crate::samples::Measured;

/// All results.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) machine: Machine,
    /// The kind of store, if it is known.
    pub(crate) store: Option<&'static str>,
    pub(crate) parameters: Parameters,
    pub(crate) load: Measured,
    /// `None`: the broker at `--address` keeps running.
    pub(crate) statements: Option<StatementCounts>,
    pub(crate) baselines: Baselines,
    pub(crate) errors: Vec<String>,
}

/// The flags of the command, with the defaults that were used.
#[derive(Serialize)]
pub(crate) struct Parameters {
    address: Option<String>,
    config: Option<PathBuf>,
    queues: Vec<String>,
    on_complete: Option<OnComplete>,
    #[serde(flatten)]
    pub(crate) load: LoadArgs,
}

impl Parameters {
    pub(crate) fn new(args: &TargetArgs, queues: Vec<String>, load: LoadArgs) -> Self {
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
pub(crate) struct Baselines {
    pub(crate) noop: Option<NoopBaseline>,
}

/// Empty calls before and after the load.
#[derive(Serialize)]
pub(crate) struct NoopBaseline {
    pub(crate) before: RpcSummary,
    pub(crate) after: RpcSummary,
    /// The load's calls per second divided by the empty calls per second.
    pub(crate) ratio_to_noop: Option<f64>,
}

impl NoopBaseline {
    pub(crate) fn new(before: RpcSummary, after: RpcSummary, load: &Measured) -> Self {
        let noop = f64::midpoint(before.calls_per_second, after.calls_per_second);
        Self {
            before,
            after,
            ratio_to_noop: (noop > 0.0).then(|| load.calls_per_second / noop),
        }
    }
}

/// Writes results as JSON to a file, or to standard output for `-`.
pub(crate) fn write_json(results: &impl Serialize, file: &Path) -> Result<(), CommandError> {
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
