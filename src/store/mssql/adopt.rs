//! Schema changes on a server: plans, checks and makes the changes that turn a table into a queue.

use lease_broker_model::queue::{QueueSpec, SoftLockColumn};
use tokio::runtime::Runtime;

use super::added_parts::{naming, recording};
use super::adopt_sql::{render, step};
use super::catalogue::{Column, ENCRYPTED, Table, collate, no_table};
use super::connection::Connection;
use super::decode::{self, integer};
use super::error::{at_start, of_schema_change};
use super::logins::Logins;
use super::migrations::{migrate, second_set, with_migration_lock};
use super::partitions::{self, Partitions, is_whole};
use super::quote::{bare_table, quote, quote_table, text_literal};
use super::restrictions::Purpose;
use super::soft_lock_types::{NOT_NULL_COLUMNS, queue_columns};
use super::turn::{stored_policy, unused_indexes};
use super::types::ColumnType;
use super::{
    Settings, added_parts, backfill, dependents, epoch, index, index_key_size, instance,
    placeholders, remove, restrictions, survey, trials,
};
use crate::added_parts::AddedParts;
use crate::adoption::{
    self, ARCHIVED_SOFT_LOCK, IndexStatus, ManagedKey, Unfit, archive_name, check_managed_columns,
    create_archive_purpose, create_record_purpose, create_table_purpose, create_time_index_purpose,
    drop_unused_purpose, foreign_indexes, forget_table_purpose, lacks_states, may_need_backfill,
    missing_parts, needs_time_index, set_policy_purpose, with,
};
use crate::epoch::NewEpoch;
use crate::index_role::IndexRole;
use crate::queue_columns::{QueueColumns, group_warning, null_key_warning};
use crate::schema::{Progress, Removal, Schema, Step, Trial};
use crate::template::Placeholders;
use crate::turn::policy_problem;
use crate::{BrokerList, StoreError, Survey};

/// Plans and makes schema changes. Uses its own connection, and blocks the calling thread: do not use it within an async
/// runtime.
pub struct MssqlSchema {
    runtime: Runtime,
    connection: Connection,
}

impl MssqlSchema {
    /// Connects to the server.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer. [`StoreError::Misconfigured`] if the connection string is
    /// wrong or the server refuses the login.
    pub fn open(settings: &Settings) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Io(format!("cannot start an async runtime: {error}")))?;
        let settings = settings.of_schema_changes();
        let open = async {
            let token = settings.access_token().await?;
            let server = Settings::with_token(&settings.server()?, token.as_ref());
            Connection::open(&server, &settings).await
        };
        let connection = runtime.block_on(open);
        // No login has succeeded before, so a refused one is a misconfiguration.
        let connection = connection.map_err(|error| Logins::default().failure(at_start(error)))?;
        Ok(Self {
            runtime,
            connection,
        })
    }
}

impl Schema for MssqlSchema {
    fn plan(&mut self, queue: &QueueSpec) -> Result<Vec<Step>, StoreError> {
        self.runtime.block_on(plan(&mut self.connection, queue))
    }

    fn count_rows(&mut self, queue: &QueueSpec) -> Result<u64, StoreError> {
        self.runtime
            .block_on(survey::count_rows(&mut self.connection, &queue.table))
    }

    fn triggers(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        self.runtime
            .block_on(trials::triggers(&mut self.connection, queue))
    }

    fn try_triggers(&mut self, queue: &QueueSpec) -> Result<Vec<Trial>, StoreError> {
        self.runtime
            .block_on(trials::try_triggers(&mut self.connection, queue))
    }

    fn apply(&mut self, step: &Step, progress: &mut dyn FnMut(Progress)) -> Result<(), StoreError> {
        let apply = apply(&mut self.connection, step, progress);
        self.runtime.block_on(apply)
    }

    fn create_broker_tables(&mut self) -> Result<(), StoreError> {
        let create = with_migration_lock(&mut self.connection, async |connection| {
            migrate(connection).await
        });
        self.runtime.block_on(create)
    }

