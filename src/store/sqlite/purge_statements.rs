//! The rendered statements of `purge.sql`.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};

use super::catalogue::Table;
use super::quote::quote;
use crate::StoreError;
use crate::adoption::time_index;
use crate::template::{Placeholders, render};

const PURGE: &str = lease_broker_sql::sqlite::PURGE;

/// The statements of `purge.sql`. The fields have the names of the sections, but `visit_first` and `visit_next` are `old_first` and
/// `old_next` if the queue has an index of completed items.
pub(super) struct PurgeStatements {
    pub(super) visit_first: String,
    pub(super) visit_next: String,
    pub(super) delete_old: String,
    /// `None` if the queue has no archive, or one whose old rows cannot be found by an index or named by a row id.
    pub(super) archive: Option<ArchiveStatements>,
    pub(super) take_turn: String,
    pub(super) read_turn: String,
}

/// The statements for old rows of the archive: `find_archived`, `delete_archived` and `count_archived`.
pub(super) struct ArchiveStatements {
    pub(super) find: String,
    pub(super) delete: String,
    pub(super) count: String,
}

impl PurgeStatements {
    pub(super) fn new(
        spec: &QueueSpec,
        archive: Option<&Table>,
        placeholders: &Placeholders,
    ) -> Self {
        let mut placeholders = placeholders.clone();
        let is_old = render(PURGE, "is_old", &placeholders);
        placeholders.insert("is_old", is_old);
        let text = |section| render(PURGE, section, &placeholders);
        let [first, next] = if spec.completed_index {
            ["old_first", "old_next"]
        } else {
            ["visit_first", "visit_next"]
        };
        let archive = archive.and_then(|archive| {
            let index = time_index(spec, archive)?;
            let mut placeholders = placeholders.clone();
            placeholders.insert("archive_index", quote(&index.name));
            placeholders.insert("archive_rowid", rowid(archive)?.to_owned());
            Some(ArchiveStatements {
                find: render(PURGE, "find_archived", &placeholders),
                delete: render(PURGE, "delete_archived", &placeholders),
                count: render(PURGE, "count_archived", &placeholders),
            })
        });
        Self {
            visit_first: text(first),
            visit_next: text(next),
            delete_old: text("delete_old"),
            archive,
            take_turn: text("take_turn"),
            read_turn: text("read_turn"),
        }
    }

    pub(super) fn archive(&self, spec: &QueueSpec) -> Result<&ArchiveStatements, StoreError> {
        self.archive.as_ref().ok_or_else(|| {
            StoreError::Misconfigured(format!(
                "queue {:?} has no archive whose rows can be deleted by age: the archive needs an index on {}, row ids \
                 (no WITHOUT ROWID), and no column of its own with the name rowid; run `lease-broker schema apply` with keep_for.archive",
                spec.name,
                spec.soft_lock.name(SoftLockColumn::StateTime)
            ))
        })
    }
}

/// Returns a name of the row id that is not the name of a column. `None`: rows have no id, or columns have all its names.
fn rowid(table: &Table) -> Option<&'static str> {
    if !table.has_rowid {
        return None;
    }
    let mut names = ["rowid", "_rowid_", "oid"].into_iter();
    names.find(|name| table.column(name).is_none())
}
