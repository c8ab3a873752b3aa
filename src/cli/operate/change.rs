//! Changes many items by an operation: counts them, asks, starts the operation, and waits for its end.

use std::io::{IsTerminal as _, stderr};

use clap::Args;
use lease_broker_proto::{self as proto, start_operation_request::Action};
use serde_json::json;
use uuid::Uuid;

use super::admin::Admin;
use super::change_kind::ChangeKind;
use super::filter_args::FilterArgs;
use super::operation_row::operation_row;
use super::place_args::PlaceArgs;
use super::progress::{check_end, follow};
use crate::cli::CommandError;
use crate::cli::confirm::confirm_change;
use crate::cli::output::{Row, note};

/// The part of the help texts about operations.
pub(super) const OPERATION: &str = "\
The command starts an operation, which is stored in the database: brokers run it, up to 500 items in a transaction, also when this \
command or a broker is killed. With --config or --store the command runs it itself: if it is interrupted while no broker runs, \
`lease-broker operations continue` goes on. `lease-broker operations` shows operations.

Exit codes: 2, no item fits; 3, the answer to the question was no; 4, the operation failed, was cancelled or interrupted, or the \
database refused some of its items, and the message says how far it came.";

/// Flags of the commands that change many items.
#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    /// Maximum number of items to change [default: all that fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    limit: Option<i64>,
    /// Maximum number of items to change per second, such as 50/s [default: as fast as the database allows]
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    rate: Option<i32>,
    /// Count the items and change none
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask. Required for more than one item if there is no terminal
    #[arg(long)]
    yes: bool,
    /// Wait for the end of the operation, or with --wait=false do not [default: true on a terminal, and with --config or --store]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    wait: Option<bool>,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

impl ChangeArgs {
    /// Returns whether the items are only counted.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns whether the user has confirmed the change by a flag.
    pub(super) fn says_yes(&self) -> bool {
        self.yes
    }

    /// Returns whether no flag is given that bounds an operation.
    fn has_no_bounds(&self) -> bool {
        self.limit.is_none() && self.rate.is_none() && self.wait.is_none()
    }

    /// Returns whether the items are selected by `--before` only.
    ///
    /// # Errors
    /// Exit code 64.
    pub(super) fn has_only_before(&self) -> Result<bool, CommandError> {
        let filter = proto::ItemFilter {
            state_before: None,
            ..self.filter.filter(&[])?
        };
        Ok(self.has_no_bounds() && filter == proto::ItemFilter::default())
    }
}

/// Parses a rate such as `50/s`.
fn parse_rate(text: &str) -> Result<i32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse() {
        Ok(rate @ 1..) => Ok(rate),
        _ => Err("must be a whole number of items per second, such as 50/s".to_owned()),
    }
}

/// The items that an operation will change.
#[derive(Clone, Copy)]
pub(super) struct Count {
    matched: i64,
    at_least: bool,
}

impl Count {
    fn text(self) -> String {
        let Self { matched, at_least } = self;
        if at_least {
            format!("at least {matched}")
        } else {
            matched.to_string()
        }
    }
}

/// A change of many items.
pub(super) struct Change<'a> {
    pub(super) queue: String,
    /// The keys of the only items. Empty: the filter selects them.
    pub(super) keys: &'a [String],
    pub(super) action: Action,
    pub(super) reason: String,
    pub(super) args: &'a ChangeArgs,
}