    fn plan_removal(&mut self, queue: &QueueSpec) -> Result<Removal, StoreError> {
        self.runtime
            .block_on(remove::plan(&mut self.connection, queue))
    }

    fn held_leases(&mut self, queue: &QueueSpec) -> Result<i64, StoreError> {
        self.runtime
            .block_on(remove::held_leases(&mut self.connection, queue))
    }

    fn brokers(&mut self) -> Result<Option<BrokerList>, StoreError> {
        let list = self.runtime.block_on(instance::list(&mut self.connection));
        list.map(Some)
    }

    fn begin_epoch(&mut self, queues: &[QueueSpec]) -> Result<NewEpoch, StoreError> {
        let connection = &mut self.connection;
        self.runtime.block_on(async {
            let brokers = instance::list(connection).await?.brokers;
            epoch::begin(connection, queues, &brokers).await
        })
    }

    fn tables(&mut self) -> Result<Vec<String>, StoreError> {
        self.runtime.block_on(survey::tables(&mut self.connection))
    }

    fn survey(&mut self, table: &str) -> Result<Option<Survey>, StoreError> {
        let survey = survey::survey(&mut self.connection, table);
        self.runtime.block_on(survey)
    }

    fn values(
        &mut self,
        table: &str,
        column: &str,
        limit: usize,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let values = survey::values(&mut self.connection, table, column, limit);
        self.runtime.block_on(values)
    }

    fn lock(&self, step: &Step) -> &'static str {
        if step.until_no_rows {
            "2,000 rows at a time are locked"
        } else if !step.reads_all_rows {
            "all sessions wait for a moment; the step gives up after 10 s without the lock"
        } else if self.connection.server_info.supports_online_indexes() {
            "other sessions continue (ONLINE)"
        } else {
            "writers wait while all rows are read"
        }
    }

    /// Writes each step as one batch that ends with GO, for sqlcmd and similar tools. A step that runs repeatedly becomes a
    /// loop within its batch.
    fn script(&self, step: &Step) -> String {
        let Step { purpose, sql, .. } = step;
        if step.until_no_rows {
            format!("-- {purpose}\nWHILE 1 = 1\nBEGIN\n{sql}\nIF @visited = 0 BREAK;\nEND;\nGO")
        } else {
            format!("-- {purpose}\n{sql};\nGO")
        }
    }

    fn warnings(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        self.runtime.block_on(warnings(&mut self.connection, queue))
    }

    fn suggestions(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        self.runtime
            .block_on(suggestions(&mut self.connection, queue))
    }

    fn check(&mut self, queue: &QueueSpec) -> Result<Vec<String>, StoreError> {
        let connection = &mut self.connection;
        self.runtime.block_on(async {
            let mut problems = unfit(connection, queue, Purpose::Lease).await?.problems;
            let stored = stored_policy(connection, queue).await?;
            problems.extend(stored.and_then(|stored| policy_problem(queue, &stored)));
            Ok(problems)
        })
    }
}

