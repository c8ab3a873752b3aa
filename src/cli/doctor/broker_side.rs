//! The checks with the configuration of a service: its database, the brokers on it, its tables, and its admin port.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_broker_store::schema::Schema;
use lease_broker_store::{BrokerList, StoreError};
use tokio::sync::mpsc::UnboundedSender;

use super::finding::{Finding, Verdict};
use super::{bounded, sqlite_file};
use crate::cli::config_args::{SchemaAccess, open_schema};
use crate::cli::health::readiness::{self, StoreReadiness};
use crate::cli::output::format_duration;
use crate::config::{Config, StoreKind};

/// A clock that differs by more than this can end short leases early or late. A smaller difference can be the time of the check.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// A broker probes its database when an operation takes longer than this.
const SLOW_OPERATION: Duration = Duration::from_secs(3);

/// Runs all checks of this side.
pub(super) async fn check(config: &Config, limit: Duration) -> Vec<Finding> {
    let mut findings = Vec::new();
    if config.store.kind == StoreKind::Sqlite {
        let path = config.store.path.clone();
        let check = move |findings: &_| sqlite_file::check(&path, findings);
        let (found, ended) = bounded::run(limit, check).await;
        findings.extend(found);
        if !ended {
            findings.push(hangs("file system", limit));
        }
    }
    let settings = config.clone();
    let check = move |findings: &_| check_database(&settings, findings);
    let (found, ended) = bounded::run(limit, check).await;
    findings.extend(found);
    if !ended {
        findings.push(hangs("database", limit));
    }
    findings.push(check_admin_port(config, limit).await);
    findings
}

fn hangs(check: &str, limit: Duration) -> Finding {
    let limit = format_duration(limit);
    Finding::broker(check, Verdict::Problem, format!("no answer within {limit}"))
}

/// Reads the list of brokers, and checks the tables of the queues.
fn check_database(config: &Config, findings: &UnboundedSender<Finding>) {
    let send = |check: String, verdict, detail: String| {
        let _ = findings.send(Finding::broker(check, verdict, detail));
    };
    let failed = |error: &dyn std::fmt::Display| {
        send("database".to_owned(), Verdict::Problem, error.to_string());
    };
    let mut schema = match open_schema(config, SchemaAccess::Read) {
        Ok(schema) => schema,
        Err(error) => return failed(&error),
    };
    match schema.brokers() {
        Ok(list) => {
            send("database".to_owned(), Verdict::Ok, "it answers".to_owned());
            check_clock(&list, &send);
            check_brokers(&list, &send);
        }
        Err(StoreError::Misconfigured(problem)) => {
            let detail = format!("no broker of this version has used it ({problem})");
            send("database".to_owned(), Verdict::Warning, detail);
        }
        Err(error) => return failed(&error),
    }
    for queue in &config.queues {
        let check = format!("table of {}", queue.name);
        let created = queue.managed_columns.is_some();
        match missing_parts(schema.as_mut(), queue) {
            Ok(missing) if missing.is_empty() => send(check, Verdict::Ok, queue.table.clone()),
            Ok(_) if created => {
                let detail = "the service creates or changes it when it starts".to_owned();
                send(check, Verdict::Warning, detail);
            }
            Ok(missing) => send(check, Verdict::Problem, missing.join("; ")),
            Err(error) => send(check, Verdict::Problem, error.to_string()),
        }
    }
}

fn missing_parts(
    schema: &mut dyn Schema,
    queue: &lease_broker_model::queue::QueueSpec,
) -> Result<Vec<String>, StoreError> {
    schema.check(queue)
}

type Send<'a> = dyn Fn(String, Verdict, String) + 'a;

fn check_clock(list: &BrokerList, send: &Send<'_>) {
    let here = SystemTime::now().duration_since(UNIX_EPOCH);
    let here = here.map_or(0, |here| {
        i64::try_from(here.as_millis()).unwrap_or(i64::MAX)
    });
    let difference = Duration::from_millis(here.abs_diff(list.now));
    let future = list.brokers.iter().map(|broker| broker.ahead).max();
    let future = future.unwrap_or_default();
    let (verdict, detail) = if future > CLOCK_TOLERANCE {
        let future = format_duration(future);
        let detail = format!(
            "a broker was seen {future} in the future: the clock of the database went back"
        );
        (Verdict::Problem, detail)
    } else if difference > CLOCK_TOLERANCE {
        let difference = format_duration(difference);
        let detail =
            format!("the clocks of this machine and of the database differ by {difference}");
        (Verdict::Warning, detail)
    } else {
        (
            Verdict::Ok,
            "this machine and the database agree".to_owned(),
        )
    };
    send("clock".to_owned(), verdict, detail);
}

fn check_brokers(list: &BrokerList, send: &Send<'_>) {
    if list.brokers.is_empty() {
        let detail = "none was seen within the last day".to_owned();
        return send("brokers".to_owned(), Verdict::Warning, detail);
    }
    for broker in &list.brokers {
        let silence = format_duration(broker.silence);
        let version = &broker.version;
        let (verdict, detail) = if broker.draining {
            (
                Verdict::Ok,
                format!("version {version}, stopped or stopping {silence} ago"),
            )
        } else if broker.is_live() {
            (
                Verdict::Ok,
                format!("version {version}, seen {silence} ago"),
            )
        } else {
            let detail = format!(
                "version {version}, writes its row no more since {silence}: it was killed, is stopped, or cannot write"
            );
            (Verdict::Warning, detail)
        };
        send(format!("broker {}", broker.address), verdict, detail);
    }
}

/// Asks the broker of this configuration on this host.
async fn check_admin_port(config: &Config, limit: Duration) -> Finding {
    let finding = |verdict, detail: String| Finding::broker("admin port", verdict, detail);
    let Some(listen) = config.admin.listen.filter(|listen| listen.port() != 0) else {
        return finding(Verdict::Skipped, "admin.listen names no port".to_owned());
    };
    let address = readiness::reachable(listen);
    match tokio::time::timeout(limit, readiness::ask(address)).await {
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
