//! The parts that the pauses of queues and of groups share, as text and as fields of a row.

use lease_broker_proto as proto;
use prost_types::Timestamp;
use serde_json::{Value as Json, json};

use crate::cli::output::{Row, proto_moment};

/// The parts of a pause.
#[derive(Clone, Copy)]
pub(super) struct PauseParts<'a> {
    reason: &'a str,
    actor: &'a str,
    pause_time: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl<'a> From<&'a proto::QueuePause> for PauseParts<'a> {
    fn from(pause: &'a proto::QueuePause) -> Self {
        Self {
            reason: &pause.reason,
            actor: &pause.actor,
            pause_time: pause.pause_time,
            until: pause.until,
        }
    }
}

impl<'a> From<&'a proto::GroupPause> for PauseParts<'a> {
    fn from(pause: &'a proto::GroupPause) -> Self {
        Self {
            reason: &pause.reason,
            actor: &pause.actor,
            pause_time: pause.pause_time,
            until: pause.until,
        }
    }
}

impl PauseParts<'_> {
    /// Returns the end of a sentence about the pause: until when, why and by whom, as far as it is known.
    pub(super) fn text(self) -> String {
        let mut text = String::new();
        if let Json::String(until) = proto_moment(self.until) {
            text += &[" until ", &until].concat();
        }
        if !self.reason.is_empty() {
            text += &["; reason: ", self.reason].concat();
        }
        if !self.actor.is_empty() {
            text += &["; by ", self.actor].concat();
        }
        text
    }
}

/// Adds the fields of a pause to a row. `None`: there is no pause.
pub(super) fn with_pause(row: Row, pause: Option<PauseParts<'_>>) -> Row {
    row.field("reason", json!(pause.map(|pause| pause.reason)))
        .field("actor", json!(pause.map(|pause| pause.actor)))
        .field(
            "pause_time",
            proto_moment(pause.and_then(|pause| pause.pause_time)),
        )
        .field("until", proto_moment(pause.and_then(|pause| pause.until)))
}
