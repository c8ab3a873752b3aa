//! What the commands on leases share: the ids given, the outcomes told, the exit code.

use std::io::{BufRead as _, stdin};

use serde_json::Value as Json;

use super::CommandError;
use crate::grpc::proto;

/// Returns the leases given; in the place of `-`, those on standard input.
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
                            "standard input: no lease_id in {line}"
                        )));
                    }
                },
                _ if line.is_empty() => {}
                _ => ids.push(line.to_owned()),
            }
        }
    }
    Ok(ids)
}

/// Names an outcome as the documentation does.
pub(super) fn outcome_name(outcome: proto::Outcome) -> &'static str {
    match outcome {
        proto::Outcome::Applied => "applied",
        proto::Outcome::LeaseLost => "lease lost",
        proto::Outcome::Unspecified => "unknown",
    }
}

/// Makes the command fail if a lease was lost.
pub(super) fn fail_if_lost(
    outcomes: impl Iterator<Item = proto::Outcome>,
) -> Result<(), CommandError> {
    let lost = outcomes
        .filter(|outcome| *outcome != proto::Outcome::Applied)
        .count();
    match lost {
        0 => Ok(()),
        1 => Err(CommandError::failed(
            "1 lease is not held any more; nothing was changed for it",
        )),
        lost => Err(CommandError::failed(format!(
            "{lost} leases are not held any more; nothing was changed for them"
        ))),
    }
}
