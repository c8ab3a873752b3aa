//! Arguments of the commands for operators: the service to call, or the database to open.

use std::slice;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::Browse;

use super::admin::{Admin, Database};
use super::service::Service;
use crate::broker::Operator;
use crate::cli::CommandError;
use crate::cli::client_args::{ClientArgs, DEFAULT_ADDRESS};
use crate::cli::config_args::{ConfigArgs, configured_queue, open_existing_store, open_to_read};
use crate::cli::output::{OutputFormat, note};
use crate::config::Config;

/// The part of each help text that says what the command talks to.
const PLACE: &str = "\
Service or database: the command calls the service at --address. With --config or --store it opens the database instead, also \
while no broker runs; roles do not matter then, and the output is the same. Without these flags, LEASE_BROKER_ADDRESS decides \
for the service, else LEASE_BROKER_CONFIG for the database, and without both the service at the default address is called.";

/// Returns the end of a help text: what the command talks to, and the text.
pub(super) fn with_place(text: &str) -> String {
    format!("{PLACE}\n\n{text}")
}

#[derive(Debug, Args)]
struct Flags {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What a command talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Service,
    /// The service at the default address, because no flag and no variable names anything.
    DefaultService,
    Database,
}

impl Place {
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_from = |name: &str, source| matches.value_source(name) == Some(source);
        let is_flag = |name| is_from(name, ValueSource::CommandLine);
        let is_variable = |name| is_from(name, ValueSource::EnvVariable);
        let is_database = is_flag("config") || is_flag("store");
        match (is_flag("address"), is_database) {
            (true, true) => Err(clap::Error::raw(
                ErrorKind::ArgumentConflict,
                "--address names a service, and --config and --store name a database; remove one of them. For more \
                 information, try '--help'.\n",
            )),
            (true, false) => Ok(Self::Service),
            (false, true) => Ok(Self::Database),
            _ if is_variable("address") => Ok(Self::Service),
            _ if is_variable("config") => Ok(Self::Database),
            _ => Ok(Self::DefaultService),
        }
    }
}

/// The service or the database, the credentials, the timeout and the output format.
#[derive(Debug)]
pub(super) struct PlaceArgs {
    flags: Flags,
    place: Place,
}

