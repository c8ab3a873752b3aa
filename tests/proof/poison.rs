//! An item that kills its worker's process must not make its neighbours dead.
//!
//! A process holds several leases at a time, over several connections, and a crash loses all of them. Each lost lease counts an attempt.
//! Items that are claimed together again and again with the poisonous one die with it, although nothing is wrong with them.
//!
//! The rule: an item whose last lease *expired* is a *suspect*. A suspect goes alone to a worker that holds nothing else, over all its
//! connections, and that worker gets no other item until it has settled the suspect. A worker that holds nothing gets a suspect before
//! other items.
//!
//! A worker with several slots may never be without a lease. So a suspect waits for a bounded time only. Then claims of workers that
//! hold something get nothing. The function `share_of` of the store's contract is this rule. The models call it, as the stores do.
//!
//! In a strict group a worker can hold a run of items (`group.rs`). It begins an item when the completion of the one before was
//! applied. So the first item of a run is the only one that a crash can be blamed on: it alone becomes a suspect and loses an
//! attempt.

use lease_broker_store::{Holding, Share, share_of};
use stateright::{Model, Property};

const PROCESSES: usize = 2;
/// The number of items that a process works on at the same time.
const SLOTS: usize = 2;
const MAX_ATTEMPTS: u8 = 2;
/// The number of items that may pass a suspect.
const PATIENCE: u8 = 2;

/// The way in which claims treat suspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As other items.
    None,
    /// A suspect is the only item of its claim. Other claims of the same worker are not looked at.
    AloneInClaim,
    /// A suspect is the only item that its worker holds. It waits for ever.
    AloneAtWorker,
    /// A suspect is the only item that its worker holds, and it waits for a bounded time. The broker has this rule.
    AloneAtWorkerSoon,
    /// As [`Rule::AloneAtWorkerSoon`], but a worker begins the next item of a run before the completion of the last was applied.
    BeginsAhead,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct PoisonModel {
    /// The rule.
    pub rule: Rule,
    /// The number of poisonous items. The first one is the second of all items.
    pub poisonous: usize,
    /// The number of all items.
    pub items: usize,
    /// Whether all items are of one strict group, and leased in runs.
    pub is_group: bool,
}

/// An item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    place: Place,
    attempts: u8,
    is_suspect: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Ready,
    /// At this process.
    Held(usize),
    Completed,
    Dead,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    items: Vec<Item>,
    /// The number of other items that were leased since a suspect waits.
    passed: u8,
}

/// An action of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A process claims up to this number of items, on any of its connections.
    Claim(usize, usize),
    /// A process completes an item.
    Complete(usize),
    /// A process completes an item and claims the next one in the same call. The claim can run first.
    CompleteAndClaim(usize),
    /// A process begins to work on a poisonous item, and crashes. All its leases expire.
    Crash(usize),
}

impl Queue {
    fn held_by(&self, process: usize) -> impl Iterator<Item = usize> + '_ {
        let held = self.items.iter().enumerate();
        held.filter_map(move |(at, item)| (item.place == Place::Held(process)).then_some(at))
    }

    fn has_suspect(&self) -> bool {
        let mut items = self.items.iter();
        items.any(|item| item.is_suspect && item.place == Place::Ready)
    }
}

impl PoisonModel {
    fn is_poisonous(&self, item: usize) -> bool {
        (1..=self.poisonous).contains(&item)
    }

