//! Properties of columns, indexes and tables that make leasing impossible, or that change how columns are added.

use lease_broker_model::queue::QueueSpec;

use super::catalogue::Table;
use super::connection::Connection;
use super::decode::{integer, text};
use super::index;
use super::quote::{quote, quote_table};
use super::types::ColumnType;
use crate::StoreError;
use crate::adoption::archive_name;
use crate::queue_columns::QueueColumns;

/// Reads the restrictions of the table `@P1`: number and name, one per row. The view `sys.tables` has the column `ledger_type`
/// since SQL Server 2022. The server checks the names in a batch before it runs the batch, so that column is read by a statement
/// of its own.
///
/// A login with UNMASK on the database, or on the masked column (SQL Server 2022), is not restricted. A computed column that names a
/// masked one is masked too, although the catalogue does not say so.
const RESTRICTIONS: &str = "SELECT DISTINCT 0 AS lb_kind, c.name AS lb_name
FROM sys.columns AS m
    INNER JOIN sys.columns AS c ON c.object_id = m.object_id
    LEFT JOIN sys.computed_columns AS d ON d.object_id = c.object_id AND d.column_id = c.column_id
WHERE m.object_id = OBJECT_ID(@P1) AND m.is_masked = 1
    AND (c.column_id = m.column_id
        OR CHARINDEX(QUOTENAME(m.name) COLLATE DATABASE_DEFAULT, d.definition COLLATE DATABASE_DEFAULT) > 0)
    AND COALESCE(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UNMASK'), 0) = 0
    AND COALESCE(HAS_PERMS_BY_NAME(@P1, 'OBJECT', 'UNMASK', m.name, 'COLUMN'), 0) = 0
UNION ALL SELECT 1, c.name FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(@P1) AND c.encryption_type IS NOT NULL
UNION ALL SELECT CASE i.type WHEN 1 THEN 2 ELSE 3 END, i.name FROM sys.indexes AS i
WHERE i.object_id = OBJECT_ID(@P1) AND i.type IN (1, 2) AND i.allow_row_locks = 0 AND i.is_disabled = 0;
IF EXISTS (SELECT * FROM sys.all_columns AS c
    WHERE c.object_id = OBJECT_ID(N'sys.tables') AND c.name = N'ledger_type')
EXECUTE sys.sp_executesql N'SELECT 3 + t.ledger_type AS lb_kind, t.name AS lb_name FROM sys.tables AS t
WHERE t.object_id = OBJECT_ID(@table) AND t.ledger_type > 0', N'@table nvarchar(600)', @P1;";

/// A restriction, with the name of the column or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restriction {
    /// The login reads invented values of the column.
    Masked(String),
    /// The server cannot compare the column's values.
    Encrypted(String),
    /// The clustered index does not allow row locks.
    ClusteredWithoutRowLocks(String),
    /// A nonclustered index does not allow row locks.
    WithoutRowLocks(String),
    /// The history of an updatable ledger table.
    LedgerHistory,
    /// An updatable ledger table: columns cannot be added as NOT NULL.
    UpdatableLedger,
    /// A ledger table that allows no change of a row.
    AppendOnlyLedger,
}

/// Reads the restrictions of `table`. Babelfish has none of these features.
pub(super) async fn read(
    connection: &mut Connection,
    table: &str,
) -> Result<Vec<Restriction>, StoreError> {
    if connection.server_info.babelfish {
        return Ok(Vec::new());
    }
    let results = connection
        .query(RESTRICTIONS, &[&quote_table(table)])
        .await?;
    let restriction = |row| {
        let name = text(row, 1)?;
        Ok(Some(match integer(row, 0)? {
            0 => Restriction::Masked(name),
            1 => Restriction::Encrypted(name),
            2 => Restriction::ClusteredWithoutRowLocks(name),
            3 => Restriction::WithoutRowLocks(name),
            4 => Restriction::LedgerHistory,
            5 => Restriction::UpdatableLedger,
            6 => Restriction::AppendOnlyLedger,
            _ => return Ok(None),
        }))
    };
    let rows = results.iter().flatten();
    rows.filter_map(|row| restriction(row).transpose())
        .collect()
}

/// The purpose of a command, which decides whose values its login has to see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// To look at leases, or to change the schema.
    Look,
    /// To lease and settle items, which sends values to workers, archives them and writes them back.
    Lease,
}