/// Returns the steps that turn the table, as it is now, into `queue`.
pub(super) async fn plan(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<Step>, StoreError> {
    let mut steps = Vec::new();
    let existing = Table::read(connection, &queue.table).await?;
    let exists = existing.is_some();
    let table = match (existing, create_table(queue)) {
        (Some(table), _) => table,
        (None, Some((create, table))) => {
            steps.push(create);
            table
        }
        (None, None) => return Err(no_table(connection, queue).await),
    };
    check_managed_columns(queue, &table)?;
    let columns = queue_columns(queue, &table)
        .map_err(|problems| StoreError::Misconfigured(problems.join("; ")))?;
    let mut placeholders = placeholders::of_table(queue, &table, &columns);
    let managed = queue.managed_columns.is_some();
    let mut added = if managed {
        AddedParts::default()
    } else {
        added_parts::read(connection, &queue.table).await?
    };
    let lacking = added.forget_replaced_table(queue, &table);
    let mut changes = Vec::new();
    if exists && lacks_states(queue, &table) {
        let highest = remove::highest_fence(connection, queue).await?;
        added.first_fence = added.first_fence.max(highest);
        changes.extend((!managed).then(|| remove::keep_fence(queue)));
    }
    placeholders.insert("first_fence", added.first_fence.to_string());
    let mut filegroup = None;
    if exists && !managed {
        let mut problems = added.foreign_columns(queue, &table);
        let indexes = index::all_with_status(queue, &columns, &table).map(|(role, status)| {
            let [present, _] = index::present_and_other_name(role, queue, &table);
            (present, status)
        });
        problems.extend(foreign_indexes(queue, &added, indexes));
        problems.extend(strange_states(connection, queue, &table, &added).await?);
        if !problems.is_empty() {
            return Err(StoreError::Misconfigured(problems.join("; ")));
        }
        if !lacking.is_empty() {
            changes.push(forget_table(queue, &lacking, &placeholders));
        }
    }
    if exists {
        let restrictions = restrictions::read(connection, &queue.table).await?;
        // The values of other columns are not read here, and the login of a deployment need not see them.
        let problems =
            restrictions::problems(&restrictions, queue, &table, &columns, Purpose::Look);
        if !problems.is_empty() {
            return Err(StoreError::Misconfigured(problems.join("; ")));
        }
        let not_null = connection.server_info.adds_columns_without_rewrite()
            && restrictions::allow_not_null_columns(&restrictions);
        filegroup = Partitions::read(connection, &queue.table).await?.filegroup;
        index::avoid_taken_names(connection, queue, &mut placeholders).await?;
        changes.extend(add_columns(queue, &table, &placeholders, not_null));
        let indexes = index::all_with_status(queue, &columns, &table);
        if may_need_backfill(queue, &table, indexes) {
            let (key, filled) = (&columns.key, &placeholders);
            changes.extend(backfill::plan(connection, queue, &table, key, filled, not_null).await?);
        }
    }
    let server = &connection.server_info;
    let builds = IndexBuilds {
        options: if exists { server.index_options() } else { "" },
        renames: server.renames_indexes(),
        filegroup: filegroup.as_deref(),
    };
    changes.extend(add_indexes(queue, &table, &columns, &placeholders, builds));
    let unused = unused_indexes(queue, &table, &bare_table(&queue.table));
    let unused = unused
        .into_iter()
        .filter(|(_, name)| managed || added.has_index(name));
    changes.extend(unused.map(|(role, name)| {
        let purpose = drop_unused_purpose(role);
        remove::drop_index(purpose, &placeholders, &queue.table, &name)
    }));
    changes.extend(change_policy(connection, queue, &placeholders).await?);
    if let Some(name) = archive_name(queue) {
        let archive = Table::read(connection, name).await?;
        if archive.is_none() {
            changes.push(create_archive(queue, name, &columns, &placeholders));
        }
        if needs_time_index(queue, archive.as_ref()) {
            let options = match archive {
                Some(_) => connection.server_info.index_options(),
                None => "",
            };
            changes.push(create_time_index(queue, name, &placeholders, options));
        }
    }
    if !changes.is_empty() && !added.has_tables && !managed {
        let purpose = create_record_purpose();
        steps.push(step(purpose, "create_record", &placeholders));
    }
    steps.append(&mut changes);
    Ok(steps)
}

/// Returns the step that deletes the record of a table that was replaced.
fn forget_table(queue: &QueueSpec, lacking: &[String], placeholders: &Placeholders) -> Step {
    let names: Vec<String> = lacking.iter().map(|name| text_literal(name)).collect();
    let placeholders = naming(placeholders, &queue.table, "");
    let placeholders = with(&placeholders, [("names", names.join(", "))]);
    step(forget_table_purpose(lacking), "forget_table", &placeholders)
}

/// Returns the step that stores the rule of the queue's groups, if the database has another one.
async fn change_policy(
    connection: &mut Connection,
    queue: &QueueSpec,
    placeholders: &Placeholders,
) -> Result<Option<Step>, StoreError> {
    let stored = stored_policy(connection, queue).await?;
    let policy = queue.group_policy();
    Ok(stored.filter(|stored| *stored != policy).map(|_| {
        let placeholders = with(placeholders, [("policy", text_literal(&policy))]);
        let purpose = set_policy_purpose(queue, &policy);
        step(purpose, "set_policy", &placeholders)
    }))
}

/// Returns a sentence if rows have values that are no states in a column for the state that the table had before. NULL is
/// allowed, because the backfill replaces it.
async fn strange_states(
    connection: &mut Connection,
    queue: &QueueSpec,
    table: &Table,
    added: &AddedParts,
) -> Result<Option<String>, StoreError> {
    if !added.has_own_state(queue, table) {
        return Ok(None);
    }
    let count = render("strange_states", &placeholders::of_queue(queue));
    let results = connection.batch(&count).await?;
    let count = integer(decode::single_row(&results, 0)?, 0)?;
    Ok(adoption::strange_states(queue, count))
}

/// Runs one step. A statement that runs repeatedly returns two numbers: the rows that it visited and the rows that it
/// changed.
pub(super) async fn apply(
    connection: &mut Connection,
    step: &Step,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let failed = |error| of_schema_change(&error, &step.purpose);
    if !step.until_no_rows {
        connection.batch(&step.sql).await.map_err(failed)?;
        return Ok(());
    }
    let mut total = Progress::default();
    loop {
        let results = connection.batch(&step.sql).await;
        let results = results.map_err(failed)?;
        let row = results.last().and_then(|rows| rows.first());
        let row = row.ok_or_else(|| StoreError::Bug("a step returned no counts".to_owned()))?;
        let [visited, changed] = [integer(row, 0)?, integer(row, 1)?];
        total.visited += visited.unsigned_abs();
        total.changed += changed.unsigned_abs();
        progress(total);
        if visited == 0 {
            return Ok(());
        }
    }
}

/// Returns the reasons for which a command of this purpose would refuse the queue.
pub(super) async fn unfit(
    connection: &mut Connection,
    queue: &QueueSpec,
    purpose: Purpose,
) -> Result<Unfit, StoreError> {
    let table = match Table::read(connection, &queue.table).await {
        Ok(Some(table)) => table,
        Ok(None) => {
            let problem = no_table(connection, queue).await;
            return Ok(Unfit::for_good(vec![problem.to_string()]));
        }
        Err(StoreError::Misconfigured(problem)) => return Ok(Unfit::for_good(vec![problem])),
        Err(error) => return Err(error),
    };
    let columns = match queue_columns(queue, &table) {
        Ok(columns) => columns,
        Err(problems) => return Ok(Unfit::for_good(problems)),
    };
    let restrictions = restrictions::read(connection, &queue.table).await?;
    let problems = restrictions::problems(&restrictions, queue, &table, &columns, purpose);
    if !problems.is_empty() {
        return Ok(Unfit::for_good(problems));
    }
    let archive = match archive_name(queue) {
        Some(name) => Table::read(connection, name).await?,
        None => None,
    };
    let indexes = index::all_with_status(queue, &columns, &table)
        .map(|(role, status)| (index::name(role, queue), status));
    let mut unfit = missing_parts(queue, &table, &columns, indexes, archive.as_ref());
    let unused = unused_indexes(queue, &table, &bare_table(&queue.table));
    unfit.add(Unfit::lacking(adoption::unused_indexes(queue, &unused)));
    Ok(unfit)
}

/// Returns the warnings about the queue's table and its dependents, one sentence each.
async fn warnings(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let mut warnings = dependents::warnings(connection, queue).await?;
    warnings.extend(second_set(connection).await?);
    if let Some(table) = Table::read(connection, &queue.table).await? {
        warnings.extend(partitions::warnings(connection, queue, &table).await?);
        if let (Ok(columns), false) = (
            queue_columns(queue, &table),
            connection.server_info.babelfish,
        ) {
            warnings.extend(index_key_size::warnings(queue, &columns, &table));
        }
        warnings.extend(unsent_columns(queue, &table));
        warnings.extend(group_warning(queue, &table));
        if has_null_keys(connection, queue, &table).await? {
            warnings.push(null_key_warning(queue));
        }
    }
    Ok(warnings)
}

async fn has_null_keys(
    connection: &mut Connection,
    queue: &QueueSpec,
    table: &Table,
) -> Result<bool, StoreError> {
    let Ok(columns) = queue_columns(queue, table) else {
        return Ok(false);
    };
    if columns.key.iter().all(|column| !column.nullable) {
        return Ok(false);
    }
    let find = render(
        "find_null_key",
        &placeholders::of_table(queue, table, &columns),
    );
    let results = connection.batch(&find).await?;
    Ok(!decode::result_set(&results, 0)?.is_empty())
}

/// Returns one warning for each column that workers do not get, although the configuration does not leave it out.
pub(super) fn unsent_columns(queue: &QueueSpec, table: &Table) -> Vec<String> {
    if queue.columns.is_some() {
        return Vec::new();
    }
    let unsent = table.columns.iter().filter(|column| !column.readable);
    let warning = |column: &Column| {
        let conversion = if column.declared.ends_with(ENCRYPTED) {
            ""
        } else {
            "add a computed column that converts it, or "
        };
        format!(
            "the column {} of table {:?} has the type {}, which is not sent to workers: {conversion}list the columns that workers need \
             (columns = […])",
            column.name, queue.table, column.declared
        )
    };
    unsent.map(warning).collect()
}

/// Returns optional improvements to the queue's table and its database, one sentence each.
async fn suggestions(
    connection: &mut Connection,
    queue: &QueueSpec,
) -> Result<Vec<String>, StoreError> {
    let mut suggestions = Vec::new();
    let table = Table::read(connection, &queue.table).await?;
    let server = &connection.server_info;
    if !server.babelfish && table.is_some_and(|table| table.lock_escalation) {
        suggestions.push(format!(
            "prevent table locks by lock escalation: the broker's statements never lock enough rows for it, but a statement \
             of another program may, and every claim then waits for that program: ALTER TABLE {} SET (LOCK_ESCALATION = \
             DISABLE)",
            quote_table(&queue.table)
        ));
    }
    if !server.snapshot {
        suggestions.push(
            "turn READ_COMMITTED_SNAPSHOT on: while it is off, reports on the table and claims wait for each other; the \
             broker works in the same way with it: ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK \
             IMMEDIATE (this rolls back the open transactions of all programs)"
                .to_owned(),
        );
    }
    Ok(suggestions)
}

/// Plans the soft-lock columns that the table lacks. `not_null`: the server adds a NOT NULL column with a default without
/// writing every row.
pub(super) fn add_columns(
    queue: &QueueSpec,
    table: &Table,
    placeholders: &Placeholders,
    not_null: bool,
) -> Vec<Step> {
    let nullable = if not_null { "NOT NULL" } else { "NULL" };
    // The columns that are never NULL come first. They have a fixed length, so they cannot make a row longer than the limit.
    let rest = queue.soft_lock_columns();
    let rest = rest.filter(|column| !NOT_NULL_COLUMNS.contains(column));
    let columns = NOT_NULL_COLUMNS.into_iter().chain(rest);
    adoption::add_columns(queue, table, columns, |purpose, column| {
        let name = queue.soft_lock.name(column);
        let values = [
            ("column_literal", text_literal(name)),
            ("nullable", nullable.to_owned()),
        ];
        let placeholders = with(placeholders, values);
        let definition = render(column.default_name(), &placeholders);
        let placeholders = recording(&placeholders, queue, &queue.table, "column", name);
        let placeholders = with(&placeholders, [("definition", definition)]);
        step(purpose, "add_column", &placeholders)
    })
}

/// How the server builds indexes.
#[derive(Clone, Copy)]
pub(super) struct IndexBuilds<'a> {
    /// The WITH clause, if the table has rows.
    pub(super) options: &'static str,
    /// Whether the server can rename an index.
    pub(super) renames: bool,
    /// The table is partitioned, and the indexes that have to be in one piece go there.
    pub(super) filegroup: Option<&'a str>,
}

