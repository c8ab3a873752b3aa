//! The database of the scripted server. All migrations are applied, and it has one adopted table, `items`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::wire::responder::request::Request;
use crate::wire::responder::tokens::{Cell, Tokens};

/// Columns of `items`: name, type, bytes, precision, scale, nullable.
const COLUMNS: [(&str, &str, i16, u8, u8, bool); 11] = [
    ("id", "bigint", 8, 19, 0, false),
    ("payload", "nvarchar", 400, 0, 0, true),
    ("lease_state", "tinyint", 1, 3, 0, false),
    ("lease_state_time", "datetime2", 7, 23, 3, false),
    ("lease_due_time", "datetime2", 7, 23, 3, true),
    ("lease_owner", "nvarchar", 256, 0, 0, true),
    ("lease_token", "uniqueidentifier", 16, 0, 0, true),
    ("lease_fence", "bigint", 8, 19, 0, false),
    ("lease_attempt", "int", 4, 10, 0, false),
    ("lease_error", "nvarchar", 2_048, 0, 0, true),
    ("trace_parent", "varchar", 55, 0, 0, true),
];

/// Indexes of `items`: name, column, filter. The first one is the primary key.
const INDEXES: [(&str, &str, Option<&str>); 5] = [
    ("items_key", "id", None),
    ("items_lease_ready", "id", Some("([lease_state]=(0))")),
    (
        "items_lease_due",
        "lease_due_time",
        Some("([lease_state] IN ((1), (2)))"),
    ),
    (
        "items_lease_token",
        "lease_token",
        Some("([lease_state]=(1))"),
    ),
    (
        "items_lease_dead",
        "lease_state_time",
        Some("([lease_state]=(4))"),
    ),
];

/// Answers the queries of a broker that starts. Every other statement succeeds without a result set.
pub(crate) fn answer(request: &Request) -> Tokens {
    let is = |fragments: &[&str]| request.has(fragments);
    if is(&["serverproperty"]) {
        Tokens::new().rows(&[server_info()])
    } else if is(&["sp_getapplock"]) {
        Tokens::new().rows(&[vec![Cell::Int(Some(0))]])
    } else if is(&["select", "from lease_broker_migration"]) {
        Tokens::new().rows(&migrations())
    } else if is(&["select", "from lease_broker_secret"]) {
        Tokens::new().rows(&[first_secret()])
    } else if is(&["lease_broker_epoch", "lease_broker_generation"]) {
        Tokens::new().rows(&[vec![Cell::BigInt(Some(0)), Cell::BigInt(Some(0))]])
    } else if is(&["lease-broker fill row"]) {
        Tokens::new().rows(&[row_of_queue()])
    } else if is(&["lease-broker list brokers"]) {
        Tokens::new().rows(&[vec![Cell::Time(Some(1_800_000_000_000))]])
    } else if is(&["sys.index_columns"]) {
        Tokens::new().rows(&indexes(&request.text))
    } else if is(&["is_masked"]) {
        Tokens::new()
    } else if is(&["from sys.columns"]) {
        Tokens::new().rows(&columns(&request.text))
    } else if is(&["from sys.objects"]) || is(&["from sys.tables"]) {
        let known = [
            ("o.type", Cell::text("U ")),
            ("t.temporal_type", Cell::TinyInt(Some(0))),
            ("t.lock_escalation", Cell::TinyInt(Some(0))),
        ];
        Tokens::new().rows(&[selected(&request.text, &known.into())])
    } else {
        Tokens::new()
    }
}

/// The server information of SQL Server 2022 Standard with the compatibility level of that version, with row versions for
/// readers, and with every required SET option.
fn server_info() -> Vec<Cell> {
    let int = |int| Cell::Int(Some(int));
    vec![
        int(2),
        Cell::text("16.0.4135.4"),
        int(160),
        int(1),
        int(0),
        int(1),
    ]
}

/// Secret 0, made an hour ago and in use.
fn first_secret() -> Vec<Cell> {
    let int = |int| Cell::Int(Some(int));
    let secret = Cell::Bytes(Some(vec![7; 16]));
    vec![Cell::SmallInt(Some(0)), secret, int(3_600), int(0)]
}

