//! Answers: each call ends in time, and fails only with a documented error.

use tonic::Code;

use super::{Invariant, Violation};
use crate::chaos::calls::CALL_TIMEOUT;
use crate::chaos::history::{Call, History};
use crate::chaos::journal::Answer;

/// The reasons that the service may give during faults.
const REASONS: [&str; 5] = [
    "DRAINING",
    "STORE_UNAVAILABLE",
    "OVERLOADED",
    "DEADLINE_EXCEEDED",
    // The network held back a part of the request.
    "REQUEST_INCOMPLETE",
];
/// The codes of errors that a load balancer or the client itself makes, because a connection broke or the time was up.
const CODES: [Code; 5] = [
    Code::Unavailable,
    Code::Unknown,
    Code::Cancelled,
    Code::Internal,
    Code::DeadlineExceeded,
];
/// The time after its deadline at which a call must have ended, on a machine that can stall for some seconds. In nanoseconds.
const MARGIN: u64 = 5_000_000_000;

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let limit = u64::try_from(CALL_TIMEOUT.as_nanos()).expect("a short time") + MARGIN;
    for call in &history.calls {
        let Some((at, answer)) = &call.answered else {
            continue;
        };
        let took = at - call.sent;
        if took > limit && !was_paused(history, call, *at) {
            let text = format!("a call took {} ms: {call:?}", took / 1_000_000);
            violations.push(Violation::new(Invariant::Answers, text));
        }
        let Answer::Error { code, reason, .. } = answer else {
            continue;
        };
        let is_documented = match reason {
            Some(reason) => REASONS.contains(&reason.as_str()),
            None => CODES.contains(&Code::from_i32(*code)),
        };
        if !is_documented {
            let text = format!("{answer:?} is the answer to {:?}", call.asked);
            violations.push(Violation::new(Invariant::Answers, text));
        }
    }
}

/// Returns whether the process was stopped between the call and its answer.
fn was_paused(history: &History, call: &Call, answered: u64) -> bool {
    let mut pauses = history.pauses.iter();
    pauses
        .any(|pause| pause.process == call.process && pause.from < answered && pause.to > call.sent)
}

mod tests {
    use super::super::check as check_all;
    use super::super::example::{Example, SECOND, assert_only};
    use super::*;
    use crate::chaos::history::Pause;

    fn with_error(code: Code, reason: Option<&str>) -> Example {
        let mut example = Example::new();
        example.claim(2, 1, SECOND, 10);
        let error = Answer::Error {
            code: code.into(),
            reason: reason.map(str::to_owned),
            message: String::new(),
        };
        let call = example.history.calls.last_mut().expect("a call");
        call.answered = Some((2 * SECOND, error));
        example.row(2).fence = 0;
        example.row(2).attempt = 0;
        example
    }

    #[test]
    fn documented_errors_pass() {
        with_error(Code::Unavailable, Some("STORE_UNAVAILABLE")).assert_passes();
        with_error(Code::Unknown, None).assert_passes();
    }

    #[test]
    fn internal_errors_of_the_service_are_found() {
        let internal = with_error(Code::Internal, Some("INTERNAL"));
        assert_only(Invariant::Answers, &internal, check_all);
        let refused = with_error(Code::InvalidArgument, None);
        assert_only(Invariant::Answers, &refused, check_all);
    }

    #[test]
    fn calls_long_after_their_deadline_are_found() {
        let mut example = with_error(Code::Unavailable, None);
        let call = example.history.calls.last_mut().expect("a call");
        let answered = call.answered.as_mut().expect("an answer");
        answered.0 = 30 * SECOND;
        let process = call.process.clone();
        assert_only(Invariant::Answers, &example, check_all);
        example.history.pauses.push(Pause {
            process,
            from: 2 * SECOND,
            to: 28 * SECOND,
        });
        example.assert_passes();
    }
}
