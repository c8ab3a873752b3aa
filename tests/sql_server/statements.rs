//! T-SQL that only SQL Server runs: `statements.sql`, and the checks that `docs/sql-server-checks.sql` has for
//! administrators. `.ci/tsql-parse` checks both files.

/// Returns the batch of `statements.sql` with this name.
pub(crate) fn statement(name: &str) -> String {
    let marker = format!("-- :: {name}\n");
    batch(include_str!("statements.sql"), &marker).to_owned()
}

/// Returns a part of the administrators' checks, for the table `item` in this database.
pub(crate) fn check(number: u32, database: &str) -> String {
    let marker = format!("-- {number}. ");
    let checks = include_str!("../../docs/sql-server-checks.sql");
    // The rest of the marker's line is a title.
    format!("-- {}", batch(checks, &marker))
        .replace("N'Rainfall_Events'", "N'item'")
        .replace("N'Work'", &format!("N'{database}'"))
}

fn batch<'a>(file: &'a str, marker: &str) -> &'a str {
    let (_, after) = file
        .split_once(marker)
        .unwrap_or_else(|| panic!("no {marker}"));
    let (batch, _) = after.split_once("\nGO\n").expect("a batch ends with GO");
    batch
}
