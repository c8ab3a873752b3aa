//! The kinds of changes to many items, and their words.

use lease_broker_proto::{self as proto, ItemState, operation, start_operation_request};

use crate::cli::output::plural;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Redrive,
    CancelLeases,
    PurgeCompleted,
    PurgeDead,
}

impl ChangeKind {
    /// Returns the kind of the action in a request.
    pub(super) fn of_request(action: &start_operation_request::Action) -> Self {
        use start_operation_request::Action;

        match action {
            Action::Redrive(_) => Self::Redrive,
            Action::CancelLeases(_) => Self::CancelLeases,
            Action::Purge(purge) => Self::of_purge(*purge),
        }
    }

    /// Returns the kind of an operation. `None`: a newer service has started it.
    pub(super) fn of_operation(operation: &proto::Operation) -> Option<Self> {
        use operation::Action;

        Some(match operation.action.as_ref()? {
            Action::Redrive(_) => Self::Redrive,
            Action::CancelLeases(_) => Self::CancelLeases,
            Action::Purge(purge) => Self::of_purge(*purge),
        })
    }

    fn of_purge(purge: proto::Purge) -> Self {
        match purge.state() {
            ItemState::Completed => Self::PurgeCompleted,
            _ => Self::PurgeDead,
        }
    }

    /// Returns the name of the command.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::CancelLeases => "cancel",
            Self::PurgeCompleted | Self::PurgeDead => "purge",
        }
    }

    /// Returns the adjective for the items that it changes.
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Redrive | Self::PurgeDead => "dead",
            Self::CancelLeases => "leased",
            Self::PurgeCompleted => "completed",
        }
    }

    /// Returns the question before the change. `items`: their number, such as `3` or `at least 3`.
    pub(super) fn question(self, items: &str, queue: &str) -> String {
        let state = self.state();
        match self {
            Self::Redrive => format!("Make {items} {state} items of queue {queue} ready again?"),
            Self::CancelLeases => format!("Cancel the leases of {items} items of queue {queue}?"),
            Self::PurgeCompleted | Self::PurgeDead => {
                format!("Delete {items} {state} items of queue {queue}?")
            }
        }
    }

    /// Returns what was done with this number of items.
    pub(super) fn done(self, items: i64) -> String {
        let items = items.unsigned_abs();
        let (is, was) = if items == 1 {
            ("is", "was")
        } else {
            ("are", "were")
        };
        match self {
            Self::Redrive => format!("{} {is} ready again", plural(items, "item")),
            Self::CancelLeases => format!("{} {was} cancelled", plural(items, "lease")),
            Self::PurgeCompleted | Self::PurgeDead => {
                format!("{} {was} deleted", plural(items, "item"))
            }
        }
    }
}