impl Change<'_> {
    fn kind(&self) -> ChangeKind {
        ChangeKind::of_request(&self.action)
    }

    fn request(&self, dry_run: bool) -> Result<proto::StartOperationRequest, CommandError> {
        let request_id = if dry_run {
            String::new()
        } else {
            Uuid::new_v4().to_string()
        };
        Ok(proto::StartOperationRequest {
            queue: self.queue.clone(),
            filter: Some(self.args.filter.filter(self.keys)?),
            action: Some(self.action),
            limit: self.args.limit.unwrap_or(0),
            max_per_second: self.args.rate.unwrap_or(0),
            dry_run,
            request_id,
            reason: self.reason.clone(),
        })
    }

    /// Returns whether the items are only counted.
    pub(super) fn is_dry_run(&self) -> bool {
        self.args.dry_run
    }

    /// Refuses flags that mean nothing for a change of named items at once.
    ///
    /// # Errors
    /// Exit code 64.
    pub(super) fn refuse_flags_of_operations(&self) -> Result<(), CommandError> {
        let has_filter = self.args.filter.filter(&[])? != proto::ItemFilter::default();
        if self.args.has_no_bounds() && !has_filter {
            return Ok(());
        }
        Err(CommandError::usage(
            "keys cannot be combined with --limit, --rate, --wait and the flags of the filter",
        ))
    }

    /// Runs the command.
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let place = &self.args.place;
        if self.args.dry_run {
            let admin = place.look(Some(&self.queue)).await?;
            return self.count(&admin).await.and_then(|count| self.print(count));
        }
        let admin = place.change(Some(&self.queue)).await?;
        let waits = match self.args.wait {
            Some(false) if admin.runs_operations() => {
                return Err(CommandError::usage(
                    "--wait=false: the command runs the operation itself with --config or --store; call the service instead",
                ));
            }
            Some(waits) => waits,
            None => admin.runs_operations() || stderr().is_terminal(),
        };
        // A command that waits learns at the end that no item fits.
        let counts = !waits || stderr().is_terminal();
        let count = self.confirm(&admin, counts).await?;
        let started = admin.start_operation(self.request(false)?).await?;
        let started = started.operation.unwrap_or_default();
        let id = &started.operation_id;
        if !waits {
            let sentence = format!("operation {id} has started");
            place
                .output()
                .print_result(&sentence, &operation_row(&started));
            return Ok(());
        }
        if stderr().is_terminal() || !admin.runs_operations() {
            note(&format!(
                "operation {id}: `lease-broker operations {id} --watch` shows it elsewhere, and `operations cancel {id}` stops it"
            ));
        }
        let total = count.filter(|count| !count.at_least);
        let total = total.map(|count| count.matched.unsigned_abs());
        let ended = follow(&admin, id, total).await?;
        let done = self.kind().done(ended.changed);
        place.output().print_result(&done, &operation_row(&ended));
        check_end(&ended)
    }

    /// Counts the items.
    async fn count(&self, admin: &Admin) -> Result<Count, CommandError> {
        let counted = admin.start_operation(self.request(true)?).await?;
        Ok(Count {
            matched: counted.matched,
            at_least: counted.at_least,
        })
    }

    /// Counts the items, and asks if there are several. `counts`: the number is also needed if the user has confirmed the change by a
    /// flag. `None`: they were not counted.
    pub(super) async fn confirm(
        &self,
        admin: &Admin,
        counts: bool,
    ) -> Result<Option<Count>, CommandError> {
        if self.args.yes && !counts {
            return Ok(None);
        }
        let count = self.count(admin).await?;
        if count.matched == 0 && !count.at_least {
            return Err(self.nothing_matched());
        }
        if count.matched != 1 || count.at_least {
            let question = self.kind().question(&count.text(), &self.queue);
            confirm_change(&question, self.args.yes)?;
        }
        Ok(Some(count))
    }

    fn print(&self, count: Count) -> Result<(), CommandError> {
        let kind = self.kind();
        let (items, state, queue) = (count.text(), kind.state(), &self.queue);
        let sentence = match count.matched {
            1 => format!("{items} {state} item of queue {queue} fits"),
            _ => format!("{items} {state} items of queue {queue} fit"),
        };
        let row = Row::default()
            .field("queue", self.queue.clone())
            .field("action", kind.name())
            .field("items", kind.state())
            .field("matched", count.matched)
            .field("at_least", json!(count.at_least));
        self.args.place.output().print_result(&sentence, &row);
        match (count.matched, count.at_least) {
            (0, false) => Err(self.nothing_matched()),
            _ => Ok(()),
        }
    }

    fn nothing_matched(&self) -> CommandError {
        let (state, queue) = (self.kind().state(), &self.queue);
        CommandError::nothing_matched(format!("no {state} item of queue {queue} fits"))
    }
}
