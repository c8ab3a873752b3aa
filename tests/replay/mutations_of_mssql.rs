//! Mistakes in the statements for T-SQL.

use std::time::Duration;

use lease_broker_model::queue::OnComplete;

use super::database::Mssql;
use super::mutation::File::{
    Cancel, Claim, Heartbeat, Leases, Operation, Reap, ReleaseClaims, Settle,
};
use super::mutation::{Mutation, change, find, without};

/// The reason why a condition of a change is only a second look.
const READ_BEFORE: &str = "the row was read by the same condition, in the same transaction. Only an engine that ignores lock hints needs the second \
     look: `tests/proof/engine.rs` models one";

fn claims() -> Vec<Mutation> {
    vec![
        without(Claim, "claim", "t.{lease_state} = 0 AND ").equivalent_because(READ_BEFORE),
        change(
            Claim,
            "claim",
            " AND t.{lease_fence} = p.lb_f THEN",
            " THEN",
        )
        .equivalent_because(READ_BEFORE),
        change(
            Claim,
            "pick_ready",
            "t.{lease_state} = 0",
            "t.{lease_state} IN (0, 2)",
        )
        .and("claim", "t.{lease_state} = 0 AND ", ""),
        // The fencing token does not rise.
        change(
            Claim,
            "claim",
            " + 1, {lease_attempt}",
            ", {lease_attempt}",
        ),
        change(
            Claim,
            "claim",
            "t.{lease_attempt} + 1",
            "t.{lease_attempt} + 0",
        ),
        // The tokens of an earlier epoch are given again.
        change(
            Claim,
            "claim",
            "WHEN t.{lease_fence} < @fence",
            "WHEN t.{lease_fence} < 0",
        ),
        without(Claim, "claim", "{lease_token} = p.lb_t, "),
        without(Claim, "claim", ", {lease_owner} = p.lb_w"),
        change(
            Claim,
            "claim",
            "{lease_due_time} = p.lb_due",
            "{lease_due_time} = DATEADD(hour, -1, p.lb_due)",
        ),
        without(Claim, "find_retried_claims", "t.{lease_state} = 1 AND "),
        without(
            Claim,
            "find_retried_claims",
            "t.{lease_due_time} > @now AND ",
        ),
        without(Claim, "read_retried_claims", "t.{lease_state} = 1 AND ").equivalent_because(
            "`find_retried_claims` has found the lease by the same condition. The next mistake leaves out both",
        ),
        without(Claim, "read_retried_claims", "t.{lease_state} = 1 AND ").and(
            "find_retried_claims",
            "t.{lease_state} = 1 AND ",
            "",
        ),
    ]
}

fn leases() -> Vec<Mutation> {
    vec![
        without(Leases, "is_held", "t.{lease_state} = 1 AND "),
        without(Leases, "is_held", " AND t.{lease_token} = l.lb_t"),
        without(Leases, "is_held", " AND t.{lease_fence} = l.lb_f"),
        without(Leases, "is_held", " AND t.{lease_due_time} > @now"),
        without(Leases, "is_same_lease", "t.{lease_token} = l.lb_t AND "),
        without(Leases, "is_same_lease", " AND t.{lease_fence} = l.lb_f"),
        change(
            Heartbeat,
            "extend",
            "{lease_due_time} = l.lb_due",
            "{lease_due_time} = DATEADD(hour, -1, l.lb_due)",
        ),
        without(Heartbeat, "extend", "t.{lease_fence} = l.lb_f AND "),
        without(Heartbeat, "extend", " AND t.{lease_token} IS NULL"),
        without(Heartbeat, "extend", " AND t.{lease_owner} IS NOT NULL"),
    ]
}

fn settlements() -> Vec<Mutation> {
    let recur = OnComplete::Recur(Duration::from_secs(3_600));
    let archive = OnComplete::Archive("archive".to_owned());
    vec![
        change(Settle, "begin", "WHERE {is_held}", "WHERE {is_same_lease}"),
        change(
            Settle,
            "update_ended",
            "WHERE {is_held}",
            "WHERE {is_same_lease}",
        ),
        change(
            Settle,
            "verify_count",
            "@changed_count <> @held_count",
            "1 = 0",
        )
        .equivalent_because(READ_BEFORE),
        change(
            Settle,
            "delete_completed",
            "WHERE {is_held}",
            "WHERE {is_same_lease}",
        )
        .if_completions(OnComplete::Delete),
        change(
            Settle,
            "delete_completed",
            " AND l.lb_kind = 0",
            " AND l.lb_kind <> 2",
        )
        .if_completions(OnComplete::Delete)
        .equivalent_because(
            "`update_ended` runs before, so the lease of a failed item is not held any more",
        ),
        change(
            Settle,
            "move_to_archive",
            "t.{lease_state} = 3",
            "t.{lease_state} = 4",
        )
        .if_completions(archive),
        change(
            Settle,
            "update_ended",
            "WHEN l.lb_kind = 0 AND l.lb_state <> 3 THEN 0 ",
            "",
        )
        .if_completions(recur),
        change(
            Settle,
            "update_ended",
            "l.lb_kind = 0 AND l.lb_state <> 3",
            "l.lb_kind = 0",
        ),
        change(
            Settle,
            "update_ended",
            "t.{lease_attempt} - 1",
            "t.{lease_attempt} - 0",
        ),
        change(
            Settle,
            "update_ended",
            "CASE l.lb_kind WHEN 2 THEN NULL ELSE t.{lease_owner} END",
            "t.{lease_owner}",
        ),
        change(
            Settle,
            "update_ended",
            "{lease_due_time} = l.lb_due",
            "{lease_due_time} = DATEADD(hour, -1, l.lb_due)",
        ),
        change(
            Settle,
            "update_ended",
            "{lease_state} = l.lb_state",
            "{lease_state} = CASE l.lb_state WHEN 4 THEN 0 ELSE l.lb_state END",
        ),
        without(Settle, "begin", " AND t.{lease_attempt} = 0"),
        without(Settle, "begin", " AND t.{lease_attempt} > 0"),
    ]
}

