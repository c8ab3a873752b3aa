//! A paused queue gives no leases.
//!
//! A pause is a column of the queue's row. The promise: from the moment at which the operator is told that the queue is paused until it
//! is resumed, no broker gives a new lease. What runs goes on: leases are settled, and a call that is sent again gets the leases
//! that it already has.
//!
//! The rule: a claim locks the queue's row before it looks for items, and holds the lock until it commits. With a database that
//! obeys lock hints, a shared lock is enough. With one that ignores them, the claim updates the row. The pause itself is an update
//! of the row, so it waits for the claims before it, and the claims after it see it. The statement that adds items has the same
//! rule for the other kind of pause, which lets nobody add items.

use stateright::{Model, Property};

/// The calls of the model.
const CALLS: usize = 3;
/// The last call completes the first item, and claims the next one.
const COMPLETES: usize = CALLS - 1;
const ITEMS: usize = 4;

/// How claims look at the pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The claim locks the queue's row until it commits, as the stores do it.
    Locks,
    /// The claim reads the row and does not lock it.
    Reads,
    /// The broker reads the row now and then, and remembers it.
    Remembers,
    /// As [`Rule::Locks`], but a paused queue also refuses calls that are sent again.
    RefusesRepeats,
    /// As [`Rule::Locks`], but a paused queue refuses the whole call that completes an item and claims the next one.
    RefusesCompletions,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct PauseModel {
    /// The rule.
    pub rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Item {
    Ready,
    /// By this call. The first item is leased by an earlier one.
    Leased(Option<usize>),
    Completed,
}

/// How far a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// It is on its way. Whether it was sent before.
    Sent(bool),
    /// It has read the queue's row, and whether it is paused.
    Looked(bool, bool),
    /// It has committed. Whether it was sent again before.
    Committed(bool),
    Answered,
}

/// How far the operator is: pauses, is told, resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Operator {
    Idle,
    Paused,
    Told,
    Resumed,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a situation")]
pub struct Queue {
    operator: Operator,
    /// What the broker remembers of the pause.
    remembered: bool,
    items: [Item; ITEMS],
    calls: [Call; CALLS],
    // Observations.
    gave_lease_while_paused: bool,
    lost_leases: bool,
    refused_completion: bool,
    held_back: bool,
    gave_lease_after_resume: bool,
}

/// An action of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The pause commits.
    Pause,
    /// The operator is told.
    Tell,
    /// The end of the pause commits.
    Resume,
    /// The broker reads the queue's row, and remembers it.
    Remember,
    /// A claim reads the queue's row.
    Look(usize),
    /// A claim takes items, and commits.
    Commit(usize),
    /// The caller gets the answer.
    Answer(usize),
    /// The answer is lost, and the caller sends the call again.
    SendAgain(usize),
}

impl Queue {
    fn is_paused(&self) -> bool {
        matches!(self.operator, Operator::Paused | Operator::Told)
    }

    fn holds(&self, call: usize) -> bool {
        self.items.contains(&Item::Leased(Some(call)))
    }

    fn commit(&mut self, rule: Rule, call: usize, is_paused: bool, is_repeated: bool) {
        let refuses_all = is_paused && rule == Rule::RefusesCompletions && call == COMPLETES;
        if call == COMPLETES && self.items[0] == Item::Leased(None) {
            if refuses_all {
                self.refused_completion = true;
            } else {
                self.items[0] = Item::Completed;
            }
        }
        if self.holds(call) {
            self.lost_leases |= is_paused && rule == Rule::RefusesRepeats;
        } else if is_paused {
            self.held_back = true;
        } else if let Some(item) = self.items.iter().position(|item| *item == Item::Ready) {
            self.items[item] = Item::Leased(Some(call));
            self.gave_lease_while_paused |= self.operator == Operator::Told;
            self.gave_lease_after_resume |= self.operator == Operator::Resumed;
        }
        self.calls[call] = Call::Committed(is_repeated);
    }
}

impl Model for PauseModel {
    type State = Queue;
    type Action = Action;

