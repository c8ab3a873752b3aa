//! `adopt`: makes an existing table a queue. Proposes settings, writes them as a configuration file, changes the table, and
//! writes the SQL that undoes the change.

mod config_file;
mod mirror_choice;
mod mirror_guess;
mod proposal;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dialoguer::{Input, MultiSelect, Select};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::text;
use lease_broker_store::Survey;
use lease_broker_store::schema::{SAMPLED_ROWS, Schema, Step};

use self::config_file::Database;
use self::mirror_guess::MAX_VALUES;
use self::proposal::{Mirror, Proposal};
use super::CommandError;
use super::address_flag::address_flag;
use super::client_args::DEFAULT_ADDRESS;
use super::config_args::{SchemaAccess, open_schema};
use super::confirm::{confirm_in_terminal, is_terminal};
use super::output::{self, plural, print_line};
use super::schema::{PaceArgs, apply_step};
use crate::config::{Config, MAX_KEY_COLUMNS, Sources};

/// Make an existing table a queue: write its configuration, and add the soft-lock columns and indexes
///
/// Reads the table and proposes settings: its key, the columns that workers may write, and the columns that show other programs
/// that a row is done. In a terminal it asks. Elsewhere flags give the answers, and it stops if the values of the rows leave their
/// states in doubt. It prints the configuration and each change with its effect on other programs, and changes nothing before it
/// is confirmed. Afterwards it writes the SQL that undoes the change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker adopt --store orders.db
  lease-broker adopt --store orders.db --table Orders --yes
  lease-broker adopt --connection-string-file db.secret --table dbo.Orders
  lease-broker adopt --store orders.db --table Orders --writable Total --mirror ready:Processed=0 \\
      --mirror completed:Processed=1 --yes --serve")]
pub(super) struct Adopt {
    /// SQLite file that has the table
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "connection_string_file"
    )]
    store: Option<PathBuf>,
    /// File that holds the ADO.NET connection string of the SQL Server database that has the table
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    connection_string_file: Option<PathBuf>,
    /// The table. On SQL Server it can start with a schema
    #[arg(long)]
    table: Option<String>,
    /// Name of the queue [default: the table's name in lower case]
    #[arg(long)]
    queue: Option<String>,
    /// Columns that identify a row, one to three [default: the primary key]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    key: Vec<String>,
    /// Columns that workers may write, or "" for none [default: columns that can be NULL and that --mirror does not name]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    writable: Option<Vec<String>>,
    /// A column that shows other programs the state of a row, and its value in this state: ready, leased, delayed, completed or
    /// dead. VALUE is a number, a text, $now, $worker or $null. "" for none. Only rows with the values of completed or dead get that
    /// state, and all other rows become ready [default: a column such as Processed or Status]
    #[arg(long, value_name = "STATE:COLUMN=VALUE")]
    mirror: Option<Vec<String>>,
    /// Address that the broker listens on, for the configuration [default: that of every broker]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Configuration file to write [default: QUEUE.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File to write the SQL to that undoes the change [default: QUEUE.undo.sql]
    #[arg(long, value_name = "FILE")]
    undo: Option<PathBuf>,
    #[command(flatten)]
    pace: PaceArgs,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Run `lease-broker serve` with the new configuration afterwards
    #[arg(long)]
    serve: bool,
}

