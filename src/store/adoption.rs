//! Adoption: the changes that turn an existing table into a queue. This file holds the part that both stores share.
//!
//! A plan has these steps, in this order: create the table of a managed queue, create the tables that record the added parts
//! (`added_parts.rs`), add soft-lock columns, give rows that were finished before the adoption their state, add indexes, create
//! the archive. A plan contains only the steps that the table still needs. After an interruption, planning again therefore continues where the adoption stopped.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec, SoftLockColumn};

use super::StoreError;
use super::added_parts::AddedParts;
use super::index_role::IndexRole;
use super::queue_columns::QueueColumns;
use super::schema::Step;
use super::table::{Column, Filter, Index, Table};
use super::template::Placeholders;

/// The soft-lock columns that an archive keeps beside the table's columns. They tell how and when the item ended.
pub(super) const ARCHIVED_SOFT_LOCK: [SoftLockColumn; 5] = [
    SoftLockColumn::StateTime,
    SoftLockColumn::Owner,
    SoftLockColumn::Fence,
    SoftLockColumn::Attempt,
    SoftLockColumn::TraceParent,
];

/// How well an existing index serves its role in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexStatus {
    Usable,
    /// An index with the expected name exists, but its columns differ from the queue's order, or its filter from the queue's.
    WrongOrder,
    Missing,
}

/// The key of a table that the broker creates for a managed queue.
pub(super) struct ManagedKey {
    /// The name of the column that numbers the items, if the configuration declares no column for the key. Its values
    /// never repeat, so an old lease cannot name a new item.
    pub(super) counter: Option<String>,
    pub(super) columns: Vec<String>,
}

impl ManagedKey {
    /// Returns the key of a managed queue: the configured columns, or a counter. The counter is called `id` unless the
    /// configuration gives the key one other name.
    pub(super) fn new(queue: &QueueSpec) -> Self {
        let is_declared = |name: &String| {
            let mut declared = queue.managed_columns.iter().flatten();
            declared.any(|(column, _)| column.eq_ignore_ascii_case(name))
        };
        let counter = match &*queue.key {
            [] => Some("id".to_owned()),
            [key] if !is_declared(key) => Some(key.clone()),
            _ => None,
        };
        Self {
            columns: counter.clone().map_or(queue.key.clone(), |name| vec![name]),
            counter,
        }
    }
}

/// Returns a copy of `placeholders` with further values.
pub(super) fn with<const N: usize>(
    placeholders: &Placeholders,
    values: [(&'static str, String); N],
) -> Placeholders {
    let mut placeholders = placeholders.clone();
    placeholders.extend(values);
    placeholders
}

/// Why tables do not fit their queues.
#[derive(Default)]
pub(super) struct Unfit {
    pub(super) problems: Vec<String>,
    /// Whether a table lacks parts that `schema apply` adds.
    lacks_parts: bool,
}

impl Unfit {
    /// Returns problems that no schema change of ours cures.
    pub(super) fn for_good(problems: Vec<String>) -> Self {
        Self {
            problems,
            lacks_parts: false,
        }
    }

    /// Returns problems that `schema apply` cures.
    pub(super) fn lacking(problems: Vec<String>) -> Self {
        Self {
            lacks_parts: !problems.is_empty(),
            problems,
        }
    }

    /// Adds the problems of another queue.
    pub(super) fn add(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.lacks_parts |= other.lacks_parts;
    }

    /// Returns the error of a store that cannot be opened, with the remedy. `Ok`: there is no problem.
    pub(super) fn into_result(self) -> Result<(), StoreError> {
        const REMEDY: &str = "\nTo print the missing schema changes, run `lease-broker schema plan`. To apply them, run `lease-broker \
                              schema apply`. Give both the same --config and --store.";

        let remedy = if self.lacks_parts { REMEDY } else { "" };
        match self.problems.join("; ") {
            none if none.is_empty() => Ok(()),
            problems => Err(StoreError::Misconfigured(problems + remedy)),
        }
    }
}

/// Returns the way to a table of the queue that the broker creates.
fn creation(queue: &QueueSpec) -> &'static str {
    if queue.managed_columns.is_some() {
        "start a broker, which creates it"
    } else {
        "declare its columns in the queue's configuration (managed_columns = { … }), and the broker creates it"
    }
}

/// Returns the error for a queue whose table does not exist in this file, at a place that does not create it. An empty name: the file
/// does not exist either.
pub(super) fn no_table(queue: &QueueSpec, file: Option<&str>) -> StoreError {
    let file = file.filter(|file| !file.is_empty());
    let place = file.map(|file| format!(" in {file}")).unwrap_or_default();
    StoreError::Misconfigured(format!(
        "the table {:?} of queue {:?} does not exist{place}: create it, or {}",
        queue.table,
        queue.name,
        creation(queue)
    ))
}

/// Returns the error like [`no_table`] of a server that hides a table from a login without rights on it.
pub(super) fn no_visible_table(queue: &QueueSpec, database: &str) -> StoreError {
    StoreError::Misconfigured(format!(
        "the table {:?} of queue {:?} does not exist in the database {database:?}, or the login has no right on it: grant the login its \
         rights, correct the database or the name, create the table, or {}",
        queue.table,
        queue.name,
        creation(queue)
    ))
}

/// Returns the error for an existing table of a managed queue that lacks declared columns. The broker does not change the columns of a
/// table that it has created.
pub(super) fn check_managed_columns<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
) -> Result<(), StoreError> {
    let declared = queue.managed_columns.iter().flatten();
    let lacking = declared.filter(|(name, _)| table.column(name).is_none());
    let lacking: Vec<String> = lacking.map(|(name, _)| format!("{name:?}")).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    Err(StoreError::Misconfigured(format!(
        "the table {:?} of queue {:?} has no column {}, which managed_columns declares: the broker creates a table, but adds no column to \
         it later; add the column with ALTER TABLE, or remove it from managed_columns",
        queue.table,
        queue.name,
        lacking.join(", ")
    )))
}

