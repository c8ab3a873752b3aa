//! The checks of the model.

use super::*;
use crate::check::{bound, shortest_first, with_symmetry};

/// Returns the bounds of the suite, or larger ones.
fn bounds() -> Bounds {
    match bound() {
        0 => Bounds::SMALL,
        1 => LARGE,
        more => Bounds {
            calls: LARGE.calls + more - 1,
            ..LARGE
        },
    }
}

/// Bounds for a run by hand.
const LARGE: Bounds = Bounds {
    ticks: 4,
    calls: 2,
    ..Bounds::SMALL
};

fn kept(bounds: Bounds) -> LeaseModel {
    LeaseModel::new(OnComplete::Keep, bounds)
}

#[test]
fn protocol_holds_with_copies_and_crashes() {
    let bounds = Bounds {
        copies: 1,
        crashes: 1,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("copies and crashes");
}

#[test]
fn protocol_holds_for_removed_rows() {
    let bounds = Bounds {
        copies: 1,
        ..bounds()
    };
    let model = LeaseModel::new(OnComplete::Delete, bounds);
    with_symmetry(model).assert_holds("removed rows");
}

#[test]
fn protocol_holds_for_recurring_items() {
    let model = LeaseModel::new(OnComplete::Recur(recur_after()), bounds());
    with_symmetry(model).assert_holds("recurring items");
}

#[test]
fn protocol_holds_with_cancels_and_redrives() {
    let bounds = Bounds {
        cancels: 1,
        redrives: 1,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("cancels and redrives");
}

#[test]
fn protocol_holds_with_clock_steps() {
    let bounds = Bounds {
        steps_forward: 1,
        steps_back: 1,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("clock steps");
}

#[test]
fn protocol_holds_with_second_claims() {
    let bounds = Bounds {
        claims: 2,
        calls: 1,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("second claims");
}

#[test]
fn protocol_holds_for_rows_that_share_a_token() {
    let bounds = Bounds {
        rows: 2,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("two rows");
}

#[test]
fn protocol_holds_with_a_restore() {
    let bounds = Bounds {
        restores: 1,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("a restore");
}

#[test]
fn protocol_holds_with_documented_sql() {
    let bounds = Bounds {
        foreign: 1,
        redrives: 1,
        ..bounds()
    };
    with_symmetry(kept(bounds)).assert_holds("documented SQL of another program");
}

#[test]
fn sql_that_keeps_the_token_breaks_a_promise() {
    let bounds = Bounds {
        careless: 1,
        ticks: 3,
        ..Bounds::SMALL
    };
    let checked = shortest_first(kept(bounds));
    checked.assert_breaks("careless SQL", Promise::AnswersAreTrue.name());
}

/// Checks that this mistake breaks this promise.
fn breaks(mistake: Mistake, bounds: Bounds, promise: Promise) {
    let model = LeaseModel {
        mistake: Some(mistake),
        ..kept(bounds)
    };
    shortest_first(model).assert_breaks(&format!("{mistake:?}"), promise.name());
}

#[test]
fn each_mistake_breaks_a_promise() {
    let small = LARGE;
    let copies = Bounds { copies: 1, ..small };
    let cancels = Bounds {
        cancels: 1,
        ..small
    };
    let redrives = Bounds {
        redrives: 1,
        ..small
    };
    let steps = Bounds {
        steps_forward: 1,
        claims: 2,
        calls: 0,
        ..small
    };
    let late = Promise::LateCallsChangeNothing;
    let answers = Promise::AnswersAreTrue;
    breaks(Mistake::SettleIgnoresFence, copies, late);
    breaks(Mistake::SettleIgnoresExpiry, small, late);
    breaks(Mistake::HeartbeatIgnoresFence, copies, answers);
    breaks(Mistake::HeartbeatIgnoresExpiry, small, late);
    breaks(Mistake::ClaimKeepsFence, small, Promise::FencesRise);
    breaks(Mistake::ClaimKeepsAttempt, small, Promise::AttemptsExact);
    breaks(Mistake::ClaimTakesLeasedRows, small, Promise::NoOverlap);
    breaks(Mistake::ReleaseKeepsAttempt, small, Promise::AttemptsExact);
    breaks(
        Mistake::ReapIgnoresDueTime,
        Bounds {
            cancels: 0,
            ..small
        },
        Promise::NoOverlap,
    );
    breaks(Mistake::ExpiryKeepsToken, small, answers);
    breaks(
        Mistake::ExpiryIgnoresMaxAttempts,
        small,
        Promise::DeadAsAllowed,
    );
    breaks(
        Mistake::ExpiryIgnoresClockStep,
        steps,
        Promise::AttemptsExact,
    );
    breaks(Mistake::CancelKeepsToken, cancels, answers);
    breaks(
        Mistake::RedriveKeepsAttempts,
        redrives,
        Promise::AttemptsExact,
    );
    let crashes = Bounds {
        crashes: 1,
        ..small
    };
    breaks(Mistake::RepeatIgnoresKind, crashes, answers);
    let restores = Bounds {
        restores: 1,
        ..Bounds::SMALL
    };
    breaks(Mistake::ClaimIgnoresEpoch, restores, Promise::FencesRise);
    breaks(Mistake::RestoreKeepsLeases, restores, late);
}

/// A fencing token is never given twice for a row, so a lease that has the right one has the right token too. The token is what a
/// client cannot guess.
#[test]
fn fence_alone_is_enough_while_leases_are_genuine() {
    let bounds = Bounds {
        copies: 1,
        ..Bounds::SMALL
    };
    let model = LeaseModel {
        mistake: Some(Mistake::SettleIgnoresToken),
        ..kept(bounds)
    };
    with_symmetry(model).assert_holds("settle ignores the token");
}

/// An item that died by its worker's word keeps the token of that lease until the redrive. Only a release of this lease would be
/// taken for applied then, and a worker sends one kind of settlement for a lease.
#[test]
fn token_after_a_redrive_harms_no_worker_that_settles_in_one_way() {
    let bounds = Bounds {
        copies: 1,
        redrives: 1,
        ..bounds()
    };
    let model = LeaseModel {
        mistake: Some(Mistake::RedriveKeepsToken),
        ..kept(bounds)
    };
    with_symmetry(model).assert_holds("redrive keeps the token");
}
