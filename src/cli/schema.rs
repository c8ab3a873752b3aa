//! `schema`: prints, applies, checks and removes the schema changes that make a table a queue.

use std::io::{IsTerminal as _, stderr};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::schema::{self, TrialOutcome};

use super::config_args::{ConfigArgs, SchemaAccess, open_schema};
use super::output::{note, plural, print_line};
use super::{CommandError, confirm};

/// Prepare tables as queues: add soft-lock columns, indexes and archive tables
#[derive(Debug, Subcommand)]
pub(super) enum Schema {
    /// Print the missing schema changes as SQL, without running it
    Plan(QueueArgs),
    /// Apply the schema changes that `plan` prints, and create the broker's own tables, `lease_broker_*`
    Apply(ApplyArgs),
    /// Check that `serve` can start with the tables. If not, the exit code is 64
    Check(CheckArgs),
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
pub(super) struct ApplyArgs {
    #[command(flatten)]
    queues: QueueArgs,
    #[command(flatten)]
    pace: PaceArgs,
}

/// The pace of the step that completes the rows that a table had before.
#[derive(Debug, Args)]
pub(super) struct PaceArgs {
    /// Maximum number of rows per second that the back-fill visits [default: no limit]. It can be interrupted, and goes on where
    /// it stopped
    #[arg(long, value_name = "ROWS")]
    pub(super) pace: Option<NonZeroU64>,
}

impl ApplyArgs {
    fn run(self) -> Result<(), CommandError> {
        self.queues.apply(self.pace.pace)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
A trigger runs once per statement, for 0 to 1,000 rows. With --triggers the command lists the triggers of the table and of the \
tables that a cascade reaches, and runs them by changes of 0, 1 and 2 rows that are rolled back. SQL Server only.

Examples:
  lease-broker schema check --config queues.toml
  lease-broker schema check --config queues.toml --triggers rainfall")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    queues: QueueArgs,
    /// Also run the triggers of the tables, in transactions that are rolled back
    #[arg(long)]
    triggers: bool,
    /// Run them without asking. Required if standard input is not a terminal
    #[arg(long, requires = "triggers")]
    yes: bool,
}

impl CheckArgs {
    fn run(self) -> Result<(), CommandError> {
        if !self.triggers {
            return self.queues.check();
        }
        if !self.yes && !confirm::is_terminal() {
            return Err(CommandError::usage(
                "--triggers runs the triggers of the tables, and asks first; give --yes to run them without a question",
            ));
        }
        let (mut schema, queues) = self.queues.open(SchemaAccess::Read)?;
        let mut failed = 0;
        for queue in queues {
            failed += try_triggers(schema.as_mut(), &queue, self.yes)?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(CommandError::usage(
                "triggers fail: change them before a broker runs on the table",
            )),
        }
    }
}

/// Tries the triggers of a queue's table. Returns the number of changes at which they failed.
fn try_triggers(
    schema: &mut dyn schema::Schema,
    queue: &QueueSpec,
    yes: bool,
) -> Result<usize, CommandError> {
    const NOT_UNDONE: &str = "A rollback does not undo what they do outside of the transaction: mail that was sent, changes on \
                              linked servers, programs that were started. Numbers of identity columns and sequences that they \
                              take stay taken.";

    let name = &queue.name;
    let triggers = schema.triggers(queue)?;
    for trigger in &triggers {
        print_line!("{name}: {trigger}");
    }
    if triggers.is_empty() {
        print_line!("{name}: no triggers");
        return Ok(0);
    }
    note(NOT_UNDONE);
    let question = format!("Run the triggers of table {} now?", queue.table);
    if !yes && !confirm::confirm_in_terminal(&question)? {
        return Err(CommandError::not_confirmed("no trigger was run"));
    }
    let mut failed = 0;
    for schema::Trial { change, outcome } in schema.try_triggers(queue)? {
        match outcome {
            TrialOutcome::Passed => print_line!("{name}: {change}: ok"),
            TrialOutcome::NotTried(reason) => print_line!("{name}: {change}: not tried: {reason}"),
            TrialOutcome::Failed(error) => {
                failed += 1;
                print_line!("{name}: {change}: fails: {error}");
            }
        }
    }
    Ok(failed)
}

#[derive(Debug, Args)]
#[command(after_help = "\
All leases and states are lost, because the soft-lock columns hold them. The command drops only the columns and indexes that \
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
                "Drop the columns and indexes that lease-broker added to table {}, with all leases and states of queue {}?",
                queue.table, queue.name
            );
            if !self.yes && !confirm::confirm_in_terminal(&question)? {
                return Err(CommandError::not_confirmed("nothing was dropped"));
            }
            for (done, step) in removal.steps.iter().enumerate() {
                let hint = match done {
                    0 => "nothing was dropped",
                    _ => "the parts above are dropped; run the command again to drop the rest",
                };
                let dropped = apply_step(schema.as_mut(), &queue, step, None);
                dropped.map_err(|error| error.with_hint(hint))?;
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
    pace: Option<NonZeroU64>,
) -> Result<(), CommandError> {
    let bar = match (stderr().is_terminal(), step.until_no_rows) {
        (false, _) => ProgressBar::hidden(),
        (true, false) => ProgressBar::new_spinner(),
        (true, true) => ProgressBar::new(schema.count_rows(queue)?).with_style(rows_style()),
    };
    let bar = bar.with_message(step.purpose.clone());
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut rows = 0;
    let start = Instant::now();
    schema
        .apply(step, &mut |done| {
            rows = done.changed;
            bar.set_position(done.visited);
            std::thread::sleep(rest(done.visited, start.elapsed(), pace));
        })
        .map_err(|error| CommandError::from(error).with_context(&queue.name))?;
    bar.finish_and_clear();
    let rows = if step.until_no_rows {
        format!(" ({})", plural(rows, "row"))
    } else {
        String::new()
    };
    print_line!("{}: {}{rows}", queue.name, step.purpose);
    Ok(())
}

/// Returns the style of a progress bar that counts rows.
fn rows_style() -> ProgressStyle {
    let style = ProgressStyle::with_template(
        "{msg} {wide_bar} {human_pos} of {human_len} rows, {eta} left",
    );
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the time to rest after `visited` rows that took `elapsed`, so that at most `pace` rows per second are visited.
fn rest(visited: u64, elapsed: Duration, pace: Option<NonZeroU64>) -> Duration {
    let Some(pace) = pace else {
        return Duration::ZERO;
    };
    let millis = visited.saturating_mul(1_000) / pace;
    Duration::from_millis(millis).saturating_sub(elapsed)
}

impl Schema {
    pub(super) fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Plan(queues) => queues.plan(),
            Self::Apply(arguments) => arguments.run(),
            Self::Check(arguments) => arguments.run(),
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

    fn apply(self, pace: Option<NonZeroU64>) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Change)?;
        schema.create_broker_tables()?;
        for queue in queues {
            let lacked_changes = schema::apply_missing(schema.as_mut(), &queue, |schema, step| {
                apply_step(schema, &queue, step, pace)
            })?;
            if !lacked_changes {
                print_line!("{}: nothing is missing", queue.name);
            }
        }
        Ok(())
    }