    fn innocent<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = &'a Item> {
        let items = queue.items.iter().enumerate();
        items
            .filter(|(at, _)| !self.is_poisonous(*at))
            .map(|(_, item)| item)
    }

    /// Returns the share of a claim under the rule.
    fn share(&self, queue: &Queue, process: usize) -> Share {
        let mut held = queue.held_by(process).map(|at| queue.items[at].is_suspect);
        let holding = match held.next() {
            None => Holding::Nothing,
            Some(is_suspect) if is_suspect || held.any(|is_suspect| is_suspect) => Holding::Suspect,
            Some(_) => Holding::Items,
        };
        let is_soon = self.rule != Rule::AloneAtWorker;
        let is_overdue = is_soon && queue.passed >= PATIENCE;
        match self.rule {
            Rule::None | Rule::AloneInClaim => Share::All,
            // A suspect waits for its turn.
            Rule::AloneAtWorker if holding == Holding::Nothing => Share::All,
            _ => share_of(holding, queue.has_suspect().then_some(is_overdue)),
        }
    }

    /// Returns the items that a claim takes.
    fn find(&self, queue: &Queue, process: usize, wanted: usize) -> Vec<usize> {
        let mut items = queue.items.iter();
        let share = self.share(queue, process);
        if self.is_group && items.any(|item| matches!(item.place, Place::Held(_))) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (at, item) in queue.items.iter().enumerate() {
            let is_shared = match share {
                Share::All => true,
                Share::Suspect => item.is_suspect,
                Share::Others => !item.is_suspect,
                Share::Nothing => false,
            };
            let is_alone = item.is_suspect && self.rule != Rule::None;
            let is_ready = item.place == Place::Ready;
            let is_refused = !is_shared || is_alone && !found.is_empty();
            if is_ready && !is_refused {
                found.push(at);
            }
            let ends_run = self.is_group && is_ready && is_refused;
            if ends_run || found.len() == wanted || found == [at] && is_alone {
                break;
            }
        }
        found
    }

    fn claim(&self, queue: &mut Queue, process: usize, wanted: usize) {
        for at in self.find(queue, process, wanted) {
            let item = &mut queue.items[at];
            item.place = Place::Held(process);
            item.attempts += 1;
            if !item.is_suspect {
                queue.passed += u8::from(queue.has_suspect());
            }
        }
    }

    fn crash(&self, queue: &mut Queue, process: usize) {
        let held: Vec<usize> = queue.held_by(process).collect();
        for (number, at) in held.into_iter().enumerate() {
            let item = &mut queue.items[at];
            if self.is_group && number > 0 {
                item.attempts -= 1;
                item.place = Place::Ready;
                continue;
            }
            item.is_suspect = true;
            item.place = match item.attempts {
                MAX_ATTEMPTS.. => Place::Dead,
                _ => Place::Ready,
            };
        }
    }
}

impl Model for PoisonModel {
    type State = Queue;
    type Action = Action;

    fn init_states(&self) -> Vec<Queue> {
        let item = Item {
            place: Place::Ready,
            attempts: 0,
            is_suspect: false,
        };
        vec![Queue {
            items: vec![item; self.items],
            passed: 0,
        }]
    }

    fn actions(&self, queue: &Queue, actions: &mut Vec<Action>) {
        for process in 0..PROCESSES {
            let held: Vec<usize> = queue.held_by(process).collect();
            for wanted in 1..=SLOTS.saturating_sub(held.len()) {
                actions.push(Action::Claim(process, wanted));
            }
            let begun = match held.len().min(1) {
                one if self.is_group && self.rule != Rule::BeginsAhead => &held[..one],
                _ => &held[..],
            };
            for item in begun.iter().copied() {
                let is_first = Some(&item) == held.first();
                if self.is_poisonous(item) {
                    actions.push(Action::Crash(process));
                } else if is_first || !self.is_group {
                    actions.extend([Action::Complete(item), Action::CompleteAndClaim(item)]);
                }
            }
        }
    }

