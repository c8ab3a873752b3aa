//! Calls that end leases beside a row that another program has locked.
//!
//! A worker takes the refusal of a settlement as its end: it fails the item, or forgets it. A row that is locked for a moment must not
//! cause that. So the call fails as a whole, with an error after which every client sends it again. The settlements that were applied
//! are recognized then.

use lease_broker_store::{OutageCause, Refusal, Settled, StoreError};

use super::error::Error;

/// Returns the results of the settlements of one call.
///
/// # Errors
/// [`Error::StoreUnavailable`] if another program has locked the row of one of them.
pub(super) fn unless_locked(results: Vec<Settled>) -> Result<Vec<Settled>, Error> {
    let locked = results.iter().find_map(|result| match result {
        Settled::Refused(refusal) if refusal.can_pass() => Some(refusal),
        _ => None,
    });
    match locked {
        None => Ok(results),
        Some(refusal) => {
            let is_ended = |result: &Settled| matches!(result, Settled::Ended(_));
            Err(outage(refusal, results.iter().any(is_ended)))
        }
    }
}

/// Returns the error of a call with this refusal. `has_applied`: whether the call has ended a lease.
pub(super) fn outage(refusal: &Refusal, has_applied: bool) -> Error {
    let error = StoreError::outage(OutageCause::Busy, refusal.to_string());
    let error = if has_applied {
        error
    } else {
        error.not_applied()
    };
    error.into()
}

#[cfg(test)]
mod tests {
    use lease_broker_model::item_state::State;
    use lease_broker_store::{Applied, Problem, ProblemKind};

    use super::*;

    const COMPLETED: Settled = Settled::Ended(State::Completed);

    fn locked() -> Settled {
        Settled::Refused(Refusal::locked())
    }

    #[test]
    fn call_with_a_locked_row_can_be_sent_again() {
        for (others, applied) in [
            (vec![], Applied::No),
            (vec![Settled::Lost], Applied::No),
            (vec![COMPLETED], Applied::Unknown),
        ] {
            let results = others.into_iter().chain([locked()]).collect();
            let error = unless_locked(results).expect_err("the row is locked");
            assert!(matches!(error, Error::StoreUnavailable { .. }), "{error:?}");
            assert_eq!(error.applied(), applied);
        }
    }

    #[test]
    fn other_refusals_are_answers() {
        let problem = Problem::new(ProblemKind::Check, "no");
        let results = vec![COMPLETED, Settled::Refused(Refusal::of_row(problem))];
        assert_eq!(unless_locked(results.clone()).ok(), Some(results));
    }
}