/// Returns the purpose of the step that creates a managed queue's table.
pub(super) fn create_table_purpose(queue: &QueueSpec) -> String {
    format!("create the table of queue {:?}", queue.name)
}

impl Step {
    /// Returns whether this step creates the table of the managed queue.
    pub fn creates_table_of(&self, queue: &QueueSpec) -> bool {
        self.purpose == create_table_purpose(queue)
    }
}

/// Plans the soft-lock columns that the table lacks, in the order of `columns`. `step` builds a step from its purpose.
pub(super) fn add_columns<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
    columns: impl IntoIterator<Item = SoftLockColumn>,
    step: impl Fn(String, SoftLockColumn) -> Step,
) -> Vec<Step> {
    let name = |column: SoftLockColumn| queue.soft_lock.name(column);
    let missing = columns
        .into_iter()
        .filter(|column| table.column(name(*column)).is_none());
    missing
        .map(|column| step(format!("add the soft-lock column {}", name(column)), column))
        .collect()
}

/// Returns whether rows of the table can have been finished before it became the queue. In a table that has each part of a managed
/// queue the broker sets all states, and `serve` would read all rows at each start. If an adoption was interrupted, an index is missing.
pub(super) fn may_need_backfill<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
    mut indexes: impl Iterator<Item = (IndexRole, IndexStatus)>,
) -> bool {
    let is_present = |name: &str| table.column(name).is_some();
    queue.managed_columns.is_none()
        || !queue.soft_lock_names().all(is_present)
        || indexes.any(|(_, status)| status == IndexStatus::Missing)
}

/// Returns the purpose of the step that gives finished rows one of `states`.
pub(super) fn backfill_purpose(states: &[State]) -> String {
    let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    format!("mark the rows that are already {}", names.join(" or "))
}

/// Plans the indexes that the table lacks. An index in another order is removed first. `create` and `remove` build a step
/// from its purpose.
pub(super) fn add_indexes(
    indexes: impl Iterator<Item = (IndexRole, IndexStatus)>,
    remove: impl Fn(String, IndexRole) -> Step,
    create: impl Fn(String, IndexRole) -> Step,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (role, status) in indexes {
        let name = role.name();
        if status == IndexStatus::WrongOrder {
            let purpose = format!(
                "drop the {name} index: its columns or its filter are not those that the queue needs"
            );
            steps.push(remove(purpose, role));
        }
        if status != IndexStatus::Usable {
            steps.push(create(format!("add the {name} index"), role));
        }
    }
    steps
}

/// Returns the purpose of the step that drops an index which the queue does not use.
pub(super) fn drop_unused_purpose(role: IndexRole) -> String {
    format!(
        "drop the {} index, which the queue does not use",
        role.name()
    )
}

/// Returns the purpose of the step that stores the policy of the groups.
pub(super) fn set_policy_purpose(queue: &QueueSpec, policy: &str) -> String {
    format!(
        "make {policy:?} the rule of the groups of queue {:?}",
        queue.name
    )
}

/// Returns one sentence for each index in `unused`, the indexes of the table that [`IndexRole::unused`] names.
pub(super) fn unused_indexes(queue: &QueueSpec, unused: &[(IndexRole, String)]) -> Vec<String> {
    let problem = |(_, name): &(IndexRole, String)| {
        format!(
            "table {:?} has the index {name}, with which a broker with other settings could claim items that queue {:?} holds back",
            queue.table, queue.name
        )
    };
    unused.iter().map(problem).collect()
}

