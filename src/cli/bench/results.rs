//! All results of a bench.

use super::child_log::Served;
use super::load::Load;
use super::measured::Measured;
use super::noop::Noop;

/// What was measured, and what is wrong with it.
pub(super) struct Results {
    pub(super) load: Load,
    /// The kind of store, where it is known.
    pub(super) store: Option<&'static str>,
    pub(super) queues: Vec<String>,
    pub(super) over_grpc: Measured,
    pub(super) served: Option<Served>,
    /// The empty call, before and after.
    pub(super) noop: Option<[Noop; 2]>,
    pub(super) broker: Option<Measured>,
    pub(super) direct: Option<Measured>,
    /// A sentence for each.
    pub(super) wrongs: Vec<String>,
}

impl Results {
    /// Returns the load's calls a second as a share of the server's empty calls a second.
    pub(super) fn of_ceiling(&self) -> Option<f64> {
        let [before, after] = self.noop?;
        let ceiling = f64::midpoint(before.calls_per_second, after.calls_per_second);
        (ceiling > 0.0).then(|| self.over_grpc.calls_per_second() / ceiling)
    }

    /// Returns the load's items a second as a share of a baseline's.
    pub(super) fn of_baseline(&self, baseline: &Measured) -> Option<f64> {
        let items = baseline.items_per_second();
        (items > 0.0).then(|| self.over_grpc.items_per_second() / items)
    }
}