    fn init_states(&self) -> Vec<Queue> {
        let mut items = [Item::Ready; ITEMS];
        items[0] = Item::Leased(None);
        vec![Queue {
            operator: Operator::Idle,
            remembered: false,
            items,
            calls: [Call::Sent(false); CALLS],
            gave_lease_while_paused: false,
            lost_leases: false,
            refused_completion: false,
            held_back: false,
            gave_lease_after_resume: false,
        }]
    }

    fn actions(&self, queue: &Queue, actions: &mut Vec<Action>) {
        let locks = !matches!(self.rule, Rule::Reads | Rule::Remembers);
        let looked = |call: &Call| matches!(call, Call::Looked(..));
        let waits = locks && queue.calls.iter().any(looked);
        match queue.operator {
            Operator::Idle if !waits => actions.push(Action::Pause),
            Operator::Paused => actions.push(Action::Tell),
            Operator::Told if !waits => actions.push(Action::Resume),
            Operator::Idle | Operator::Told | Operator::Resumed => {}
        }
        if self.rule == Rule::Remembers && queue.remembered != queue.is_paused() {
            actions.push(Action::Remember);
        }
        for (at, call) in queue.calls.iter().enumerate() {
            match call {
                Call::Sent(_) => actions.push(Action::Look(at)),
                Call::Looked(..) => actions.push(Action::Commit(at)),
                Call::Committed(is_repeated) => {
                    actions.push(Action::Answer(at));
                    if !is_repeated {
                        actions.push(Action::SendAgain(at));
                    }
                }
                Call::Answered => {}
            }
        }
    }

    fn next_state(&self, queue: &Queue, action: Action) -> Option<Queue> {
        let mut next = queue.clone();
        match action {
            Action::Pause => next.operator = Operator::Paused,
            Action::Tell => next.operator = Operator::Told,
            Action::Resume => next.operator = Operator::Resumed,
            Action::Remember => next.remembered = queue.is_paused(),
            Action::Look(at) => {
                let Call::Sent(is_repeated) = queue.calls[at] else {
                    return None;
                };
                let is_paused = match self.rule {
                    Rule::Remembers => queue.remembered,
                    _ => queue.is_paused(),
                };
                next.calls[at] = Call::Looked(is_paused, is_repeated);
            }
            Action::Commit(at) => {
                let Call::Looked(is_paused, is_repeated) = queue.calls[at] else {
                    return None;
                };
                next.commit(self.rule, at, is_paused, is_repeated);
            }
            Action::Answer(at) => next.calls[at] = Call::Answered,
            Action::SendAgain(at) => next.calls[at] = Call::Sent(true),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a paused queue gives no lease", |_, queue: &Queue| {
                !queue.gave_lease_while_paused
            }),
            Property::always(
                "a call that is sent again gets its leases",
                |_, queue: &Queue| !queue.lost_leases,
            ),
            Property::always("a pause refuses no settlement", |_, queue: &Queue| {
                !queue.refused_completion
            }),
            Property::sometimes("a claim is held back", |_, queue: &Queue| queue.held_back),
            Property::sometimes(
                "an item is completed while its queue is paused",
                |_, queue: &Queue| {
                    let is_completed = queue.items[0] == Item::Completed;
                    is_completed && queue.held_back && queue.operator == Operator::Told
                },
            ),
            Property::sometimes("a resumed queue gives a lease", |_, queue: &Queue| {
                queue.gave_lease_after_resume
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::shortest_first;

    #[test]
    fn claims_that_lock_the_row_give_no_lease_while_paused() {
        let rule = Rule::Locks;
        shortest_first(PauseModel { rule }).assert_holds("pause");
    }

    #[test]
    fn mistakes_in_the_pause_are_found() {
        for (rule, promise) in [
            (Rule::Reads, "a paused queue gives no lease"),
            (Rule::Remembers, "a paused queue gives no lease"),
            (
                Rule::RefusesRepeats,
                "a call that is sent again gets its leases",
            ),
            (Rule::RefusesCompletions, "a pause refuses no settlement"),
        ] {
            let checked = shortest_first(PauseModel { rule });
            checked.assert_breaks(&format!("{rule:?}"), promise);
        }
    }
}
