//! A worker of a run: it claims through the broker's public interface, works, settles, and checks what it is told.

use std::sync::Arc;
use std::time::Duration;

use lease_broker::broker::{
    CallContext, ClaimRequest, Error, LeaseCompletion, LeaseFailure, LeaseRelease, LeaseRenewal,
    ReleaseClaimsRequest, UndeliveredLeases,
};
use lease_broker_store::{Applied, RowEnding, Settled};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;
use uuid::Uuid;

use super::plan::{End, Turn, WorkerPlan};
use super::run::{QUEUE, Site};
use super::store::id;

/// A lease that the worker knows.
#[derive(Clone)]
pub(super) struct Held {
    lease_id: String,
    pub(super) item: i64,
    fence: i64,
}

/// The result of a call: an answer, an error, or no answer because the broker was killed.
pub(super) type Answer<T> = Option<Result<T, Error>>;

pub(super) struct Worker {
    site: Arc<Site>,
    name: String,
    random: StdRng,
}

impl Worker {
    pub(super) fn new(site: Arc<Site>, number: usize, seed: u64) -> Self {
        let seed = seed.wrapping_add(1_000_003 * (number as u64 + 1));
        Self {
            site,
            name: format!("worker {number}"),
            random: StdRng::seed_from_u64(seed),
        }
    }

    pub(super) async fn run(mut self, plan: WorkerPlan) {
        for turn in plan.turns {
            tokio::time::sleep(turn.pause).await;
            let held = self.claim(&turn).await;
            self.work(&turn, held).await;
        }
    }

    fn request(&mut self, turn: &Turn) -> ClaimRequest {
        let request_id = Uuid::from_u128(self.random.random());
        ClaimRequest {
            groups: Vec::new(),
            max_run: 1,
            queue: QUEUE.to_owned(),
            worker_id: self.name.clone(),
            max_items: turn.max_items,
            max_bytes: 1 << 20,
            lease_duration: None,
            wait_timeout: turn.wait,
            request_id: turn.has_request_id.then_some(request_id),
        }
    }

    /// Claims, and sends the claim again if its answer is lost and it has a request id.
    pub(super) async fn claim(&mut self, turn: &Turn) -> Vec<Held> {
        let request = self.request(turn);
        for attempt in 0..3 {
            let broker = self.site.broker(turn.broker + attempt);
            let sent = Instant::now();
            let was_drained = broker.is_drained();
            let context = CallContext::default();
            let call = broker.answer(broker.broker.claim(&context, request.clone(), None));
            let answer = match turn.gone_after {
                None => self.site.in_time("a claim", call).await,
                Some(after) => {
                    let Ok(answer) = tokio::time::timeout(after, call).await else {
                        self.site.database.note(format!("{} is gone", self.name));
                        self.release_claim(turn, &request).await;
                        return Vec::new();
                    };
                    answer
                }
            };
            match answer {
                Some(Ok(leases)) => {
                    if was_drained && !leases.is_empty() {
                        let problem = format!("a drained broker leased items to {}", self.name);
                        self.site.database.lock().breaks(problem);
                    }
                    return self.receive(sent, leases);
                }
                Some(Err(error)) => {
                    self.site
                        .database
                        .note(format!("{}: claim: {error}", self.name));
                    tokio::time::sleep(Duration::from_millis(700)).await;
                }
                None => {}
            }
            if request.request_id.is_none() {
                break;
            }
        }
        self.release_claim(turn, &request).await;
        Vec::new()
    }

    /// Takes the leases, as the API delivers them.
    fn receive(&self, sent: Instant, leases: UndeliveredLeases) -> Vec<Held> {
        let (leases, delivery) = leases.deliver(CallContext::default().owner, 1 << 20);
        let mut held = Vec::new();
        for lease in leases {
            let (item, fence) = (id(&lease.item.lease.key), lease.item.lease.fence);
            let until = sent + lease.item.expiry.time_left;
            let mut database = self.site.database.lock();
            database.note(format!("{} holds {item} with fence {fence}", self.name));
            database.believe(&self.name, item, fence, until);
            held.push(Held {
                lease_id: lease.id,
                item,
                fence,
            });
        }
        if let Some(delivery) = delivery {
            delivery.confirm();
        }
        held
    }

