//! The list of suspects of a queue, in memory: stores of tests keep it as the real stores keep theirs.

use lease_broker_model::item_state::State;
use lease_broker_store::{Holding, LeaseRow, Share, share_of};

/// An item whose last lease expired. It is valid while its row has this fencing token, and is ready or, with a worker, leased.
#[derive(Clone, Debug)]
struct Entry {
    id: i64,
    fence: i64,
    ready_time: i64,
    worker: Option<String>,
}

/// The suspects of a queue, those that wait longest first.
#[derive(Clone, Debug, Default)]
pub struct SuspectList(Vec<Entry>);

impl SuspectList {
    /// Adds an item that has become ready at the time `now` because its lease has expired.
    pub fn remember(&mut self, id: i64, row: &LeaseRow, now: i64) {
        self.0.push(Entry {
            id,
            fence: row.fence,
            ready_time: now,
            worker: None,
        });
    }

    /// Returns the share of a claim, and the suspect that waits longest. `patience`: the time after which it is overdue, in the unit of
    /// `now`.
    pub fn choose<'a>(
        &self,
        rows: impl Fn(i64) -> Option<&'a LeaseRow>,
        all: impl Iterator<Item = &'a LeaseRow>,
        worker: &str,
        (patience, now): (i64, i64),
    ) -> (Share, Option<i64>) {
        let is_in = |entry: &Entry, state: State| {
            let row = rows(entry.id).filter(|row| row.fence == entry.fence);
            row.filter(|row| row.state == state)
        };
        let is_held = |row: &LeaseRow| row.due.is_some_and(|due| due > now);
        let holds_suspect = self.0.iter().any(|entry| {
            let is_own = entry.worker.as_deref() == Some(worker);
            is_own && is_in(entry, State::Leased).is_some_and(is_held)
        });
        let mut waiting = self.0.iter().filter(|entry| entry.worker.is_none());
        let waiting = waiting.find(|entry| is_in(entry, State::Ready).is_some());
        let is_own = |row: &LeaseRow| row.owner.as_deref() == Some(worker);
        let mut held = all.filter(|row| row.state == State::Leased && is_held(row));
        let holding = if holds_suspect {
            Holding::Suspect
        } else if held.any(is_own) {
            Holding::Items
        } else {
            Holding::Nothing
        };
        let is_overdue = waiting.map(|entry| now - entry.ready_time >= patience);
        (share_of(holding, is_overdue), waiting.map(|entry| entry.id))
    }

    /// Notes that a worker has leased a suspect that waited.
    pub fn note_lease(&mut self, id: i64, worker: &str, row: &LeaseRow) {
        let mut entries = self.0.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.id == id && entry.worker.is_none()) {
            entry.worker = Some(worker.to_owned());
            entry.fence = row.fence;
        }
    }

    /// Removes the entries that are not valid any more.
    pub fn forget<'a>(&mut self, rows: impl Fn(i64) -> Option<&'a LeaseRow>) {
        self.0.retain(|entry| {
            let state = match entry.worker {
                None => State::Ready,
                Some(_) => State::Leased,
            };
            rows(entry.id).is_some_and(|row| row.fence == entry.fence && row.state == state)
        });
    }

    /// Returns the ids of the items that a claim leases, from all ready items in the queue's order.
    pub fn pick<'a>(
        (share, suspect): (Share, Option<i64>),
        ready: impl Iterator<Item = (i64, &'a LeaseRow)>,
        max_items: usize,
    ) -> Vec<i64> {
        let is_shared = |(id, row): &(i64, &LeaseRow)| match share {
            Share::All => true,
            Share::Suspect => Some(*id) == suspect,
            Share::Others => !row.is_suspect(),
            Share::Nothing => false,
        };
        ready
            .filter(is_shared)
            .map(|(id, _)| id)
            .take(max_items)
            .collect()
    }
}
