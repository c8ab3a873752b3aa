//! `schema`: what the queues' tables lack, and adding it.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;

use super::CommandError;
use super::config_args::{ConfigArgs, SchemaAccess, open_schema};
use super::output::print_line;
use crate::queue::QueueSpec;
use crate::store::schema;

/// See and add what a table needs to be a queue: soft-lock columns, indexes, an archive.
#[derive(Debug, Subcommand)]
pub(super) enum Schema {
    /// Print the SQL that the queues' tables lack; changes nothing
    Plan(QueueArgs),
    /// Run what `plan` prints
    Apply(QueueArgs),
    /// Say whether `serve` would start; exit code 64 if it would not
    Check(QueueArgs),
    /// Print the SQL that takes all of it away again; with --run, run it
    Drop(Drop),
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
    /// Queues to look at [default: all]
    queues: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Leases are lost with the columns that hold them. What stays: the table's own columns and rows, archives, soft-lock columns
that have names of their own (they may have been there before), and the broker's own tables, lease_broker_*.

Examples:
  lease-broker schema drop --config queues.toml rainfall
  lease-broker schema drop --config queues.toml rainfall --run")]
pub(super) struct Drop {
    #[command(flatten)]
    config: ConfigArgs,
    /// Queues to take from their tables
    #[arg(required = true)]
    queues: Vec<String>,
    /// Run the SQL
    #[arg(long)]
    run: bool,
}

impl Drop {
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
            let steps = schema.plan_removal(&queue)?;
            if steps.is_empty() {
                print_line!(
                    "-- queue {:?}, table {:?}: nothing to drop",
                    queue.name,
                    queue.table
                );
            }
            for step in steps {
                if self.run {
                    run(schema.as_mut(), &queue, &step)?;
                } else {
                    print_line!("{}\n", schema.script(&step));
                }
            }
        }
        Ok(())
    }
}

/// Runs one step with its progress shown.
fn run(
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
        format!(" ({rows} rows)")
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
            Self::Drop(drop) => drop.run(),
        }
    }
}

impl QueueArgs {
    fn plan(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Read)?;
        for queue in queues {
            let steps = schema.plan(&queue)?;
            let verdict = if steps.is_empty() {
                "nothing is missing"
            } else {
                "run in this order"
            };
            print_line!(
                "-- queue {:?}, table {:?}: {verdict}",
                queue.name,
                queue.table
            );
            for step in steps {
                print_line!("\n{}", schema.script(&step));
            }
            for suggestion in schema.suggestions(&queue)? {
                print_line!("\n-- not needed, but worth a thought: {suggestion}");
            }
            print_line!("");
        }
        Ok(())
    }

    fn apply(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Change)?;
        for queue in queues {
            let steps = schema.plan(&queue)?;
            if steps.is_empty() {
                print_line!("{}: nothing is missing", queue.name);
            }
            for step in steps {
                run(schema.as_mut(), &queue, &step)?;
            }
        }
        Ok(())
    }

    fn check(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Read)?;
        let mut problems = 0;
        for queue in queues {
            if queue.managed.is_some() && !schema.plan(&queue)?.is_empty() {
                print_line!("{}: ok, serve makes what is missing", queue.name);
                continue;
            }
            let missing = schema.check(&queue)?;
            problems += missing.len();
            if missing.is_empty() {
                print_line!("{}: ok", queue.name);
            }
            for problem in missing {
                print_line!("{}: {problem}", queue.name);
            }
        }
        match problems {
            0 => Ok(()),
            _ => Err(CommandError::usage(
                "something is missing: `lease-broker schema apply` adds it",
            )),
        }
    }

    /// Reads the configuration and opens the store's schema.
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