/// The harm that a use of a column does if the column is restricted, each with the way out.
struct Harm {
    masked: [&'static str; 2],
    /// `None`: encryption does no harm here.
    encrypted: Option<[&'static str; 2]>,
}

const SORTED: Harm = Harm {
    masked: ["a claim would read its mask", "remove the mask"],
    encrypted: Some(["the server cannot sort or compare it", "use another column"]),
};
/// An UPDATE of several rows sets the column in some of them, and writes back what it has read in the others.
const WRITTEN: Harm = Harm {
    masked: [
        "a settlement of another item can write the mask into it",
        "remove it from the settings mirror and writable",
    ],
    encrypted: Some([
        "the broker has no key to write it",
        "remove it from the settings mirror and writable",
    ]),
};
const ARCHIVED: Harm = Harm {
    masked: [
        "completion would archive its mask and delete the value",
        "set on_complete to keep or delete completed rows",
    ],
    encrypted: Some([
        "the archive cannot keep it",
        "set on_complete to keep or delete completed rows",
    ]),
};
/// Encrypted columns are not sent.
const SENT: Harm = Harm {
    masked: [
        "workers would get its mask",
        "list the columns that workers need without it (columns = […])",
    ],
    encrypted: None,
};

/// Returns the harms of the column's uses, the gravest first, each with the least purpose that a mask harms.
fn harms(
    name: &str,
    queue: &QueueSpec,
    columns: &QueueColumns<ColumnType>,
) -> impl Iterator<Item = (Purpose, Harm)> {
    fn is_any<'a>(name: &str, mut names: impl Iterator<Item = &'a String>) -> bool {
        names.any(|other| other.eq_ignore_ascii_case(name))
    }
    let sorted = columns.order.iter().map(|part| &part.column);
    let sorted = sorted.chain(columns.group.iter().map(|column| &column.name));
    let mirrors = queue.mirror.iter().map(|mirror| &mirror.column);
    let archived = columns.archived.iter().map(|column| &column.name);
    let sent = columns.data.iter().map(|column| &column.name);
    let is_sorted = queue.soft_lock.contains(name) || is_any(name, sorted);
    let is_archived = archive_name(queue).is_some() && is_any(name, archived);
    let uses = [
        (is_sorted, Purpose::Look, SORTED),
        (is_any(name, mirrors), Purpose::Look, WRITTEN),
        (is_any(name, queue.writable.iter()), Purpose::Lease, WRITTEN),
        (is_archived, Purpose::Lease, ARCHIVED),
        (is_any(name, sent), Purpose::Lease, SENT),
    ];
    let uses = uses.into_iter().filter(|(is_used, ..)| *is_used);
    uses.map(|(_, purpose, harm)| (purpose, harm))
}

/// Returns one sentence for each restriction that makes the purpose impossible.
pub(super) fn problems(
    restrictions: &[Restriction],
    queue: &QueueSpec,
    table: &Table,
    columns: &QueueColumns<ColumnType>,
    purpose: Purpose,
) -> Vec<String> {
    let locks_rows_of = |name: &str| {
        let mut used = index::used(queue, columns, table);
        used.any(|index| index.name == name)
            || table
                .index(name)
                .is_some_and(|index| index::is_of_key(index, &columns.key))
    };
    let table = &queue.table;
    let row_locks = |index: &str| {
        format!(
            "the index {index} of table {table:?} does not allow row locks, and the broker locks single rows: ALTER INDEX {} ON \
             {} SET (ALLOW_ROW_LOCKS = ON)",
            quote(index),
            quote_table(table)
        )
    };
    let problem = |restriction: &Restriction| match restriction {
        Restriction::Masked(column) => {
            let mut harms = harms(column, queue, columns);
            let (_, harm) = harms.find(|(least, _)| *least <= purpose)?;
            let [harm, way_out] = harm.masked;
            Some(format!(
                "the column {column} of table {table:?} is masked for this login, and {harm}: grant UNMASK to the broker's login, or \
                 {way_out}"
            ))
        }
        Restriction::Encrypted(column) => {
            let mut harms = harms(column, queue, columns);
            let [harm, way_out] = harms.find_map(|(_, harm)| harm.encrypted)?;
            Some(format!(
                "the column {column} of table {table:?} is encrypted (Always Encrypted), and {harm}: {way_out}"
            ))
        }
        Restriction::ClusteredWithoutRowLocks(index) => Some(row_locks(index)),
        Restriction::WithoutRowLocks(index) if locks_rows_of(index) => Some(row_locks(index)),
        Restriction::LedgerHistory => Some(format!(
            "{table:?} is the history of a ledger table: use the ledger table itself"
        )),
        Restriction::AppendOnlyLedger => Some(format!(
            "{table:?} is an append-only ledger table, whose rows cannot change: use an updatable ledger table or an ordinary \
             one"
        )),
        _ => None,
    };
    restrictions.iter().filter_map(problem).collect()
}

/// Returns whether columns can be added as NOT NULL. On a ledger table they cannot (Microsoft's documentation "Ledger
/// considerations and limitations").
pub(super) fn allow_not_null_columns(restrictions: &[Restriction]) -> bool {
    !restrictions.contains(&Restriction::UpdatableLedger)
}