/// Returns whether the table has fencing tokens and no states, because a removal was interrupted or the column of the state has another
/// name now. Then a token does not show that its row has a state, and rows that were claimed and completed need the back-fill too: the
/// highest token becomes the first one.
pub(super) fn lacks_states<Kind>(queue: &QueueSpec, table: &Table<Kind>) -> bool {
    let has = |column| table.column(queue.soft_lock.name(column)).is_some();
    has(SoftLockColumn::Fence) && !has(SoftLockColumn::State)
}

/// Returns the purpose of the step that creates the tables of the record.
pub(super) fn create_record_purpose() -> String {
    "create the tables in which the broker records the parts that it adds".to_owned()
}

/// Returns the purpose of the step that deletes the record of a table that was replaced.
pub(super) fn forget_table_purpose(lacking: &[String]) -> String {
    format!(
        "forget the record of an earlier table of this name: this one lacks {}",
        lacking.join(", ")
    )
}

/// Returns the purpose of the step that keeps the highest fencing token.
pub(super) fn keep_fence_purpose() -> String {
    "keep the highest fencing token, so that none is given twice".to_owned()
}

/// Returns the purpose of the step that creates an archive.
pub(super) fn create_archive_purpose(archive: &str) -> String {
    format!("create the archive table {archive}")
}

/// Returns the columns that a completion copies into the archive: those that the table and the archive share.
pub(super) fn archive_columns<Kind>(
    queue: &QueueSpec,
    columns: &QueueColumns<Kind>,
    archive: &Table<Kind>,
) -> Vec<String> {
    let data = columns.archived.iter().map(|column| column.name.as_str());
    let soft_lock = queue.soft_lock_names();
    let accepts = |name: &&str| {
        let column = archive.column(name);
        column.is_some_and(|column| !column.generated)
    };
    let shared = data.chain(soft_lock).filter(accepts);
    shared.map(str::to_owned).collect()
}

/// Returns an index of the archive that begins with the time of completion. Retention finds old rows in it.
pub(super) fn time_index<'a, Kind>(
    queue: &QueueSpec,
    archive: &'a Table<Kind>,
) -> Option<&'a Index> {
    let time = queue.soft_lock.name(SoftLockColumn::StateTime);
    archive.indexes.iter().find(|index| {
        index.filter == Filter::None && index.columns.first().is_some_and(|first| first.is(time))
    })
}

/// Returns whether the queue needs an index of its archive that is missing. `archive` is `None` if the archive will be created.
pub(super) fn needs_time_index<Kind>(queue: &QueueSpec, archive: Option<&Table<Kind>>) -> bool {
    let time = queue.soft_lock.name(SoftLockColumn::StateTime);
    queue.keep_for.archive.is_some()
        && archive.is_none_or(|archive| {
            archive.column(time).is_some() && time_index(queue, archive).is_none()
        })
}

/// Returns the purpose of the step that creates the archive's index.
pub(super) fn create_time_index_purpose(archive: &str) -> String {
    format!("add an index by time to the archive table {archive}, for keep_for.archive")
}

/// Returns the archive's name, if the queue has one.
pub(super) fn archive_name(queue: &QueueSpec) -> Option<&str> {
    match &queue.on_complete {
        OnComplete::Archive(name) => Some(name),
        _ => None,
    }
}

/// Returns the parts that a queue needs and its table lacks, one sentence each. `indexes` has the name of each index with its
/// status. `archive` is `None` if the archive does not exist.
pub(super) fn missing_parts<Kind>(
    queue: &QueueSpec,
    table: &Table<Kind>,
    columns: &QueueColumns<Kind>,
    indexes: impl Iterator<Item = (String, IndexStatus)>,
    archive: Option<&Table<Kind>>,
) -> Unfit {
    let mut missing: Vec<String> = queue
        .soft_lock_names()
        .filter(|name| table.column(name).is_none())
        .map(|name| format!("table {:?} lacks the column {name}", queue.table))
        .collect();
    missing.extend(indexes.filter_map(|(name, status)| match status {
        IndexStatus::Usable => None,
        IndexStatus::WrongOrder => Some(format!(
            "the index {name} of table {:?} has other columns or another filter than queue {:?} needs",
            queue.table, queue.name
        )),
        IndexStatus::Missing => Some(format!("table {:?} lacks the index {name}", queue.table)),
    }));
    if let (Some(archive), Some(_)) = (archive, queue.keep_for.archive)
        && time_index(queue, archive).is_none()
    {
        missing.push(format!(
            "the archive table of queue {:?} lacks an index on its column {}, which keep_for.archive needs",
            queue.name,
            queue.soft_lock.name(SoftLockColumn::StateTime)
        ));
    }
    let mut unfilled = Vec::new();
    match (archive_name(queue), archive) {
        (None, _) => {}
        (Some(name), None) => missing.push(format!("the archive table {name:?} does not exist")),
        (Some(name), Some(archive)) => {
            unfilled.extend(unfilled_columns(queue, columns, name, archive));
            missing.extend(
                columns
                    .archived
                    .iter()
                    .filter(|column| archive.column(&column.name).is_none())
                    .map(|column| {
                        format!(
                            "the archive table {name:?} lacks the column {}",
                            column.name
                        )
                    }),
            );
        }
    }
    let mut unfit = Unfit::lacking(missing);
    unfit.add(Unfit::for_good(unfilled));
    unfit
}

