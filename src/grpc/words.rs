//! The values of the API's enums: what they stand for in the broker, and the words by which commands and pages show and read them.

use lease_broker_model::item_state::State;
use lease_broker_proto::{BrokerInstance, GroupState, ItemState, OperationState, PauseMode};
use lease_broker_store as store;

/// An enum of the API whose values have words.
pub trait Words: Copy + PartialEq + Send + Sync + 'static {
    /// The type of the broker.
    type Meaning;

    /// The known values, each with its word.
    const WORDS: &'static [(Self, &'static str)];

    /// Returns the value that stands for one of the broker.
    fn of(meaning: Self::Meaning) -> Self;

    /// Returns the value of the broker that it stands for. `None`: it is unspecified.
    fn meaning(self) -> Option<Self::Meaning>;

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

/// Implements [`Words`] by a table: an enum of the API, the type of the broker, and the values that both have.
macro_rules! words {
    ($($api:ident($own:ty) $($value:ident),*;)*) => {$(
        impl Words for $api {
            type Meaning = $own;
            const WORDS: &'static [(Self, &'static str)] =
                &[$((Self::$value, <$own>::$value.name())),*];

            fn of(meaning: $own) -> Self {
                match meaning {
                    $(<$own>::$value => Self::$value,)*
                }
            }

            fn meaning(self) -> Option<$own> {
                match self {
                    Self::Unspecified => None,
                    $(Self::$value => Some(<$own>::$value),)*
                }
            }
        }
    )*};
}

words! {
    ItemState(State) Ready, Leased, Delayed, Completed, Dead;
    GroupState(store::GroupState) Ready, Leased, Waiting, Halted, Paused;
    OperationState(store::OperationState) Running, Done, Cancelled, Failed;
    PauseMode(store::PauseMode) Claims, Enqueue, Both;
}

/// Returns the word of the state of a broker.
pub fn broker_state(broker: &BrokerInstance) -> &'static str {
    match (broker.is_live, broker.is_draining) {
        (false, _) => "gone",
        (true, true) => "draining",
        (true, false) => "running",
    }
}
