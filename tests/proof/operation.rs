//! An operator's operation over many rows, in batches.
//!
//! A redrive of a million dead items runs in batches, by whichever broker holds the operation. The promises: each item that was dead
//! when the operation started is redriven exactly once by it, also if brokers crash, freeze and take over. Items that die later are
//! left alone, so a redrive never chases its tail. The count that operators see is exact.
//!
//! The rule: an operation is a row with a cursor, a count and a lease of its own. A batch is one transaction, and its first statement
//! updates this row, if the fencing token of the operation's lease is still the broker's. It then reads the cursor from the row,
//! takes the next items *in the order of the key* after the cursor, and waits for items that others have locked. It changes those
//! that are still dead and died before the operation was created. Cursor and count move in the same transaction.
//!
//! The times are those of the store's clock, which can be put back. An item whose death is in the future of the clock died before the
//! clock was put back, so it is taken too. If the clock reaches that time while the operation runs, the item cannot be told from one that
//! dies later, and is left alone. If the clock is put back while the operation runs, items that have died since can be taken.

use stateright::{Model, Property};

const ITEMS: usize = 3;
const BATCH: usize = 1;
const BROKERS: usize = 2;
/// The time at which the operation is created. The clock can be put back to 0.
const CREATED: u8 = 1;
const LAST_TICK: u8 = 2;
/// The item whose row another program can lock. Locks of more rows make ten times as many states, and no other kind of history.
const LOCKABLE: usize = 1;

/// How batches are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the text of this file says, and as the stores do it.
    Cursor,
    /// The cursor and the count move in a transaction after that of the items.
    MovesCursorLater,
    /// A broker remembers the cursor, and its batches compare no fencing token.
    RemembersCursor,
    /// A broker remembers the cursor, and its batches compare the fencing token.
    RemembersCursorWithFence,
    /// The batches compare no fencing token, and read the cursor from the row.
    NoFence,
    /// There is no cursor: a batch takes the first items that died before the operation was created.
    NoCursor,
    /// A batch passes over items that others have locked.
    SkipsLocked,
    /// A batch also takes items that have died since.
    TakesLater,
    /// A batch takes only items that died before the moment of the creation, and not at it.
    TakesOnlyEarlier,
    /// A batch takes no item whose death is in the future, as the first stores did.
    SkipsFuture,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct OperationModel {
    /// The rule.
    pub rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a situation")]
struct Item {
    /// The time at which the item died. `None`: it is not dead.
    died: Option<u8>,
    /// Whether another program holds a lock on the row, and whether it ever did.
    is_locked: bool,
    was_locked: bool,
    has_died_again: bool,
    // Observations.
    /// The time of the death before the creation.
    first_death: Option<u8>,
    redriven: u8,
    died_after_start: bool,
    took_later_one: bool,
}

/// A broker that takes itself for the holder of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Holder {
    fence: u8,
    /// The cursor that it remembers.
    cursor: usize,
    /// The cursor and the count that it has to write, if they move later.
    pending: Option<(usize, u8)>,
}

/// The moment at which the clock was put back, at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PutBack {
    Never,
    BeforeCreation,
    SinceCreation,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    now: u8,
    /// The latest time that the clock has shown since the creation.
    latest: u8,
    put_back: PutBack,
    items: [Item; ITEMS],
    is_held: bool,
    fence: u8,
    cursor: usize,
    count: u8,
    is_done: bool,
    brokers: [Option<Holder>; BROKERS],
}

/// An action of the model, after the creation of the operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The clock is put back to 0.
    PutBack,
    /// A broker takes the operation, which nobody holds.
    Take(usize),
    /// The lease of the operation expires. Its holder does not notice.
    Expire,
    /// A broker crashes.
    Crash(usize),
    /// A broker runs a batch.
    Batch(usize),
    /// A broker writes the cursor and the count.
    MoveCursor(usize),
    /// A worker claims the item and fails it for good.
    Die(usize),
    /// Another program locks or unlocks the row.
    Lock(usize, bool),
}

impl OperationModel {
    fn takes(self, item: &Item, now: u8) -> bool {
        item.died.is_some_and(|died| match self.rule {
            Rule::TakesLater => true,
            Rule::TakesOnlyEarlier => died < CREATED || died > now,
            Rule::SkipsFuture => died <= CREATED,
            _ => died <= CREATED || died > now,
        })
    }