impl Adopt {
    /// `serve` runs a broker with a configuration file.
    pub(super) fn run(
        mut self,
        serve: impl FnOnce(&str) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let asks = is_terminal() && !self.yes;
        // The file can hold a password and be far from the configuration, which is read from any folder.
        if let Some(file) = &mut self.connection_string_file {
            *file = std::path::absolute(&*file)
                .map_err(|error| CommandError::io(format!("{}: {error}", file.display())))?;
        }
        let mut schema = self.open(SchemaAccess::Read)?;
        let table = self.table(schema.as_mut(), asks)?;
        if proposal::queue_name(&table).starts_with("lease_broker_") {
            return Err(CommandError::usage(format!(
                "the table {table:?} belongs to the broker: it cannot be a queue"
            )));
        }
        let survey = schema
            .survey(&table)?
            .ok_or_else(|| self.no_table(schema.as_mut(), &table))?;
        let proposal = self.propose(schema.as_mut(), &survey, table, asks)?;
        let text = config_file::render(&proposal, &self.database(), self.listen.as_deref());
        let spec = queue_spec(&text)?;

        let (config, undo) = self.files(&proposal.queue);
        for file in [&config, &undo] {
            if file.exists() {
                return Err(CommandError::usage(format!(
                    "{} already exists: remove it, or name another file (--config, --undo); {}",
                    file.display(),
                    after_failure(&config, &spec)
                )));
            }
        }
        let steps = schema.plan(&spec)?;
        print_plan(schema.as_mut(), &spec, &survey, &text, &config, &steps)?;
        let question = format!(
            "Write {} and change the table {}?",
            config.display(),
            spec.table
        );
        if !self.yes && !asks {
            return Err(CommandError::usage(
                "nothing was changed: add --yes to write the file and change the table",
            ));
        }
        if asks && !confirm_in_terminal(&question)? {
            return Err(CommandError::not_confirmed("nothing was changed"));
        }
        // To open a SQLite file for changes puts it into WAL mode.
        drop(schema);
        let mut schema = self.open(SchemaAccess::Change)?;
        write_new(&config, &text)?;
        self.change_table(schema.as_mut(), &spec, &steps, &undo)
            .map_err(|error| {
                error.with_hint(&format!(
                    "{} is written: {}",
                    config.display(),
                    after_failure(&config, &spec)
                ))
            })?;
        let config = config.display().to_string();
        print_line!(
            "wrote {config}, and {}, which removes the change again while no broker runs",
            undo.display()
        );
        if self.serve {
            return serve(&config);
        }
        let default = DEFAULT_ADDRESS.to_string();
        let listen = self.listen.as_deref().unwrap_or(&default);
        print_line!(
            "next:  lease-broker serve --config {}",
            text::shell_word(&config)
        );
        print_line!(
            "       lease-broker claim {}{}",
            text::shell_word(&spec.name),
            address_flag("http", listen)
        );
        Ok(())
    }

    /// Makes the changes to the table, and writes the SQL that undoes them.
    fn change_table(
        &self,
        schema: &mut dyn Schema,
        spec: &QueueSpec,
        steps: &[Step],
        undo: &Path,
    ) -> Result<(), CommandError> {
        schema.create_broker_tables()?;
        let applied = steps
            .iter()
            .try_for_each(|step| apply_step(schema, spec, step, self.pace.pace));
        // After a failure too: the file undoes the steps that were applied.
        let written = write_undo(schema, spec, undo);
        applied.and(written)
    }

