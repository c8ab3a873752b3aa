//! Properties of tables that only SQL Server has, given as its catalogue describes them: filters that the login may not see,
//! masked columns, ledger tables, code pages, long names.

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, QueueSpec, SoftLockColumn};
use lease_broker_value::Value;

use super::super::adopt::{create_archive, unsent_columns};
use super::super::backfill::set_position_placeholders;
use super::super::catalogue::{Column, Table, declared};
use super::super::migrations::CREATE_HISTORY_TABLE;
use super::super::partitions::{
    PartitionedIndex, Partitions, partitioned_indexes, partitioned_key,
};
use super::super::restrictions::{Purpose, Restriction, problems};
use super::super::soft_lock_types::queue_columns;
use super::super::{index, index_key_size, placeholders};
use crate::adoption::IndexStatus;
use crate::index_role::IndexRole;
use crate::table::{Filter, Index, IndexColumn};
use crate::test_queue::{by, mirror, spec};

pub(super) fn column(name: &str, declared: &str) -> Column {
    Column {
        name: name.to_owned(),
        declared: declared.to_owned(),
        ..Column::of_type(declared.split('(').next().unwrap_or_default())
    }
}

pub(super) fn index_on(name: &str, columns: &[&str], filter: Filter) -> Index {
    let columns = columns.iter().map(|column| IndexColumn {
        name: Some((*column).to_owned()),
        descending: false,
    });
    Index {
        name: name.to_owned(),
        columns: columns.collect(),
        unique: name == "PK",
        drops_duplicates: false,
        filter,
    }
}

/// Returns a table with the key `id` and these further indexes.
fn table(indexes: Vec<Index>) -> Table {
    let columns = vec![column("id", "varchar(40)"), column("payload", "int")];
    let primary = index_on("PK", &["id"], Filter::None);
    let indexes = [primary].into_iter().chain(indexes).collect();
    Table::new(columns, vec![vec!["id".to_owned()]], indexes)
}

fn statuses(queue: &QueueSpec, table: &Table) -> Vec<IndexStatus> {
    let columns = queue_columns(queue, table).expect("the columns are there");
    let statuses = index::all_with_status(queue, &columns, table);
    statuses.map(|(_, status)| status).collect()
}

#[test]
fn index_with_a_hidden_filter_is_found_by_its_name() {
    let queue = spec("item");
    let indexes = |end: &str| {
        let index = |role: &str, column| {
            index_on(
                &format!("item_lease_{role}{end}"),
                &[column],
                Filter::Hidden,
            )
        };
        vec![
            index("ready", "id"),
            index("due", "lease_due_time"),
            index("token", "lease_token"),
            index("dead", "lease_state_time"),
        ]
    };
    let named = table(indexes(""));
    assert_eq!(statuses(&queue, &named), [IndexStatus::Usable; 4]);
    let columns = queue_columns(&queue, &named).expect("columns");
    assert!(index::has_hidden_filter(&queue, &columns, &named));
    // Another index may have the same columns and another filter.
    let others = table(indexes("_of_reports"));
    assert_eq!(statuses(&queue, &others), [IndexStatus::Missing; 4]);
    assert!(!index::has_hidden_filter(&queue, &columns, &others));
}

#[test]
fn state_column_leads_an_index_in_any_case_of_letters() {
    let mut queue = spec("item");
    queue.filtered_indexes = false;
    queue
        .soft_lock
        .map(SoftLockColumn::State, "Lease_State".to_owned());
    let index = |name, column| index_on(name, &["lease_state", column], Filter::None);
    let table = table(vec![
        index("a", "id"),
        index("b", "lease_due_time"),
        index("c", "lease_token"),
    ]);
    assert_eq!(statuses(&queue, &table), [IndexStatus::Usable; 3]);
}

#[test]
fn long_index_names_are_shortened_and_stay_distinct() {
    let names = |last: &str| {
        let table = "☂".repeat(127) + last;
        IndexRole::ALL.map(|role| index::name(role, &spec(&table)))
    };
    let (first, second) = (names("a"), names("b"));
    for (index, name) in first.iter().enumerate() {
        assert!(name.encode_utf16().count() <= 128, "{name}");
        assert!(name.ends_with(IndexRole::ALL[index].name()), "{name}");
        assert_ne!(*name, second[index]);
    }
    assert_eq!(first, names("a"));
    let short = index::name(IndexRole::Ready, &spec("dbo.item"));
    assert_eq!(short, "item_lease_ready");
}