    /// Returns the items of the next batch, and the cursor after it.
    fn next_items(self, operation: &Operation, cursor: usize) -> (Vec<usize>, usize) {
        if self.rule == Rule::NoCursor {
            let items = (0..ITEMS).filter(|at| self.takes(&operation.items[*at], operation.now));
            return (items.take(BATCH).collect(), 0);
        }
        let is_skipped =
            |at: &usize| self.rule == Rule::SkipsLocked && operation.items[*at].is_locked;
        let visited: Vec<usize> = (cursor..ITEMS)
            .filter(|at| !is_skipped(at))
            .take(BATCH)
            .collect();
        let cursor = visited.last().map_or(ITEMS, |last| last + 1);
        (visited, cursor)
    }

    fn batch(self, operation: &mut Operation, broker: usize) -> Option<()> {
        let holder = operation.brokers[broker]?;
        let checks_fence = !matches!(self.rule, Rule::NoFence | Rule::RemembersCursor);
        if operation.is_done || checks_fence && holder.fence != operation.fence {
            // The first statement changes no row, so the broker knows that it has lost the operation.
            operation.brokers[broker] = None;
            return Some(());
        }
        let remembers = matches!(
            self.rule,
            Rule::RemembersCursor | Rule::RemembersCursorWithFence
        );
        let cursor = if remembers {
            holder.cursor
        } else {
            operation.cursor
        };
        let (visited, after) = self.next_items(operation, cursor);
        if visited.iter().any(|at| operation.items[*at].is_locked) {
            // The batch waits for the lock.
            return None;
        }
        let mut count = 0;
        for at in &visited {
            let takes = self.takes(&operation.items[*at], operation.now);
            let item = &mut operation.items[*at];
            if takes {
                let is_later = item.has_died_again && item.died > Some(CREATED);
                item.took_later_one |= is_later && operation.put_back != PutBack::SinceCreation;
                item.died = None;
                item.redriven += 1;
                count += 1;
            }
        }
        let is_done = visited.is_empty();
        let holder = operation.brokers[broker].as_mut()?;
        holder.cursor = after;
        if self.rule == Rule::MovesCursorLater && !is_done {
            holder.pending = Some((after, count));
        } else {
            operation.cursor = after;
            operation.count += count;
            operation.is_done = is_done;
        }
        Some(())
    }
}

impl Model for OperationModel {
    type State = Operation;
    type Action = Action;

    fn init_states(&self) -> Vec<Operation> {
        let item = |first_death: Option<u8>| Item {
            died: first_death,
            is_locked: false,
            was_locked: false,
            has_died_again: false,
            first_death,
            redriven: 0,
            died_after_start: false,
            took_later_one: false,
        };
        // If the clock was put back before the creation, an item can have died at a time that it reaches soon, or late.
        let starts = [
            (CREATED, PutBack::Never),
            (CREATED + 1, PutBack::BeforeCreation),
            (LAST_TICK + 1, PutBack::BeforeCreation),
        ];
        let start = |(first_death, put_back)| Operation {
            now: CREATED,
            latest: CREATED,
            put_back,
            items: [item(Some(first_death)), item(Some(CREATED)), item(None)],
            is_held: false,
            fence: 0,
            cursor: 0,
            count: 0,
            is_done: false,
            brokers: [None; BROKERS],
        };
        starts.map(start).to_vec()
    }

    fn actions(&self, operation: &Operation, actions: &mut Vec<Action>) {
        if operation.now < LAST_TICK {
            actions.push(Action::Tick);
        }
        if operation.put_back == PutBack::Never {
            actions.push(Action::PutBack);
        }
        if operation.is_held && operation.fence < 2 {
            actions.push(Action::Expire);
        }
        for (at, broker) in operation.brokers.iter().enumerate() {
            match broker {
                None if !operation.is_held && !operation.is_done => actions.push(Action::Take(at)),
                None => {}
                Some(holder) if holder.pending.is_some() => {
                    actions.extend([Action::MoveCursor(at), Action::Crash(at)]);
                }
                Some(_) => actions.extend([Action::Batch(at), Action::Crash(at)]),
            }
        }
        for (at, item) in operation.items.iter().enumerate() {
            if item.died.is_none() && !item.has_died_again && !item.is_locked {
                actions.push(Action::Die(at));
            }
            if at == LOCKABLE && (!item.was_locked || item.is_locked) {
                actions.push(Action::Lock(at, !item.is_locked));
            }
        }
    }