    fn database(&self) -> Database<'_> {
        match (&self.store, &self.connection_string_file) {
            (_, Some(file)) => Database::Mssql(file),
            (store, None) => Database::Sqlite(store.as_deref().unwrap_or(Path::new(""))),
        }
    }

    /// Opens the schema. The configuration at this moment has no queue over the table.
    fn open(&self, access: SchemaAccess) -> Result<Box<dyn Schema>, CommandError> {
        if let Some(path) = self.store.as_ref().filter(|path| !path.exists()) {
            return Err(CommandError::io(format!(
                "file {} does not exist",
                path.display()
            )));
        }
        let none = Proposal {
            queue: "none".to_owned(),
            table: "none".to_owned(),
            key: Vec::new(),
            writable: Vec::new(),
            mirror: Vec::new(),
            renamed: Vec::new(),
        };
        let config = load(&config_file::render(&none, &self.database(), None))?;
        open_schema(&config, access)
    }

    fn files(&self, queue: &str) -> (PathBuf, PathBuf) {
        // A queue's name can hold characters that are not for a file's name.
        let name: String = queue
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || "-_.".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let or = |file: &Option<PathBuf>, end| {
            file.clone()
                .unwrap_or_else(|| format!("{name}{end}").into())
        };
        (or(&self.config, ".toml"), or(&self.undo, ".undo.sql"))
    }

    fn table(&self, schema: &mut dyn Schema, asks: bool) -> Result<String, CommandError> {
        if let Some(table) = &self.table {
            return Ok(table.clone());
        }
        let mut tables = schema.tables()?;
        match tables.len() {
            0 => Err(CommandError::usage("the database has no tables")),
            1 => Ok(tables.remove(0)),
            _ if asks => {
                let chosen = Select::new()
                    .with_prompt("Table")
                    .items(&tables)
                    .default(0)
                    .interact();
                Ok(tables.swap_remove(chosen?))
            }
            _ => Err(CommandError::usage(format!(
                "--table is missing; the database has {}",
                tables.join(", ")
            ))),
        }
    }

    /// Proposes the settings, and asks for those that no flag gives.
    fn propose(
        &self,
        schema: &mut dyn Schema,
        survey: &Survey,
        table: String,
        asks: bool,
    ) -> Result<Proposal, CommandError> {
        let key = match &*self.key {
            [] => proposal::key(survey).ok_or_else(|| no_key(&table, survey))?,
            key => key.to_vec(),
        };
        let mut queue = self
            .queue
            .clone()
            .unwrap_or_else(|| proposal::queue_name(&table));
        if asks && self.queue.is_none() {
            let asked = Input::new().with_prompt("Name of the queue").default(queue);
            queue = asked.interact_text()?;
        }
        let mirror = self.mirror(schema, survey, &table, asks)?;
        if let Some(problem) = mirror_choice::hidden_deaths(&mirror) {
            print_line!("warning: {problem}");
        }
        let writable = match &self.writable {
            Some(columns) => columns
                .iter()
                .filter(|name| !name.is_empty())
                .cloned()
                .collect(),
            None => choose_writable(survey, &mirror, &key, asks)?,
        };
        Ok(Proposal {
            queue,
            renamed: proposal::renamed(survey),
            table,
            key,
            writable,
            mirror,
        })
    }

    /// Returns the mirror columns that the flags give. Without flags, those of the guess.
    fn mirror(
        &self,
        schema: &mut dyn Schema,
        survey: &Survey,
        table: &str,
        asks: bool,
    ) -> Result<Mirror, CommandError> {
        if let Some(flags) = &self.mirror {
            return mirror_choice::parse(flags);
        }
        let values = |column: &str| schema.values(table, column, MAX_VALUES);
        let guess = mirror_guess::guess(survey, values)?;
        let rows = if survey.rows > SAMPLED_ROWS {
            format!("rows among the first {SAMPLED_ROWS} of {table}")
        } else {
            format!("rows of {table}")
        };
        if asks {
            mirror_choice::ask(guess, &rows)
        } else {
            mirror_choice::take(guess, &rows)
        }
    }

    fn no_table(&self, schema: &mut dyn Schema, table: &str) -> CommandError {
        let tables = schema.tables().unwrap_or_default();
        let tables = if tables.is_empty() {
            "none".to_owned()
        } else {
            tables.join(", ")
        };
        // SQL Server hides a table from a login without rights on it.
        CommandError::usage(match self.connection_string_file {
            Some(_) => {
                format!("the login sees no table {table:?} in the database; it sees {tables}")
            }
            None => format!("the database has no table {table:?}; it has {tables}"),
        })
    }
}

/// Returns the error for a table whose rows nothing tells apart.
fn no_key(table: &str, survey: &Survey) -> CommandError {
    CommandError::usage(match survey.nullable_keys.first() {
        Some(key) => {
            let columns = key.join(", ");
            let named = if key.len() <= MAX_KEY_COLUMNS {
                let flag = text::shell_word(&key.join(","));
                format!(", or give --key {flag} if no row has NULL in them")
            } else {
                String::new()
            };
            format!(
                "table {table:?}: the columns of its key ({columns}) can be NULL, and NULL does not tell rows apart: declare them NOT \
                 NULL{named}"
            )
        }
        None => format!(
            "table {table:?} has no primary key and no unique index whose columns are NOT NULL: add one, because the broker has to tell \
             rows apart; or name the columns of a key that has no NULL with --key"
        ),
    })
}

