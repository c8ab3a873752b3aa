//! The checks with the configuration of a service.

use std::time::Duration;

use super::finding::{Finding, Verdict};
use super::part::Part;
use crate::cli::health::readiness::{self, StoreReadiness};
use crate::cli::output::format_duration;
use crate::config::{Config, StoreKind};

/// A broker probes its database when an operation takes longer than this.
const SLOW_OPERATION: Duration = Duration::from_secs(3);

/// Runs all checks of this side, at the same time.
pub(super) async fn check(config: &Config, limit: Duration) -> Vec<Finding> {
    let file = async {
        match config.store.kind {
            StoreKind::Sqlite => Part::File.run(limit).await,
            StoreKind::Mssql => Vec::new(),
        }
    };
    let (mut findings, database, port) = tokio::join!(
        file,
        Part::Database.run(limit),
        check_admin_port(config, limit)
    );
    findings.extend(database);
    findings.push(port);
    findings
}

/// Asks the broker of this configuration on this host.
async fn check_admin_port(config: &Config, limit: Duration) -> Finding {
    let finding = |verdict, detail: String| Finding::broker("admin port", verdict, detail);
    let Some(listen) = config.admin.listen.filter(|listen| listen.port() != 0) else {
        return finding(Verdict::Skipped, "admin.listen names no port".to_owned());
    };
    let address = readiness::reachable(listen);
    let asked = readiness::ask(address, config.admin_certificate());
    match tokio::time::timeout(limit, asked).await {
        Err(_) => {
            let limit = format_duration(limit);
            let detail = format!(
                "{address} does not answer within {limit}: the process is stopped or overloaded"
            );
            finding(Verdict::Problem, detail)
        }
        Ok(Err(error)) => {
            let detail =
                format!("{address}: {error}; no broker of this configuration runs on this host");
            finding(Verdict::Warning, detail)
        }
        Ok(Ok(answer)) => {
            let store = answer.store.as_ref();
            let oldest = store.map(|store| store.oldest_operation_seconds);
            let oldest = oldest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let oldest = oldest.unwrap_or_default();
            let verdict = match answer.ready {
                false => Verdict::Problem,
                true if oldest > SLOW_OPERATION => Verdict::Warning,
                true => Verdict::Ok,
            };
            let mut details = answer.reasons;
            details.extend(store.map(|store| describe(store, oldest)));
            finding(verdict, format!("{address}: {}", details.join("; ")))
        }
    }
}

/// Returns what the broker says about its store: whether it is up, the oldest running operation, and the last error.
fn describe(store: &StoreReadiness, oldest: Duration) -> String {
    let state = if store.up { "up" } else { "down" };
    let oldest = match oldest {
        Duration::ZERO => "no operation runs".to_owned(),
        oldest => format!(
            "the oldest operation has run for {}",
            format_duration(oldest)
        ),
    };
    let time = store.error_time.as_deref().unwrap_or_default();
    let error = store.error.as_ref();
    let error = error.map(|error| format!(", last error at {time}: {error}"));
    let error = error.unwrap_or_default();
    format!("the database is {state}, {oldest}{error}")
}
