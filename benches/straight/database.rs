//! What a comparison needs of a database.

use crate::course::{Course, Worked};
use crate::design::{Design, Way};

/// A database of the comparison's own.
pub(crate) trait Database {
    fn name(&self) -> &'static str;

    /// Returns how workers may share its tables.
    fn ways(&self) -> &'static [Way];

    /// Returns the `[store]` section of a broker's configuration.
    fn store(&self) -> String;

    /// Makes the design's table anew, with rows 1 to `rows`; with the design's own lock columns if `way` needs them.
    async fn fill(&mut self, design: Design, way: Way, rows: i64);

    /// Has workers work straight on the table until the course is over or the table empty.
    async fn work(&mut self, plan: Plan) -> Vec<Worked>;

    /// Reads the keys of the rows that nobody has processed.
    async fn unprocessed(&mut self, design: Design) -> Vec<i64>;
}

/// What workers are to do.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) design: Design,
    pub(crate) way: Way,
    pub(crate) workers: u32,
    pub(crate) rows: i64,
    pub(crate) course: Course,
}