/// Plans the indexes that the table lacks. One in another order is replaced: the new one is built first, under another name.
pub(super) fn add_indexes(
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
    placeholders: &Placeholders,
    builds: IndexBuilds<'_>,
) -> Vec<Step> {
    let create = |purpose, role, name: &str| {
        let placeholders = with(placeholders, index::definition(role, queue, columns));
        create_index(queue, &placeholders, builds, purpose, role, name)
    };
    let drop = |purpose, name: &str| remove::drop_index(purpose, placeholders, &queue.table, name);
    let mut steps = Vec::new();
    for (role, status) in index::all_with_status(queue, columns, table) {
        let role_name = role.name();
        let [present, other] = index::present_and_other_name(role, queue, table);
        // Only SQL Server keeps the names apart. The other index is there if an earlier replacement was interrupted.
        let has_other = builds.renames && table.index(&other).is_some();
        let replace = || {
            let purpose = format!("put the new {role_name} index in the place of the old one");
            if builds.renames {
                replace_index(queue, placeholders, purpose, &present, &other)
            } else {
                drop(purpose, &present)
            }
        };
        match status {
            IndexStatus::Usable => {
                let used = index::find(role, queue, columns, table);
                if has_other && used.is_some_and(|used| used.name.eq_ignore_ascii_case(&other)) {
                    steps.push(replace());
                }
            }
            IndexStatus::Missing => {
                steps.push(create(
                    format!("add the {role_name} index"),
                    role,
                    &index::name(role, queue),
                ));
            }
            IndexStatus::WrongOrder => {
                if has_other {
                    let purpose = format!("drop a {role_name} index that nothing uses");
                    steps.push(drop(purpose, &other));
                }
                let purpose = format!(
                    "build a new {role_name} index beside the old one, whose order is not the queue's"
                );
                steps.push(create(purpose, role, &other));
                steps.push(replace());
            }
        }
    }
    steps
}