    fn check(self) -> Result<(), CommandError> {
        let (mut schema, queues) = self.open(SchemaAccess::Read)?;
        let (mut problems, mut curable) = (0, true);
        for queue in queues {
            if queue.managed_columns.is_some() {
                let steps = schema.plan(&queue)?;
                if steps.iter().any(|step| step.creates_table_of(&queue)) {
                    print_line!("{}: ok, serve creates the table", queue.name);
                    continue;
                }
                if !steps.is_empty() {
                    let purposes = steps.iter().map(|step| &*step.purpose);
                    let purposes = purposes.collect::<Vec<_>>().join(", ");
                    print_line!("{}: ok, serve changes the table: {purposes}", queue.name);
                    continue;
                }
            }
            let mut missing = schema.check(&queue)?;
            problems += missing.len();
            if missing.is_empty() {
                print_line!("{}: ok", queue.name);
                for step in schema
                    .plan(&queue)?
                    .iter()
                    .filter(|step| step.until_no_rows)
                {
                    print_line!(
                        "{}: warning: `schema apply` has yet to {}; until then, claims lease them",
                        queue.name,
                        step.purpose
                    );
                }
            } else {
                let plan = schema.plan(&queue).map_err(|error| error.to_string());
                curable &= plan.as_ref().is_ok_and(|steps| !steps.is_empty());
                missing.extend(plan.err().filter(|refusal| *refusal != missing.join("; ")));
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
        let mut config = self.config.load(Vec::new())?;
        for name in &self.queues {
            if !config.queues.iter().any(|queue| queue.name == *name) {
                return Err(CommandError::usage(format!(
                    "no queue {name:?} is configured"
                )));
            }
        }
        // The tables of other queues can be missing.
        let is_selected =
            |queue: &QueueSpec| self.queues.is_empty() || self.queues.contains(&queue.name);
        config.queues.retain(is_selected);
        let schema = open_schema(&config, access)?;
        Ok((schema, config.queues))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_fill_rests_until_its_pace_allows_more() {
        let second = Duration::from_secs(1);
        let pace = NonZeroU64::new(2_000);
        assert_eq!(rest(2_000, Duration::ZERO, pace), second);
        assert_eq!(rest(4_000, second, pace), second);
        assert_eq!(rest(2_000, 2 * second, pace), Duration::ZERO);
        assert_eq!(rest(2_000, Duration::ZERO, None), Duration::ZERO);
    }
}
