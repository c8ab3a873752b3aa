//! The interface of a database under measurement.

use crate::design::{Access, Design};
use crate::run_window::{RunWindow, WorkerCounts};

/// A temporary database.
pub(crate) trait Database {
    fn name(&self) -> &'static str;

    /// Returns the access modes to measure.
    fn access_modes(&self) -> &'static [Access];

    /// Returns the `[store]` section of a configuration with this database.
    fn store(&self) -> String;

    /// Creates the design's table with rows 1 to `rows`. Adds the design's lock columns if workers use the table
    /// directly.
    async fn fill(&mut self, design: Design, access: Access, rows: i64);

    /// Runs workers that use the table directly, until the window is over or the table is empty.
    async fn work(&mut self, plan: Plan) -> Vec<WorkerCounts>;

    /// Reads the keys of the rows that are not processed.
    async fn unprocessed(&mut self, design: Design) -> Vec<i64>;
}

/// The parameters of a run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) design: Design,
    pub(crate) access: Access,
    pub(crate) workers: u32,
    pub(crate) rows: i64,
    pub(crate) window: RunWindow,
}
