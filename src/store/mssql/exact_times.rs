//! Time columns that a position of a search names exactly.

use super::catalogue::Column;

/// The type of a time column that a position can name exactly.
const EXACT_TIME: &str = "datetime2(3)";

/// Returns the names of the time columns whose type is exactly that of a position.
pub(super) fn exact_times(columns: &[Column]) -> Vec<String> {
    let exact = columns
        .iter()
        .filter(|column| column.declared == EXACT_TIME);
    exact.map(|column| column.name.clone()).collect()
}
