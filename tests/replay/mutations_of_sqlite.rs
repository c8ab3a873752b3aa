//! Mistakes in the statements for SQLite.

use std::time::Duration;

use lease_broker_model::queue::OnComplete;

use super::database::Sqlite;
use super::mutation::File::{Cancel, Claim, Heartbeat, Operation, Reap, ReleaseClaims, Settle};
use super::mutation::{Mutation, change, find, without};

/// The reason why a condition of a change is only a second check.
const READ_BEFORE: &str = "the row was read by the same condition, in the same transaction, and only one connection writes";

fn claims() -> Vec<Mutation> {
    vec![
        without(Claim, "lease_row", " AND {lease_state} = 0").equivalent_because(READ_BEFORE),
        change(
            Claim,
            "pick_ready",
            "INDEXED BY {ready_index}\nWHERE {lease_state} = 0",
            "WHERE {lease_state} IN (0, 2)",
        ),
        change(
            Claim,
            "pick_ready",
            "INDEXED BY {ready_index}\nWHERE {lease_state} = 0",
            "WHERE {lease_state} IN (0, 2)",
        )
        .and("lease_row", " AND {lease_state} = 0", ""),
        // The fencing token does not rise.
        change(
            Claim,
            "lease_row",
            " + 1, {lease_attempt}",
            ", {lease_attempt}",
        ),
        change(
            Claim,
            "lease_row",
            "CAST({lease_attempt} AS INTEGER) + 1",
            "CAST({lease_attempt} AS INTEGER) + 0",
        ),
        // The tokens of an earlier epoch are given again.
        change(Claim, "lease_row", "?10", "0 * ?10"),
        without(Claim, "lease_row", ", {lease_token} = ?4"),
        without(Claim, "lease_row", ", {lease_owner} = ?7"),
        change(
            Claim,
            "lease_row",
            "{lease_due_time} = ?6",
            "{lease_due_time} = ?6 - 1",
        ),
        change(
            Claim,
            "find_retried_leases",
            "INDEXED BY {token_index}\nWHERE {lease_token} = ?4 AND",
            "WHERE",
        ),
        without(Claim, "find_retried_leases", " INDEXED BY {token_index}").and(
            "find_retried_leases",
            " AND {lease_state} = 1",
            "",
        ),
        without(Claim, "find_retried_leases", " AND {lease_due_time} > ?5"),
        change(Claim, "find_retried_leases", "> ?5", ">= ?5"),
    ]
}

fn heartbeats() -> Vec<Mutation> {
    vec![
        without(Heartbeat, "extend", " AND {lease_state} = 1"),
        without(Heartbeat, "extend", " AND {lease_token} = ?4"),
        without(Heartbeat, "extend", " AND {lease_fence} = ?7"),
        without(Heartbeat, "extend", " AND {lease_due_time} > ?5"),
        change(Heartbeat, "extend", "> ?5", ">= ?5"),
        change(Heartbeat, "extend", "= ?6", "= ?6 - 1"),
        without(Heartbeat, "read_lost", "{lease_fence} = ?7 AND "),
        without(Heartbeat, "read_lost", " AND {lease_token} IS NULL"),
        without(Heartbeat, "read_lost", " AND {lease_owner} IS NOT NULL"),
    ]
}

fn settlements() -> Vec<Mutation> {
    let mut mutations = Vec::new();
    for section in ["complete", "delete", "fail", "release"] {
        let on_complete = match section {
            "delete" => OnComplete::Delete,
            _ => OnComplete::Keep,
        };
        for condition in [
            " AND {lease_state} = 1",
            " AND {lease_token} = ?4",
            " AND {lease_fence} = ?7",
            " AND {lease_due_time} > ?5",
        ] {
            let mutation = without(Settle, section, condition);
            mutations.push(mutation.if_completions(on_complete.clone()));
        }
        let late = change(Settle, section, "> ?5", ">= ?5");
        mutations.push(late.if_completions(on_complete));
    }
    let recur = OnComplete::Recur(Duration::from_secs(3_600));
    let archive = OnComplete::Archive("archive".to_owned());
    mutations.extend([
        change(
            Settle,
            "complete",
            "CASE ?8 WHEN 3 THEN {lease_attempt} ELSE 0 END",
            "{lease_attempt}",
        )
        .if_completions(recur),
        change(
            Settle,
            "complete",
            "CASE ?8 WHEN 3 THEN {lease_attempt} ELSE 0 END",
            "0",
        ),
        change(
            Settle,
            "complete",
            "{lease_error} = NULL",
            "{lease_error} = NULL, {lease_token} = NULL",
        ),
        change(
            Settle,
            "delete_archived",
            "{key_match}",
            "{key_match} AND 1 = 0",
        )
        .if_completions(archive),
        change(Settle, "fail", "{lease_state} = ?8", "{lease_state} = 0"),
        change(Settle, "fail", "= ?6", "= ?6 - 1"),
        change(
            Settle,
            "fail",
            "{lease_error} = ?9",
            "{lease_error} = ?9, {lease_owner} = NULL",
        ),
        without(Settle, "release", ", {lease_owner} = NULL"),
        change(
            Settle,
            "release",
            "{lease_attempt} - 1",
            "{lease_attempt} - 0",
        ),
        without(Settle, "find_earlier_settlement", "{lease_state} <> 1 AND ").equivalent_because(
            "no settlement leaves a row leased, and the function `after_end` knows that too",
        ),
        without(Settle, "find_earlier_settlement", " AND {lease_token} = ?4"),
        without(Settle, "find_earlier_settlement", " AND {lease_fence} = ?7"),
    ]);
    mutations
}

