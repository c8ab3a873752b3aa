//! The SQL statements of queues whose claims give runs. Rendered once, when the store opens.

use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;

use crate::template::{Placeholders, render};

/// The SQL text of the statements.
pub(super) struct RunStatements {
    pub(super) find_run: String,
    pub(super) find_first: String,
    pub(super) release_later: String,
}

impl RunStatements {
    /// Renders the statements. `None`: claims of the queue give no runs.
    pub(super) fn new(
        sql: &LeaseSql,
        queue: &QueueSpec,
        placeholders: &Placeholders,
    ) -> Option<Self> {
        (queue.max_run() > 1).then(|| Self {
            find_run: render(sql.runs, "find_run", placeholders),
            find_first: render(sql.runs, "find_first", placeholders),
            release_later: render(sql.runs, "release_later", placeholders),
        })
    }
}

/// Renders the column that tells the run of a lease. Empty: claims of the queue give no runs.
pub(super) fn run_number(sql: &LeaseSql, queue: &QueueSpec, placeholders: &Placeholders) -> String {
    match queue.max_run() {
        ..=1 => String::new(),
        _ => render(sql.runs, "run_number", placeholders),
    }
}
