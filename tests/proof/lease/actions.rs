//! Everything that can happen next.

use lease_broker_model::item_state::State;
use lease_broker_store::{LeaseProof, LeaseRow, RowOperation};
use uuid::Uuid;

use super::world::{
    Answer, Belief, Call, Content, Kind, LEASE, Message, Wait, Worker, WorkerId, World, token,
};
use super::{Bounds, LeaseModel, WORKERS};

/// An action of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The store's clock is stepped forward, or backward.
    StepClock(i8),
    /// A worker sends a call and waits for its answer.
    Send(usize, Sent),
    /// The request arrives, is served, and the answer leaves. A copy of the request may stay on its way.
    Serve {
        /// The place of the message in the network.
        message: usize,
        /// Whether it will arrive once more.
        keeps_copy: bool,
    },
    /// An answer arrives at its worker.
    Answer(usize),
    /// A worker waits no more. It can send the call again, as another call.
    GiveUp(usize),
    /// A worker crashes and forgets everything.
    Crash(usize),
    /// The reaper runs.
    Reap,
    /// An operator cancels the lease on a row, and perhaps makes the item dead.
    Cancel(usize, bool),
    /// An operator redrives the dead items.
    Redrive,
    /// Another program cancels a row by a statement of `docs/plain-sql.md`.
    ForeignCancel(usize),
    /// Another program makes a leased row ready and keeps its token.
    CarelessRelease(usize),
    /// An operator makes a backup.
    BackUp,
    /// An operator restores the backup.
    Restore,
}

/// A call as its worker sees it. The number of a claim, or of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A new claim with a request id.
    Claim,
    /// The release of all leases of this claim.
    ReleaseClaim(u8),
    /// A heartbeat.
    Heartbeat(usize),
    /// A completion.
    Complete(usize),
    /// A failure with a retry.
    Retry(usize),
    /// A failure without a retry.
    DeadLetter(usize),
    /// A release.
    Release(usize),
}

impl Sent {
    fn settle(row: usize, kind: Kind) -> Self {
        match kind {
            Kind::Complete => Self::Complete(row),
            Kind::Retry => Self::Retry(row),
            Kind::DeadLetter => Self::DeadLetter(row),
            Kind::Release => Self::Release(row),
        }
    }
}