    /// Releases the leases of a claim whose answer the worker does not have.
    async fn release_claim(&self, turn: &Turn, request: &ClaimRequest) {
        let Some(request_id) = request.request_id else {
            return;
        };
        for attempt in 0..60 {
            let broker = self.site.broker(turn.broker + attempt);
            let request = ReleaseClaimsRequest {
                queue: QUEUE.to_owned(),
                worker_id: self.name.clone(),
                request_ids: vec![request_id],
            };
            let context = CallContext::default();
            let call = broker.answer(broker.broker.release_claims(&context, request));
            let answer = self.site.in_time("a release of a claim", call).await;
            if let Some(Ok(count)) = answer {
                self.site
                    .database
                    .note(format!("{} released {count}", self.name));
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(super) async fn work(&mut self, turn: &Turn, mut held: Vec<Held>) {
        let mut rounds = 0;
        while !held.is_empty() {
            tokio::time::sleep(turn.work).await;
            if turn.heartbeat {
                self.heartbeat(turn, &mut held).await;
            }
            let next = (turn.next && rounds == 0).then(|| self.request(turn));
            rounds += 1;
            held = self.settle(turn, held, next).await;
        }
    }

    async fn heartbeat(&self, turn: &Turn, held: &mut Vec<Held>) {
        let broker = self.site.broker(turn.broker);
        let sent = Instant::now();
        let renewals = held.iter().map(|lease| LeaseRenewal {
            lease_id: lease.lease_id.clone(),
            checkpoint: None,
        });
        let context = CallContext::default();
        let call = broker
            .broker
            .heartbeat(&context, QUEUE, renewals.collect(), None);
        let answer = self.site.in_time("a heartbeat", broker.answer(call)).await;
        let Some(Ok(renewed)) = answer else { return };
        let mut database = self.site.database.lock();
        for (lease, renewed) in std::mem::take(held).into_iter().zip(renewed) {
            if let Some(expiry) = renewed.expiry() {
                let until = sent + expiry.time_left;
                database.believe(&self.name, lease.item, lease.fence, until);
                held.push(lease);
            } else {
                database.forget(&self.name, lease.item, lease.fence);
            }
        }
    }

    /// Settles the leases. Returns the leases of the claim beside it.
    async fn settle(
        &mut self,
        turn: &Turn,
        held: Vec<Held>,
        next: Option<ClaimRequest>,
    ) -> Vec<Held> {
        for lease in &held {
            let mut database = self.site.database.lock();
            database.forget(&self.name, lease.item, lease.fence);
        }
        let ending = match turn.end {
            End::Complete => RowEnding::Complete,
            End::Retry => RowEnding::Fail(Some(Duration::ZERO)),
            End::DeadLetter => RowEnding::Fail(None),
            End::Release => RowEnding::Release(Duration::ZERO),
            End::Crash => return Vec::new(),
        };
        let may_be_applied = &mut false;
        for attempt in 0..4 {
            let sent = Instant::now();
            let next = next.clone().filter(|_| attempt == 0);
            match self.send(turn, attempt, &held, next.clone()).await {
                Some(Ok((results, leases))) => {
                    self.check(&held, ending, &results);
                    return match leases {
                        Some(Ok(leases)) => self.receive(sent, leases),
                        _ => Vec::new(),
                    };
                }
                Some(Err(error)) => self.check_error(&held, ending, &error, may_be_applied),
                None => *may_be_applied = true,
            }
            if let Some(next) = next {
                self.release_claim(turn, &next).await;
            }
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        Vec::new()
    }

    async fn send(
        &self,
        turn: &Turn,
        attempt: usize,
        held: &[Held],
        next: Option<ClaimRequest>,
    ) -> Answer<lease_broker::broker::SettledAndClaimed> {
        let broker = self.site.broker(turn.broker + attempt);
        let ids = held.iter().map(|lease| lease.lease_id.clone());
        let context = CallContext::default();
        let broker = &*broker;
        let call = async move {
            let api = &broker.broker;
            match turn.end {
                End::Complete | End::Crash => {
                    let completion = |lease_id| LeaseCompletion {
                        lease_id,
                        columns: Ok(Vec::new()),
                        follow_ups: Ok(Vec::new()),
                    };
                    let completions = ids.map(completion).collect();
                    api.complete(&context, QUEUE, completions, next).await
                }
                End::Retry | End::DeadLetter => {
                    let failure = |lease_id| LeaseFailure {
                        lease_id,
                        error: "no luck".to_owned(),
                        retry_delay: Ok(Some(Duration::from_millis(300))),
                        dead_letter: matches!(turn.end, End::DeadLetter),
                        columns: Ok(Vec::new()),
                        checkpoint: None,
                    };
                    let failures = ids.map(failure).collect();
                    api.fail(&context, QUEUE, failures, next).await
                }
                End::Release => {
                    let release = |lease_id| LeaseRelease {
                        lease_id,
                        delay: Ok(None),
                        checkpoint: None,
                    };
                    let entries = ids.map(release).collect();
                    let results = api.release(&context, QUEUE, entries).await;
                    results.map(|results| (results, None))
                }
            }
        };
        self.site.in_time("a settlement", broker.answer(call)).await
    }

    /// Checks that the results are true.
    fn check(&self, held: &[Held], ending: RowEnding, results: &[Settled]) {
        let mut database = self.site.database.lock();
        if results.len() != held.len() {
            database.breaks(format!(
                "{} results for {} leases",
                results.len(),
                held.len()
            ));
        }
        for (lease, settled) in held.iter().zip(results) {
            let was_ended = database.was_ended(lease.item, lease.fence, ending);
            let is_told = matches!(settled, Settled::Ended(_) | Settled::Repeated(_));
            database.note(format!("{} settled {}: {settled:?}", self.name, lease.item));
            let may_be_forgotten = !matches!(ending, RowEnding::Complete);
            if is_told != was_ended && !(may_be_forgotten && was_ended) {
                database.breaks(format!(
                    "{} is told {settled:?} for {ending:?} of item {} with fence {}, but applied is {was_ended}",
                    self.name, lease.item, lease.fence
                ));
            }
        }
    }

    /// Checks that a call of which the error says that it was not applied was not.
    fn check_error(
        &self,
        held: &[Held],
        ending: RowEnding,
        error: &Error,
        may_be_applied: &mut bool,
    ) {
        let mut database = self.site.database.lock();
        database.note(format!("{}: settlement: {error}", self.name));
        *may_be_applied |= error.applied() == Applied::Unknown;
        for lease in held {
            if !*may_be_applied && database.was_ended(lease.item, lease.fence, ending) {
                database.breaks(format!(
                    "{:?} of item {} was applied in spite of: {error}",
                    ending, lease.item
                ));
            }
        }
    }
}