fn refusals(queue: &QueueSpec, restriction: Restriction) -> Vec<String> {
    refusals_for(Purpose::Look, queue, restriction)
}

fn refusals_for(purpose: Purpose, queue: &QueueSpec, restriction: Restriction) -> Vec<String> {
    let table = table(vec![index_on("other", &["payload"], Filter::None)]);
    let columns = queue_columns(queue, &table).expect("the columns are there");
    problems(&[restriction], queue, &table, &columns, purpose)
}

#[test]
fn masked_and_encrypted_queue_columns_are_refused() {
    let queue = spec("item");
    let masked = |name: &str| refusals(&queue, Restriction::Masked(name.to_owned()));
    assert!(masked("ID")[0].contains("UNMASK"));
    assert!(masked("lease_owner")[0].contains("is masked"));
    assert!(masked("payload").is_empty());
    let mut by_payload = spec("item");
    by_payload.order = by(&["payload"]);
    let encrypted = Restriction::Encrypted("payload".to_owned());
    assert!(refusals(&queue, encrypted.clone()).is_empty());
    assert!(refusals(&by_payload, encrypted)[0].contains("Always Encrypted"));
}

fn groups_of(column: &str) -> Groups {
    Groups {
        column: column.to_owned(),
        order: GroupOrder::Strict {
            halts: false,
            run: 1,
        },
        rate: None,
    }
}

/// Each use of the column `payload`, and a part of the refusal if the column is masked and if it is encrypted.
#[test]
fn refusal_of_a_column_depends_on_its_use() {
    type Change = fn(&mut QueueSpec);
    let unsent: Change = |queue| queue.columns = Some(vec!["id".to_owned()]);
    let uses: [(Change, Option<&str>, Option<&str>); 6] = [
        (|_| (), Some("workers would get its mask"), None),
        (unsent, None, None),
        (
            |queue| queue.on_complete = OnComplete::Archive("archive".to_owned()),
            Some("archive its mask and delete the value"),
            Some("archive cannot keep it"),
        ),
        (
            |queue| queue.writable = vec!["Payload".to_owned()],
            Some("write the mask into it"),
            Some("no key to write it"),
        ),
        (
            |queue| {
                queue.mirror = vec![mirror(
                    State::Completed,
                    "payload",
                    MirrorValue::Literal(Value::Int(1)),
                )];
            },
            Some("write the mask into it"),
            Some("no key to write it"),
        ),
        (
            |queue| queue.groups = Some(groups_of("payload")),
            Some("a claim would read its mask"),
            Some("cannot sort or compare it"),
        ),
    ];
    for (at, (change, masked, encrypted)) in uses.into_iter().enumerate() {
        let mut queue = spec("item");
        change(&mut queue);
        for (restriction, expected) in [
            (Restriction::Masked("payload".to_owned()), masked),
            (Restriction::Encrypted("payload".to_owned()), encrypted),
        ] {
            let refused = refusals_for(Purpose::Lease, &queue, restriction);
            assert_eq!(
                refused.len(),
                usize::from(expected.is_some()),
                "{at}: {refused:?}"
            );
            let expected = expected.unwrap_or_default();
            assert!(
                refused.concat().contains(expected),
                "{at}: {expected}: {refused:?}"
            );
        }
    }
}

/// It changes the schema or looks at leases, and reads no other values.
#[test]
fn login_that_leases_nothing_need_not_see_the_data() {
    let mut queue = spec("item");
    queue.on_complete = OnComplete::Archive("archive".to_owned());
    queue.writable = vec!["payload".to_owned()];
    let masked = Restriction::Masked("payload".to_owned());
    assert_eq!(refusals(&queue, masked), [""; 0]);
    let encrypted = Restriction::Encrypted("payload".to_owned());
    assert_eq!(refusals(&queue, encrypted).len(), 1);
}