impl FromArgMatches for PlaceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            place: Place::of(matches)?,
            flags: Flags::from_arg_matches(matches)?,
        })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        // The flags are removed from the matches when they are read.
        Ok(Self {
            place: Place::of(matches)?,
            flags: Flags::from_arg_matches_mut(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for PlaceArgs {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

impl PlaceArgs {
    /// Returns the arguments on a line that may lack some of the flags: those of a command that only calls a service, or only opens a
    /// database.
    pub(super) fn of_line(line: &ArgMatches) -> Result<Self, clap::Error> {
        let has = |flag: &str| line.try_contains_id(flag).is_ok();
        if has("address") && has("store") {
            return Self::from_arg_matches(line);
        }
        let defaults = Flags::augment_args(Command::new("")).try_get_matches_from([""])?;
        let mut flags = Flags::from_arg_matches(&defaults)?;
        let place = if has("store") {
            flags.config = ConfigArgs::from_arg_matches(line)?;
            Place::Database
        } else {
            flags.client = ClientArgs::from_arg_matches(line)?;
            Place::Service
        };
        Ok(Self { flags, place })
    }

    /// Returns the output format.
    pub(super) fn output(&self) -> OutputFormat {
        self.flags.client.output
    }

    /// Returns the configuration arguments. `None`: the command calls a service.
    pub(super) fn database(&self) -> Option<&ConfigArgs> {
        (self.place == Place::Database).then_some(&self.flags.config)
    }

    /// Returns a text that names the service or the database.
    pub(super) fn name(&self) -> String {
        match self.place {
            Place::Database => "database".to_owned(),
            _ => match self.flags.client.address() {
                Some(address) => address.to_owned(),
                None => DEFAULT_ADDRESS.to_string(),
            },
        }
    }

    /// Connects to the service, or opens the database to read it. `queue`: the queue of the command. Only its table is opened, because
    /// tables of other queues can be missing. `None`: the command reads only the tables of the brokers, which have operations, pauses
    /// and brokers.
    pub(super) async fn look(&self, queue: Option<&str>) -> Result<Admin, CommandError> {
        if self.place != Place::Database {
            return self.service().await;
        }
        let config = self.flags.config.load(Vec::new())?;
        let (opened, queues) = opened(&config, queue)?;
        let inspect = open_to_read(&config, opened).await?;
        let operator = Operator::reading(inspect, queues);
        Ok(Admin::Database(Database::new(operator)))
    }

    /// Does the same as [`Self::look`] for a command that reads all queues. Those whose tables do not fit are left out with a note.
    pub(super) async fn look_at_all(&self) -> Result<Admin, CommandError> {
        if self.place != Place::Database {
            return self.service().await;
        }
        let config = self.flags.config.load(Vec::new())?;
        let (inspect, queues) = open_fitting(&config).await?;
        let operator = Operator::reading(inspect, &queues);
        Ok(Admin::Database(Database::new(operator)))
    }

    /// Connects to the service, or opens the database to change it. `queue`: as for [`Self::look`].
    pub(super) async fn change(&self, queue: Option<&str>) -> Result<Admin, CommandError> {
        if self.place != Place::Database {
            return self.service().await;
        }
        let config = self.flags.config.load(Vec::new())?;
        let (opened, queues) = opened(&config, queue)?;
        let store = open_existing_store(&config, opened).await?;
        let operator = Operator::new(store, queues, config.limits.max_items);
        Ok(Admin::Database(Database::new(operator)))
    }

    async fn service(&self) -> Result<Admin, CommandError> {
        let connected = Service::connect(&self.flags.client).await;
        let service = connected.map_err(|error| match self.place {
            Place::DefaultService if error.is_outage() => {
                error.with_hint("while no broker runs, open its database with --config or --store")
            }
            _ => error,
        })?;
        Ok(Admin::Service(Arc::new(service)))
    }
}

/// Returns the queues whose tables a command opens, and those that it knows. `queue`: the only one that it opens and knows. `None`: it
/// opens none. It knows all of them by their names and settings, to list their operations and to compare them with those of brokers.
///
/// # Errors
/// Exit code 64 if the configuration has no queue of this name.
fn opened<'a>(
    config: &'a Config,
    queue: Option<&str>,
) -> Result<(&'a [QueueSpec], &'a [QueueSpec]), CommandError> {
    match queue {
        None => Ok((&[], &config.queues)),
        Some(name) => {
            let queue = slice::from_ref(configured_queue(config, name)?);
            Ok((queue, queue))
        }
    }
}

/// Opens the database to read the queues whose tables fit. A note on standard error names each other queue with its problem.
///
/// # Errors
/// Those of [`open_to_read`]. Exit code 64 if no table fits.
async fn open_fitting(config: &Config) -> Result<(Arc<dyn Browse>, Vec<QueueSpec>), CommandError> {
    let error = match open_to_read(config, &config.queues).await {
        Ok(inspect) => return Ok((inspect, config.queues.clone())),
        Err(error) if !error.is_usage() => return Err(error),
        Err(error) => error,
    };
    let mut fitting = Vec::new();
    let mut notes = Vec::new();
    for queue in &config.queues {
        match open_to_read(config, slice::from_ref(queue)).await {
            Ok(_) => fitting.push(queue.clone()),
            Err(error) => notes.push(format!("queue {} is left out: {error}", queue.name)),
        }
    }
    if fitting.is_empty() {
        return Err(error);
    }
    for text in &notes {
        note(text);
    }
    Ok((open_to_read(config, &fitting).await?, fitting))
}
