//! Snapshots of all rendered statements, for reviewers: for the five published systems (docs/recipes.md), for a table
//! with a composite key, and for a table with unusual names. Each change of a statement shows as a change in
//! `snapshots/`. A text that several queues share stands there once.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::{
    ClaimStrategy, MirrorValue, OnComplete, Order, QueueSpec, SoftLockColumn,
};
use lease_broker_model::rate::Rate;
use lease_broker_sql::mssql::{ENQUEUE_ONCE, EPOCH, INSTANCE, LEASE_SQL, SECRETS, WHY};
use lease_broker_value::Value;
use uuid::Uuid;

use super::super::adopt::{self, IndexBuilds};
use super::super::adopt_sql;
use super::super::catalogue::{Column, Table};
use super::super::end_leases;
use super::super::enqueue;
use super::super::enqueue_once;
use super::super::group_list;
use super::super::group_pause;
use super::super::index;
use super::super::key_source::KeySource;
use super::super::operation_rows;
use super::super::operations::MssqlOperations;
use super::super::pause;
use super::super::placeholders;
use super::super::queue_statements::QueueStatements;
use super::super::remove;
use super::super::search_statements::FilterColumn;
use super::super::server_info::TextBytes;
use super::super::soft_lock_types::queue_columns;
use super::super::statement_parts::COMMIT;
use super::super::types::ColumnType;
use super::super::{Pool, Settings};
use super::catalogue::{self, index_on};
use super::hint_rules;
use crate::index_role::IndexRole;
use crate::queue_columns::QueueColumns;
use crate::schema::Step;
use crate::table::Filter;
use crate::template::{Placeholders, plain};
use crate::test_queue::{MINUTE, by, mirror, spec};
use crate::{
    Cancellation, Checkpoints, Ending, FollowUp, ItemChange, ItemFilter, ItemSearch, NewItem,
    QueueIndex, SearchPosition, Settlement,
};

fn column(declaration: &str) -> Column {
    let (name, declared) = declaration.split_once(": ").expect("a name and a type");
    let kind = declared.split(['(', ' ']).next().expect("a type");
    let (declared, identity) = match declared.strip_suffix(" identity") {
        Some(declared) => (declared, true),
        None => (declared, false),
    };
    Column {
        collation: kind
            .ends_with("char")
            .then(|| "Latin1_General_100_CI_AS".to_owned()),
        generated: identity,
        ..catalogue::column(name, declared)
    }
}

/// Returns a table before its adoption. The first `key` columns are its primary key.
fn table(columns: &[&str], key: usize) -> Table {
    let columns: Vec<Column> = columns
        .iter()
        .map(|declaration| column(declaration))
        .collect();
    let key: Vec<&str> = columns[..key].iter().map(|column| &*column.name).collect();
    let primary = index_on("PK", &key, Filter::None);
    let key = key.into_iter().map(str::to_owned).collect();
    Table {
        lock_escalation: true,
        ..Table::new(columns, vec![key], vec![primary])
    }
}

fn nulls(columns: &[&str]) -> Vec<(String, Value)> {
    let columns = columns.iter();
    columns
        .map(|name| ((*name).to_owned(), Value::Null))
        .collect()
}

/// Returns an item that sets these columns.
fn new_item(columns: &[&str]) -> NewItem {
    NewItem {
        columns: nulls(columns),
        delay: Duration::ZERO,
        trace_parent: None,
    }
}

/// Returns the group of an enqueue that has only this item.
fn group_of(item: &NewItem) -> enqueue::ItemGroup<'_> {
    enqueue::ItemGroup {
        first: Cow::Borrowed(item),
        indexes: vec![0],
        list: Vec::new(),
    }
}

