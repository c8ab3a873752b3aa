//! Checks the values that a settlement writes into its item's row, the same in every store.

use std::collections::HashMap;

use lease_broker_value::Value;

use super::{Problem, ProblemKind, Refusal, Settlement};

/// Returns the refusal of the first column that `settlement` cannot write, or `None` if it can write all of them.
///
/// `writable` are the columns that a settlement can write, by name. `check_value` returns the reason if a column cannot
/// store a value.
pub(super) fn refusal<C>(
    queue: &str,
    settlement: &Settlement,
    writable: &HashMap<String, C>,
    check_value: impl Fn(&str, &C, &Value) -> Result<(), String>,
) -> Option<Refusal> {
    let columns = settlement.columns.iter();
    columns.enumerate().find_map(|(index, (name, value))| {
        let mut earlier = settlement.columns[..index].iter();
        let problem = match writable.get(name) {
            None => Problem::new(
                ProblemKind::ColumnNotWritable,
                not_writable(queue, writable),
            ),
            Some(_) if earlier.any(|(earlier, _)| earlier == name) => {
                Problem::new(ProblemKind::InvalidField, "is set twice")
            }
            Some(column) => Problem::unfit(check_value(name, column, value).err()?),
        };
        Some(Refusal::of_column(name, problem))
    })
}

fn not_writable<C>(queue: &str, writable: &HashMap<String, C>) -> String {
    let mut names: Vec<&str> = writable.keys().map(String::as_str).collect();
    if names.is_empty() {
        return format!(
            "a worker can write no column of queue {queue:?}: its setting writable is empty"
        );
    }
    names.sort_unstable();
    format!(
        "the setting writable of queue {queue:?} does not list the column; it lists {}",
        names.join(", ")
    )
}
