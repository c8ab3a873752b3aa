//! `backup`: copies the SQLite file of a running service.

use std::path::PathBuf;

use clap::Args;
use lease_broker_store::sqlite;

use super::CommandError;
use super::config_args::{ConfigArgs, existing_file};
use super::output::print_line;

/// Copy the database of the service into a new file, while the service runs
///
/// The copy has one committed state. It is checked, and it is marked as a backup: no service serves it until `restore` has put it in
/// place. Only for SQLite: a server has its own backups (docs/backup.md).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker backup /backup/orders-2027-01-31.db --store orders.db
  lease-broker backup /backup/orders.db --config queues.toml")]
pub(super) struct Backup {
    /// The new file. It must not exist
    file: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Backup {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        let database = existing_file(&config, "backup")?;
        sqlite::back_up(database, &self.file)?;
        print_line!(
            "{} is a backup of {}",
            self.file.display(),
            database.display()
        );
        Ok(())
    }
}
