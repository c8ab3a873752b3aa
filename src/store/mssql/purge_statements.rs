//! The rendered statements of `purge.sql`.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};

use super::backfill::set_position_placeholders;
use super::catalogue::{Column, Table};
use super::index;
use super::quote::quote;
use super::statement_parts::roll_back_on_error;
use crate::StoreError;
use crate::adoption::time_index;
use crate::template::{Placeholders, render};

const PURGE: &str = lease_broker_sql::mssql::PURGE;

/// The batches of `purge.sql`.
pub(super) struct PurgeStatements {
    /// Visits the first rows of the table or, with an index of completed items, the oldest old ones.
    pub(super) first: String,
    /// Visits the rows after a position.
    pub(super) next: String,
    /// `None` if the queue has no archive, or one without an index on the time.
    pub(super) archive: Option<ArchiveStatements>,
    pub(super) take_turn: String,
}

pub(super) struct ArchiveStatements {
    pub(super) delete_archived: String,
    pub(super) count_archived: String,
}

impl PurgeStatements {
    pub(super) fn new(
        spec: &QueueSpec,
        key: &[Column],
        table: &Table,
        archive: Option<&Table>,
        placeholders: &Placeholders,
    ) -> Self {
        let mut placeholders = placeholders.clone();
        set_position_placeholders(&mut placeholders, key);
        let is_old = render(PURGE, "is_old", &placeholders);
        placeholders.insert("is_old", is_old);
        set_bounded_now(&mut placeholders, "@P11");
        set_time_placeholders(&mut placeholders, spec, table);
        let batch = |sections: &[&str], placeholders: &Placeholders| {
            let sections = sections
                .iter()
                .map(|section| render(PURGE, section, placeholders));
            let batch = sections.collect::<Vec<_>>().join("\n");
            roll_back_on_error(batch, table.has_triggers || table.cascades_to_triggers)
        };
        let mut first = placeholders.clone();
        first.insert("after_position", "1 = 1".to_owned());
        first.insert("after_time", "1 = 1".to_owned());
        first.insert("walk_hint", index::key_hint(key, table, false));
        placeholders.insert("walk_hint", index::key_hint(key, table, true));
        let archive = archive.and_then(|archive| {
            let index = time_index(spec, archive)?;
            // Babelfish stores indexes under other names.
            let hint = if archive.reports_filters {
                index::hint(&index.name, true)
            } else {
                String::new()
            };
            let mut placeholders = placeholders.clone();
            placeholders.insert("archive_hint", hint);
            set_bounded_now(&mut placeholders, "@P3");
            Some(ArchiveStatements {
                delete_archived: roll_back_on_error(
                    render(PURGE, "delete_archived", &placeholders),
                    archive.has_triggers,
                ),
                count_archived: render(PURGE, "count_archived", &placeholders),
            })
        });
        let visit = if spec.completed_index {
            "visit_old"
        } else {
            "visit"
        };
        Self {
            first: batch(&["begin", visit, "delete_old"], &first),
            next: batch(
                &["begin", "read_position", visit, "delete_old"],
                &placeholders,
            ),
            archive,
            take_turn: render(PURGE, "take_turn", &placeholders),
        }
    }

    pub(super) fn archive(&self, spec: &QueueSpec) -> Result<&ArchiveStatements, StoreError> {
        self.archive.as_ref().ok_or_else(|| {
            StoreError::Misconfigured(format!(
                "queue {:?} has no archive with an index on {}: run `lease-broker schema apply` with keep_for.archive",
                spec.name,
                spec.soft_lock.name(SoftLockColumn::StateTime)
            ))
        })
    }
}

/// Sets the placeholder of the present time, which is at most that of the parameter.
fn set_bounded_now(placeholders: &mut Placeholders, latest: &str) {
    let latest = Placeholders::from([("latest", latest.to_owned())]);
    placeholders.insert("bounded_now", render(PURGE, "bounded_now", &latest));
}

/// Sets the placeholders of the position in a walk by time: the type of the time, and the rows after the position.
fn set_time_placeholders(placeholders: &mut Placeholders, spec: &QueueSpec, table: &Table) {
    let name = spec.soft_lock.name(SoftLockColumn::StateTime);
    // A variable of another precision would make the server convert the column, and it could not seek.
    let declared = table.column(name).map(|column| column.declared.clone());
    placeholders.insert(
        "state_time_type",
        declared.unwrap_or_else(|| "datetime2(3)".to_owned()),
    );
    let time = format!("t.{}", quote(name));
    let after = format!(
        "{time} >= @time AND ({time} > @time OR {})",
        placeholders["after_position"]
    );
    placeholders.insert("after_time", after);
}