/// The driver would send the bytes as they are stored.
#[test]
fn encrypted_column_is_one_that_the_broker_cannot_read() {
    let mut table = table(Vec::new());
    table
        .columns
        .push(column("code", "nvarchar(40)").encrypted());
    let mut queue = spec("item");
    let columns = queue_columns(&queue, &table).expect("columns");
    let is_code = |column: &Column| column.name == "code";
    assert!(!columns.data.iter().any(is_code) && !columns.insertable.iter().any(is_code));
    let warnings = unsent_columns(&queue, &table);
    assert!(warnings[0].contains("nvarchar(40) (Always Encrypted)"));
    assert!(!warnings[0].contains("computed column"), "{warnings:?}");
    for name in ["columns", "filterable", "key"] {
        queue = spec("item");
        let code = vec!["code".to_owned()];
        match name {
            "columns" => queue.columns = Some(code),
            "filterable" => queue.filterable = code,
            _ => queue.key = code,
        }
        let problems = queue_columns(&queue, &table).expect_err(name);
        let expected =
            format!("which the broker cannot read: name another column in the setting {name} ");
        assert!(problems[0].contains(&expected), "{problems:?}");
    }
}

#[test]
fn lockable_index_without_row_locks_is_refused() {
    let queue = spec("item");
    let without = |name: &str| Restriction::WithoutRowLocks(name.to_owned());
    let refused = refusals(&queue, without("PK"));
    let remedy = "ALTER INDEX [PK] ON [item] SET (ALLOW_ROW_LOCKS = ON)";
    assert!(refused[0].contains(remedy), "{refused:?}");
    assert!(refusals(&queue, without("other")).is_empty());
    let clustered = Restriction::ClusteredWithoutRowLocks("other".to_owned());
    assert_eq!(refusals(&queue, clustered).len(), 1);
}

#[test]
fn ledger_tables_are_refused_unless_rows_can_change() {
    let queue = spec("item");
    assert_eq!(refusals(&queue, Restriction::AppendOnlyLedger).len(), 1);
    assert_eq!(refusals(&queue, Restriction::LedgerHistory).len(), 1);
    assert!(refusals(&queue, Restriction::UpdatableLedger).is_empty());
}

/// Returns the expressions that read the key from a list and from the table, for a key of this code page.
fn key_expressions(declared: &str, collation: &str, code_page: i32) -> [String; 3] {
    let mut table = table(Vec::new());
    table.columns[0] = Column {
        collation: Some(collation.to_owned()),
        code_page: Some(code_page),
        ..column("id", declared)
    };
    let queue = spec("item");
    let columns = queue_columns(&queue, &table).expect("the columns are there");
    let placeholders = placeholders::of_table(&queue, &table, &columns);
    ["key_from_json", "t_key_as_names", "d_key_values"].map(|name| placeholders[name].clone())
}

#[test]
fn text_outside_code_page_1252_is_read_as_unicode() {
    let [from_json, read, answered] =
        key_expressions("varchar(40)", "Cyrillic_General_100_CI_AS", 1_251);
    let in_code_page = "COLLATE Cyrillic_General_100_CI_AS) COLLATE Cyrillic_General_100_CI_AS";
    assert!(from_json.contains(in_code_page), "{from_json}");
    assert_eq!(read, "CONVERT(nvarchar(40), t.[id]) AS lb_k1");
    assert_eq!(answered, "CONVERT(nvarchar(40), d.lb_k1) AS lb_k1");
    let [_, read, _] = key_expressions("varchar(max)", "Japanese_XJIS_140_CI_AS", 932);
    assert_eq!(read, "CONVERT(nvarchar(max), t.[id]) AS lb_k1");
    let [_, read, _] = key_expressions("varchar(40)", "Latin1_General_100_CI_AS", 1_252);
    assert_eq!(read, "t.[id] AS lb_k1");
}