fn releases_of_claims() -> Vec<Mutation> {
    let (find, release) = ("find_claim", "release_claim");
    vec![
        without(ReleaseClaims, find, " INDEXED BY {token_index}")
            .and(find, " AND {lease_state} = 1", "")
            .equivalent_because("`release_claim` looks at the state again"),
        without(ReleaseClaims, find, " AND {lease_due_time} > ?5"),
        change(
            ReleaseClaims,
            find,
            "{lease_token} = ?4",
            "{lease_token} IS NOT NULL",
        ),
        without(ReleaseClaims, release, "{key_match} AND "),
        without(ReleaseClaims, release, " AND {lease_state} = 1").equivalent_because(READ_BEFORE),
        change(
            ReleaseClaims,
            release,
            "{lease_attempt} - 1",
            "{lease_attempt} - 0",
        ),
    ]
}

fn reaps() -> Vec<Mutation> {
    vec![
        without(Reap, "find_due", " AND {lease_due_time} <= ?5"),
        // Leases and delays end early, or late.
        change(Reap, "find_due", "<= ?5", "<= ?5 + 3600000"),
        change(Reap, "find_due", "<= ?5", "< ?5"),
        without(Reap, "expire", " AND {lease_state} = 1").equivalent_because(READ_BEFORE),
        without(Reap, "expire", " AND {lease_fence} = ?8").equivalent_because(READ_BEFORE),
        // Leases expire although their attempts are used up.
        change(Reap, "expire", "{lease_state} = ?6", "{lease_state} = 0"),
        without(Reap, "expire", ", {lease_token} = NULL"),
        without(Reap, "expire", ", {lease_owner} = NULL"),
        without(Reap, "expire", " - ?9"),
        without(Reap, "promote", " AND {lease_state} = 2").equivalent_because(READ_BEFORE),
        without(Reap, "promote", " AND {lease_fence} = ?8").equivalent_because(READ_BEFORE),
        change(
            Reap,
            "promote",
            "{lease_due_time} = NULL",
            "{lease_due_time} = NULL, {lease_token} = NULL",
        ),
        without(Reap, "promote", ", {lease_due_time} = NULL"),
    ]
}

fn operators() -> Vec<Mutation> {
    vec![
        without(Cancel, "cancel", " AND {lease_state} = 1").equivalent_because(READ_BEFORE),
        without(Cancel, "cancel", ", {lease_token} = NULL"),
        change(
            Cancel,
            "cancel",
            "{lease_token} = NULL",
            "{lease_token} = NULL, {lease_owner} = NULL",
        ),
        without(Cancel, "cancel", ", {lease_due_time} = ?4"),
        without(Operation, "redrive_item", " AND {lease_state} = 4"),
        without(Operation, "redrive_item", " AND {lease_fence} = ?6"),
        without(Operation, "redrive_item", ",\n    {lease_token} = NULL"),
        without(Operation, "redrive_item", ", {lease_owner} = NULL"),
        without(Operation, "redrive_item", "{redriven_attempt}"),
    ]
}

#[tokio::test]
async fn mistakes_in_the_statements_for_sqlite_are_found() {
    let groups = [
        claims(),
        heartbeats(),
        settlements(),
        releases_of_claims(),
        reaps(),
        operators(),
    ];
    find::<Sqlite>(&groups.into_iter().flatten().collect::<Vec<_>>()).await;
}
