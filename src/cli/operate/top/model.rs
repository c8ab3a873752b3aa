//! The state of the screen: what the last look has found, and what the person has chosen.

use std::time::Duration;

use lease_broker_model::named_enum;
use lease_broker_proto::{self as proto, ItemState};

use crate::cli::CommandError;
use crate::cli::operate::admin::Admin;
use crate::cli::output::std_duration;

/// The maximum number of queues whose leases, and of those whose failures are read at each look.
const MAX_QUEUES: usize = 20;
/// The number of leases of a queue among which the oldest are searched: those that expire first.
const LEASES: i32 = 100;
/// The number of failures of a queue.
const FAILURES: i32 = 20;

/// An item with its queue.
#[derive(Clone, Debug)]
pub(super) struct QueueItem {
    pub(super) queue: String,
    pub(super) item: proto::ItemSummary,
}

impl QueueItem {
    pub(super) fn age(&self) -> Option<Duration> {
        std_duration(self.item.age)
    }
}

/// The result of a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) queues: Vec<proto::QueueSummary>,
    /// The oldest first.
    pub(super) leases: Vec<QueueItem>,
    /// The latest first.
    pub(super) failures: Vec<QueueItem>,
    pub(super) brokers: Vec<proto::BrokerInstance>,
}

impl Snapshot {
    /// Looks. `opened`: the only queue whose leases and failures are shown.
    pub(super) async fn read(admin: &Admin, opened: Option<&str>) -> Result<Self, CommandError> {
        let listed = admin
            .list_queues(proto::ListQueuesRequest::default())
            .await?;
        let brokers = admin.list_brokers(proto::ListBrokersRequest {}).await?;
        let mut snapshot = Self {
            queues: listed.queues,
            brokers: brokers.brokers,
            ..Self::default()
        };
        let is_read = |queue: &&proto::QueueSummary| opened.is_none_or(|name| queue.queue == name);
        let queues: Vec<_> = snapshot.queues.iter().filter(is_read).collect();
        for (state, size, newest_first) in [
            (ItemState::Leased, LEASES, false),
            (ItemState::Dead, FAILURES, true),
        ] {
            for queue in first_with(&queues, state) {
                let request = proto::ListItemsRequest {
                    queue: queue.queue.clone(),
                    state: state.into(),
                    page_size: size,
                    newest_first,
                    ..proto::ListItemsRequest::default()
                };
                let items = admin.list_items(request).await?.items.into_iter();
                let items = items.map(|item| QueueItem {
                    queue: queue.queue.clone(),
                    item,
                });
                match state {
                    ItemState::Leased => snapshot.leases.extend(items),
                    _ => snapshot.failures.extend(items),
                }
            }
        }
        snapshot
            .leases
            .sort_by_key(|lease| std::cmp::Reverse(lease.age()));
        snapshot
            .failures
            .sort_by_key(|failure| failure.age().unwrap_or(Duration::MAX));
        Ok(snapshot)
    }
}

/// Returns the queues that have items in a state, up to [`MAX_QUEUES`]: those with the oldest leases, or those that fail most often now.
fn first_with<'a>(
    queues: &[&'a proto::QueueSummary],
    state: ItemState,
) -> Vec<&'a proto::QueueSummary> {
    let queues = queues.iter().copied();
    let mut found: Vec<_> = queues
        .filter(|queue| count_of(queue, state).count > 0)
        .collect();
    match state {
        ItemState::Leased => {
            found.sort_by_key(|queue| std::cmp::Reverse(std_duration(queue.oldest_lease)));
        }
        _ => found.sort_by(|one, other| {
            let rate = |queue: &proto::QueueSummary| queue.rates.unwrap_or_default().failed;
            rate(other).total_cmp(&rate(one))
        }),
    }
    found.truncate(MAX_QUEUES);
    found
}

/// Returns the count of a state.
pub(super) fn count_of(queue: &proto::QueueSummary, state: ItemState) -> proto::StateCount {
    let mut counts = queue.counts.iter();
    let found = counts.find(|count| count.state() == state);
    found.copied().unwrap_or_default()
}

named_enum! {
    /// The column by which the queues are sorted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Sort {
        Name = "queue",
        Ready = "ready",
        Leased = "leased",
        Dead = "dead",
        OldestReady = "oldest ready",
        OldestLease = "oldest lease",
        Completed = "completed/s",
    }
}