/// Returns the archive as `schema apply` creates it.
fn archive_table(spec: &QueueSpec, name: &str, archived: &[Column]) -> Table {
    let archived = archived.iter().map(|column| Column {
        generated: false,
        ..column.clone()
    });
    let state_time = column("lease_state_time: datetime2(3)");
    let by_time = index::archive_name(spec, name);
    let by_time = index_on(&by_time, &["lease_state_time"], Filter::None);
    let columns = archived.chain([state_time]).collect();
    Table::new(columns, Vec::new(), vec![by_time])
}

/// Returns the statements of a queue on this table. Its archive is one that `schema apply` has created.
fn statements(spec: &QueueSpec, table: &Table, text: TextBytes) -> QueueStatements {
    let columns = queue_columns(spec, table).expect("the columns are there");
    let key_source = match &*columns.key {
        [only] if only.generated => KeySource::Identity(1),
        _ => KeySource::Defaults,
    };
    let archive = match &spec.on_complete {
        OnComplete::Archive(name) => Some(archive_table(spec, name, &columns.archived)),
        _ => None,
    };
    let archive = archive.as_ref();
    QueueStatements::new(spec, table, archive, columns, key_source, text, &LEASE_SQL)
}

fn lease(key: Key) -> LeaseRef {
    LeaseRef {
        key,
        token: Uuid::nil(),
        fence: 1,
        attempt: 1,
    }
}

/// Returns the operations of a queue. The pool does not connect, because the tests run no statement.
fn operations(queue: QueueStatements) -> MssqlOperations {
    MssqlOperations {
        pool: Pool::new(&Settings::new("server=localhost")).expect("a pool"),
        queues: vec![queue].into(),
    }
}

/// Returns the batches that only read.
fn batches_for_operators(queue: &QueueStatements) -> [(&'static str, String); 6] {
    let (list, why) = (&queue.sql.list, &queue.sql.why);
    [
        ("stats", queue.sql.stats.clone()),
        ("list dead", list[State::Dead as usize].clone()),
        ("why", why.facts.clone()),
        ("why, wait for a lock", why.wait.clone()),
        ("why, wait on Babelfish", why.wait_by_update.clone()),
        ("why, find the blocking session", plain(WHY, "find_blocker")),
    ]
}

/// Returns the batches of pauses, operations and searches.
fn operator_batches(queue: &QueueStatements) -> Vec<(&'static str, String)> {
    let search = |state, after: Option<SearchPosition>| ItemSearch {
        state,
        filter: ItemFilter::default(),
        not_since: None,
        after,
        newest_first: false,
        limit: 1,
        max_examined: 1,
    };
    let position = |time: Option<i64>| SearchPosition {
        time: time.map(Value::Int),
        key: Key(queue.key.iter().map(|_| Value::Int(1)).collect()),
    };
    let page = |search: &ItemSearch| queue.render_search(search, &[]);
    let mut filtered = search(State::Dead, Some(position(Some(1))));
    filtered.newest_first = true;
    filtered.not_since = Some(1);
    filtered.filter = ItemFilter {
        owner: Some(String::new()),
        error_contains: Some(String::new()),
        state_since: Some(1),
        state_before: Some(2),
        min_attempt: Some(1),
        columns: Vec::new(),
    };
    let column = &queue.key[0];
    let by_column = FilterColumn {
        column,
        is_null: false,
    };
    let redrive = ItemChange::Redrive {
        delay: Duration::ZERO,
        keep_attempts: false,
        checkpoints: Checkpoints::Clear,
    };
    let cancellation = Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: String::new(),
        call: None,
    };
    vec![
        ("pause", pause::batch("pause")),
        ("resume", pause::batch("resume")),
        ("read pauses", pause::batch("read_all")),
        ("list brokers", plain(INSTANCE, "list")),
        ("drain a broker", plain(INSTANCE, "request_drain")),
        ("start an operation", operation_rows::batch("start")),
        ("read an operation", operation_rows::batch("read")),
        (
            "cancel an operation",
            operation_rows::batch("cancel_operation"),
        ),
        ("take an operation", operation_rows::batch("take")),
        ("list operations", operation_rows::batch("list")),
        ("read orders", operation_rows::batch("read_orders")),
        ("operation: redrive", queue.render_apply(&redrive)),
        (
            "operation: cancel leases",
            queue.render_apply(&ItemChange::Cancel(cancellation)),
        ),
        (
            "operation: purge",
            queue.render_apply(&ItemChange::Purge(State::Completed)),
        ),
        ("search dead", page(&search(State::Dead, None))),
        (
            "search dead, next page, newest first, with a filter",
            queue.render_search(&filtered, &[by_column]),
        ),
        (
            "search leased, after a row without a due time",
            page(&search(State::Leased, Some(position(None)))),
        ),
        (
            "search ready, next page",
            page(&search(State::Ready, Some(position(None)))),
        ),
        (
            "search completed, next page",
            page(&search(State::Completed, Some(position(None)))),
        ),
        ("find keys", queue.render_find_keys()),
        ("read an item", queue.render_read_record()),
    ]
}

