//! Flags that select items by their worker, error, time, attempts and columns.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use lease_broker_proto as proto;
use prost_types::Timestamp;

use super::time_args::parse_past;
use crate::cli::CommandError;
use crate::cli::item_input::columns_from_texts;

/// The heading of these flags in the help. `next_help_heading` would also count for the flags that follow.
const HEADING: &str = "Filter";

/// The items. An item has to fit all flags that are given.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct FilterArgs {
    /// Only items that this worker holds or settled last
    #[arg(help_heading = HEADING, long, value_name = "WORKER", value_parser = NonEmptyStringValueParser::new())]
    owner: Option<String>,
    /// Only items whose last error contains this text
    #[arg(help_heading = HEADING, long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    error: Option<String>,
    /// Only items that have entered their state at this moment or later: RFC 3339, or a duration before now such as 2h
    #[arg(help_heading = HEADING, long, value_name = "TIME", value_parser = parse_past)]
    since: Option<Timestamp>,
    /// Only items that have entered their state before this moment, written like --since. Items whose time is unknown do not fit
    #[arg(help_heading = HEADING, long, value_name = "TIME", value_parser = parse_past)]
    pub(super) before: Option<Timestamp>,
    /// Only items that have used N attempts or more
    #[arg(help_heading = HEADING, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    min_attempt: Option<i32>,
    /// Only items with this value in a column that the queue's setting `filterable` lists. Can be repeated for other columns
    #[arg(help_heading = HEADING, long = "column", value_name = "NAME=VALUE", value_parser = parse_column)]
    columns: Vec<(String, String)>,
}

fn parse_column(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let (name, value) = parts.ok_or_else(|| "must be NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

impl FilterArgs {
    /// Returns the filter. `keys`: the keys of the only items, which cannot be combined with the flags.
    ///
    /// # Errors
    /// Wrong usage: a column is named twice.
    pub(super) fn filter(&self, keys: &[String]) -> Result<proto::ItemFilter, CommandError> {
        let columns = self.columns.iter();
        let columns = columns.map(|(name, value)| (name.as_str(), value.as_str()));
        let columns = columns_from_texts(columns);
        let columns =
            columns.map_err(|problem| CommandError::usage(format!("--column: {problem}")))?;
        Ok(proto::ItemFilter {
            keys: keys.to_vec(),
            owner: self.owner.clone().unwrap_or_default(),
            error_contains: self.error.clone().unwrap_or_default(),
            state_since: self.since,
            state_before: self.before,
            min_attempt: self.min_attempt.unwrap_or(0),
            columns: columns.into_iter().collect(),
        })
    }
}
