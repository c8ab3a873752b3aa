//! The limits whose exhaustion a caller learns as `OVERLOADED`, as metrics name them.

use lease_broker_model::call_source::SharedBudget;

/// The database serves calls of a kind more slowly than they arrive.
pub(super) const DATABASE: &str = "database";
/// More unknown JSON Web Tokens arrive than the broker verifies.
pub(super) const UNKNOWN_TOKENS: &str = "unknown_tokens";

/// Returns the names of all limits. The other ones are settings of the section `budgets`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    // Connections are refused before they have a call.
    let budgets = SharedBudget::ALL
        .into_iter()
        .filter(|budget| *budget != SharedBudget::Connections);
    let budgets = budgets.map(SharedBudget::name);
    budgets.chain([DATABASE, UNKNOWN_TOKENS])
}
