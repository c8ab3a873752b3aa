//! The configuration file that `adopt` writes, as TOML with comments.

use std::fmt::Write as _;
use std::path::Path;

use lease_broker_model::item_state::State;
use toml::{Table, Value};

use super::proposal::{Mirror, Proposal};

/// The place of the database, as the section `store` has it.
pub(super) enum Database<'a> {
    Sqlite(&'a Path),
    /// The file that holds the connection string.
    Mssql(&'a Path),
}

/// Renders the file.
pub(super) fn render(proposal: &Proposal, database: &Database<'_>, listen: Option<&str>) -> String {
    let Proposal { queue, table, .. } = proposal;
    let mut out = format!(
        "# The table {table} as the queue {queue}, as `lease-broker adopt` wrote it. All settings: deploy/config.default.toml.\n\n\
         [store]\n"
    );
    let mut line = |text: String| writeln!(out, "{text}").unwrap_or_default();
    match database {
        Database::Sqlite(path) => line(setting("path", path.display().to_string())),
        Database::Mssql(path) => {
            line(setting("kind", "mssql"));
            line(setting(
                "connection_string_file",
                path.display().to_string(),
            ));
        }
    }
    if let Some(listen) = listen {
        line(format!("\n[server]\n{}", setting("listen", listen)));
    }
    line(format!(
        "\n[queues.{}]\n{}",
        key(queue),
        setting("table", table.as_str())
    ));
    if !proposal.key.is_empty() {
        line("# The columns that identify a row.".to_owned());
        line(setting("key", proposal.key.clone()));
    }
    line(
        "# A lease ends after this time without a heartbeat, and another worker gets the row."
            .to_owned(),
    );
    line(setting("lease_duration", "1m"));
    if !proposal.writable.is_empty() {
        line("# Workers may write their results into these columns.".to_owned());
        line(setting("writable", proposal.writable.clone()));
    }
    if !proposal.renamed.is_empty() {
        line("\n# The table has columns of its own with these names, so the broker's columns have others.".to_owned());
        line(format!("[queues.{}.soft_lock]", key(queue)));
        for (default_name, name) in &proposal.renamed {
            line(setting(default_name, name.as_str()));
        }
    }
    if !proposal.mirror.is_empty() {
        line("\n# Columns that show other programs the state of a row. Rows that are completed already are not claimed.".to_owned());
        line(format!("[queues.{}.mirror]", key(queue)));
        line(mirror_lines(&proposal.mirror));
    }
    out
}

/// Renders a mirror, one state per line.
pub(super) fn mirror_lines(mirror: &Mirror) -> String {
    let of_state = |(state, columns): &(State, Vec<(String, Value)>)| {
        let columns = columns
            .iter()
            .map(|(name, value)| format!("{} = {value}", key(name)));
        format!(
            "{} = {{ {} }}",
            state.name(),
            columns.collect::<Vec<_>>().join(", ")
        )
    };
    mirror.iter().map(of_state).collect::<Vec<_>>().join("\n")
}

/// Renders a setting.
fn setting(name: &str, value: impl Into<Value>) -> String {
    format!("{} = {}", key(name), value.into())
}

/// Renders a key, in quotation marks if it needs them.
fn key(name: &str) -> String {
    let table = Table::from_iter([(name.to_owned(), Value::from(0))]);
    let line = table.to_string();
    line.strip_suffix(" = 0\n").unwrap_or(&line).to_owned()
}
