//! `schema`: what the queues' tables lack, and adding it.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;

use super::Failure;
use super::output::say;
use super::settings::{Purpose, Settings, open_schema};
use crate::queue::QueueSpec;
use crate::store::schema;

/// See and add what a table needs to be a queue: soft-lock columns, indexes, an archive.
#[derive(Debug, Subcommand)]
pub(super) enum Schema {
    /// Print the SQL that the queues' tables lack; changes nothing
    Plan(Queues),
    /// Run what `plan` prints
    Apply(Queues),
    /// Say whether `serve` would start; exit code 64 if it would not
    Check(Queues),
    /// Print the SQL that takes all of it away again; with --run, run it
    Drop(Drop),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker schema plan --config queues.toml
  lease-broker schema apply --config queues.toml rainfall
  lease-broker schema check --config queues.toml")]
pub(super) struct Queues {
    #[command(flatten)]
    settings: Settings,
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
    settings: Settings,
    /// Queues to take from their tables
    #[arg(required = true)]
    queues: Vec<String>,
    /// Run the SQL
    #[arg(long)]
    run: bool,
}

impl Drop {
    fn run(self) -> Result<(), Failure> {
        let purpose = if self.run {
            Purpose::Change
        } else {
            Purpose::Read
        };
        let queues = Queues {
            settings: self.settings,
            queues: self.queues,
        };
        let (mut schema, queues) = queues.open(purpose)?;
        for queue in queues {
            let steps = schema.plan_drop(&queue)?;
            if steps.is_empty() {
                say!(
                    "-- queue {:?}, table {:?}: nothing to drop",
                    queue.name,
                    queue.table
                );
            }
            for step in steps {
                if self.run {
                    run(schema.as_mut(), &queue, &step)?;
                } else {
                    say!("{}\n", schema.script(&step));
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
) -> Result<(), Failure> {
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
    let rows = if step.repeat {
        format!(" ({rows} rows)")
    } else {
        String::new()
    };
    say!("{}: {}{rows}", queue.name, step.purpose);
    Ok(())
}

impl Schema {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Plan(queues) => queues.plan(),
            Self::Apply(queues) => queues.apply(),
            Self::Check(queues) => queues.check(),
            Self::Drop(drop) => drop.run(),
        }
    }
}

impl Queues {
    fn plan(self) -> Result<(), Failure> {
        let (mut schema, queues) = self.open(Purpose::Read)?;
        for queue in queues {
            let steps = schema.plan(&queue)?;
            let verdict = if steps.is_empty() {
                "nothing is missing"
            } else {
                "run in this order"
            };
            say!(
                "-- queue {:?}, table {:?}: {verdict}",
                queue.name,
                queue.table
            );
            for step in steps {
                say!("\n{}", schema.script(&step));
            }
            for advice in schema.advice(&queue)? {
                say!("\n-- not needed, but worth a thought: {advice}");
            }
            say!("");
        }
        Ok(())
    }

    fn apply(self) -> Result<(), Failure> {
        let (mut schema, queues) = self.open(Purpose::Change)?;
        for queue in queues {
            let steps = schema.plan(&queue)?;
            if steps.is_empty() {
                say!("{}: nothing is missing", queue.name);
            }
            for step in steps {
                run(schema.as_mut(), &queue, &step)?;
            }
        }
        Ok(())
    }

    fn check(self) -> Result<(), Failure> {
        let (mut schema, queues) = self.open(Purpose::Read)?;
        let mut problems = 0;
        for queue in queues {
            if queue.managed.is_some() && !schema.plan(&queue)?.is_empty() {
                say!("{}: ok, serve makes what is missing", queue.name);
                continue;
            }
            let missing = schema.check(&queue)?;
            problems += missing.len();
            if missing.is_empty() {
                say!("{}: ok", queue.name);
            }
            for problem in missing {
                say!("{}: {problem}", queue.name);
            }
        }
        match problems {
            0 => Ok(()),
            _ => Err(Failure::usage(
                "something is missing: `lease-broker schema apply` adds it",
            )),
        }
    }

    /// Reads the configuration and opens the store's schema.
    fn open(self, purpose: Purpose) -> Result<(Box<dyn schema::Schema>, Vec<QueueSpec>), Failure> {
        let config = self.settings.load(Vec::new())?;
        for name in &self.queues {
            if !config.queues.iter().any(|queue| queue.name == *name) {
                return Err(Failure::usage(format!("no queue {name:?} is configured")));
            }
        }
        let schema = open_schema(&config, purpose)?;
        let mut queues = config.queues;
        queues.retain(|queue| self.queues.is_empty() || self.queues.contains(&queue.name));
        Ok((schema, queues))
    }
}