/// Returns one sentence for each column of the archive `name` that needs a value and gets none.
fn unfilled_columns<Kind>(
    queue: &QueueSpec,
    columns: &QueueColumns<Kind>,
    name: &str,
    archive: &Table<Kind>,
) -> Vec<String> {
    let filled = archive_columns(queue, columns, archive);
    let is_unfilled = |column: &&Column<Kind>| {
        let needs_value = !column.nullable && !column.generated && !column.has_default;
        let mut filled = filled.iter();
        needs_value && !filled.any(|filled| filled.eq_ignore_ascii_case(&column.name))
    };
    let unfilled = archive.columns.iter().filter(is_unfilled);
    unfilled
        .map(|column| {
            format!(
                "the column {} of the archive table {name:?} needs a value, and table {:?} has no such column: give it a default, or let it \
                 be NULL",
                column.name, queue.table
            )
        })
        .collect()
}

/// Returns one sentence for each index that the queue would have to replace and that adoption did not add.
pub(super) fn foreign_indexes(
    queue: &QueueSpec,
    added: &AddedParts,
    indexes: impl Iterator<Item = (String, IndexStatus)>,
) -> Vec<String> {
    let foreign = indexes
        .filter(|(name, status)| *status == IndexStatus::WrongOrder && !added.has_index(name));
    foreign
        .map(|(name, _)| {
            format!(
                "table {:?} already has an index {name}, which lease-broker did not add and whose columns or filter are not \
                 those that queue {:?} needs: rename the index or drop it",
                queue.table, queue.name
            )
        })
        .collect()
}

/// Adds the statement that records a new part to `placeholders`, which name the part. `kind` is a literal, and `render` renders
/// the statement. A managed table has no record, because removal refuses it.
pub(super) fn recording(
    mut placeholders: Placeholders,
    queue: &QueueSpec,
    kind: String,
    render: fn(&str, &Placeholders) -> String,
) -> Placeholders {
    placeholders.insert("kind", kind);
    let record = match queue.managed_columns {
        None => render("record", &placeholders) + "\n",
        Some(_) => String::new(),
    };
    placeholders.insert("record", record);
    placeholders
}

/// Returns a sentence about the rows whose state has another value than a state's number, unless `count` is 0.
pub(super) fn strange_states(queue: &QueueSpec, count: i64) -> Option<String> {
    let name = queue.soft_lock.name(SoftLockColumn::State);
    let rows = if count == 1 {
        "1 row"
    } else {
        &format!("{count} rows")
    };
    (count > 0).then(|| {
        format!(
            "{rows} of table {:?} have a value in {name} that is not a state (0 to 4): correct the values, or give the broker's \
             column another name (soft_lock.lease_state = \"lb_lease_state\" in the settings of queue {:?})",
            queue.table, queue.name
        )
    })
}

/// Returns one sentence about the soft-lock columns that removal keeps, if there are any.
pub(super) fn kept_columns(queue: &QueueSpec, kept: &[SoftLockColumn]) -> Option<String> {
    let names: Vec<&str> = kept
        .iter()
        .map(|column| queue.soft_lock.name(*column))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "table {:?} keeps {}: lease-broker has no record that it added this",
            queue.table,
            names.join(", ")
        )
    })
}

/// Refuses to remove the parts of a managed queue.
///
/// # Errors
/// [`StoreError::Misconfigured`] for a managed queue: its table contains only the queue's items.
pub(super) fn refuse_managed(queue: &QueueSpec) -> Result<(), StoreError> {
    match &queue.managed_columns {
        None => Ok(()),
        Some(_) => Err(StoreError::Misconfigured(format!(
            "the table {:?} of queue {:?} is managed and contains only the queue's items: to delete them, drop the table \
             yourself",
            queue.table, queue.name
        ))),
    }
}
