//! Endings: how items end, as their handlers said it.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;

use super::context::Cause;
use super::events::EventName;
use super::handler_error::{ErrorKind, HandlerError};
use super::item::{Item, LeaseNumber};
use super::values::{NewItem, Row, duration_to_proto, row_to_proto};
use lease_broker_proto as proto;
use lease_broker_value::Value;

/// The number of characters of an error's text that the broker stores.
const MAX_TEXT_CHARS: usize = 1_024;

/// The result of a handler that has done its work: the item is completed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    columns: Row,
    follow_ups: Vec<(String, NewItem)>,
}

impl Done {
    /// Returns a result that only completes the item.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn is_plain(&self) -> bool {
        self.columns.is_empty() && self.follow_ups.is_empty()
    }

    /// Writes a value into a column of the item's own row. The queue's setting `writable` lists the columns.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.columns.insert(name.into(), value.into());
        self
    }

    /// Adds an item to a queue, in the transaction that completes this one.
    #[must_use]
    pub fn follow_up(mut self, queue: impl Into<String>, item: impl Into<NewItem>) -> Self {
        self.follow_ups.push((queue.into(), item.into()));
        self
    }
}

/// The results of a batch handler, by item. Items that are not in it are completed. If it has an item that
/// is not in the batch, all items of the batch fail.
#[derive(Debug, Default)]
pub struct BatchDone(BTreeMap<LeaseNumber, Result<Done, HandlerError>>);

impl BatchDone {
    /// Returns a result that completes all items.
    pub fn new() -> Self {
        Self::default()
    }

    /// Completes an item with columns or follow-ups.
    pub fn complete(&mut self, item: &Item, done: Done) {
        self.0.insert(item.lease(), Ok(done));
    }

    /// Ends an item by an error: [`Retry`](super::Retry), [`DeadLetter`](super::DeadLetter),
    /// [`Release`](super::Release), or any other.
    pub fn fail(&mut self, item: &Item, error: impl Into<HandlerError>) {
        self.0.insert(item.lease(), Err(error.into()));
    }

    /// Returns the result of an item, for tests of handlers. `None`: the item is completed without columns and follow-ups.
    pub fn get(&self, item: &Item) -> Option<&Result<Done, HandlerError>> {
        self.0.get(&item.lease())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, item: &Item) -> Result<Done, HandlerError> {
        self.0.remove(&item.lease()).unwrap_or(Ok(Done::new()))
    }
}

/// The end of one item.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    pub(super) lease: LeaseNumber,
    pub(super) kind: Kind,
    /// The columns and follow-ups of a completion.
    completion: proto::Completion,
    /// The error of a failure.
    pub(super) text: String,
    dead_letter: bool,
    /// Of a failure or a release.
    delay: Option<Duration>,
    pub(super) checkpoint: Option<Vec<u8>>,
    lease_id: String,
}

/// The kind of an ending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Complete,
    Fail,
    Release,
}

impl Kind {
    /// Returns the name of the method that takes the endings.
    pub(super) const fn rpc(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Fail => "Fail",
            Self::Release => "Release",
        }
    }

    /// Returns the name of the event after the broker has applied an ending.
    pub(super) const fn event(self) -> EventName {
        match self {
            Self::Complete => EventName::Completed,
            Self::Fail => EventName::Failed,
            Self::Release => EventName::Released,
        }
    }
}

impl Ending {
    pub(super) fn completed(lease: LeaseNumber, done: Done) -> Self {
        let follow_up = |(queue, item): (String, NewItem)| proto::FollowUp {
            queue,
            item: Some(item.into_proto()),
        };
        let completion = proto::Completion {
            follow_ups: done.follow_ups.into_iter().map(follow_up).collect(),
            columns: row_to_proto(done.columns),
            ..proto::Completion::default()
        };
        Self {
            lease,
            completion,
            ..Self::default()
        }
    }

    pub(super) fn failed(lease: LeaseNumber, text: &str) -> Self {
        Self {
            lease,
            kind: Kind::Fail,
            text: text.chars().take(MAX_TEXT_CHARS).collect(),
            ..Self::default()
        }
    }

