//! The names of the states on the command line.

use clap::ValueEnum;
use lease_broker_proto::ItemState;

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StateName {
    Ready,
    Leased,
    Delayed,
    Completed,
    Dead,
}

impl From<StateName> for ItemState {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Ready => Self::Ready,
            StateName::Leased => Self::Leased,
            StateName::Delayed => Self::Delayed,
            StateName::Completed => Self::Completed,
            StateName::Dead => Self::Dead,
        }
    }
}