/// The conversion of a value of type `sql_variant` to `varchar` has the code page and the collation of the database.
#[test]
fn remembered_key_keeps_its_letters_and_its_collation() {
    let mut table = table(Vec::new());
    let queue = spec("item");
    for (declared, collation, code_page, expected) in [
        (
            "varchar(40)",
            Some("Cyrillic_General_100_CI_AS"),
            Some(1_251),
            "CONVERT(varchar(40), CONVERT(nvarchar(4000), s.k1) COLLATE Cyrillic_General_100_CI_AS) \
             COLLATE Cyrillic_General_100_CI_AS AS lb_k1",
        ),
        (
            "nvarchar(40)",
            Some("Latin1_General_100_CS_AS"),
            None,
            "CONVERT(nvarchar(40), s.k1) COLLATE Latin1_General_100_CS_AS AS lb_k1",
        ),
        ("bigint", None, None, "CONVERT(bigint, s.k1) AS lb_k1"),
    ] {
        table.columns[0] = Column {
            collation: collation.map(str::to_owned),
            code_page,
            ..column("id", declared)
        };
        let columns = queue_columns(&queue, &table).expect("the columns are there");
        let placeholders = placeholders::of_table(&queue, &table, &columns);
        assert_eq!(placeholders["s_key_as_names"], expected);
    }
}

/// The database can have another code page than the key's column, also than one of code page 1252.
#[test]
fn position_of_a_walk_keeps_the_letters_of_the_key() {
    let mut table = table(Vec::new());
    let key = Column {
        collation: Some("Latin1_General_100_CI_AS".to_owned()),
        code_page: Some(1_252),
        ..column("id", "varchar(40)")
    };
    table.columns[0] = key.clone();
    let mut placeholders = placeholders::of_queue(&spec("item"));
    set_position_placeholders(&mut placeholders, &[key]);
    assert_eq!(placeholders["key_variables"], "@k1 nvarchar(4000)");
    let collate = " COLLATE Latin1_General_100_CI_AS";
    assert_eq!(
        placeholders["after_position"],
        format!("t.[id] > CONVERT(varchar(40), @k1{collate}){collate}")
    );
}

#[test]
fn json_is_text_for_workers_and_in_lists() {
    let mut table = table(Vec::new());
    table.columns.push(column("details", "json"));
    let queue = spec("item");
    let columns = queue_columns(&queue, &table).expect("the columns are there");
    let placeholders = placeholders::of_table(&queue, &table, &columns);
    let read = "CONVERT(nvarchar(max), t.[details]) AS lb_c2";
    assert!(placeholders["t_data_columns"].contains(read));
    let kind = table.columns[2].kind;
    assert_eq!(
        kind.json_declaration("c2", "json"),
        "c2 nvarchar(max) '$.c2'"
    );
    assert!(kind.of_json("j.c2").starts_with("CONVERT(json, "));
    assert!(unsent_columns(&queue, &table).is_empty());
}

#[test]
fn column_that_is_not_sent_is_named_unless_left_out() {
    let mut table = table(Vec::new());
    table.columns.push(column("embedding", "vector"));
    let mut queue = spec("item");
    let warnings = unsent_columns(&queue, &table);
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.contains("embedding") && warning.contains("vector"),
        "{warning}"
    );
    queue.columns = Some(vec!["payload".to_owned()]);
    assert_eq!(unsent_columns(&queue, &table), [""; 0]);
}

/// Without a name the server makes one up, another in each database.
#[test]
fn every_constraint_has_a_name() {
    const MIGRATION: &str = include_str!("../../../../sql/mssql/migrations/0001_broker.sql");
    const ADOPT: &str = lease_broker_sql::mssql::ADOPT;

    let created = ADOPT.split("-- :: create\n").nth(1).expect("a section");
    let (created, rest) = created.split_once("-- :: record\n").expect("a section");
    let (_, added) = rest.split_once("-- :: lease_state\n").expect("a section");
    let (added, _) = added
        .split_once("-- :: backfill_needed")
        .expect("a section");
    for sql in [MIGRATION, CREATE_HISTORY_TABLE, created, added] {
        for word in [" PRIMARY KEY", " DEFAULT ", " CHECK (", " UNIQUE"] {
            let parts: Vec<&str> = sql.split(word).collect();
            for before in &parts[..parts.len() - 1] {
                let named = before.split_whitespace().rev().nth(1) == Some("CONSTRAINT");
                assert!(named, "a constraint without a name: {before}{word}");
            }
        }
    }
}

