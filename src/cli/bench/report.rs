//! The results, as JSON.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::child_log::Served;
use super::load::Load;
use super::measured::Measured;
use crate::cli::Failure;
use crate::cli::output::say;

/// All results.
pub(super) struct Report(Map<String, Json>);

impl Report {
    pub(super) fn of(load: &Load, measured: &Measured, served: Option<Served>) -> Self {
        let rpcs = measured.rpcs.iter().map(|(rpc, summary)| {
            let row = json!({
                "calls": summary.calls,
                "calls_per_second": measured.per_second(summary.calls),
                "p50_us": summary.p50,
                "p99_us": summary.p99,
                "p999_us": summary.p999,
                "max_us": summary.max,
            });
            (rpc.key().to_owned(), row)
        });
        let statements = served.map(|served| {
            let rows = served.into_iter().map(|(operation, count)| {
                let row = json!({"calls": count.calls, "statements": count.statements, "items": count.items});
                (operation.name().to_owned(), row)
            });
            rows.collect::<Map<_, _>>()
        });
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "workers": load.workers,
            "batch": load.batch,
            "seconds": measured.time.as_secs_f64(),
            "items_per_second": measured.per_second(measured.settled),
            "rpcs": rpcs.collect::<Map<_, _>>(),
            "statements": statements,
        });
        Self(report.as_object().cloned().unwrap_or_default())
    }

    pub(super) fn write(&self, file: Option<&Path>) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&self.0)
            .map_err(|error| Failure::refused(error.to_string()))?;
        match file {
            Some(file) if file != Path::new("-") => std::fs::write(file, text)
                .map_err(|error| Failure::io(format!("{}: {error}", file.display())))?,
            _ => say!("{text}"),
        }
        Ok(())
    }
}
