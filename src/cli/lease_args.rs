//! Lease ids from the command line or standard input, and the outcomes of the calls on them.

use std::io::{BufRead as _, stdin};

use lease_broker_model::lease_id::can_be_id;
use lease_broker_proto as proto;
use serde_json::Value as Json;

use super::CommandError;

/// Returns the lease ids of the command line. Replaces each `-` by the ids on standard input.
///
/// A line of standard input is a lease id or a JSON object with the field `lease_id`, as `claim --output json` prints it.
/// Empty lines are ignored.
///
/// # Errors
/// Exit code 64 for a text that is no lease id. The service would answer that the lease is lost.
pub(super) fn read_lease_ids(given: Vec<String>) -> Result<Vec<String>, CommandError> {
    let mut ids = Vec::new();
    for id in given {
        if id != "-" {
            ids.push(id);
            continue;
        }
        for line in stdin().lock().lines() {
            let line =
                line.map_err(|error| CommandError::io(format!("standard input: {error}")))?;
            let line = line.trim();
            match serde_json::from_str::<Json>(line) {
                Ok(Json::Object(fields)) => match fields.get("lease_id") {
                    Some(Json::String(id)) => ids.push(id.clone()),
                    _ => {
                        return Err(CommandError::usage(format!(
                            "standard input: no field lease_id in {line}"
                        )));
                    }
                },
                _ if line.is_empty() => {}
                _ => ids.push(line.to_owned()),
            }
        }
    }
    match ids.iter().find(|id| !can_be_id(id)) {
        Some(wrong) => Err(CommandError::usage(format!("{wrong:?} is no lease id"))),
        None => Ok(ids),
    }
}

/// Returns heartbeat entries that extend the leases and nothing else.
pub(super) fn renewals(lease_ids: impl IntoIterator<Item = String>) -> Vec<proto::Renewal> {
    let renewal = |lease_id| proto::Renewal {
        lease_id,
        checkpoint: None,
    };
    lease_ids.into_iter().map(renewal).collect()
}

/// Returns the results of a call with their entries. Results are in the order of the entries.
pub(super) fn with_results<E, R>(
    entries: Vec<E>,
    results: Vec<R>,
) -> Result<Vec<(E, R)>, CommandError> {
    if entries.len() == results.len() {
        return Ok(entries.into_iter().zip(results).collect());
    }
    Err(CommandError::failed(format!(
        "the service returned {} results for {} entries",
        results.len(),
        entries.len()
    )))
}

/// Returns the name of an outcome, as the commands print it.
pub(super) fn outcome_name(outcome: proto::Outcome) -> &'static str {
    match outcome {
        proto::Outcome::Applied => "applied",
        // A newer service can have further outcomes.
        proto::Outcome::LeaseLost | proto::Outcome::Unspecified => "lease lost",
        proto::Outcome::Gone => "gone",
        proto::Outcome::Refused => "refused",
    }
}

/// Returns the problem of a refused entry, with the path of its field if that is known. Empty: the entry was not refused.
pub(super) fn problem(refusal: Option<&proto::Refusal>) -> String {
    match refusal {
        None => String::new(),
        Some(refusal) if refusal.field.is_empty() => refusal.message.clone(),
        Some(refusal) => format!("{}: {}", refusal.field, refusal.message),
    }
}

/// Checks that each outcome is "applied".
///
/// # Errors
/// Exit code 1, with the number of refused settlements, or of lost leases and of items that are gone.
pub(super) fn fail_if_lost(
    outcomes: impl Iterator<Item = proto::Outcome>,
) -> Result<(), CommandError> {
    let (mut lost, mut gone, mut refused) = (0, 0, 0);
    for outcome in outcomes {
        match outcome {
            proto::Outcome::Applied => {}
            proto::Outcome::Refused => refused += 1,
            proto::Outcome::Gone => gone += 1,
            _ => lost += 1,
        }
    }
    let mut problems = Vec::new();
    match refused {
        0 => {}
        1 => problems.push(
            "1 settlement was refused and changed nothing; its result has the problem".to_owned(),
        ),
        more => problems.push(format!(
            "{more} settlements were refused and changed nothing; each result has its problem"
        )),
    }
    match lost {
        0 => {}
        1 => problems.push("1 lease was lost; its item was not changed".to_owned()),
        more => problems.push(format!(
            "{more} leases were lost; their items were not changed"
        )),
    }
    match gone {
        0 => {}
        1 => problems
            .push("1 item no longer exists; an earlier call may have completed it".to_owned()),
        more => problems.push(format!(
            "{more} items no longer exist; earlier calls may have completed them"
        )),
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(CommandError::failed(problems.join("; ")))
    }
}
