//! The batches that a connection has prepared: sent and parsed once, and then run by a handle.
//!
//! A broker runs the same few batches over and over. SQL Server finds the plan of a text that it has seen; Babelfish parses a
//! text anew each time, which costs it several times what the batch does.

use std::num::NonZeroUsize;

use lru::LruCache;
use tiberius::{ColumnData, ToSql};

/// How many batches a connection keeps at hand. The server keeps what belongs to each.
const ROOM: NonZeroUsize = NonZeroUsize::new(256).expect("more than 0");

/// "Could not find prepared statement with handle %d."
pub(super) const NO_SUCH_HANDLE: u32 = 8179;

/// A batch and the types of its parameters, as `sp_prepare` takes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    pub(super) declarations: String,
    pub(super) sql: String,
}

impl Batch {
    pub(super) fn new(sql: &str, parameters: &[&dyn ToSql]) -> Self {
        let parameters = (1..).zip(parameters);
        let declarations: Vec<String> = parameters
            .map(|(at, parameter)| format!("@P{at} {}", type_of(&parameter.to_sql())))
            .collect();
        Self {
            declarations: declarations.join(", "),
            sql: sql.to_owned(),
        }
    }
}

/// The handles of a connection, which end with it.
pub(super) struct Prepared(LruCache<Batch, i32>);

impl Default for Prepared {
    fn default() -> Self {
        Self(LruCache::new(ROOM))
    }
}

impl Prepared {
    pub(super) fn handle(&mut self, batch: &Batch) -> Option<i32> {
        self.0.get(batch).copied()
    }

    /// Keeps a handle, and returns the one that has to make room for it.
    pub(super) fn keep(&mut self, batch: Batch, handle: i32) -> Option<i32> {
        self.0.push(batch, handle).map(|(_, handle)| handle)
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Writes what runs a prepared batch with so many parameters.
pub(super) fn execute(handle: &str, parameters: usize) -> String {
    let names = (1..=parameters).map(|at| format!(", @P{at}"));
    format!("EXEC sp_execute {handle}{};", names.collect::<String>())
}

/// Writes what prepares a batch, tells its handle as `lb_h`, and runs it: with the batch's parameters, and two more, its
/// declarations and its text. From a batch of its own, as the driver knows no other call than `sp_executesql`.
pub(super) fn prepare_and_execute(parameters: usize) -> String {
    let (declarations, sql) = (parameters + 1, parameters + 2);
    let execute = execute("@h", parameters);
    format!(
        "DECLARE @h int; EXEC sp_prepare @h OUTPUT, @P{declarations}, @P{sql}; SELECT @h AS lb_h; {execute}"
    )
}

/// Returns the type that a parameter is declared with; a short text is not `max`, as the driver's own are not.
fn type_of(value: &ColumnData<'_>) -> &'static str {
    match value {
        ColumnData::I32(_) => "int",
        ColumnData::I64(_) => "bigint",
        ColumnData::Binary(Some(bytes)) if bytes.len() > 8_000 => "varbinary(max)",
        ColumnData::Binary(_) => "varbinary(8000)",
        ColumnData::String(Some(text)) if text.encode_utf16().count() > 4_000 => "nvarchar(max)",
        ColumnData::String(_) => "nvarchar(4000)",
        // No batch has parameters of other types.
        _ => "sql_variant",
    }
}
