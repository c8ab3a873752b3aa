//! Strict groups: items with the same value in a column are processed one after the other.
//!
//! The promises: two leases of a group never exist at the same time, except those of one *run*, which one claim took together. Items
//! go in order: none is leased or completed while one before it is unfinished. Only the first item of a run counts an attempt,
//! because a worker begins an item after it has completed the one before.
//!
//! The rule for claims: the first statement of a claim updates the queue's row, so claims of a queue take turns until they commit, on
//! every engine. Then the first ready item of the group is claimable, unless any item of the group is leased, or one *before* it is
//! delayed (or dead, if the queue halts at dead items). A claim takes the ready items that follow as well, up to the length of a
//! run. If any item of the group is delayed (or dead), it takes only the first.
//!
//! The rule for runs: a completion or a failure is refused while an earlier item of the run is leased. A failure, a release or an expiry of
//! an item ends the later leases of the run in the same transaction. These items are ready again and get their attempts
//! back. If the lease of an item expires while an earlier one is held, it gets its attempt back too.
//!
//! The model has one group. An item that is inserted or redriven while a later one is under way is late, and the order does not
//! apply to it. The two callers claim at any time, also while they hold leases: so the model includes several connections of one
//! worker, and the claim beside a completion.

use stateright::{Model, Property};

const ITEMS: usize = 3;
const CALLERS: usize = 2;
const MAX_ATTEMPTS: u8 = 2;

