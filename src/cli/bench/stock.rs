//! What the store says that it has, against which the bench's own books are checked.

use crate::cli::CommandError;
use crate::cli::config_args::open_store;
use crate::config::Config;
use crate::item_state::State;
use crate::store::QueueIndex;

/// The items of the queues under load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stock {
    /// Ready, leased or delayed.
    pub(super) unfinished: u64,
    pub(super) dead: u64,
}

impl Stock {
    /// Counts, in a store of the bench's own connections.
    pub(super) async fn take(config: &Config, queues: &[String]) -> Result<Self, CommandError> {
        let store = open_store(config).await?;
        let mut stock = Self::default();
        for (at, queue) in config.queues.iter().enumerate() {
            if queues.contains(&queue.name) {
                let stats = store.exact_stats(QueueIndex(at)).await?;
                let unfinished = [State::Ready, State::Leased, State::Delayed];
                stock.unfinished += unfinished
                    .map(|state| stats.count_of(state))
                    .iter()
                    .sum::<u64>();
                stock.dead += stats.count_of(State::Dead);
            }
        }
        Ok(stock)
    }
}
