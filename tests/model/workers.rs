//! Workers that claim, extend and settle leases. They also use leases that they have lost.

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_store::{ClaimCall, Ending, Renewal, Renewed, RowOutcome, Settled, Settlement};
use lease_broker_value::Value;
use rand::RngExt as _;
use uuid::Uuid;

use super::{Run, about};
use crate::harness::Harness;
use crate::model::queue_model::{Answer, End, Halves, Policy, Write, id, time};

/// Maximum number of leases that are remembered, to use them again. Most of them are lost.
const MAX_REMEMBERED: usize = 60;

impl<H: Harness> Run<H> {
    /// Returns a new claim call, or an earlier request that is sent again.
    fn call(&mut self, duration: Halves) -> ClaimCall {
        let again = (!self.requests.is_empty() && self.chance(30))
            .then(|| self.below(self.requests.len()))
            .and_then(|index| self.requests.remove(index));
        let has_request_id = again.is_some() || self.chance(50);
        let (worker, token) = again.unwrap_or_else(|| {
            let worker = format!("worker {}", self.below(4));
            (worker, Uuid::from_u128(self.random.random()))
        });
        ClaimCall {
            worker,
            token,
            has_request_id,
            max_items: self.below(5),
            max_bytes: 4 << 20,
            duration: time(duration),
            groups: Vec::new(),
            max_run: 1,
        }
    }