/// Returns the step that creates the index of `role` under `name`. `placeholders` have its [`index::definition`].
fn create_index(
    queue: &QueueSpec,
    placeholders: &Placeholders,
    builds: IndexBuilds<'_>,
    mut purpose: String,
    role: IndexRole,
    name: &str,
) -> Step {
    let filegroup = builds.filegroup.filter(|_| is_whole(role));
    if filegroup.is_some() {
        purpose.push_str(
            " in one piece, because the table is partitioned (drop the index before ALTER TABLE … SWITCH)",
        );
    }
    let filegroup = filegroup.map(|name| format!(" ON {}", quote(name)));
    let values = [
        ("index", quote(name)),
        ("filegroup", filegroup.unwrap_or_default()),
        ("index_literal", text_literal(name)),
        ("online", builds.options.to_owned()),
    ];
    let placeholders = recording(placeholders, queue, &queue.table, "index", name);
    step(purpose, "create_index", &with(&placeholders, values)).reading_all_rows()
}

/// Returns the step that drops the index `old` and gives its name to the index `new`.
pub(super) fn replace_index(
    queue: &QueueSpec,
    placeholders: &Placeholders,
    purpose: String,
    old: &str,
    new: &str,
) -> Step {
    let path = format!("{}.{}", quote_table(&queue.table), quote(new));
    let values = [
        ("old_index", quote(old)),
        ("old_name", text_literal(old)),
        ("new_index_literal", text_literal(&path)),
    ];
    let placeholders = naming(placeholders, &queue.table, new);
    step(purpose, "replace_index", &with(&placeholders, values))
}