/// Returns the commands that continue and undo an adoption that failed after its configuration was written.
fn after_failure(config: &Path, spec: &QueueSpec) -> String {
    let config = config.display().to_string();
    let (config, queue) = (text::shell_word(&config), text::shell_word(&spec.name));
    format!(
        "`lease-broker schema apply --config {config}` continues an adoption that failed, and `lease-broker schema drop --config {config} \
         {queue} --run` undoes it"
    )
}

/// Loads a configuration file's text, without the environment.
fn load(text: &str) -> Result<Config, CommandError> {
    let io = |error| CommandError::io(format!("cannot write a temporary file: {error}"));
    let mut file = tempfile::NamedTempFile::new().map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    let sources = Sources {
        file: Some(file.path().to_owned()),
        ..Sources::default()
    };
    let config = sources.load();
    config.map_err(|error| CommandError::usage(format!("{}: {}", error.key, error.reason)))
}

fn queue_spec(text: &str) -> Result<QueueSpec, CommandError> {
    let mut queues = load(text)?.queues;
    queues
        .pop()
        .ok_or_else(|| CommandError::usage("the configuration has no queue"))
}

fn choose_writable(
    survey: &Survey,
    mirror: &Mirror,
    key: &[String],
    asks: bool,
) -> Result<Vec<String>, CommandError> {
    let mut columns = proposal::result_columns(survey, mirror, key);
    if !asks || columns.is_empty() {
        return Ok(columns);
    }
    let prompt = "Columns that workers may write (space selects, Enter ends)";
    let all = vec![true; columns.len()];
    let chosen = MultiSelect::new()
        .with_prompt(prompt)
        .items(&columns)
        .defaults(&all)
        .interact();
    let chosen = chosen?;
    let mut index = 0..;
    columns.retain(|_| index.next().is_some_and(|index| chosen.contains(&index)));
    Ok(columns)
}

/// Prints the file, the changes with their locks, and warnings.
fn print_plan(
    schema: &mut dyn Schema,
    spec: &QueueSpec,
    survey: &Survey,
    text: &str,
    config: &Path,
    steps: &[Step],
) -> Result<(), CommandError> {
    print_line!("-- {}", config.display());
    print_line!("{text}");
    let rows = plural(survey.rows, "row");
    print_line!(
        "-- {} changes to the table {}, which has {rows}",
        steps.len(),
        spec.table
    );
    let mut table = output::table();
    for step in steps {
        table.add_row([step.purpose.as_str(), schema.lock(step)]);
    }
    output::align_left(&mut table);
    print_line!("{}", table.trim_fmt());
    for warning in schema.warnings(spec)? {
        print_line!("warning: {warning}");
    }
    print_line!("");
    Ok(())
}

/// Writes a file that must not exist yet. If it cannot be written in full, it is removed again.
fn write_new(path: &Path, text: &str) -> Result<(), CommandError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| {
        let written = file.write_all(text.as_bytes());
        written.inspect_err(|_| drop(std::fs::remove_file(path)))
    });
    written.map_err(|error| CommandError::io(format!("{}: {error}", path.display())))
}

/// Writes the SQL that removes what was added.
fn write_undo(schema: &mut dyn Schema, spec: &QueueSpec, path: &Path) -> Result<(), CommandError> {
    let text = match schema.plan_removal(spec) {
        Ok(removal) => {
            let scripts = removal.steps.iter().map(|step| schema.script(step) + "\n");
            format!(
                "-- Removes from the table {} what lease-broker added. Stop every broker on the database first: all leases and\n\
                 -- states are lost. `lease-broker schema drop` does the same and checks it. Use a program that stops at the first\n\
                 -- error, such as sqlite3 -bail or sqlcmd -b.\n\n{}",
                spec.table,
                scripts.collect::<Vec<_>>().join("\n")
            )
        }
        Err(problem) => format!("-- {problem}\n"),
    };
    write_new(path, &text)
}

/// The error for a question that was not answered.
impl From<dialoguer::Error> for CommandError {
    fn from(error: dialoguer::Error) -> Self {
        Self::io(format!("no answer: {error}"))
    }
}
