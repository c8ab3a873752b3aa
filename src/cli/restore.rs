//! `restore`: puts a backup in place, or begins a new epoch in a database that was restored by other means.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use lease_broker_model::key::rfc3339_of_millis;
use lease_broker_store::schema::{CancelledOperation, NewEpoch};
use lease_broker_store::sqlite;

use super::CommandError;
use super::config_args::{ConfigArgs, SchemaAccess, existing_file, open_schema, sqlite_file};
use super::confirm::{confirm_change, is_terminal};
use super::output::{plural, print_line};
use crate::config::{Config, StoreKind};

/// Put a backup in place, so that no fencing token is given twice
///
/// Replaces the SQLite file by a copy of FILE, and removes the log of the replaced file. With --in-place it changes no file: the
/// database was restored by other means, or a replica without the last changes took over. Both raise the fencing tokens of all items
/// above those that were given before, and end all leases of the configured queues: their items are ready, and the attempts do not
/// count. Both cancel the redrives, cancellations and purges that ran in the restored state, and print them. Stop all services first: the command refuses while one runs.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["file", "in_place"]))]
#[command(after_help = "\
Examples:
  lease-broker restore /backup/orders-2027-01-31.db --store orders.db
  lease-broker restore --in-place --config queues.toml   after RESTORE DATABASE, or after a failover")]
pub(super) struct Restore {
    /// The backup: a copy that `lease-broker backup` made, or another complete copy of the database file
    file: Option<PathBuf>,
    /// Keep the database, which was restored by other means
    #[arg(long)]
    in_place: bool,
    /// With --in-place on a server: do it although a service was seen within the last 15 s
    #[arg(long, requires = "in_place")]
    force: bool,
    /// Do not ask for confirmation in a terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Restore {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        match &self.file {
            Some(backup) => self.restore(&config, backup),
            None => self.begin_epoch(&config),
        }
    }

    fn restore(&self, config: &Config, backup: &Path) -> Result<(), CommandError> {
        let database = sqlite_file(config, "restore FILE")?;
        if database.exists() {
            sqlite::refuse_open_file(database)?;
            self.confirm(&format!(
                "Replace {} with all its items by {}?",
                database.display(),
                backup.display()
            ))?;
        }
        let restored = sqlite::restore(database, backup, &config.queues)?;
        let made = restored.backup_time.map(rfc3339_of_millis);
        let made = made.map(|time| format!(", a backup of {time},"));
        print_line!(
            "{}{} is now {}",
            backup.display(),
            made.unwrap_or_default(),
            database.display()
        );
        report(&restored.epoch);
        Ok(())
    }

    fn begin_epoch(&self, config: &Config) -> Result<(), CommandError> {
        if config.store.kind == StoreKind::Sqlite {
            sqlite::refuse_open_file(existing_file(config, "restore --in-place")?)?;
        }
        let mut schema = open_schema(config, SchemaAccess::Change)?;
        if config.store.kind == StoreKind::Mssql && !self.force {
            let running = schema.live_brokers()?;
            if !running.is_empty() {
                return Err(CommandError::failed(format!(
                    "{}\nStop all services. One that was killed counts as running for 15 s; --force does not wait for that.",
                    running.join("\n")
                )));
            }
        }
        self.confirm("End all leases of the configured queues, and raise their fencing tokens?")?;
        schema.create_broker_tables()?;
        report(&schema.begin_epoch(&config.queues)?);
        Ok(())
    }

    fn confirm(&self, question: &str) -> Result<(), CommandError> {
        // Without a terminal, the command itself is the confirmation.
        confirm_change(question, self.yes || !is_terminal())
    }
}

fn report(epoch: &NewEpoch) {
    for (queue, ended) in &epoch.ended_leases {
        print_line!("{queue}: {} ended", plural(*ended, "lease"));
    }
    for queue in &epoch.left_queues {
        print_line!(
            "{queue}: its leases go on, because the configuration has no such queue; run the command again with --config of the brokers"
        );
    }
    for operation in &epoch.cancelled_operations {
        let CancelledOperation { queue, kind, id } = operation;
        print_line!("{queue}: {kind} {id} cancelled");
    }
    print_line!(
        "every fencing token from now on is greater than {}",
        epoch.fence
    );
}