fn partitioned_by(column: &str, name: &str) -> PartitionedIndex {
    PartitionedIndex {
        name: name.to_owned(),
        column: column.to_owned(),
    }
}

#[test]
fn key_that_is_sorted_within_partitions_only_is_a_warning() {
    let mut table = table(Vec::new());
    table.columns.push(column("created", "datetime2(3)"));
    table.unique = vec![vec!["id".to_owned(), "created".to_owned()]];
    table.indexes = vec![index_on("PK", &["id", "created"], Filter::None)];
    let queue = spec("item");
    let columns = queue_columns(&queue, &table).expect("columns");
    let warning = |index| {
        let partitions = Partitions {
            filegroup: None,
            indexes: vec![index],
        };
        partitioned_key(&partitions, &queue, &columns, &table)
    };
    let warned = warning(partitioned_by("created", "PK")).expect("a warning");
    assert!(warned.contains("PK") && warned.contains("partitioned by created"));
    assert_eq!(warning(partitioned_by("ID", "PK")), None);
    assert_eq!(warning(partitioned_by("created", "other")), None);
}

/// The server creates the index, and refuses long values of other programs later.
#[test]
fn index_whose_key_can_be_too_long_is_a_warning() {
    let mut table = table(Vec::new());
    table.columns[0] = column("id", "nvarchar(200)");
    table.columns.push(column("title", "nvarchar(200)"));
    table.columns.push(column("customer", "nvarchar(450)"));
    let mut queue = spec("item");
    queue.order = by(&["-Title"]);
    let warnings = |queue: &QueueSpec, table: &Table| {
        let columns = queue_columns(queue, table).expect("columns");
        index_key_size::warnings(queue, &columns, table)
    };
    assert_eq!(warnings(&queue, &table), [""; 0]);
    queue.groups = Some(groups_of("customer"));
    // 900 + 400 + 400 bytes are as many as an index may have, and the busy index has the state too.
    table.columns.push(column("lease_state", "smallint"));
    let busy = warnings(&queue, &table);
    let expected =
        "the busy index of table \"item\" (customer, lease_state, Title, id) can have 1702 bytes";
    assert_eq!(busy.len(), 1, "{busy:?}");
    assert!(busy[0].contains(expected), "{busy:?}");
    queue.filtered_indexes = false;
    let led_by_state = warnings(&queue, &table);
    assert!(
        led_by_state[0].contains("the group index"),
        "{led_by_state:?}"
    );
}

#[test]
fn vector_is_archived_with_its_dimensions() {
    assert_eq!(declared("vector", 8 + 4 * 1_536, 0, 0), "vector(1536)");
    let mut table = table(Vec::new());
    table.columns.push(column("embedding", "vector(3)"));
    let mut queue = spec("item");
    queue.on_complete = OnComplete::Archive("archive".to_owned());
    let columns = queue_columns(&queue, &table).expect("columns");
    let placeholders = placeholders::of_table(&queue, &table, &columns);
    let step = create_archive(&queue, "archive", &columns, &placeholders);
    assert!(
        step.sql.contains("[embedding] vector(3) NULL"),
        "{}",
        step.sql
    );
}

#[test]
fn index_partitioned_like_its_table_is_a_warning() {
    let queue = spec("item");
    let index = |role: &str, column, states: &str| {
        let filter = Filter::Condition(format!("([lease_state]{states})"));
        index_on(&format!("item_lease_{role}"), &[column], filter)
    };
    let table = table(vec![
        index("ready", "id", "=(0)"),
        index("token", "lease_token", "=(1)"),
    ]);
    let columns = queue_columns(&queue, &table).expect("columns");
    let warnings = |indexes: &[&str]| {
        let partitions = Partitions {
            filegroup: Some("PRIMARY".to_owned()),
            indexes: indexes
                .iter()
                .map(|name| partitioned_by("id", name))
                .collect(),
        };
        partitioned_indexes(&partitions, &queue, &columns, &table)
    };
    let ready = warnings(&["PK", "item_lease_ready", "item_lease_token"]);
    assert_eq!(ready.len(), 1, "{ready:?}");
    assert!(ready[0].contains("the ready index item_lease_ready"));
    assert_eq!(warnings(&["PK", "item_lease_token"]), [""; 0]);
}