impl World {
    /// Adds everything that can happen next.
    pub(super) fn actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        if self.time < bounds.ticks {
            actions.push(Action::Tick);
        }
        if self.left.steps_forward > 0 {
            actions.push(Action::StepClock(LEASE));
        }
        if self.left.steps_back > 0 {
            actions.push(Action::StepClock(-LEASE));
        }
        for worker in 0..WORKERS {
            self.worker_actions(bounds, worker, actions);
        }
        for (at, message) in self.network.iter().enumerate() {
            let Message::Request(_) = message else {
                actions.push(Action::Answer(at));
                continue;
            };
            for keeps_copy in [false, true] {
                if !keeps_copy || self.left.copies > 0 {
                    actions.push(Action::Serve {
                        message: at,
                        keeps_copy,
                    });
                }
            }
        }
        self.restore_actions(actions);
        let rows = || self.rows.iter().enumerate();
        if rows().any(|(_, row)| row.is_some_and(|row| row.due.is_some())) {
            actions.push(Action::Reap);
        }
        let in_state = |state| {
            let is_in = move |(at, row): (usize, &Option<_>)| {
                is_in_state(row.as_ref(), state).then_some(at)
            };
            rows().filter_map(is_in)
        };
        if self.left.cancels > 0 {
            for row in in_state(State::Leased) {
                actions.extend([Action::Cancel(row, false), Action::Cancel(row, true)]);
            }
        }
        if self.left.redrives > 0 && in_state(State::Dead).next().is_some() {
            actions.push(Action::Redrive);
        }
        for row in in_state(State::Leased) {
            if self.left.foreign > 0 {
                actions.push(Action::ForeignCancel(row));
            }
            if self.left.careless > 0 {
                actions.push(Action::CarelessRelease(row));
            }
        }
    }

    fn restore_actions(&self, actions: &mut Vec<Action>) {
        if self.left.restores > 0 {
            actions.push(match self.backup {
                None => Action::BackUp,
                Some(_) => Action::Restore,
            });
        }
    }

    fn worker_actions(&self, bounds: &Bounds, number: usize, actions: &mut Vec<Action>) {
        let worker = &self.workers[number];
        let mut send = |sent| actions.push(Action::Send(number, sent));
        if worker.waits.is_none() {
            if worker.claims < bounds.claims {
                send(Sent::Claim);
            }
            if worker.calls > 0 {
                for (row, belief) in worker.leases.iter().enumerate() {
                    match belief {
                        None => {}
                        Some(Belief {
                            ended: Some(kind), ..
                        }) => send(Sent::settle(row, *kind)),
                        Some(_) => {
                            send(Sent::Heartbeat(row));
                            for kind in Kind::ALL {
                                send(Sent::settle(row, kind));
                            }
                        }
                    }
                }
                // Only a claim whose answer the worker has given up.
                if worker.claims > 0 && worker.leases.iter().all(Option::is_none) {
                    send(Sent::ReleaseClaim(worker.claims));
                }
            }
        } else {
            actions.push(Action::GiveUp(number));
        }
        let knows_something = worker.waits.is_some() || worker.leases.iter().any(Option::is_some);
        if self.left.crashes > 0 && knows_something {
            actions.push(Action::Crash(number));
        }
    }

    /// Does what the action says.
    pub(super) fn act(&mut self, model: &LeaseModel, action: Action) {
        match action {
            Action::Tick => self.time += 1,
            Action::StepClock(by) => {
                self.offset += by;
                if by > 0 {
                    self.left.steps_forward -= 1;
                    self.is_stepped = true;
                    self.was_stepped = true;
                } else {
                    self.left.steps_back -= 1;
                }
            }
            Action::Send(worker, sent) => self.send_call(worker, sent),
            Action::Serve {
                message,
                keeps_copy,
            } => {
                let request = self.network[message];
                if keeps_copy {
                    self.left.copies -= 1;
                } else {
                    self.network.remove(message);
                }
                if let Message::Request(call) = request {
                    self.serve(model, call);
                }
            }
            Action::Answer(message) => {
                if let Message::Answer(call, answer) = self.network.remove(message) {
                    self.receive(call, answer);
                }
            }
            Action::GiveUp(worker) => self.stop_waiting(worker),
            Action::Crash(worker) => {
                self.left.crashes -= 1;
                self.stop_waiting(worker);
                self.workers[worker].leases = [None; 2];
            }
            Action::Reap => {
                let is_stepped = self.is_stepped;
                for row in 0..model.bounds.rows {
                    self.step(model, row, RowOperation::Reap { is_stepped });
                }
                self.is_stepped = false;
            }
            Action::Cancel(row, dead_letter) => {
                self.left.cancels -= 1;
                let cancel = RowOperation::Cancel {
                    fence: None,
                    delay: std::time::Duration::ZERO,
                    dead_letter,
                };
                self.step(model, row, cancel);
            }
            Action::Redrive => {
                self.left.redrives -= 1;
                for row in 0..model.bounds.rows {
                    self.step(model, row, RowOperation::Redrive);
                }
            }
            Action::ForeignCancel(row) => {
                self.left.foreign -= 1;
                if let Some(row) = &mut self.rows[row] {
                    row.state = State::Dead;
                    row.due = None;
                    row.token = None;
                }
                self.histories[row].note_foreign_end();
            }
            Action::CarelessRelease(row) => {
                self.left.careless -= 1;
                if let Some(row) = &mut self.rows[row] {
                    row.state = State::Ready;
                    row.due = None;
                }
                self.histories[row].note_foreign_end();
            }
            Action::BackUp => self.backup = Some(self.rows),
            Action::Restore => {
                self.left.restores -= 1;
                self.restore(model);
            }
        }
    }

    fn send_call(&mut self, number: usize, sent: Sent) {
        let sender = WorkerId::try_from(number).unwrap_or_default();
        let time = self.time;
        let worker = &mut self.workers[number];
        worker.last_call += 1;
        if sent == Sent::Claim {
            worker.claims += 1;
        } else {
            worker.calls -= 1;
        }
        let lease = |worker: &Worker, row: usize| -> LeaseProof {
            let belief = worker.leases[row];
            belief.map_or(NO_LEASE, |belief| belief.lease)
        };
        let mut settle = |row: usize, kind: Kind| {
            let lease = lease(worker, row);
            let attempt = worker.leases[row].map_or(1, |belief| belief.attempt);
            if let Some(belief) = &mut worker.leases[row] {
                belief.ended = Some(kind);
            }
            Content::Settle(row, lease, attempt, kind)
        };
        let content = match sent {
            Sent::Complete(row) => settle(row, Kind::Complete),
            Sent::Retry(row) => settle(row, Kind::Retry),
            Sent::DeadLetter(row) => settle(row, Kind::DeadLetter),
            Sent::Release(row) => settle(row, Kind::Release),
            Sent::Claim => Content::Claim(token(sender, worker.claims)),
            Sent::ReleaseClaim(claim) => Content::ReleaseClaim(token(sender, claim)),
            Sent::Heartbeat(row) => Content::Heartbeat(row, lease(worker, row)),
        };
        let call = Call {
            worker: sender,
            number: worker.last_call,
            content,
        };
        worker.waits = Some(Wait { call, sent: time });
        self.send(Message::Request(call));
    }

    /// Ends the wait of a worker. It will ignore the answer.
    fn stop_waiting(&mut self, worker: usize) {
        self.workers[worker].waits = None;
        self.network
            .retain(|message| !matches!(message, Message::Answer(call, _) if usize::from(call.worker) == worker));
    }

    fn receive(&mut self, call: Call, answer: Answer) {
        let number = usize::from(call.worker);
        let Some(wait) = self.workers[number].waits else {
            return;
        };
        self.stop_waiting(number);
        let worker = &mut self.workers[number];
        match (call.content, answer) {
            (Content::Claim(token), Answer::Leases(leases)) => {
                for (belief, lease) in worker.leases.iter_mut().zip(leases) {
                    if let Some((fence, attempt, left)) = lease {
                        *belief = Some(Belief {
                            lease: LeaseProof { token, fence },
                            attempt,
                            until: wait.sent + left,
                            ended: None,
                        });
                    }
                }
            }
            (Content::Heartbeat(row, _), Answer::Extended) => {
                if let Some(belief) = &mut worker.leases[row] {
                    belief.until = wait.sent + LEASE;
                }
            }
            (Content::Heartbeat(row, _) | Content::Settle(row, ..), _) => {
                worker.leases[row] = None;
            }
            (Content::Claim(_) | Content::ReleaseClaim(_), _) => {}
        }
    }
}

/// The lease of a worker that has none. No row has this token.
const NO_LEASE: LeaseProof = LeaseProof {
    token: Uuid::nil(),
    fence: 0,
};

fn is_in_state<O>(row: Option<&LeaseRow<O>>, state: State) -> bool {
    row.is_some_and(|row| row.state == state)
}