/// What claims and settlements do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the text of this file says. This is the rule of the stores.
    Strict,
    /// Claims take no turns. They check the state of the item again when they change it.
    NoTurns,
    /// Claims take no turns, and pass over rows that another claim has locked.
    SkipsLocked,
    /// A claim looks for leased items only before the first ready one.
    LooksOnlyAhead,
    /// A delayed item blocks nothing.
    IgnoresDelayed,
    /// A dead item blocks nothing, although the queue halts at dead items.
    IgnoresDead,
    /// The later leases of a run stay when an earlier one ends.
    KeepsLaterLeases,
    /// A completion is not refused.
    CompletesInAnyOrder,
    /// A failure is not refused.
    FailsInAnyOrder,
    /// A run goes on behind a delayed item.
    PassesDelayed,
    /// The reaper ends each expired lease of a run by itself.
    ExpiresEach,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct GroupModel {
    /// The rule.
    pub rule: Rule,
    /// The most items of a run.
    pub run: usize,
    /// Whether a dead item blocks those behind it.
    pub halts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// It is not inserted yet.
    Absent,
    Ready,
    /// By this caller.
    Leased(usize),
    Delayed,
    Completed,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Item {
    place: Place,
    attempts: u8,
    // Observations.
    /// The number of leases in which it was the first item, and that did not end well.
    failures: u8,
    is_late: bool,
    was_redriven: bool,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a situation")]
pub struct Group {
    items: [Item; ITEMS],
    /// The items that the claim of each caller has found. It changes them next.
    found: [Option<[bool; ITEMS]>; CALLERS],
    // Observations.
    has_two_leases: bool,
    is_out_of_order: bool,
    had_run: bool,
    was_refused: bool,
    was_busy: bool,
}

/// An action of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Another program inserts the first item.
    Insert,
    /// A claim looks for items.
    Look(usize),
    /// It leases them, and commits.
    Lease(usize),
    /// The worker completes the item.
    Complete(usize),
    /// The worker fails the item, and asks for a delay.
    Fail(usize),
    /// The worker releases the item.
    Release(usize),
    /// The lease of the item expires.
    Expire(usize),
    /// All leases of a worker expire at the same time, because it has crashed.
    ExpireAll(usize),
    /// The delay of the item is over.
    Promote(usize),
    /// An operator redrives the item.
    Redrive(usize),
}

impl Item {
    fn is_leased(&self) -> bool {
        matches!(self.place, Place::Leased(_))
    }

    fn is_unfinished(&self, halts: bool) -> bool {
        match self.place {
            Place::Ready | Place::Leased(_) | Place::Delayed => true,
            Place::Dead => halts,
            Place::Absent | Place::Completed => false,
        }
    }

    /// Ends the lease, and counts the attempt. `is_first`: no earlier item of the run is leased.
    fn fail(&mut self, next: Place, is_first: bool) {
        self.failures += u8::from(is_first);
        self.place = match self.attempts {
            MAX_ATTEMPTS.. => Place::Dead,
            _ => next,
        };
    }

    fn give_back(&mut self) {
        self.attempts -= 1;
        self.place = Place::Ready;
    }
}

impl GroupModel {
    fn is_busy(&self, items: &[Item; ITEMS], head: usize) -> bool {
        let blocks_before = |item: &Item| match item.place {
            Place::Delayed => self.rule != Rule::IgnoresDelayed,
            Place::Dead => self.halts && self.rule != Rule::IgnoresDead,
            _ => false,
        };
        let looked_at = match self.rule {
            Rule::LooksOnlyAhead => &items[..head],
            _ => &items[..],
        };
        looked_at.iter().any(Item::is_leased) || items[..head].iter().any(blocks_before)
    }

    /// Returns the items that a claim takes. `None`: the group is busy or empty.
    fn find(&self, group: &Group, caller: usize) -> Option<[bool; ITEMS]> {
        let is_locked = |at: usize| {
            let others = group.found.iter().enumerate();
            let mut others = others.filter(|(other, _)| *other != caller);
            self.rule == Rule::SkipsLocked
                && others.any(|(_, found)| found.is_some_and(|found| found[at]))
        };
        let is_ready = |at: &usize| group.items[*at].place == Place::Ready && !is_locked(*at);
        let head = (0..ITEMS).find(is_ready)?;
        if self.is_busy(&group.items, head) {
            return None;
        }
        let mut found = [false; ITEMS];
        let stops = |item: &Item| match item.place {
            Place::Delayed => self.rule != Rule::PassesDelayed,
            Place::Dead => self.halts,
            _ => false,
        };
        let most = if group.items.iter().any(stops) {
            1
        } else {
            self.run
        };
        let run = (head..ITEMS).filter(is_ready).take(most);
        run.for_each(|at| found[at] = true);
        Some(found)
    }

    fn lease(&self, group: &mut Group, caller: usize, found: [bool; ITEMS]) {
        let is_taken = |at: usize| found[at] && group.items[at].place == Place::Ready;
        let taken: [bool; ITEMS] = std::array::from_fn(is_taken);
        let count = taken.iter().filter(|taken| **taken).count();
        group.had_run |= count > 1;
        group.has_two_leases |= count > 0 && group.items.iter().any(Item::is_leased);
        for at in (0..ITEMS).filter(|at| taken[*at]) {
            group.is_out_of_order |= (0..at).any(|before| {
                let item = &group.items[before];
                !taken[before] && item.is_unfinished(self.halts) && !item.is_late
            });
        }
        for at in (0..ITEMS).filter(|at| taken[*at]) {
            group.items[at].place = Place::Leased(caller);
            group.items[at].attempts += 1;
        }
    }

    /// Ends the later leases of the run of an item whose lease has ended.
    fn end_later(&self, group: &mut Group, at: usize, caller: usize) {
        if self.rule != Rule::KeepsLaterLeases {
            let later = group.items[at + 1..].iter_mut();
            later
                .filter(|item| item.place == Place::Leased(caller))
                .for_each(Item::give_back);
        }
    }

    fn complete(&self, group: &mut Group, at: usize) {
        let mut earlier = group.items[..at].iter();
        group.is_out_of_order |=
            earlier.any(|item| item.is_unfinished(self.halts) && !item.is_late);
        group.items[at].place = Place::Completed;
    }

    /// Returns whether the caller has no lease of an item before this one.
    fn is_first(group: &Group, at: usize, caller: usize) -> bool {
        let mut earlier = group.items[..at].iter();
        !earlier.any(|item| item.place == Place::Leased(caller))
    }

    /// Returns whether a completion or a failure of the item is refused, because the caller has a lease of an earlier one.
    fn refuses(&self, group: &mut Group, at: usize, caller: usize, settlement: &Action) -> bool {
        let is_first = Self::is_first(group, at, caller);
        let is_allowed = match settlement {
            Action::Complete(_) => self.rule == Rule::CompletesInAnyOrder,
            Action::Fail(_) => self.rule == Rule::FailsInAnyOrder,
            _ => false,
        };
        let is_refused = !is_first && !is_allowed;
        group.was_refused |= is_refused;
        is_refused
    }

    /// Makes an item ready that was not. It is late if a later one is under way.
    fn add(group: &mut Group, at: usize) {
        let is_found = group.found.iter().flatten().any(|found| {
            let mut later = found[at + 1..].iter();
            later.any(|is_found| *is_found)
        });
        let mut later = group.items[at + 1..].iter();
        let is_under_way =
            later.any(|item| item.is_leased() || matches!(item.place, Place::Completed));
        let item = &mut group.items[at];
        item.is_late |= is_found || is_under_way;
        item.place = Place::Ready;
        item.attempts = 0;
        item.failures = 0;
    }
}

impl Model for GroupModel {
    type State = Group;
    type Action = Action;

    fn init_states(&self) -> Vec<Group> {
        let item = |place| Item {
            place,
            attempts: 0,
            failures: 0,
            is_late: false,
            was_redriven: false,
        };
        vec![Group {
            items: [item(Place::Absent), item(Place::Ready), item(Place::Ready)],
            found: [None; CALLERS],
            has_two_leases: false,
            is_out_of_order: false,
            had_run: false,
            was_refused: false,
            was_busy: false,
        }]
    }

    fn actions(&self, group: &Group, actions: &mut Vec<Action>) {
        let takes_turns = !matches!(self.rule, Rule::NoTurns | Rule::SkipsLocked);
        let has_turn = group.found.iter().any(Option::is_some);
        for (caller, found) in group.found.iter().enumerate() {
            if found.is_some() {
                actions.push(Action::Lease(caller));
            } else if !(takes_turns && has_turn) {
                actions.push(Action::Look(caller));
            }
            let mut items = group.items.iter();
            if items.any(|item| item.place == Place::Leased(caller)) {
                actions.push(Action::ExpireAll(caller));
            }
        }
        for (at, item) in group.items.iter().enumerate() {
            match item.place {
                Place::Absent => actions.push(Action::Insert),
                Place::Leased(_) => actions.extend([
                    Action::Complete(at),
                    Action::Fail(at),
                    Action::Release(at),
                    Action::Expire(at),
                ]),
                Place::Delayed => actions.push(Action::Promote(at)),
                Place::Dead if !item.was_redriven => actions.push(Action::Redrive(at)),
                Place::Dead | Place::Ready | Place::Completed => {}
            }
        }
    }

    fn next_state(&self, group: &Group, action: Action) -> Option<Group> {
        let mut next = group.clone();
        let holder = |at: usize| match group.items[at].place {
            Place::Leased(caller) => Some(caller),
            _ => None,
        };
        match action {
            Action::Insert => Self::add(&mut next, 0),
            Action::Look(caller) => match self.find(group, caller) {
                Some(found) => next.found[caller] = Some(found),
                None => next.was_busy |= group.items.iter().any(|item| item.place == Place::Ready),
            },
            Action::Lease(caller) => {
                let found = next.found[caller].take()?;
                self.lease(&mut next, caller, found);
            }
            Action::Complete(at) | Action::Fail(at)
                if self.refuses(&mut next, at, holder(at)?, &action) => {}
            Action::Complete(at) => self.complete(&mut next, at),
            Action::Fail(at) => {
                let caller = holder(at)?;
                next.items[at].fail(Place::Delayed, Self::is_first(group, at, caller));
                self.end_later(&mut next, at, caller);
            }
            Action::Release(at) => {
                next.items[at].give_back();
                self.end_later(&mut next, at, holder(at)?);
            }
            Action::Expire(at) => {
                let caller = holder(at)?;
                if Self::is_first(group, at, caller) {
                    next.items[at].fail(Place::Ready, true);
                } else {
                    next.items[at].give_back();
                }
                self.end_later(&mut next, at, caller);
            }
            Action::ExpireAll(caller) => {
                let items = next.items.iter_mut();
                let held = items.filter(|item| item.place == Place::Leased(caller));
                for (number, item) in held.enumerate() {
                    match (number, self.rule) {
                        (0, _) => item.fail(Place::Ready, true),
                        (_, Rule::ExpiresEach) if item.attempts == MAX_ATTEMPTS => {
                            item.place = Place::Dead;
                        }
                        (_, Rule::ExpiresEach) => item.place = Place::Ready,
                        _ => item.give_back(),
                    }
                }
            }
            Action::Promote(at) => next.items[at].place = Place::Ready,
            Action::Redrive(at) => {
                Self::add(&mut next, at);
                next.items[at].was_redriven = true;
            }
        }
        (next != *group).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one claim holds leases of a group", |_, group: &Group| {
                !group.has_two_leases
            }),
            Property::always("items of a group go in order", |_, group: &Group| {
                !group.is_out_of_order
            }),
            Property::always(
                "only the first item of a run counts an attempt",
                |_, group: &Group| {
                    let mut ended = group.items.iter().filter(|item| !item.is_leased());
                    ended.all(|item| {
                        item.attempts == item.failures || item.place == Place::Completed
                    })
                },
            ),
            Property::sometimes("all items are completed", |_, group: &Group| {
                let mut items = group.items.iter();
                items.all(|item| item.place == Place::Completed)
            }),
            Property::sometimes("a group is busy", |_, group: &Group| group.was_busy),
            Property::sometimes("an item is late", |_, group: &Group| {
                group.items.iter().any(|item| item.is_late)
            }),
            Property::sometimes(
                "a settlement out of order is refused",
                |model: &Self, group: &Group| group.was_refused && group.had_run || model.run == 1,
            ),
            Property::sometimes("a dead item is redriven", |_, group: &Group| {
                let mut items = group.items.iter();
                items.any(|item| item.was_redriven && item.place == Place::Completed)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::shortest_first;

    const ONE_CLAIM: &str = "one claim holds leases of a group";
    const ORDER: &str = "items of a group go in order";
    const ATTEMPTS: &str = "only the first item of a run counts an attempt";

    #[test]
    fn strict_groups_hold_with_and_without_runs() {
        for run in [1, 2, ITEMS] {
            for halts in [false, true] {
                let rule = Rule::Strict;
                let model = GroupModel { rule, run, halts };
                shortest_first(model).assert_holds(&format!("runs of {run}, halts: {halts}"));
            }
        }
    }

    #[test]
    fn mistakes_in_strict_groups_are_found() {
        for (rule, run, halts, promise) in [
            (Rule::NoTurns, 1, false, ONE_CLAIM),
            (Rule::SkipsLocked, 1, false, ONE_CLAIM),
            (Rule::LooksOnlyAhead, 1, false, ONE_CLAIM),
            (Rule::IgnoresDelayed, 1, false, ORDER),
            (Rule::IgnoresDead, 1, true, ORDER),
            (Rule::KeepsLaterLeases, 2, false, ORDER),
            (Rule::CompletesInAnyOrder, 2, false, ORDER),
            (Rule::FailsInAnyOrder, 2, false, ATTEMPTS),
            (Rule::PassesDelayed, 2, false, ORDER),
            (Rule::ExpiresEach, 2, false, ATTEMPTS),
        ] {
            let checked = shortest_first(GroupModel { rule, run, halts });
            checked.assert_breaks(&format!("{rule:?}"), promise);
        }
    }
}
