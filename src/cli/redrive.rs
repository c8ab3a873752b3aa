//! `redrive`: makes dead items ready again, directly in the store.

use clap::Args;
use lease_broker_store::Checkpoints;

use super::CommandError;
use super::config_args::{ConfigArgs, open_queue};
use super::output::{plural, print_line};

/// Make dead items ready again and reset their attempts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker redrive rainfall --limit 1        redrive one item first
  lease-broker redrive rainfall")]
pub(super) struct Redrive {
    /// Queue of the dead items
    queue: String,
    /// Maximum number of items to redrive, in the order in which they died; on SQL Server without filtered indexes, in
    /// the order of the queue [default: all]
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// Remove the checkpoints, so that the next attempts start from the beginning [default: keep them]
    #[arg(long)]
    clear_checkpoint: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Redrive {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        /// Maximum rows per transaction. Workers wait for its locks, so a transaction must be short.
        const BATCH: usize = 1_000;

        let config = self.config.load(Vec::new())?;
        let (store, queue) = open_queue(&config, &self.queue).await?;
        let checkpoints = if self.clear_checkpoint {
            Checkpoints::Clear
        } else {
            Checkpoints::Keep
        };
        let mut redriven = 0;
        while redriven < self.limit {
            let limit = BATCH.min(self.limit - redriven);
            match store.redrive(queue, limit, checkpoints).await? {
                0 => break,
                count => redriven += count,
            }
        }
        let verb = if redriven == 1 { "is" } else { "are" };
        print_line!("{} {verb} ready again", plural(redriven as u64, "item"));
        Ok(())
    }
}