    /// Returns a checkpoint for a renewal or a settlement: none, an empty one, or random bytes.
    fn random_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.fixture.queues[0].max_checkpoint_bytes?;
        match self.below(4) {
            0 => Some(Vec::new()),
            1 => Some(self.random.random::<[u8; 4]>().to_vec()),
            _ => None,
        }
    }

    pub(super) async fn claim(&mut self) {
        let duration = self.random_time();
        let calls: Vec<ClaimCall> = (0..=self.below(3)).map(|_| self.call(duration)).collect();
        let wanted: Vec<_> = calls
            .iter()
            .map(|call| {
                (
                    &call.worker,
                    call.token,
                    call.has_request_id,
                    call.max_items,
                )
            })
            .collect();
        self.trace.note(format!("claim {wanted:?}"));
        let answers = self.broker().calls(calls.clone()).await;
        for (call, items) in calls.into_iter().zip(answers) {
            let (token, has_request_id) = (call.token, call.has_request_id);
            let expected = self.model.claim(
                &call.worker,
                token,
                has_request_id,
                call.max_items,
                duration,
            );
            let got: Vec<i64> = items.iter().map(|item| id(&item.lease.key)).collect();
            assert_eq!(got, expected);
            for item in items {
                let model = &self.model.items[&id(&item.lease.key)];
                let lease = (item.lease.token, item.lease.fence, item.lease.attempt);
                assert_eq!(lease, (token, model.row.fence, model.row.attempt));
                let left = model.due().expect("leased") - self.model.now;
                assert!(about(item.expiry.time_left, time(left)), "{item:?}");
                assert_eq!(item.checkpoint, model.checkpoint, "{:?}", item.lease);
                if !self.leases.contains(&item.lease) {
                    self.leases.push_back(item.lease);
                }
            }
            if has_request_id {
                self.requests.push_back((call.worker, token));
            }
        }
        while self.leases.len() > MAX_REMEMBERED {
            self.leases.pop_front();
        }
        while self.requests.len() > MAX_REMEMBERED / 4 {
            self.requests.pop_front();
        }
    }

    /// Returns one to five remembered leases. Some are changed so that they never existed.
    fn random_leases(&mut self) -> Vec<LeaseRef> {
        let mut leases = Vec::new();
        if self.leases.is_empty() {
            return leases;
        }
        for _ in 0..=self.below(4) {
            let index = self.below(self.leases.len());
            let mut lease = self.leases[index].clone();
            match self.below(40) {
                0 => lease.token = Uuid::from_u128(self.random.random()),
                1 => lease.fence += 1,
                2 => lease.fence -= 1,
                3 => lease.key = Key([Value::Int(self.next_id)].into()),
                _ => {}
            }
            leases.push(lease);
        }
        leases
    }

    pub(super) async fn heartbeat(&mut self) {
        let duration = self.random_time();
        let leases = self.random_leases();
        self.trace.note(format!("heartbeat {}", show(&leases)));
        let checkpoints: Vec<_> = leases.iter().map(|_| self.random_checkpoint()).collect();
        let renewals = leases.iter().zip(&checkpoints);
        let renewals = renewals.map(|(lease, checkpoint)| Renewal {
            lease: lease.clone(),
            duration: time(duration),
            checkpoint: checkpoint.clone(),
            trace: None,
        });
        let broker = self.broker();
        let answers = broker
            .store
            .heartbeat(broker.queue, renewals.collect())
            .await;
        let answers = answers.expect("heartbeat").into_iter().zip(checkpoints);
        for (lease, (renewed, checkpoint)) in leases.iter().zip(answers) {
            let expected = self.model.heartbeat(lease, duration, checkpoint.as_ref());
            let got = match &renewed {
                Renewed::Extended(held) => {
                    assert!(about(held.time_left, time(duration)), "{held:?}");
                    RowOutcome::Extended
                }
                Renewed::Lost {
                    state,
                    cancel_reason,
                } => RowOutcome::Lost {
                    state: *state,
                    is_cancelled: cancel_reason.is_some(),
                },
                Renewed::Refused(refusal) => panic!("{refusal}"),
            };
            assert_eq!(got, expected, "{lease:?}");
        }
    }

    pub(super) async fn settle(&mut self) {
        let leases = self.random_leases();
        let mut settlements = Vec::new();
        for lease in leases {
            let end = match self.below(5) {
                0 | 1 => End::Complete,
                2 => End::Fail(None),
                3 => End::Fail(Some(self.random_time())),
                _ => End::Release(self.zero_or_random_time()),
            };
            let write = match end {
                End::Complete | End::Fail(_) => self.random_write(),
                End::Release(_) => Write::Nothing,
            };
            let checkpoint = match end {
                End::Complete => None,
                End::Fail(_) | End::Release(_) => self.random_checkpoint(),
            };
            let times = if self.chance(25) { 2 } else { 1 };
            settlements.extend(std::iter::repeat_n((lease, end, write, checkpoint), times));
        }
        self.trace.note(format!(
            "settle {:?}",
            settlements
                .iter()
                .map(|(lease, end, write, _)| (id(&lease.key), lease.fence, end, write))
                .collect::<Vec<_>>()
        ));
        let asked = settlements.iter();
        let asked = asked.map(|(lease, end, write, checkpoint)| Settlement {
            columns: columns(*write),
            checkpoint: checkpoint.clone(),
            lease: lease.clone(),
            ending: ending(*end),
            trace: None,
        });
        let broker = self.broker();
        let answers = broker.store.settle(broker.queue, asked.collect()).await;
        let answers = answers.expect("settle").results;
        assert_eq!(answers.len(), settlements.len());
        for ((lease, end, write, checkpoint), answer) in settlements.iter().zip(answers) {
            match self.model.settle(lease, *end, *write, checkpoint.as_ref()) {
                Answer::Refused => {
                    let is_refused = matches!(answer, Settled::Refused(_));
                    assert!(is_refused, "{answer:?}: {lease:?} {end:?} {write:?}");
                    continue;
                }
                Answer::Exactly(expected) => assert_eq!(answer, expected, "{lease:?} {end:?}"),
            }
            assert!(!self.model.is_held(lease));
        }
    }

    fn random_write(&mut self) -> Write {
        match self.below(20) {
            0 => Write::Forbidden,
            _ if self.model.policy == Policy::Delete => Write::Nothing,
            1 => Write::Null,
            2..10 => Write::Result(self.random.random_range(1..1_000)),
            _ => Write::Nothing,
        }
    }

    pub(super) async fn release_requests(&mut self) {
        let mut tokens = Vec::new();
        for _ in 0..=self.below(3) {
            let token = match self.below(self.requests.len() + 1) {
                0 => Uuid::from_u128(self.random.random()),
                index => self.requests[index - 1].1,
            };
            tokens.push(token);
        }
        self.trace.note(format!("release requests {tokens:?}"));
        let broker = self.broker();
        let released = broker
            .store
            .release_claims(broker.queue, tokens.clone().into())
            .await;
        let released = released.expect("release").ended.len();
        let expected: usize = tokens
            .into_iter()
            .map(|token| self.model.release_request(token))
            .sum();
        assert_eq!(released, expected);
    }
}

fn show(leases: &[LeaseRef]) -> String {
    let leases: Vec<_> = leases
        .iter()
        .map(|lease| (id(&lease.key), lease.fence))
        .collect();
    format!("{leases:?}")
}

fn columns(write: Write) -> Vec<(String, Value)> {
    let column = match write {
        Write::Nothing => return Vec::new(),
        Write::Result(result) => ("result", Value::Int(result)),
        Write::Null => ("result", Value::Null),
        Write::Forbidden => ("rank", Value::Int(9)),
    };
    vec![(column.0.to_owned(), column.1)]
}

fn ending(end: End) -> Ending {
    match end {
        End::Complete => Ending::Complete {
            follow_ups: Vec::new(),
        },
        End::Fail(retry) => Ending::Fail {
            error: "no luck".to_owned(),
            retry: retry.map(time),
        },
        End::Release(delay) => Ending::Release { delay: time(delay) },
    }
}