    fn next_state(&self, queue: &Queue, action: Action) -> Option<Queue> {
        let mut next = queue.clone();
        match action {
            Action::Claim(process, wanted) => self.claim(&mut next, process, wanted),
            Action::Complete(item) => next.items[item].place = Place::Completed,
            Action::CompleteAndClaim(item) => {
                if let Place::Held(process) = next.items[item].place {
                    self.claim(&mut next, process, 1);
                }
                next.items[item].place = Place::Completed;
            }
            Action::Crash(process) => self.crash(&mut next, process),
        }
        if !next.has_suspect() {
            next.passed = 0;
        }
        (next != *queue).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no innocent item dies", |model: &Self, queue: &Queue| {
                let mut innocent = model.innocent(queue);
                innocent.all(|item| item.place != Place::Dead)
            }),
            Property::always(
                "no innocent item of a run loses an attempt",
                |model: &Self, queue: &Queue| {
                    let mut innocent = model.innocent(queue);
                    !model.is_group || innocent.all(|item| !item.is_suspect)
                },
            ),
            Property::always(
                "a suspect waits for a bounded time",
                |model: &Self, queue: &Queue| {
                    let most = usize::from(PATIENCE) + SLOTS - 1;
                    model.rule == Rule::None || usize::from(queue.passed) <= most
                },
            ),
            Property::eventually("every item ends", |_, queue: &Queue| {
                let mut items = queue.items.iter();
                items.all(|item| matches!(item.place, Place::Completed | Place::Dead))
            }),
            Property::sometimes(
                "an innocent item is suspected",
                |model: &Self, queue: &Queue| {
                    let mut innocent = model.innocent(queue);
                    model.is_group || innocent.any(|item| item.is_suspect)
                },
            ),
            Property::sometimes("a suspect is overdue", |model: &Self, queue: &Queue| {
                model.is_group || queue.passed >= PATIENCE
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lease_broker_model::item_state::State;
    use lease_broker_model::queue::OnComplete;
    use lease_broker_store::{RowOutcome, step};
    use uuid::Uuid;

    use super::*;
    use crate::check::shortest_first;
    use crate::domain::{RowKind, on_row, operations};
    use crate::lease::queue;

    fn model(rule: Rule, poisonous: usize) -> PoisonModel {
        PoisonModel {
            rule,
            poisonous,
            items: 4,
            is_group: false,
        }
    }

    #[test]
    fn neighbours_of_poison_die_without_a_rule() {
        let checked = shortest_first(model(Rule::None, 1));
        checked.assert_breaks("no rule", "no innocent item dies");
    }

    #[test]
    fn a_suspect_alone_in_its_claim_still_kills_neighbours() {
        let checked = shortest_first(model(Rule::AloneInClaim, 1));
        checked.assert_breaks("alone in its claim", "no innocent item dies");
    }

    #[test]
    fn a_suspect_alone_at_its_worker_kills_no_neighbour() {
        for poisonous in [1, 2] {
            for items in [4, 6] {
                let rule = Rule::AloneAtWorkerSoon;
                let model = PoisonModel {
                    items,
                    ..model(rule, poisonous)
                };
                shortest_first(model).assert_holds("alone at its worker, soon");
            }
        }
    }

    #[test]
    fn a_suspect_without_a_bound_waits_behind_all_items() {
        let rule = Rule::AloneAtWorker;
        let model = PoisonModel {
            items: 7,
            ..model(rule, 1)
        };
        let checked = shortest_first(model);
        checked.assert_breaks("without a bound", "a suspect waits for a bounded time");
    }

    #[test]
    fn poison_in_a_run_costs_its_neighbours_nothing() {
        for poisonous in [1, 2] {
            let model = PoisonModel {
                is_group: true,
                ..model(Rule::AloneAtWorkerSoon, poisonous)
            };
            shortest_first(model).assert_holds("runs");
        }
        let ahead = PoisonModel {
            is_group: true,
            ..model(Rule::BeginsAhead, 1)
        };
        let promise = "no innocent item of a run loses an attempt";
        shortest_first(ahead).assert_breaks("begins ahead", promise);
    }

    #[test]
    fn rows_show_which_items_are_suspects() {
        let queue = queue(OnComplete::Keep);
        let (now, token) = (1_000_000_000, Uuid::from_u128(9));
        let mut outcomes = HashSet::new();
        let is_leased_well = |kind: &RowKind| kind.has_token && kind.has_owner;
        let kinds = RowKind::all().into_iter();
        // A claim sets token and owner.
        for before in kinds.filter(|kind| kind.state != State::Leased || is_leased_well(kind)) {
            let before = before.row(now, token);
            for operation in operations() {
                let operation = on_row(operation, token, &"worker".to_owned());
                let (after, outcome) = step(&queue, Some(&before), now, &operation);
                let after = after.expect("kept");
                // A row that an operation leaves alone, or whose delay is over, is as another operation made it.
                if after != before && outcome != RowOutcome::Promoted {
                    let has_expired = matches!(
                        outcome,
                        RowOutcome::Expired(State::Ready) | RowOutcome::OfEarlierEpoch
                    );
                    let is_blamed = has_expired && after.attempt > 0;
                    assert_eq!(after.is_suspect(), is_blamed, "{before:?} {operation:?}");
                    outcomes.insert(is_blamed);
                }
            }
        }
        assert_eq!(outcomes.len(), 2);
    }
}