/// The row of a queue without a policy and without limits.
fn row_of_queue() -> Vec<Cell> {
    let limits = vec![Cell::BigInt(None); 8];
    [vec![Cell::Text(None)], limits].concat()
}

/// The rows of all migrations of this build: name, checksum and oldest reader.
fn migrations() -> Vec<Vec<Cell>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/mssql/migrations");
    let files = fs::read_dir(folder).expect("migrations");
    let row = |path: &Path| {
        let name = path.file_stem().expect("a name").to_string_lossy();
        let digest = Sha256::digest(fs::read(path).expect("a migration"));
        let hex = |text: String, byte: &u8| format!("{text}{byte:02x}");
        let checksum = digest.iter().fold(String::new(), hex);
        vec![
            Cell::text(&name),
            Cell::text(&checksum),
            Cell::text("0.2.0"),
        ]
    };
    files
        .map(|file| row(&file.expect("a migration").path()))
        .collect()
}

fn columns(statement: &str) -> Vec<Vec<Cell>> {
    let row =
        |&(name, kind, bytes, precision, scale, nullable): &(&str, &str, i16, u8, u8, bool)| {
            let collation = kind
                .ends_with("char")
                .then(|| "Latin1_General_CI_AS".to_owned());
            let known = [
                ("c.name", Cell::text(name)),
                ("t.name", Cell::text(kind)),
                ("c.max_length", Cell::SmallInt(Some(bytes))),
                ("c.precision", Cell::TinyInt(Some(precision))),
                ("c.scale", Cell::TinyInt(Some(scale))),
                ("c.is_nullable", Cell::Bit(Some(nullable))),
                ("c.is_identity", Cell::Bit(Some(name == "id"))),
                ("c.collation_name", Cell::Text(collation)),
                ("c.code_page", Cell::Int(Some(1_252))),
                ("c.generated_always_type", Cell::TinyInt(Some(0))),
            ];
            selected(statement, &known.into())
        };
    COLUMNS.iter().map(row).collect()
}

fn indexes(statement: &str) -> Vec<Vec<Cell>> {
    let row = |(at, &(name, column, filter)): (i32, &(&str, &str, Option<&str>))| {
        let primary = at == 1;
        let known = [
            ("i.name", Cell::text(name)),
            ("i.is_unique", Cell::Bit(Some(primary))),
            ("i.is_primary_key", Cell::Bit(Some(primary))),
            ("i.has_filter", Cell::Bit(Some(filter.is_some()))),
            ("i.ignore_dup_key", Cell::Bit(Some(false))),
            ("i.filter_definition", Cell::Text(filter.map(str::to_owned))),
            ("i.index_id", Cell::Int(Some(at))),
            ("i.type", Cell::TinyInt(Some(if primary { 1 } else { 2 }))),
            ("c.name", Cell::text(column)),
            ("k.key_ordinal", Cell::TinyInt(Some(1))),
        ];
        selected(statement, &known.into())
    };
    (1..).zip(&INDEXES).map(row).collect()
}

/// Returns one value for each expression in the SELECT list of a statement. A value from `known` comes first. The default is
/// false for a flag, and NULL for any other expression.
fn selected(statement: &str, known: &BTreeMap<&str, Cell>) -> Vec<Cell> {
    let lower = statement.to_ascii_lowercase().replace("cast(", "");
    let lower = lower.replace(" as nvarchar(128))", "");
    let code_page = "convert(int, collationproperty(c.collation_name, 'codepage'))";
    let lower = lower.replace(code_page, "c.code_page");
    let (_, list) = lower.split_once("select").expect("a list");
    let (list, _) = list.split_once("from").expect("a table");
    let cell = |expression: &str| {
        let expression = expression.split(" as ").next().unwrap_or_default().trim();
        let unknown = || {
            let name = expression.split('.').next_back().unwrap_or_default();
            match name {
                flag if flag.starts_with("is_") || flag.starts_with("has_") => {
                    Cell::Bit(Some(false))
                }
                _ => Cell::Text(None),
            }
        };
        known.get(expression).cloned().unwrap_or_else(unknown)
    };
    list.split(',').map(cell).collect()
}
