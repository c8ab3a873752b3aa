//! Foreign keys that refer to a queue's table. They matter if completion removes the row: a foreign key can refuse that, or
//! change the rows that refer to it.

use lease_broker_model::queue::{OnComplete, QueueSpec};

/// The effect of a foreign key on the rows that refer to a removed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDelete {
    /// NO ACTION or RESTRICT: the row cannot be removed while others refer to it.
    Refuse,
    Cascade,
    /// SET NULL or SET DEFAULT.
    Change,
}

/// An enabled foreign key that refers to a queue's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForeignKey {
    /// The table that has the foreign key. `None`: the login has no right on it.
    pub(super) table: Option<String>,
    /// `None` on `SQLite`, which does not keep the name.
    pub(super) name: Option<String>,
    pub(super) on_delete: OnDelete,
}

const REFUSED_COMPLETION: &str = "a row to which it refers cannot be completed. Remove the rows that refer to it first, or set \
                                  on_complete = \"keep\"";
const REFUSED_DELETION: &str =
    "a row to which it refers is kept, however old it is. Remove the rows that refer to it first";

/// Returns the effect of a foreign key that changes rows.
fn follows(each: &str, changes: &str) -> String {
    format!(
        "each {each} also {changes} and locks the rows that refer to its row. Without an index on the columns of the foreign key \
         it reads that whole table"
    )
}

/// Returns one warning for each of `keys`. Empty if the broker keeps the rows of `queue`.
pub(super) fn warnings(queue: &QueueSpec, keys: &[ForeignKey]) -> Vec<String> {
    let (removes, is_refused, each) = match &queue.on_complete {
        OnComplete::Delete => ("deletes completed rows", REFUSED_COMPLETION, "completion"),
        OnComplete::Archive(_) => (
            "moves completed rows to its archive",
            REFUSED_COMPLETION,
            "completion",
        ),
        OnComplete::Keep | OnComplete::Recur(_)
            if queue.keep_for.completed.is_some() || queue.keep_for.dead.is_some() =>
        {
            ("deletes old rows (keep_for)", REFUSED_DELETION, "deletion")
        }
        OnComplete::Keep | OnComplete::Recur(_) => return Vec::new(),
    };
    let warning = |key: &ForeignKey| {
        let ForeignKey { table, name, .. } = key;
        let foreign_key = match name {
            Some(name) => format!("the foreign key {name}"),
            None => "a foreign key".to_owned(),
        };
        let of_table = table.as_ref().map(|table| format!(" of table {table}"));
        let of_table = of_table.unwrap_or_default();
        let effect = match key.on_delete {
            OnDelete::Refuse => is_refused.to_owned(),
            OnDelete::Cascade => follows(each, "deletes"),
            OnDelete::Change => follows(each, "changes"),
        };
        format!(
            "{foreign_key}{of_table} refers to table {:?}, and the queue {removes}: {effect}",
            queue.table
        )
    };
    keys.iter().map(warning).collect()
}
