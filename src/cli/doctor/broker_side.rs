//! The checks with the configuration of a service.

use std::path::Path;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tokio::task::spawn_blocking;

use super::finding::{Finding, Verdict};
use super::part::Part;
use crate::cli::health::readiness::{self, StoreReadiness};
use crate::cli::output::format_duration;
use crate::config::{Config, StoreKind};
use crate::security::end_entity;
use crate::security::pem::certificates;
use crate::security::validity::Validity;

/// A broker probes its database when an operation takes longer than this.
const SLOW_OPERATION: Duration = Duration::from_secs(3);
/// The time before the end of the certificate from which on it is a warning. The alert `LeaseBrokerCertificateEnds` has the same.
const CERTIFICATE_WARNING: Duration = Duration::from_secs(7 * 86_400);

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
    findings.extend(check_certificate(config));
    findings.extend(port);
    findings
}

/// Reads the certificate of the service. `None`: it speaks no TLS.
fn check_certificate(config: &Config) -> Option<Finding> {
    let file = &config.server.tls.as_ref()?.certificate;
    let pem = std::fs::read(file).map_err(|error| error.to_string());
    let chain = pem.and_then(|pem| certificates(&pem));
    let read = chain.and_then(|chain| {
        let validity = Validity::of(&chain[0])?;
        Ok((validity, end_entity::is_authority(&chain[0], validity)))
    });
    let now = UnixTime::now();
    let soon = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + CERTIFICATE_WARNING);
    let (verdict, detail) = match read {
        Err(problem) => (Verdict::Problem, problem),
        Ok((validity, is_authority)) => match validity.problem(now) {
            Some(problem) => (Verdict::Problem, problem),
            None if is_authority => (
                Verdict::Warning,
                format!(
                    "commands and workers in Rust refuse it, because it is one of an authority (CA:TRUE): {}",
                    end_entity::REMEDY
                ),
            ),
            None if validity.problem(soon).is_some() => (Verdict::Warning, validity.end()),
            None => (Verdict::Ok, validity.end()),
        },
    };
    let detail = format!("{}: {detail}", file.display());
    Some(Finding::broker("certificate", verdict, detail))
}

/// Asks the broker of this configuration on this host.
async fn check_admin_port(config: &Config, limit: Duration) -> Vec<Finding> {
    let finding = |verdict, detail: String| Finding::broker("admin port", verdict, detail);
    let Some(listen) = config.admin.listen.filter(|listen| listen.port() != 0) else {
        let detail = "admin.listen names no port".to_owned();
        return vec![finding(Verdict::Skipped, detail)];
    };
    let address = readiness::reachable(listen);
    let asked = readiness::ask(address, config.admin.tls);
    let answer = match tokio::time::timeout(limit, asked).await {
        Err(_) => {
            let limit = format_duration(limit);
            let detail = format!(
                "{address} does not answer within {limit}: the process is stopped or overloaded"
            );
            return vec![finding(Verdict::Problem, detail)];
        }
        Ok(Err(error)) => {
            let detail =
                format!("{address}: {error}; no broker of this configuration runs on this host");
            return vec![finding(Verdict::Warning, detail)];
        }
        Ok(Ok(answer)) => answer,
    };
    if let Some(file) = other_database(config, answer.database_file.as_deref(), limit).await {
        let detail = format!(
            "{address}: the broker there serves {file}; no broker of this configuration answers on this host"
        );
        return vec![finding(Verdict::Warning, detail)];
    }
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
    let port = finding(verdict, format!("{address}: {}", details.join("; ")));
    let of_reaper = |(queue, error): (String, String)| {
        let detail = format!("expired leases do not end: {error}");
        Finding::broker(format!("reaper of {queue}"), Verdict::Problem, detail)
    };
    // Without its database each queue has a reaper that fails, and the port's line says why.
    let errors = answer.reaper_errors.into_iter().filter(|_| answer.ready);
    std::iter::once(port).chain(errors.map(of_reaper)).collect()
}

/// Returns the database file of a broker if it is another one than that of the configuration.
async fn other_database(config: &Config, file: Option<&Path>, limit: Duration) -> Option<String> {
    let (own, file) = (config.store.absolute_path(), file?.to_owned());
    let shown = file.display().to_string();
    let Some(own) = own else {
        return Some(shown);
    };
    if own == file {
        return None;
    }
    // The same file can have several names. A device that does not answer is no reason to warn.
    let is_other = spawn_blocking(move || match [own, file].map(std::fs::canonicalize) {
        [Ok(own), Ok(file)] => own != file,
        _ => true,
    });
    let is_other = tokio::time::timeout(limit, is_other).await;
    matches!(is_other, Ok(Ok(true))).then_some(shown)
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