fn releases_of_claims() -> Vec<Mutation> {
    vec![
        without(
            ReleaseClaims,
            "release_claims",
            "t.{lease_state} = 1 AND t.{lease_token} = d.lb_t AND ",
        )
        .equivalent_because(READ_BEFORE),
        without(
            ReleaseClaims,
            "release_claims",
            "t.{lease_fence} = d.lb_f AND ",
        )
        .equivalent_because(READ_BEFORE),
        change(
            ReleaseClaims,
            "release_claims",
            "WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now",
            "WHERE t.{lease_due_time} > @now",
        ),
        change(
            ReleaseClaims,
            "release_claims",
            "WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now",
            "WHERE t.{lease_state} = 1",
        ),
        change(
            ReleaseClaims,
            "release_claims",
            "t.{lease_attempt} - 1",
            "t.{lease_attempt} - 0",
        ),
        without(ReleaseClaims, "release_claims", ", {lease_owner} = NULL"),
    ]
}

fn reaps() -> Vec<Mutation> {
    vec![
        without(Reap, "pick_due", " AND t.{lease_due_time} <= @now"),
        // Leases and delays end early.
        change(
            Reap,
            "pick_due",
            "t.{lease_due_time} <= @now",
            "t.{lease_due_time} <= DATEADD(hour, 2, @now)",
        )
        .and("update_due", "<= @now", "<= DATEADD(hour, 2, @now)"),
        // A lease does not expire for good when its attempts are used up.
        change(
            Reap,
            "pick_due",
            "t.{lease_attempt} >= @P2",
            "t.{lease_attempt} > @P2",
        ),
        without(Reap, "pick_due", " AND @is_stepped = 0"),
        without(Reap, "update_due", "t.{lease_state} = d.lb_state AND ")
            .equivalent_because(READ_BEFORE),
        without(Reap, "update_due", "t.{lease_fence} = d.lb_f AND ")
            .equivalent_because(READ_BEFORE),
        without(Reap, "update_due", " AND t.{lease_due_time} <= @now")
            .equivalent_because(READ_BEFORE),
        change(
            Reap,
            "update_due",
            "CASE d.lb_state WHEN 1 THEN NULL ELSE t.{lease_token} END",
            "t.{lease_token}",
        ),
        change(
            Reap,
            "update_due",
            "CASE d.lb_state WHEN 1 THEN NULL ELSE t.{lease_token} END",
            "NULL",
        ),
        change(
            Reap,
            "update_due",
            "CASE d.lb_state WHEN 1 THEN NULL ELSE t.{lease_owner} END",
            "t.{lease_owner}",
        ),
        change(
            Reap,
            "update_due",
            "d.lb_state = 1 AND @is_stepped = 1",
            "d.lb_state = 1",
        ),
    ]
}

fn operators() -> Vec<Mutation> {
    vec![
        without(
            Cancel,
            "end_held",
            "t.{lease_state} = 1 AND (l.lb_fence IS NULL OR l.lb_fence = t.{lease_fence}){held_since}",
        )
        .and("end_held", "CASE WHEN  THEN 1 END", "1"),
        without(
            Cancel,
            "end_held",
            " AND (l.lb_fence IS NULL OR l.lb_fence = t.{lease_fence})",
        ),
        change(
            Cancel,
            "end_held",
            "t.{lease_attempt} >= @max_attempts",
            "t.{lease_attempt} > @max_attempts",
        ),
        without(Cancel, "end_held", "{lease_token} = NULL, "),
        without(
            Cancel,
            "end_held",
            ", {lease_due_time} = CASE d.lb_next WHEN 2 THEN @due END",
        ),
        without(Cancel, "end_held", " AND t.{lease_fence} = d.lb_f").equivalent_because(READ_BEFORE),
        without(Cancel, "cancel", "l.lb_fence = t.{lease_fence} AND "),
        without(Cancel, "cancel", " AND t.{lease_owner} IS NOT NULL"),
        change(
            Operation,
            "find_items",
            "t.{lease_state} = {state}",
            "t.{lease_state} IN (3, 4)",
        )
        .and("redrive_items", "t.{lease_state} = 4 AND ", ""),
        without(Operation, "find_items", " AND t.{lease_fence} = l.lb_fence"),
        without(Operation, "redrive_items", "t.{lease_state} = 4 AND ")
            .equivalent_because(READ_BEFORE),
        without(Operation, "redrive_items", " AND t.{lease_fence} = d.lb_f")
            .equivalent_because(READ_BEFORE),
        without(Operation, "redrive_items", ",\n        {lease_token} = NULL"),
        without(Operation, "redrive_items", ", {lease_owner} = NULL"),
        without(Operation, "redrive_items", "{redriven_attempt}"),
    ]
}

#[tokio::test]
async fn mistakes_in_the_statements_for_mssql_are_found() {
    let groups = [
        claims(),
        leases(),
        settlements(),
        releases_of_claims(),
        reaps(),
        operators(),
    ];
    find::<Mssql>(&groups.into_iter().flatten().collect::<Vec<_>>()).await;
}