impl Sort {
    fn sort(self, queues: &mut [proto::QueueSummary]) {
        let by_count = |state| {
            move |queue: &proto::QueueSummary| std::cmp::Reverse(count_of(queue, state).count)
        };
        match self {
            Self::Name => queues.sort_by(|one, other| one.queue.cmp(&other.queue)),
            Self::Ready => queues.sort_by_key(by_count(ItemState::Ready)),
            Self::Leased => queues.sort_by_key(by_count(ItemState::Leased)),
            Self::Dead => queues.sort_by_key(by_count(ItemState::Dead)),
            Self::OldestReady => {
                queues.sort_by_key(|queue| std::cmp::Reverse(std_duration(queue.oldest_ready)));
            }
            Self::OldestLease => {
                queues.sort_by_key(|queue| std::cmp::Reverse(std_duration(queue.oldest_lease)));
            }
            Self::Completed => {
                let rate = |queue: &proto::QueueSummary| queue.rates.unwrap_or_default().completed;
                queues.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
            }
        }
    }
}

/// The question at the bottom of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Asks for the reason of a pause, which is typed so far.
    Pause { queue: String, reason: String },
    /// Asks if the pause shall end.
    Resume { queue: String },
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    /// The service or the database.
    pub(super) place: String,
    pub(super) snapshot: Snapshot,
    /// The name of the selected queue. Empty: there is no queue.
    pub(super) selected: String,
    pub(super) is_open: bool,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) question: Option<Question>,
    /// The result of the last change, or the last error. Empty: none.
    pub(super) message: String,
    has_outage: bool,
}

impl Model {
    pub(super) fn new(place: String, snapshot: Snapshot) -> Self {
        let mut model = Self {
            place,
            snapshot: Snapshot::default(),
            selected: String::new(),
            is_open: false,
            sort: Sort::Name,
            is_reversed: false,
            question: None,
            message: String::new(),
            has_outage: false,
        };
        model.update(snapshot);
        model
    }

    /// Shows the result of a look.
    pub(super) fn update(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
        if std::mem::take(&mut self.has_outage) {
            self.message.clear();
        }
        self.order();
        if self.selected_queue().is_none() {
            let first = self.snapshot.queues.first();
            self.selected = first.map(|queue| queue.queue.clone()).unwrap_or_default();
            self.is_open = false;
        }
    }

    /// Shows the error of a look.
    pub(super) fn fail(&mut self, error: &CommandError) {
        self.message = error.to_string();
        self.has_outage = true;
    }

    /// Returns the selected queue.
    pub(super) fn selected_queue(&self) -> Option<&proto::QueueSummary> {
        let mut queues = self.snapshot.queues.iter();
        queues.find(|queue| queue.queue == self.selected)
    }

    /// Sorts by the next column.
    pub(super) fn sort_by_next(&mut self) {
        let place = Sort::ALL.iter().position(|sort| *sort == self.sort);
        let next = place.map_or(0, |place| (place + 1) % Sort::ALL.len());
        self.sort = Sort::ALL[next];
        self.order();
    }

    /// Turns the order around.
    pub(super) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.order();
    }

    fn order(&mut self) {
        self.sort.sort(&mut self.snapshot.queues);
        if self.is_reversed {
            self.snapshot.queues.reverse();
        }
    }

    /// Selects the next queue, or the one before.
    pub(super) fn select(&mut self, step: isize) {
        let queues = &self.snapshot.queues;
        let place = queues.iter().position(|queue| queue.queue == self.selected);
        let next = place.unwrap_or(0).saturating_add_signed(step);
        if let Some(queue) = queues.get(next.min(queues.len().saturating_sub(1))) {
            self.selected.clone_from(&queue.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30 queues, of which those from `first` on have a lease and a dead item. The last one has the oldest lease, and fails most often.
    fn queues(first: i32) -> Vec<proto::QueueSummary> {
        let count = |state: ItemState| proto::StateCount {
            state: state.into(),
            count: 1,
            ..proto::StateCount::default()
        };
        let queues = (0..30).map(|number: i32| {
            let mut queue = proto::QueueSummary {
                queue: format!("q{number:02}"),
                ..proto::QueueSummary::default()
            };
            if number >= first {
                queue.counts = vec![count(ItemState::Leased), count(ItemState::Dead)];
                queue.oldest_lease = Some(prost_types::Duration {
                    seconds: number.into(),
                    nanos: 0,
                });
                queue.rates = Some(proto::QueueRates {
                    failed: number.into(),
                    ..proto::QueueRates::default()
                });
            }
            queue
        });
        queues.collect()
    }

    #[test]
    fn queues_without_items_take_no_place_of_those_with_items() {
        for (first, found) in [(29, 1), (0, MAX_QUEUES)] {
            let queues = queues(first);
            let queues: Vec<_> = queues.iter().collect();
            for state in [ItemState::Leased, ItemState::Dead] {
                let shown = first_with(&queues, state);
                assert_eq!(shown.len(), found);
                assert_eq!(shown[0].queue, "q29");
            }
        }
    }
}
