//! The pause of a queue, and the request for one.

use lease_broker_model::named_enum;

named_enum! {
    /// The parts of a queue that are paused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PauseMode {
        /// Claims get no lease.
        Claims = "claims",
        /// No client adds items. Follow-ups of completions are added all the same.
        Enqueue = "enqueue",
        /// Both.
        Both = "both",
    }
}

impl PauseMode {
    /// Returns the number in the database.
    pub const fn code(self) -> i64 {
        match self {
            Self::Claims => 1,
            Self::Enqueue => 2,
            Self::Both => 3,
        }
    }

    /// Returns the mode with this number in the database. `None`: there is none.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.code() == code)
    }

    /// Returns whether claims get no lease.
    pub const fn holds_claims(self) -> bool {
        matches!(self, Self::Claims | Self::Both)
    }

    /// Returns whether no client adds items.
    pub const fn refuses_items(self) -> bool {
        matches!(self, Self::Enqueue | Self::Both)
    }
}

/// A request to pause a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPause {
    /// The parts to pause.
    pub mode: PauseMode,
    /// The reason, at most 1,024 characters.
    pub reason: String,
    /// The name of the caller. Empty: it is not known.
    pub actor: String,
    /// The time at which the pause ends by itself, by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub until: Option<i64>,
}

/// The pause of a queue. Times are by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePause {
    /// The name of the queue.
    pub queue: String,
    /// The paused parts.
    pub mode: PauseMode,
    /// The reason.
    pub reason: String,
    /// The name of the caller who paused it. Empty: it is not known.
    pub actor: String,
    /// The time at which it began.
    pub pause_time: i64,
    /// The time at which it ends by itself. `None`: it does not.
    pub until: Option<i64>,
}
