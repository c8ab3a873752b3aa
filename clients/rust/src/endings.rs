//! Endings: how items end, as their handlers said it.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;

use super::context::Cause;
use super::handler_error::{ErrorKind, HandlerError};
use super::item::{Item, LeaseNumber};
use super::values::{NewItem, Row, duration_to_proto, row_to_proto};
use lease_broker_proto as proto;
use lease_broker_value::Value;

/// The number of characters of an error's text that the broker stores.
const MAX_TEXT_CHARS: usize = 1_024;
/// The fields without which a failure or a release can be sent again.
const OPTIONAL_FIELDS: [&str; 3] = ["checkpoint", "retry_delay", "delay"];

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

/// The end of one item. The lease id in the message is set when the ending is queued.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) lease: LeaseNumber,
    pub(super) message: EndingMessage,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum EndingMessage {
    Complete(proto::Completion),
    Fail(proto::Failure),
    Release(proto::Release),
}

impl EndingMessage {
    /// Returns the name of the method that takes the message.
    pub(super) const fn rpc(&self) -> &'static str {
        match self {
            Self::Complete(_) => "Complete",
            Self::Fail(_) => "Fail",
            Self::Release(_) => "Release",
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
            lease_id: String::new(),
            follow_ups: done.follow_ups.into_iter().map(follow_up).collect(),
            columns: row_to_proto(done.columns),
        };
        let message = EndingMessage::Complete(completion);
        Self { lease, message }
    }

    pub(super) fn failed(lease: LeaseNumber, text: &str) -> Self {
        let failure = proto::Failure {
            error_message: text.chars().take(MAX_TEXT_CHARS).collect(),
            ..proto::Failure::default()
        };
        let message = EndingMessage::Fail(failure);
        Self { lease, message }
    }

    pub(super) fn released(lease: LeaseNumber, after: Option<Duration>) -> Self {
        let release = proto::Release {
            delay: after.map(duration_to_proto),
            ..proto::Release::default()
        };
        let message = EndingMessage::Release(release);
        Self { lease, message }
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
        match (error.kind, cause) {
            (ErrorKind::Release { after }, _) => Self::released(lease, after),
            (ErrorKind::DeadLetter, _) => {
                let mut ending = Self::failed(lease, &error.text);
                if let EndingMessage::Fail(failure) = &mut ending.message {
                    failure.dead_letter = true;
                }
                ending
            }
            (
                ErrorKind::Failed {
                    retry_after: Some(after),
                },
                _,
            ) => {
                let mut ending = Self::failed(lease, &error.text);
                if let EndingMessage::Fail(failure) = &mut ending.message {
                    failure.retry_delay = Some(duration_to_proto(after));
                }
                ending
            }
            (_, Some(Cause::Shutdown)) => Self::released(lease, None),
            (ErrorKind::Cancelled, Some(Cause::TimeLimit)) => {
                Self::failed(lease, &time_limit_text(time_limit))
            }
            _ => Self::failed(lease, &error.text),
        }
    }

    /// Returns the ending without the field that the broker has refused, or without all optional fields if it is not known
    /// which one. `None`: the ending has no such field.
    pub(super) fn without_refused(&self, field: &str) -> Option<Self> {
        let is_known = OPTIONAL_FIELDS.contains(&field);
        let is_refused = |name: &str| !is_known || name == field;
        let mut ending = self.clone();
        match &mut ending.message {
            EndingMessage::Complete(_) => {}
            EndingMessage::Fail(failure) => {
                failure.checkpoint.take_if(|_| is_refused("checkpoint"));
                failure.retry_delay.take_if(|_| is_refused("retry_delay"));
            }
            EndingMessage::Release(release) => {
                release.checkpoint.take_if(|_| is_refused("checkpoint"));
                release.delay.take_if(|_| is_refused("delay"));
            }
        }
        (ending.message != self.message).then_some(ending)
    }

    /// Returns the checkpoint for the next lease.
    pub(super) fn checkpoint(&self) -> Option<&Vec<u8>> {
        match &self.message {
            EndingMessage::Complete(_) => None,
            EndingMessage::Fail(message) => message.checkpoint.as_ref(),
            EndingMessage::Release(message) => message.checkpoint.as_ref(),
        }
    }

    pub(super) fn is_completion(&self) -> bool {
        matches!(self.message, EndingMessage::Complete(_))
    }

    /// Sets the lease id and, except in a completion, the checkpoint for the next lease.
    pub(super) fn set_lease(&mut self, id: &str, saved: Option<&Vec<u8>>) {
        match &mut self.message {
            EndingMessage::Complete(message) => id.clone_into(&mut message.lease_id),
            EndingMessage::Fail(message) => {
                id.clone_into(&mut message.lease_id);
                message.checkpoint = saved.cloned();
            }
            EndingMessage::Release(message) => {
                id.clone_into(&mut message.lease_id);
                message.checkpoint = saved.cloned();
            }
        }
    }

    pub(super) fn follow_ups(&self) -> usize {
        match &self.message {
            EndingMessage::Complete(message) => message.follow_ups.len(),
            _ => 0,
        }
    }

    /// Returns the size of the message in bytes.
    pub(super) fn size(&self) -> usize {
        match &self.message {
            EndingMessage::Complete(message) => message.encoded_len(),
            EndingMessage::Fail(message) => message.encoded_len(),
            EndingMessage::Release(message) => message.encoded_len(),
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
