//! The parts that the statements of several operations have.

use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;

use super::run_parts;
use crate::template::{Placeholders, render};

const TRIGGERS: &str = lease_broker_sql::mssql::TRIGGERS;

/// The end of a batch that changes rows.
pub(super) const COMMIT: &str = "COMMIT TRANSACTION;";
/// The end of a batch that only tries a change.
pub(super) const ROLLBACK: &str = "ROLLBACK TRANSACTION;";

/// Renders the name of a queue for the comment at the start of each batch. Comments nest in T-SQL, so a name with `*` could
/// begin or end one.
pub(super) fn queue_comment(name: &str) -> String {
    name.replace(|c: char| c == '*' || c.is_control(), "_")
}

/// Surrounds the batch as `triggers.sql` describes, if a table that it changes has triggers. The comment in its first line stays
/// the first line.
pub(super) fn roll_back_on_error(batch: String, has_triggers: bool) -> String {
    if !has_triggers {
        return batch;
    }
    let (comment, batch) = batch.split_once('\n').unwrap_or(("", &batch));
    let placeholders = Placeholders::from([("batch", batch.to_owned())]);
    format!(
        "{comment}\n{}",
        render(TRIGGERS, "roll_back_on_error", &placeholders)
    )
}

/// Returns whether [`roll_back_on_error`] has surrounded a batch, so that it runs triggers of the user.
pub(super) fn runs_triggers(batch: &str) -> bool {
    let after_comment = batch.split_once('\n').map(|(_, rest)| rest);
    after_comment.is_some_and(|rest| rest.starts_with("BEGIN TRY\n"))
}

/// Adds the list of keys in `cancel.sql` to the placeholders.
pub(super) fn with_key_list(sql: &LeaseSql, placeholders: &Placeholders) -> Placeholders {
    let mut placeholders = placeholders.clone();
    let list = render(sql.cancel, "key_list", &placeholders);
    placeholders.insert("key_list", list);
    placeholders
}

/// Renders the batch of `cancel.sql`.
pub(super) fn render_cancel(
    sql: &LeaseSql,
    queue: &QueueSpec,
    placeholders: &Placeholders,
) -> String {
    let mut placeholders = with_key_list(sql, placeholders);
    run_parts::set_in_cancellation(&mut placeholders, sql, queue);
    placeholders.insert("held_since", String::new());
    for section in ["read_cancellation", "end_held", "read_ended"] {
        let text = render(sql.cancel, section, &placeholders);
        placeholders.insert(section, text);
    }
    render(sql.cancel, "cancel", &placeholders)
}

/// The states with a due time, as the filter of the due index has them. Another condition would not match the filter.
pub(super) const ALL_DUE: &str = "IN (1, 2)";

/// Adds the sections of `leases.sql`, and the fields that `file` adds to its list, to the placeholders.
pub(super) fn with_lease_list(
    sql: &LeaseSql,
    file: &str,
    placeholders: &Placeholders,
) -> Placeholders {
    let mut placeholders = placeholders.clone();
    for (file, sections) in [
        (file, &["extra_columns", "extra_json"][..]),
        (sql.leases, &["lease_list", "is_same_lease", "is_held"]),
    ] {
        for section in sections {
            let text = render(file, section, &placeholders);
            placeholders.insert(section, text);
        }
    }
    placeholders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_name_never_ends_or_begins_a_comment() {
        for name in ["a*/ DROP TABLE b", "/*", "*/*", "a\nGO\n"] {
            let comment = format!("/* lease-broker claim {} */", queue_comment(name));
            assert_eq!(comment.matches("*/").count(), 1, "{comment}");
            assert_eq!(comment.matches("/*").count(), 1, "{comment}");
            assert_eq!(comment.lines().count(), 1, "{comment}");
        }
    }

    #[test]
    fn comment_stays_first_in_a_batch_that_rolls_back() {
        let batch = roll_back_on_error("/* lease-broker claim q */\nSELECT 1".to_owned(), true);
        assert!(
            batch.starts_with("/* lease-broker claim q */\nBEGIN TRY\nSELECT 1\n"),
            "{batch}"
        );
        assert!(runs_triggers(&batch));
        assert!(!runs_triggers("/* lease-broker claim q */\nSELECT 1"));
    }
}
