//! `schema`: prints, applies, checks and removes the schema changes that make a table a queue.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::schema;

use super::config_args::{ConfigArgs, SchemaAccess, open_schema};
use super::output::{plural, print_line};
use super::{CommandError, confirm};

/// Prepare tables as queues: add soft-lock columns, indexes and archive tables
#[derive(Debug, Subcommand)]
pub(super) enum Schema {
    /// Print the missing schema changes as SQL, without running it
    Plan(QueueArgs),
    /// Apply the schema changes that `plan` prints, and create the broker's own tables, `lease_broker_*`
    Apply(QueueArgs),
    /// Check that `serve` can start with the tables. If not, the exit code is 64
    Check(QueueArgs),
    /// Print the SQL that removes the schema changes again, or run it with --run
    Drop(DropArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker schema plan --config queues.toml
  lease-broker schema apply --config queues.toml rainfall
  lease-broker schema check --config queues.toml")]
pub(super) struct QueueArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Names of the queues [default: all]
    queues: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
All leases and states are lost, because the soft-lock columns hold them. The command drops only the columns and indexes that
lease-broker has added and recorded. It keeps:
  - the columns, indexes and rows that the table had before, also columns with names of ours
  - the highest fencing token, so that the next adoption of the table counts on from it
  - archive tables
  - the tables lease_broker_*, which belong to the broker

With --run it refuses while leases are held or a broker runs on the database, and asks first if it runs in a terminal.

Examples:
  lease-broker schema drop --config queues.toml rainfall
  lease-broker schema drop --config queues.toml rainfall --run")]
pub(super) struct DropArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Names of the queues
    #[arg(required = true)]
    queues: Vec<String>,
    /// Run the SQL instead of printing it
    #[arg(long)]
    run: bool,
    /// Run it even while leases are held or a broker runs. The workers lose their leases, and the broker fails
    #[arg(long, requires = "run")]
    force: bool,
    /// Do not ask for confirmation in a terminal
    #[arg(long, requires = "run")]
    yes: bool,
}

impl DropArgs {
    fn run(self) -> Result<(), CommandError> {
        let access = if self.run {
            SchemaAccess::Change
        } else {
            SchemaAccess::Read
        };
        let queues = QueueArgs {
            config: self.config,
            queues: self.queues,
        };
        let (mut schema, queues) = queues.open(access)?;
        for queue in queues {
            let removal = schema.plan_removal(&queue)?;
            for kept in &removal.kept {
                print_line!("-- {kept}");
            }
            if removal.steps.is_empty() {
                print_line!(
                    "-- queue {:?}, table {:?}: nothing to drop",
                    queue.name,
                    queue.table
                );
                continue;
            }
            let uses = schema.uses(&queue)?;
            if !self.run {
                for reason in uses {
                    print_line!("-- warning: {reason}");
                }
                for step in &removal.steps {
                    print_line!("{}\n", schema.script(step));
                }
                continue;
            }
            if !uses.is_empty() && !self.force {
                return Err(CommandError::failed(format!(
                    "{}\nWith --force the parts are dropped all the same: workers lose their leases, and the broker fails.",
                    uses.join("\n")
                )));
            }
            let question = format!(
                "Drop {} columns and indexes of table {}, with all leases and states of queue {}?",
                removal.steps.len(),
                queue.table,
                queue.name
            );
            if !self.yes && !confirm::confirm_in_terminal(&question)? {
                return Err(CommandError::failed("nothing was dropped"));
            }
            for step in removal.steps {
                apply_step(schema.as_mut(), &queue, &step)?;
            }
        }
        Ok(())
    }
}

/// Applies one step and shows its progress.
pub(super) fn apply_step(
    schema: &mut dyn schema::Schema,
    queue: &QueueSpec,
    step: &schema::Step,
) -> Result<(), CommandError> {
    let bar = if stderr().is_terminal() {
        ProgressBar::new_spinner().with_message(step.purpose.clone())
    } else {
        ProgressBar::hidden()
    };
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut rows = 0;
    schema.apply(step, &mut |changed| {
        rows = changed;
        bar.set_message(format!("{}: {changed} rows", step.purpose));
    })?;
    bar.finish_and_clear();
    let rows = if step.until_no_rows {
        format!(" ({})", plural(rows, "row"))
    } else {
        String::new()
    };
    print_line!("{}: {}{rows}", queue.name, step.purpose);
    Ok(())
}

impl Schema {
    pub(super) fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Plan(queues) => queues.plan(),
            Self::Apply(queues) => queues.apply(),
            Self::Check(queues) => queues.check(),
            Self::Drop(arguments) => arguments.run(),
        }
    }
}

impl QueueArgs {
    fn plan(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Read)?;
        for queue in queues {
            let steps = schema.plan(&queue)?;
            let summary = if steps.is_empty() {
                "nothing is missing"
            } else {
                "run these statements in this order"
            };
            print_line!(
                "-- queue {:?}, table {:?}: {summary}",
                queue.name,
                queue.table
            );
            for step in steps {
                print_line!("\n{}", schema.script(&step));
            }
            for warning in schema.warnings(&queue)? {
                print_line!("\n-- warning: {warning}");
            }
            for suggestion in schema.suggestions(&queue)? {
                print_line!("\n-- optional: {suggestion}");
            }
            print_line!("");
        }
        Ok(())
    }

    fn apply(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Change)?;
        schema.create_broker_tables()?;
        for queue in queues {
            let steps = schema.plan(&queue)?;
            if steps.is_empty() {
                print_line!("{}: nothing is missing", queue.name);
            }
            for step in steps {
                apply_step(schema.as_mut(), &queue, &step)?;
            }
        }
        Ok(())
    }

    fn check(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Read)?;
        let (mut problems, mut curable) = (0, true);
        for queue in queues {
            if queue.managed_columns.is_some() && !schema.plan(&queue)?.is_empty() {
                print_line!("{}: ok, serve creates the table", queue.name);
                continue;
            }
            let missing = schema.check(&queue)?;
            problems += missing.len();
            if missing.is_empty() {
                print_line!("{}: ok", queue.name);
            } else {
                curable &= schema.plan(&queue).is_ok_and(|steps| !steps.is_empty());
            }
            for problem in missing {
                print_line!("{}: {problem}", queue.name);
            }
            for warning in schema.warnings(&queue)? {
                print_line!("{}: warning: {warning}", queue.name);
            }
        }
        match problems {
            0 => Ok(()),
            _ if curable => Err(CommandError::usage(
                "schema changes are missing; run `lease-broker schema apply`",
            )),
            _ => Err(CommandError::usage(
                "`lease-broker schema apply` cannot solve all of these problems: correct the tables or the configuration",
            )),
        }
    }

    /// Loads the configuration and opens the schema of the store. Returns it with the selected queues.
    fn open(
        self,
        access: SchemaAccess,
    ) -> Result<(Box<dyn schema::Schema>, Vec<QueueSpec>), CommandError> {
        let config = self.config.load(Vec::new())?;
        for name in &self.queues {
            if !config.queues.iter().any(|queue| queue.name == *name) {
                return Err(CommandError::usage(format!(
                    "no queue {name:?} is configured"
                )));
            }
        }
        let schema = open_schema(&config, access)?;
        let mut queues = config.queues;
        queues.retain(|queue| self.queues.is_empty() || self.queues.contains(&queue.name));
        Ok((schema, queues))
    }
}