/// Plans the archive: the table's columns, and the soft-lock columns that tell how the item ended.
pub(super) fn create_archive(
    queue: &QueueSpec,
    archive: &str,
    columns: &QueueColumns<ColumnType>,
    placeholders: &Placeholders,
) -> Step {
    let data = columns.archived.iter().map(|column| {
        format!(
            "{} {}{} NULL",
            quote(&column.name),
            column.declared,
            collate(column)
        )
    });
    let soft_lock = ARCHIVED_SOFT_LOCK.map(|column| {
        let declared = match column {
            SoftLockColumn::StateTime => "datetime2(3)",
            SoftLockColumn::Owner => "nvarchar(128)",
            SoftLockColumn::Fence => "bigint",
            SoftLockColumn::Attempt => "int",
            _ => "varchar(55)",
        };
        format!("{} {declared} NULL", quote(queue.soft_lock.name(column)))
    });
    let definitions: Vec<String> = data.chain(soft_lock).collect();
    let values = [("archive_definitions", definitions.join(", "))];
    step(
        create_archive_purpose(archive),
        "create_archive",
        &with(placeholders, values),
    )
}

/// Plans the index by which retention finds old rows of the archive.
pub(super) fn create_time_index(
    queue: &QueueSpec,
    archive: &str,
    placeholders: &Placeholders,
    options: &str,
) -> Step {
    let index = index::archive_name(queue, archive);
    let values = [
        ("index_literal", text_literal(&index)),
        ("archive_index", quote(&index)),
        ("online", options.to_owned()),
    ];
    let placeholders = recording(placeholders, queue, archive, "index", &index);
    let placeholders = with(&placeholders, values);
    step(
        create_time_index_purpose(archive),
        "archive_index",
        &placeholders,
    )
}