fn epoch_batches(placeholders: &Placeholders, has_triggers: bool) -> [(&'static str, String); 4] {
    let find = end_leases::render_find(placeholders);
    let end = end_leases::render_end(placeholders, has_triggers);
    [
        ("read the epoch", plain(EPOCH, "read")),
        ("begin an epoch", plain(EPOCH, "raise")),
        ("find the leases of earlier epochs", find),
        ("end leases of earlier epochs", end),
    ]
}

/// Returns the steps of an adoption, and of a removal: an index, the column with a default and a value to keep, and one without.
fn schema_steps(
    spec: &QueueSpec,
    before: &Table,
    columns: &QueueColumns<ColumnType>,
    placeholders: &Placeholders,
) -> Vec<Step> {
    let create = "create the record".to_owned();
    let mut steps = vec![adopt_sql::step(create, "create_record", placeholders)];
    steps.extend(adopt::add_columns(spec, before, placeholders, true));
    let builds = IndexBuilds {
        options: " WITH (ONLINE = ON)",
        renames: true,
        filegroup: None,
    };
    let indexes = adopt::add_indexes(spec, before, columns, placeholders, builds);
    steps.extend(indexes);
    let purpose = "drop the ready index".to_owned();
    let index = index::name(IndexRole::Ready, spec);
    steps.push(remove::drop_index(
        purpose,
        placeholders,
        &spec.table,
        &index,
    ));
    let [old, new] = index::both_names(IndexRole::Ready, spec);
    let purpose = "replace the ready index".to_owned();
    steps.push(adopt::replace_index(
        spec,
        placeholders,
        purpose,
        &old,
        &new,
    ));
    let dropped = [SoftLockColumn::Fence, SoftLockColumn::TraceParent];
    let default = ("lease_fence".to_owned(), "DF__item".to_owned());
    steps.extend(remove::drop_columns(spec, &dropped, &[default]));
    steps
}

/// Returns every batch of the queue, each with the name of its operation. Must be called within a tokio runtime,
/// because it creates a pool.
fn render(spec: &QueueSpec, before: &Table, set: &[&str]) -> String {
    let mut out = String::new();
    let mut show = |what: &str, sql: &str| writeln!(out, "===== {what}\n{sql}\n").expect("room");
    let columns = queue_columns(spec, before).expect("the columns are there");
    let mut placeholders = placeholders::of_table(spec, before, &columns);
    placeholders.insert("first_fence", "0".to_owned());
    for step in schema_steps(spec, before, &columns, &placeholders) {
        show(&step.purpose, &step.sql);
    }
    if let OnComplete::Archive(name) = &spec.on_complete {
        let create = adopt::create_archive(spec, name, &columns, &placeholders);
        show("make the archive", &create.sql);
        let index = adopt::create_time_index(spec, name, &placeholders, " WITH (ONLINE = ON)");
        show(&index.purpose, &index.sql);
    }
    let operations_start = out.len();
    let mut show = |what: &str, sql: &str| writeln!(out, "===== {what}\n{sql}\n").expect("room");
    let table = statements(spec, before, TextBytes::Conversion);
    let item = new_item(set);
    show("claim", &table.sql.claim.small.new);
    show(
        "claim; with calls that may hold leases",
        &table.sql.claim.small.with_retries,
    );
    show(
        "claim of a share",
        &table.sql.claim_of_share.small.with_retries,
    );
    let pick_one = table.sql.claim_of_share.pick_one.as_deref();
    show("pick one", pick_one.unwrap_or_default());
    show("set full counters aside", &table.sql.set_full_aside);
    show("heartbeat", &table.sql.extend);
    show("release claims", &table.sql.release_claims);
    show("cancel", &table.sql.cancel);
    show("reap", &table.sql.reap);
    show("reap behind refused rows", &table.sql.reap_behind);
    show("read due rows", &table.sql.read_due);
    let group = [group_of(&item)];
    let batch = enqueue::render_batch(&table, &group, COMMIT);
    show("enqueue", &batch);
    let once = enqueue_once::render_batch(&table, &group);
    show("enqueue with a request id", &once);
    show("forget requests", &plain(ENQUEUE_ONCE, "forget"));
    show("announce a broker", &plain(INSTANCE, "announce"));
    show("read secrets", &plain(SECRETS, "read"));
    show("add a secret", &plain(SECRETS, "add"));
    let of_epochs = epoch_batches(&placeholders, before.has_triggers);
    let of_operators = operator_batches(&table).into_iter();
    for (what, sql) in batches_for_operators(&table)
        .into_iter()
        .chain(of_epochs)
        .chain(of_operators)
    {
        show(what, &sql);
    }
    show("purge, first rows", &table.sql.purge.first);
    show("purge, next rows", &table.sql.purge.next);
    show("purge, turn", &table.sql.purge.take_turn);
    if let Some(archive) = &table.sql.purge.archive {
        show("purge, archive", &archive.delete_archived);
        show("purge, count the archive", &archive.count_archived);
    }
    let key = Key(table.key.iter().map(|_| Value::Int(1)).collect());
    let follow_up = FollowUp {
        queue: QueueIndex(0),
        item: new_item(&[]),
    };
    let settlement = Settlement::new(
        lease(key),
        Ending::Complete {
            follow_ups: vec![follow_up],
        },
    );
    let mssql = operations(table);
    let settle = mssql.render_settlement(&mssql.queues[0], &[settlement], &[0], COMMIT);
    show(
        "complete, fail, release; with an item that follows",
        &settle.expect("a batch").0,
    );
    hint_rules::check(spec, &out[operations_start..], before.reports_filters);
    out
}

/// Returns the batches that do not stand in `shown`.
fn without(batches: &str, shown: &str) -> String {
    let shown: HashSet<&str> = shown.split("===== ").collect();
    let batches = batches.split("===== ").skip(1);
    let others = batches.filter(|batch| !shown.contains(batch));
    let others: Vec<String> = others.map(|batch| format!("===== {batch}")).collect();
    others.concat()
}

/// Returns the batches of a queue, without those that every queue has. They stand in the snapshot of the first queue.
fn render_own(spec: &QueueSpec, before: &Table, set: &[&str]) -> String {
    without(&render(spec, before, set), &render_events_table())
}

fn render_events_table() -> String {
    let mut spec = spec("Rainfall_Events");
    spec.soft_lock
        .map(SoftLockColumn::Owner, "Process_ID".to_owned());
    spec.mirror = vec![
        mirror(
            State::Ready,
            "Processed",
            MirrorValue::Literal(Value::Int(0)),
        ),
        mirror(
            State::Completed,
            "Processed",
            MirrorValue::Literal(Value::Int(1)),
        ),
    ];
    let table = table(
        &[
            "Event_ID: bigint identity",
            "Rainfall_ID: bigint",
            "Processed: bit",
        ],
        1,
    );
    render(&spec, &table, &["Rainfall_ID"])
}

#[tokio::test]
async fn s1_soft_locks_on_an_events_table() {
    insta::assert_snapshot!(render_events_table());
}

#[tokio::test]
async fn s2_checking_out_records() {
    let mut spec = spec("dbo.Records");
    spec.order = by(&["lease_state_time"]);
    spec.on_complete = OnComplete::Recur(15 * MINUTE);
    spec.claim_strategy = ClaimStrategy::AppLock;
    let table = table(&["RecordID: int identity", "Name: nvarchar(100)"], 1);
    insta::assert_snapshot!(render_own(&spec, &table, &["Name"]));
}

#[tokio::test]
async fn s3_polling_by_multiple_subscribers() {
    let mut spec = spec("Customers");
    for (state, name) in [
        (State::Ready, "Pending"),
        (State::Leased, "In Process"),
        (State::Completed, "Completed"),
        (State::Dead, "Error"),
    ] {
        let value = MirrorValue::Literal(Value::Text(name.to_owned()));
        spec.mirror.push(mirror(state, "Status", value));
        spec.mirror
            .push(mirror(state, "LastUpdated", MirrorValue::Now));
    }
    let table = table(
        &[
            "CustomerID: int identity",
            "Name: nvarchar(100)",
            "Status: varchar(20)",
            "LastUpdated: datetime",
        ],
        1,
    );
    insta::assert_snapshot!(render_own(&spec, &table, &["Name"]));
}

#[tokio::test]
async fn s4_a_table_as_a_data_queue() {
    let mut spec = spec("Queue");
    spec.order = Order::None;
    spec.on_complete = OnComplete::Delete;
    let table = table(&["QueueID: int identity", "SomeAction: varchar(100)"], 1);
    insta::assert_snapshot!(render_own(&spec, &table, &["SomeAction"]));
}

fn render_critical_section() -> String {
    let mut spec = spec("RawData");
    spec.on_complete = OnComplete::Archive("ProcessedData".to_owned());
    let table = table(&["ID: int identity", "Data: nvarchar(max)"], 1);
    render_own(&spec, &table, &["Data"])
}

#[tokio::test]
async fn s5_critical_section_and_timestamped_reads() {
    insta::assert_snapshot!(render_critical_section());
}

/// Returns a queue in an order of its own, without filtered indexes, and its table, whose key has three columns.
fn composite_key_without_filtered_indexes() -> (QueueSpec, Table) {
    let mut spec = spec("sales.Orders");
    spec.order = by(&["-Priority"]);
    spec.filtered_indexes = false;
    let table = table(
        &[
            "Region: char(2)",
            "Number: decimal(18,0)",
            "Part: uniqueidentifier",
            "Priority: int",
            "Blob: varbinary(max)",
        ],
        3,
    );
    (spec, table)
}

#[tokio::test]
async fn a_composite_key_without_filtered_indexes() {
    let (spec, table) = composite_key_without_filtered_indexes();
    insta::assert_snapshot!(render_own(
        &spec,
        &table,
        &["Region", "Number", "Part", "Blob"]
    ));
}

/// The hints that name the index of the key are the only difference.
#[tokio::test]
async fn a_composite_key_without_filtered_indexes_on_babelfish() {
    let (spec, mut table) = composite_key_without_filtered_indexes();
    let set = ["Region", "Number", "Part", "Blob"];
    let with_hints = render(&spec, &table, &set);
    table.reports_filters = false;
    let without_hints = with_hints
        .replace(", FORCESEEK, INDEX ([PK])", "")
        .replace(", INDEX ([PK])", "");
    assert_eq!(render(&spec, &table, &set), without_hints);
}

#[tokio::test]
async fn a_queue_with_checkpoints() {
    let mut spec = spec("Reports");
    spec.max_checkpoint_bytes = Some(4_096);
    let mut table = table(&["ID: int identity", "lease_checkpoint: varbinary(max)"], 1);
    table.columns[1].nullable = true;
    let queue = statements(&spec, &table, TextBytes::Conversion);
    let sql = &queue.sql;
    let extend = sql.extend_with_checkpoints.as_deref().expect("a batch");
    let checkpoint = queue.checkpoint.as_ref().expect("a column");
    let redrive = |checkpoints| {
        queue.render_apply(&ItemChange::Redrive {
            delay: Duration::ZERO,
            keep_attempts: false,
            checkpoints,
        })
    };
    let batches = [
        ("claim", &*sql.claim.small.new),
        ("heartbeat", &*sql.extend),
        ("heartbeat; with checkpoints", extend),
        ("settle", &*sql.settle.update_ended),
        (
            "settle; with checkpoints",
            &*queue.render_update_writing(&[checkpoint]),
        ),
        ("redrive", &*redrive(Checkpoints::Keep)),
        (
            "redrive; without checkpoints",
            &*redrive(Checkpoints::Clear),
        ),
    ];
    let batches = batches.map(|(what, sql)| format!("===== {what}\n{sql}\n"));
    insta::assert_snapshot!(batches.join("\n"));
}

/// The table has times of its own precision.
#[tokio::test]
async fn a_queue_with_an_index_of_completed_items() {
    let (mut spec, mut table) = composite_key_without_filtered_indexes();
    (spec.filtered_indexes, spec.completed_index) = (true, true);
    let time = column("lease_state_time: datetime2(7)");
    table.columns.push(time);
    let all = render_own(&spec, &table, &["Region", "Number", "Part", "Blob"]);
    let batches = all.split("===== ").skip(1);
    let ours =
        batches.filter(|batch| batch.starts_with("purge, ") || batch.contains("_completed]"));
    let ours: Vec<String> = ours.map(|batch| format!("===== {batch}")).collect();
    insta::assert_snapshot!(ours.concat());
}

#[test]
fn indexes_of_a_partitioned_table() {
    let spec = spec("Events");
    let table = table(&["Event_ID: bigint"], 1);
    let columns = queue_columns(&spec, &table).expect("the columns are there");
    let placeholders = placeholders::of_table(&spec, &table, &columns);
    let filegroup = Some("work [1]");
    let steps = adopt::add_indexes(
        &spec,
        &table,
        &columns,
        &placeholders,
        IndexBuilds {
            options: " WITH (ONLINE = ON)",
            renames: true,
            filegroup,
        },
    );
    let steps = steps
        .iter()
        .map(|step| format!("===== {}\n{}\n", step.purpose, step.sql));
    insta::assert_snapshot!(steps.collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn batches_on_a_table_with_triggers_roll_back_at_each_error() {
    let mut table = table(&["ID: int identity", "Data: nvarchar(max)"], 1);
    table.has_triggers = true;
    let all = render_own(&spec("RawData"), &table, &["Data"]);
    insta::assert_snapshot!(without(&all, &render_critical_section()));
}

#[test]
fn claims_of_items_without_a_size_limit() {
    let mut spec = spec("Documents");
    spec.mirror = vec![mirror(
        State::Dead,
        "Status",
        MirrorValue::Literal(Value::Text("failed".to_owned())),
    )];
    let mut table = table(
        &[
            "ID: nvarchar(40)",
            "Status: varchar(20)",
            "Text: nvarchar(max)",
            "Scan: varbinary(max)",
            "Data: xml",
            "Price: decimal(10, 2)",
        ],
        1,
    );
    let mut out = String::new();
    for (text_bytes, with_retries) in [
        (TextBytes::Conversion, true),
        (TextBytes::Length, false),
        (TextBytes::Unknown, false),
    ] {
        table.reports_filters = text_bytes != TextBytes::Length;
        let queue = statements(&spec, &table, text_bytes);
        assert_eq!(queue.max_row_bytes, None);
        let batches = queue.sql.claim.within_bytes;
        let batch = if with_retries {
            batches.with_retries
        } else {
            batches.new
        };
        hint_rules::check(&spec, &batch, table.reports_filters);
        writeln!(out, "===== {text_bytes:?}\n{batch}\n").expect("room");
    }
    insta::assert_snapshot!(out);
}

#[test]
fn inserts_where_an_index_drops_duplicates() {
    let spec = spec("Orders");
    let mut table = table(&["ID: int", "Code: int"], 1);
    table.indexes[0].drops_duplicates = true;
    let queue = statements(&spec, &table, TextBytes::Conversion);
    let item = new_item(&["ID", "Code"]);
    let sections = [
        "insert_given_keys",
        "insert_identity_keys",
        "insert_row_by_row",
        "insert_follow_ups",
    ];
    let sections = sections.map(|section| {
        let sql = queue.render_insert(&[section], &item, 1);
        format!("===== {section}\n{sql}\n")
    });
    insta::assert_snapshot!(sections.join("\n"));
}

/// A batch with a completion, a failure and a release. Only the first two write columns, and not the same ones.
#[tokio::test]
async fn settlements_that_write_columns() {
    let mut spec = spec("Orders");
    let table = table(
        &[
            "ID: int identity",
            "Total: decimal(9,2)",
            "Result: varchar(100)",
            "Details: nvarchar(max)",
            "Image: varbinary(max)",
            "Checked_At: datetime2(3)",
        ],
        1,
    );
    let writable = table.columns[1..].iter().map(|column| column.name.clone());
    spec.writable = writable.collect();
    spec.on_complete = OnComplete::Archive("Old_Orders".to_owned());
    let mssql = operations(statements(&spec, &table, TextBytes::Conversion));
    let settlement = |id, ending, columns: &[&str]| Settlement {
        lease: lease(Key([Value::Int(id)].into())),
        ending,
        checkpoint: None,
        columns: nulls(columns),
        trace: None,
    };
    let complete = Ending::Complete {
        follow_ups: Vec::new(),
    };
    let fail = Ending::Fail {
        error: String::new(),
        retry: None,
    };
    let release = Ending::Release {
        delay: Duration::ZERO,
    };
    let settlements = [
        settlement(1, complete, &["Total", "Image", "Checked_At"]),
        settlement(2, fail, &["Result", "Details"]),
        settlement(3, release, &[]),
    ];
    let batch = mssql.render_settlement(&mssql.queues[0], &settlements, &[0, 1, 2], COMMIT);
    let (sql, _) = batch.expect("a batch");
    hint_rules::check(&spec, &sql, table.reports_filters);
    insta::assert_snapshot!(format!(
        "===== complete, fail, release; with written columns\n{sql}\n"
    ));
}

#[tokio::test]
async fn a_money_key_is_not_sought_by_force() {
    let table = table(&["Price: money"], 1);
    let spec = spec("Prices");
    let columns = queue_columns(&spec, &table).expect("the columns are there");
    let placeholders = placeholders::of_table(&spec, &table, &columns);
    assert_eq!(placeholders["by_key"], "ROWLOCK");
}

#[tokio::test]
async fn awkward_names() {
    let mut spec = spec("[my schema].[it's a ]] \"table\" {key}; --]");
    for part in SoftLockColumn::ALL {
        spec.soft_lock
            .map(part, format!("☂ {}]", part.default_name()));
    }
    let table = table(&["k'e]y: nvarchar(40)", "{table}: int", "GO; DROP: xml"], 1);
    insta::assert_snapshot!(render_own(&spec, &table, &["k'e]y", "{table}", "GO; DROP"]));
}

/// Claims of queues with groups and limits. Other batches do not depend on them.
#[tokio::test]
async fn claims_of_a_queue_with_groups() {
    let limits = QueueLimits {
        max_leases: Some(500),
        rate: Some(Rate {
            items: 100,
            per: Duration::from_secs(1),
            burst: 100,
        }),
    };
    let orders = [
        Some(GroupOrder::Strict {
            halts: false,
            run: 1,
        }),
        Some(GroupOrder::Strict {
            halts: true,
            run: 1,
        }),
        Some(GroupOrder::Parallel {
            max_leases: Some(5),
            bursts: false,
        }),
        Some(GroupOrder::Parallel {
            max_leases: Some(5),
            bursts: true,
        }),
        None,
    ];
    let mut all = String::new();
    // Batches of two policies can be equal. They stand there once.
    let mut shown = HashSet::new();
    for order in orders {
        let queue = orders_queue(order, limits);
        let (claim, share) = (&queue.sql.claim, &queue.sql.claim_of_share);
        let (placeholders, groups) = (&queue.placeholders, queue.spec.groups.as_ref());
        let what = groups.map_or("no groups".to_owned(), Groups::policy);
        for (form, sql) in [
            ("small items", &claim.small.new),
            ("within bytes, retries", &claim.within_bytes.with_retries),
            ("while there are suspects", &share.small.new),
        ] {
            write!(all, "===== {what}: {form}\n{sql}\n\n").expect("text");
        }
        if let Some(claim) = &queue.sql.claim_of_groups {
            let sql = &claim.within_bytes.new;
            write!(all, "===== {what}: of named groups\n{sql}\n\n").expect("text");
        }
        if let Some(groups) = &queue.spec.groups
            && !groups.bursts()
        {
            for (form, sql) in [
                ("pause group", group_pause::batch("pause", placeholders)),
                ("resume group", group_pause::batch("resume", placeholders)),
                ("list groups", group_list::list_batch(&queue, groups, ">")),
                ("why", queue.sql.why.facts.clone()),
            ] {
                if shown.insert(sql.clone()) {
                    write!(all, "===== {what}: {form}\n{sql}\n\n").expect("text");
                }
            }
        }
    }
    hint_rules::check_plans(&all);
    insta::assert_snapshot!(all);
}

/// Returns the statements of a table of orders, in groups of customers with this order.
fn orders_queue(order: Option<GroupOrder>, limits: QueueLimits) -> QueueStatements {
    let mut spec = spec("Orders");
    spec.order = by(&["-Priority"]);
    spec.groups = order.map(|order| Groups {
        column: "Customer".to_owned(),
        order,
        rate: None,
    });
    spec.limits = limits;
    let mut table = table(
        &[
            "Order_ID: bigint identity",
            "Customer: varchar(40)",
            "Priority: int",
        ],
        1,
    );
    table.columns[1].code_page = Some(1252);
    statements(&spec, &table, TextBytes::Conversion)
}

/// The batches that know of runs.
#[tokio::test]
async fn batches_of_a_queue_with_runs() {
    let order = GroupOrder::Strict {
        halts: false,
        run: 10,
    };
    let queue = orders_queue(Some(order), QueueLimits::default());
    let (claim, settle) = (&queue.sql.claim, &queue.sql.settle);
    let settle = [&settle.begin, &settle.update_ended, &settle.verify_count];
    let settle: Vec<&str> = settle.map(|section| &**section).into();
    let mut all = String::new();
    for (what, sql) in [
        ("claim", &claim.small.new),
        ("claim within bytes", &claim.within_bytes.with_retries),
        ("settle", &settle.join("\n")),
        ("cancel", &queue.sql.cancel),
        ("reap", &queue.sql.reap),
    ] {
        write!(all, "===== {what}\n{sql}\n\n").expect("text");
    }
    hint_rules::check_plans(&all);
    insta::assert_snapshot!(all);
}
