//! The parts that all runs of the command share.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

use lease_broker_client::{HandlerError, Release};
use tokio::sync::Notify;

use super::writer::Writer;

/// The time for which the slot of a command rests that lacks a service, or cannot be started now.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

/// What each run of the command needs, besides the item.
pub(super) struct Settings {
    pub(super) queue: String,
    pub(super) worker_id: String,
    pub(super) command: Vec<String>,
    pub(super) variables: Variables,
    pub(super) follow_up: Option<String>,
    /// True: the output has the key of the item before each line.
    pub(super) prefix_output: bool,
    /// The writers of standard output and of standard error.
    pub(super) output: Writer,
    pub(super) errors: Writer,
    pub(super) mistake: Mistake,
}

/// A mistake in the arguments of `work`, because of which the command cannot be run for any item.
#[derive(Default)]
pub(super) struct Mistake {
    pub(super) reason: OnceLock<String>,
    pub(super) is_set: Notify,
}

impl Mistake {
    /// Lets `work` end. Returns the error that releases the item.
    pub(super) fn set(&self, reason: String) -> HandlerError {
        // The first reason is reported.
        let _ = self.reason.set(reason);
        self.is_set.notify_one();
        Release::new().into()
    }
}

/// The variables that do not depend on the item, and the columns that become variables.
pub(super) struct Variables {
    /// The address and the credentials, by the variables that every command of this program reads.
    pub(super) broker: Vec<(&'static str, OsString)>,
    /// Columns, each with the name of its variable.
    pub(super) columns: Vec<(String, String)>,
}