    fn next_state(&self, operation: &Operation, action: Action) -> Option<Operation> {
        let mut next = operation.clone();
        match action {
            Action::Tick => {
                next.now += 1;
                next.latest = next.latest.max(next.now);
            }
            Action::PutBack => (next.now, next.put_back) = (0, PutBack::SinceCreation),
            Action::Take(at) => {
                next.is_held = true;
                next.fence += 1;
                next.brokers[at] = Some(Holder {
                    fence: next.fence,
                    cursor: next.cursor,
                    pending: None,
                });
            }
            Action::Expire => next.is_held = false,
            Action::Crash(at) => next.brokers[at] = None,
            Action::Batch(at) => self.batch(&mut next, at)?,
            Action::MoveCursor(at) => {
                let holder = next.brokers[at].as_mut()?;
                let (cursor, count) = holder.pending.take()?;
                if holder.fence == next.fence {
                    next.cursor = cursor;
                    next.count += count;
                } else {
                    next.brokers[at] = None;
                }
            }
            Action::Die(at) => {
                next.items[at].died = Some(next.now);
                next.items[at].has_died_again = true;
                next.items[at].died_after_start = next.now > CREATED;
            }
            Action::Lock(at, is_locked) => {
                next.items[at].is_locked = is_locked;
                next.items[at].was_locked = true;
            }
        }
        (next != *operation).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no item is repeated", |_, operation: &Operation| {
                operation.items.iter().all(|item| item.redriven <= 1)
            }),
            Property::always("no item is skipped", |_, operation: &Operation| {
                let is_reached = |death| death > CREATED && death <= operation.latest;
                let is_skipped = |item: &Item| {
                    item.redriven == 0 && item.first_death.is_some_and(|death| !is_reached(death))
                };
                !operation.is_done || !operation.items.iter().any(is_skipped)
            }),
            Property::always(
                "items that die later are left alone",
                |_, operation: &Operation| {
                    let mut items = operation.items.iter();
                    items.all(|item| !item.took_later_one)
                },
            ),
            Property::always("the count is exact", |_, operation: &Operation| {
                let redriven: u8 = operation.items.iter().map(|item| item.redriven).sum();
                !operation.is_done || operation.count == redriven
            }),
            Property::sometimes("an operation is done", |_, operation: &Operation| {
                operation.is_done
            }),
            Property::sometimes("a broker takes over", |_, operation: &Operation| {
                operation.is_done && operation.fence > 1
            }),
            Property::sometimes(
                "an item of the former future is redriven",
                |_, operation: &Operation| {
                    let mut items = operation.items.iter();
                    items.any(|item| item.redriven == 1 && item.first_death > Some(LAST_TICK))
                },
            ),
            Property::sometimes("an item dies again", |_, operation: &Operation| {
                let mut items = operation.items.iter();
                items.any(|item| item.redriven == 1 && item.died_after_start)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::shortest_first;

    #[test]
    fn batches_with_a_cursor_repeat_and_skip_nothing() {
        let rule = Rule::Cursor;
        shortest_first(OperationModel { rule }).assert_holds("operation");
    }

    #[test]
    fn a_cursor_in_the_row_and_a_fence_back_each_other_up() {
        for rule in [Rule::NoFence, Rule::RemembersCursorWithFence] {
            shortest_first(OperationModel { rule }).assert_holds(&format!("{rule:?}"));
        }
    }

    #[test]
    fn mistakes_in_batches_are_found() {
        for (rule, promise) in [
            (Rule::MovesCursorLater, "no item is repeated"),
            (Rule::RemembersCursor, "no item is repeated"),
            (Rule::NoCursor, "no item is repeated"),
            (Rule::SkipsLocked, "no item is skipped"),
            (Rule::TakesLater, "items that die later are left alone"),
            (Rule::TakesOnlyEarlier, "no item is skipped"),
            (Rule::SkipsFuture, "no item is skipped"),
        ] {
            let checked = shortest_first(OperationModel { rule });
            checked.assert_breaks(&format!("{rule:?}"), promise);
        }
    }
}
