//! A rule that is not built yet: an item that kills its worker's process must not make its neighbours dead.
//!
//! A process holds several leases at a time, over several connections, and a crash loses all of them. Each lost lease counts an attempt.
//! Items that are claimed together again and again with the poisonous one die with it, although nothing is wrong with them.
//!
//! The rule: an item whose last lease *expired* is a *suspect*. A suspect goes alone to a worker that holds nothing else, over all its
//! connections, and that worker gets no other item until it has settled the suspect. The rows show who holds what.

use stateright::{Model, Property};

const PROCESSES: usize = 2;
/// The number of items that a process works on at the same time.
const SLOTS: usize = 2;
const MAX_ATTEMPTS: u8 = 2;

/// The way in which claims treat suspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As other items. This is what ships.
    None,
    /// A suspect is the only item of its claim. Other claims of the same worker are not looked at.
    AloneInClaim,
    /// A suspect is the only item that its worker holds.
    AloneAtWorker,
}

/// The model. The first items are poisonous.
#[derive(Clone, Copy, Debug)]
pub struct PoisonModel {
    /// The rule.
    pub rule: Rule,
    /// The number of poisonous items.
    pub poisonous: usize,
    /// The number of all items.
    pub items: usize,
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

type Items = Vec<Item>;

impl PoisonModel {
    fn held_by(items: &[Item], process: usize) -> impl Iterator<Item = usize> + '_ {
        let held = items.iter().enumerate();
        held.filter_map(move |(at, item)| (item.place == Place::Held(process)).then_some(at))
    }

    fn claim(&self, items: &mut [Item], process: usize, wanted: usize) {
        let held = Self::held_by(items, process).count();
        let holds_suspect = Self::held_by(items, process).any(|at| items[at].is_suspect);
        if self.rule == Rule::AloneAtWorker && holds_suspect {
            return;
        }
        let mut got = 0;
        for item in items.iter_mut().filter(|item| item.place == Place::Ready) {
            let is_alone = item.is_suspect && self.rule != Rule::None;
            if is_alone && self.rule == Rule::AloneAtWorker && held > 0 {
                continue;
            }
            if is_alone && got > 0 {
                continue;
            }
            item.place = Place::Held(process);
            item.attempts += 1;
            got += 1;
            if is_alone || got == wanted {
                return;
            }
        }
    }
}

impl Model for PoisonModel {
    type State = Items;
    type Action = Action;

    fn init_states(&self) -> Vec<Items> {
        let item = Item {
            place: Place::Ready,
            attempts: 0,
            is_suspect: false,
        };
        vec![vec![item; self.items]]
    }

    fn actions(&self, items: &Items, actions: &mut Vec<Action>) {
        for process in 0..PROCESSES {
            let held: Vec<usize> = Self::held_by(items, process).collect();
            for wanted in 1..=SLOTS.saturating_sub(held.len()) {
                actions.push(Action::Claim(process, wanted));
            }
            for item in held {
                if item < self.poisonous {
                    actions.push(Action::Crash(process));
                } else {
                    actions.extend([Action::Complete(item), Action::CompleteAndClaim(item)]);
                }
            }
        }
    }

    fn next_state(&self, items: &Items, action: Action) -> Option<Items> {
        let mut next = items.clone();
        match action {
            Action::Claim(process, wanted) => self.claim(&mut next, process, wanted),
            Action::Complete(item) => next[item].place = Place::Completed,
            Action::CompleteAndClaim(item) => {
                if let Place::Held(process) = next[item].place {
                    self.claim(&mut next, process, 1);
                }
                next[item].place = Place::Completed;
            }
            Action::Crash(process) => {
                for item in next
                    .iter_mut()
                    .filter(|item| item.place == Place::Held(process))
                {
                    item.is_suspect = true;
                    item.place = match item.attempts {
                        MAX_ATTEMPTS.. => Place::Dead,
                        _ => Place::Ready,
                    };
                }
            }
        }
        (next != *items).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no innocent item dies", |model: &Self, items: &Items| {
                let mut innocent = items[model.poisonous..].iter();
                innocent.all(|item| item.place != Place::Dead)
            }),
            Property::eventually("every item ends", |_, items: &Items| {
                let mut items = items.iter();
                items.all(|item| matches!(item.place, Place::Completed | Place::Dead))
            }),
            Property::sometimes(
                "an innocent item is suspected",
                |model: &Self, items: &Items| {
                    items[model.poisonous..].iter().any(|item| item.is_suspect)
                },
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::shortest_first;

    fn model(rule: Rule, poisonous: usize) -> PoisonModel {
        PoisonModel {
            rule,
            poisonous,
            items: 4,
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
            let checked = shortest_first(model(Rule::AloneAtWorker, poisonous));
            checked.assert_holds("alone at its worker");
        }
    }
}