    pub(super) fn released(lease: LeaseNumber, delay: Option<Duration>) -> Self {
        Self {
            lease,
            kind: Kind::Release,
            delay,
            ..Self::default()
        }
    }

    /// Returns the ending of an item whose handler has returned. `cause`: the reason for which the handler was
    /// cancelled.
    pub(super) fn of_result(
        lease: LeaseNumber,
        result: Result<Done, HandlerError>,
        cause: Option<Cause>,
        time_limit: Option<Duration>,
    ) -> Self {
        let error = match result {
            Ok(done) => return Self::completed(lease, done),
            Err(error) => error,
        };
        let mut ending = Self::failed(lease, &error.text);
        match (error.kind, cause) {
            (ErrorKind::Release { after }, _) => return Self::released(lease, after),
            (ErrorKind::DeadLetter, _) => ending.dead_letter = true,
            (ErrorKind::Failed { retry_after }, _) if retry_after.is_some() => {
                ending.delay = retry_after;
            }
            (_, Some(Cause::Shutdown)) => return Self::released(lease, None),
            (ErrorKind::Cancelled, Some(Cause::TimeLimit)) => {
                ending.text = time_limit_text(time_limit);
            }
            _ => {}
        }
        ending
    }

    /// Returns the ending without the field that the broker has refused, or without all optional fields if it is not known
    /// which one. `None`: the ending has no such field.
    pub(super) fn without_refused(&self, field: &str) -> Option<Self> {
        let is_delay = field.ends_with("delay");
        let mut ending = self.clone();
        ending.checkpoint.take_if(|_| !is_delay);
        ending.delay.take_if(|_| field != "checkpoint");
        let is_less = ending.checkpoint != self.checkpoint || ending.delay != self.delay;
        is_less.then_some(ending)
    }

    /// Sets the lease id and, except in a completion, the checkpoint for the next lease.
    pub(super) fn set_lease(&mut self, id: &str, saved: Option<&Vec<u8>>) {
        id.clone_into(&mut self.lease_id);
        self.checkpoint = saved.filter(|_| self.kind != Kind::Complete).cloned();
    }

    pub(super) fn follow_ups(&self) -> usize {
        self.completion.follow_ups.len()
    }

    /// Returns the approximate size of the message in bytes.
    pub(super) fn size(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref().map_or(0, Vec::len);
        self.completion.encoded_len() + self.lease_id.len() + self.text.len() + checkpoint + 32
    }

    pub(super) fn completion(&self) -> proto::Completion {
        proto::Completion {
            lease_id: self.lease_id.clone(),
            ..self.completion.clone()
        }
    }

    pub(super) fn failure(&self) -> proto::Failure {
        proto::Failure {
            lease_id: self.lease_id.clone(),
            error_message: self.text.clone(),
            dead_letter: self.dead_letter,
            retry_delay: self.delay.map(duration_to_proto),
            checkpoint: self.checkpoint.clone(),
            ..proto::Failure::default()
        }
    }

    pub(super) fn release(&self) -> proto::Release {
        proto::Release {
            lease_id: self.lease_id.clone(),
            delay: self.delay.map(duration_to_proto),
            checkpoint: self.checkpoint.clone(),
        }
    }
}

/// Returns the error text of an item whose handler has exceeded its time.
pub(super) fn time_limit_text(limit: Option<Duration>) -> String {
    limit.map_or_else(
        || "time limit of half of the lease".to_owned(),
        |limit| format!("time limit of {} s", limit.as_secs_f64()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeadLetter;

    #[test]
    fn results_of_items_of_a_test_are_told_apart() {
        let items = ["1", "2", "3"].map(|key| Item::of_row(key, Row::new()));
        let mut done = BatchDone::new();
        done.fail(&items[0], DeadLetter::new("no customer"));
        done.complete(&items[1], Done::new().column("total", 1));
        let results = items.each_ref().map(|item| done.get(item));
        assert_eq!(
            results[0],
            Some(&Err(DeadLetter::new("no customer").into()))
        );
        assert_eq!(results[1], Some(&Ok(Done::new().column("total", 1))));
        assert_eq!(results[2], None);
    }
}
