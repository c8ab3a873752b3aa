//! Notices that a proxy on the way to the broker refuses a settlement. Heartbeats keep its leases, so no deadline would end it.

use std::time::{Duration, Instant};

use super::endings::Ending;
use super::failure::Failure;
use super::item::LeaseNumber;
use super::state::Shared;

/// The time for which a settlement is sent again that the way to the broker refuses.
const PATIENCE: Duration = Duration::from_secs(10);

/// Judges the attempts of a settlement.
pub(super) struct Way {
    leases: Vec<LeaseNumber>,
    /// The moment of the last retry. A heartbeat follows each.
    retried_at: Option<Instant>,
    /// The moment of the first refusal since the broker has answered heartbeats.
    refusing_since: Option<Instant>,
    /// True if the settlement is not worth another attempt.
    pub(super) refuses: bool,
}

impl Way {
    pub(super) fn of(group: &[Ending]) -> Self {
        Self {
            leases: group.iter().map(|ending| ending.lease).collect(),
            retried_at: None,
            refusing_since: None,
            refuses: false,
        }
    }

    /// Returns the judge of one ending of the group. It has no patience of its own: the group was sent for long enough.
    pub(super) fn of_part(&self, ending: &Ending) -> Self {
        Self {
            leases: vec![ending.lease],
            // No heartbeat was sent since the last attempt of the group.
            retried_at: self.refusing_since,
            refusing_since: self.refusing_since,
            refuses: false,
        }
    }

    /// Notes the failure of an attempt. Returns whether the settlement is not worth another one.
    pub(super) fn note(&mut self, shared: &Shared, failure: &Failure) -> bool {
        let now = (shared.clock)();
        if failure.is_of_the_way() && self.is_open(shared) {
            let since = *self.refusing_since.get_or_insert(now);
            self.refuses = now.saturating_duration_since(since) >= PATIENCE;
        } else {
            self.refusing_since = None;
        }
        self.retried_at = Some(now);
        self.refuses
    }

    /// Returns whether the broker has answered a heartbeat that was sent after the last retry.
    fn is_open(&self, shared: &Shared) -> bool {
        let mut held = self
            .leases
            .iter()
            .filter_map(|lease| shared.held.get(lease));
        self.retried_at
            .is_some_and(|retried_at| held.any(|lease| lease.last_answer >= retried_at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lease_broker_proto as proto;
    use tonic::Code;

    use super::*;
    use crate::calls::CallTimes;
    use crate::options::Options;
    use crate::state::State;
    use crate::values::duration_to_proto;

    /// A settlement of a lease that is held.
    struct Settlement {
        state: Arc<State>,
        lease: LeaseNumber,
        way: Way,
    }

    impl Settlement {
        fn new() -> Self {
            let options = Options::new("127.0.0.1:1".to_owned(), "work".to_owned());
            let state = Arc::new(State::new(options, Box::new(|_, _| {})));
            let times = CallTimes::at(Instant::now());
            let reserved = state.lock().slots_to_claim();
            let time_left = duration_to_proto(Duration::from_secs(30));
            let lease = proto::Lease {
                time_left: Some(time_left),
                ..proto::Lease::default()
            };
            state.accept(vec![lease], reserved, times);
            let lease = *state.lock().held.keys().next().expect("a lease");
            let ending = Ending::failed(lease, "");
            let way = Way::of(&[ending]);
            Self { state, lease, way }
        }

        fn fails(&mut self, code: Code) -> bool {
            self.way.note(&self.state.lock(), &Failure::new(code, "no"))
        }

        fn heartbeat_is_answered(&self) {
            let mut shared = self.state.lock();
            let lease = shared.held.get_mut(&self.lease).expect("a lease");
            lease.last_answer = Instant::now();
        }

        fn patience_passes(&mut self) {
            let since = self.way.refusing_since.as_mut().expect("a refusal");
            *since -= PATIENCE;
        }
    }

    #[test]
    fn settlement_is_refused_on_the_way_while_heartbeats_are_answered() {
        let mut settlement = Settlement::new();
        assert!(!settlement.fails(Code::Internal));
        settlement.heartbeat_is_answered();
        assert!(!settlement.fails(Code::Unknown));
        settlement.heartbeat_is_answered();
        settlement.patience_passes();
        assert!(settlement.fails(Code::Internal));
        // No heartbeat is sent between the last attempt of the whole and the first one of a part.
        let ending = Ending::failed(settlement.lease, "");
        let mut part = settlement.way.of_part(&ending);
        let failure = Failure::new(Code::Internal, "no");
        assert!(part.note(&settlement.state.lock(), &failure));
    }

    #[test]
    fn outage_is_no_refusal_on_the_way() {
        // The code of the last failure, and whether a heartbeat is answered before it.
        for (code, is_answered) in [
            (Code::Internal, false),
            (Code::Unavailable, true),
            (Code::DeadlineExceeded, true),
        ] {
            let mut settlement = Settlement::new();
            settlement.fails(Code::Internal);
            settlement.heartbeat_is_answered();
            settlement.fails(Code::Internal);
            settlement.patience_passes();
            if is_answered {
                settlement.heartbeat_is_answered();
            }
            assert!(!settlement.fails(code), "{code:?}");
            settlement.heartbeat_is_answered();
            assert!(!settlement.fails(Code::Internal), "{code:?}");
        }
    }
}
