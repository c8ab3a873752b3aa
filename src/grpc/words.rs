//! The words of the API's enums, as commands and pages show and read them.

use lease_broker_proto::{BrokerInstance, GroupState, ItemState, OperationState, PauseMode};

/// An enum of the API whose values have words.
pub trait Words: Copy + PartialEq + Send + Sync + 'static {
    /// The known values, each with its word.
    const WORDS: &'static [(Self, &'static str)];

    /// Returns the word of a value. `None`: the value is not known.
    fn known_word(self) -> Option<&'static str> {
        let mut words = Self::WORDS.iter();
        let found = words.find(|(value, _)| *value == self);
        found.map(|(_, word)| *word)
    }

    /// Returns the word of a value, or `unknown`.
    fn word(self) -> &'static str {
        self.known_word().unwrap_or("unknown")
    }

    /// Returns the value with this word.
    fn of_word(word: &str) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        let found = words.find(|(_, known)| *known == word);
        found.map(|(value, _)| *value)
    }
}

impl Words for ItemState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Ready, "ready"),
        (Self::Leased, "leased"),
        (Self::Delayed, "delayed"),
        (Self::Completed, "completed"),
        (Self::Dead, "dead"),
    ];
}

impl Words for GroupState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Ready, "ready"),
        (Self::Leased, "leased"),
        (Self::Waiting, "waiting"),
        (Self::Halted, "halted"),
        (Self::Paused, "paused"),
    ];
}

impl Words for OperationState {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Running, "running"),
        (Self::Done, "done"),
        (Self::Cancelled, "cancelled"),
        (Self::Failed, "failed"),
    ];
}

impl Words for PauseMode {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Claims, "claims"),
        (Self::Enqueue, "enqueue"),
        (Self::Both, "both"),
    ];
}

/// Returns the word of the state of a broker.
pub fn broker_state(broker: &BrokerInstance) -> &'static str {
    match (broker.is_live, broker.is_draining) {
        (false, _) => "gone",
        (true, true) => "draining",
        (true, false) => "running",
    }
}