/// Returns the step that creates a managed queue's table, with the table's description. `None`: the queue is not managed.
fn create_table(queue: &QueueSpec) -> Option<(Step, Table)> {
    let declared = queue.managed_columns.as_ref()?;
    let key = ManagedKey::new(queue);
    let counter = key
        .counter
        .map(|name| (name, "bigint NOT NULL IDENTITY(1, 1)".to_owned()));
    let declared = declared.iter().map(|(name, declared)| {
        // The type text of SQL Server is deprecated; the configuration means text of any length.
        let declared = match declared.to_ascii_lowercase().strip_prefix("text") {
            Some(rest) => format!("nvarchar(max){rest}"),
            None => declared.clone(),
        };
        let in_key = key
            .columns
            .iter()
            .any(|part| part.eq_ignore_ascii_case(name));
        let has_null = declared.to_ascii_lowercase().contains("null");
        let declared = if in_key && !has_null {
            format!("{declared} NOT NULL")
        } else {
            declared
        };
        (name.clone(), declared)
    });
    let columns: Vec<(String, String)> = counter.into_iter().chain(declared).collect();
    let definitions = columns
        .iter()
        .map(|(name, declared)| format!("{} {declared}", quote(name)));
    let definitions: Vec<String> = definitions.collect();
    let key_list: Vec<String> = key.columns.iter().map(|name| quote(name)).collect();
    let placeholders = with(
        &placeholders::of_queue(queue),
        [
            ("definitions", definitions.join(",\n    ")),
            (
                "primary_key",
                format!(
                    ",\n    CONSTRAINT {} PRIMARY KEY ({})",
                    quote(&index::primary_key_name(queue)),
                    key_list.join(", ")
                ),
            ),
        ],
    );
    let column = |(name, declared): &(String, String)| Column {
        name: name.clone(),
        declared: declared
            .split(" NOT NULL")
            .next()
            .unwrap_or_default()
            .to_owned(),
        collation: None,
        code_page: None,
        nullable: false,
        generated: declared.contains("IDENTITY"),
        // The name can be a synonym, such as integer. The catalogue tells the type when the table exists.
        readable: true,
        ..Column::of_type(declared.split(['(', ' ']).next().unwrap_or_default())
    };
    let columns = columns.iter().map(column).collect();
    let table = Table::new(columns, vec![key.columns], Vec::new());
    let create = step(create_table_purpose(queue), "create", &placeholders);
    Some((create, table))
}
