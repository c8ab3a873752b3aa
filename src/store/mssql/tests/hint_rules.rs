//! Rules that hold for every batch of a queue: about its first line, about hints, and about changes of no row.

use lease_broker_model::queue::{ClaimStrategy, QueueSpec};

/// Checks the rules for `batches`, which are rendered for `spec`. `seeks_by_key`: the table's joins by key have to name
/// the index of the key.
pub(super) fn check(spec: &QueueSpec, batches: &str, seeks_by_key: bool) {
    for batch in batches.split("===== ").skip(1) {
        check_comment(batch);
        check_lock_wait(batch);
    }
    check_plans(batches);
    for statement in batches.split(";\n") {
        let changes_table = statement.contains("UPDATE t\n") || statement.contains("DELETE t\n");
        let uses: Vec<&str> = statement.split(" AS t ").skip(1).collect();
        assert!(
            !changes_table || !uses.is_empty(),
            "no table in: {statement}"
        );
        if changes_table {
            check_guard(statement);
        }
        for hints in uses {
            check_hints(spec, statement, hints, changes_table, seeks_by_key);
        }
        for top in statement.split("TOP (@").skip(1) {
            let (variable, _) = top.split_once(')').expect("a closing parenthesis");
            let estimate = format!("@{variable} = 1");
            let estimates = statement.split_once("OPTIMIZE FOR (");
            let has_estimate = estimates.is_some_and(|(_, list)| list.contains(&estimate));
            assert!(has_estimate, "no {estimate}: {statement}");
        }
    }
}

/// Checks that no plan is made anew while a batch holds locks. SQL Server would first wait for new statistics.
pub(super) fn check_plans(batches: &str) {
    for batch in batches.split("===== ").skip(1) {
        let Some((before_commit, _)) = batch.rsplit_once("COMMIT TRANSACTION") else {
            continue;
        };
        for statement in before_commit.split(";\n") {
            let reads_table =
                statement.contains(" AS t WITH (") || statement.contains(" AS b WITH (");
            let keeps_plan = statement.contains("KEEPFIXED PLAN");
            assert!(!reads_table || keeps_plan, "{statement}");
        }
    }
}

/// Checks that a batch begins with a comment that names the broker and the operation. `batch` begins with the batch's title.
fn check_comment(batch: &str) {
    let first = batch.lines().nth(1).expect("a batch below its title");
    let comment = first.strip_prefix("/* lease-broker ");
    let comment = comment.and_then(|rest| rest.strip_suffix(" */"));
    let is_one_comment = comment.is_some_and(|comment| !comment.contains('*'));
    assert!(is_one_comment, "no comment with a name: {batch}");
}

/// Checks that a batch which changes leases by a list does not wait long for a locked row. The rows of a list are those of several
/// workers. Other batches pick rows that are free.
fn check_lock_wait(batch: &str) {
    const WITH_LISTS: [&str; 5] = [
        "heartbeat",
        "settle",
        "cancel",
        "release claims",
        "apply operation",
    ];
    let is_of = |operation: &&str| batch.contains(&format!("/* lease-broker {operation} "));
    let has_list = WITH_LISTS.iter().any(is_of) && batch.contains("UPDATE t\n");
    assert!(
        !has_list || batch.contains(" SET LOCK_TIMEOUT 500;\n"),
        "waits long for a locked row: {batch}"
    );
}

/// Checks that a change stands below an IF. The change of named leases that leaves their state as it is needs none.
fn check_guard(statement: &str) {
    let change = statement.lines().find(|line| {
        let line = line.trim_start();
        line == "UPDATE t" || line == "DELETE t"
    });
    let is_guarded = change.is_some_and(|line| line.starts_with("    "));
    let ends_leases = statement.contains("SET [lease_state] = ") || statement.contains("DELETE t");
    assert!(
        is_guarded || !ends_leases,
        "runs triggers for no row: {statement}"
    );
}

/// Checks one use of the table. `hints` is the text after its alias.
fn check_hints(
    spec: &QueueSpec,
    statement: &str,
    hints: &str,
    changes_table: bool,
    seeks_by_key: bool,
) {
    let end = hints.find(" ON ").or_else(|| hints.find('\n'));
    let hints = &hints[..end.unwrap_or(hints.len())];
    let has = |hint: &str| hints.contains(hint);
    assert!(has("WITH ("), "no hints: {statement}");
    // READPAST does not skip the lock on a page.
    assert!(!has("READPAST") || has("ROWLOCK"), "{statement}");
    if changes_table {
        assert!(has("ROWLOCK"), "may lock pages: {statement}");
        assert!(!has("READCOMMITTEDLOCK"), "a target: {statement}");
    }
    // A statement takes U locks on its target with any isolation, so READPAST alone suffices there.
    if !changes_table {
        assert_eq!(has("READPAST"), has("READCOMMITTEDLOCK"), "{statement}");
    }
    // While there are suspects, each claim and each run of the reaper reads their rows.
    let waits = !has("READPAST") && !has("READUNCOMMITTED");
    assert!(
        !(waits && statement.contains("suspect")) || spec.claim_strategy == ClaimStrategy::AppLock,
        "waits for a locked row: {statement}"
    );
    if has("UPDLOCK") || changes_table {
        assert!(statement.contains("KEEPFIXED PLAN"), "{statement}");
    }
    for index in ["lease_ready]", "lease_dead]"] {
        let seeks = has("FORCESEEK") && has(index);
        // Only retention asks for a range of times.
        let has_range = index == "lease_dead]" && statement.contains("] < @dead");
        assert!(
            !(seeks && spec.filtered_indexes) || has_range,
            "nothing to seek: {statement}"
        );
        assert!(
            seeks || !has(index) || spec.filtered_indexes,
            "no seek: {statement}"
        );
    }
    if changes_table || statement.contains("FORCE ORDER") {
        let by_key = has("FORCESEEK, INDEX ([PK])") || has("_token]") || has("_token\"");
        assert!(
            by_key || !seeks_by_key,
            "not sought by the key: {statement}"
        );
    }
}
