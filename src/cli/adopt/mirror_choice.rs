//! The choice of the columns that show the state of a row: by flags, by a person, or by the guess if it leaves no doubt.

use dialoguer::{Input, Select};
use lease_broker_model::item_state::State;
use lease_broker_model::text;
use toml::Value;

use super::config_file::mirror_lines;
use super::mirror_guess::{Candidate, Doubt, Guess, Unclear, Values};
use super::proposal::{Mirror, columns_of};
use crate::cli::CommandError;
use crate::cli::output::{plural, print_line};

/// The number of values of a column that a message names.
const NAMED_VALUES: usize = 10;

/// Parses the flags `--mirror STATE:COLUMN=VALUE`.
pub(super) fn parse(flags: &[String]) -> Result<Mirror, CommandError> {
    let mut mirror = Mirror::new();
    for flag in flags.iter().filter(|flag| !flag.is_empty()) {
        let parts = flag.split_once(':').and_then(|(state, rest)| {
            let (column, value) = rest.split_once('=')?;
            Some((State::from_name(state)?, column, value))
        });
        let (state, column, value) = parts.ok_or_else(|| {
            CommandError::usage(format!(
                "--mirror {flag:?} is not STATE:COLUMN=VALUE with the state ready, leased, delayed, completed or dead"
            ))
        })?;
        let value = match value.parse() {
            Ok(number) => Value::Integer(number),
            Err(_) => value.into(),
        };
        let entry = (column.to_owned(), value);
        match mirror.iter_mut().find(|(other, _)| *other == state) {
            Some((_, columns)) => columns.push(entry),
            None => mirror.push((state, vec![entry])),
        }
    }
    Ok(mirror)
}

/// Takes the guess if it leaves no doubt. `rows` names the rows that were read, such as `rows of Orders`.
pub(super) fn take(guess: Guess, rows: &str) -> Result<Mirror, CommandError> {
    let Guess {
        mut candidates,
        unclear,
    } = guess;
    let mut problems = Vec::new();
    if candidates.len() > 1 {
        problems.push("several columns can show that a row is done".to_owned());
    }
    problems.extend(unclear.iter().map(|unclear| unclear_column(rows, unclear)));
    let doubts = candidates.iter().flat_map(|candidate| &candidate.doubts);
    problems.extend(doubts.map(|doubt| doubtful_rows(rows, doubt)));
    if problems.is_empty() {
        let mirror = candidates.pop().map(|candidate| candidate.mirror);
        return Ok(mirror.unwrap_or_default());
    }
    let mut ways: Vec<String> = candidates
        .iter()
        .map(|candidate| flags(&candidate.mirror))
        .collect();
    ways.extend(unclear.iter().map(flags_of_unclear));
    if !unclear.is_empty() {
        ways.push("--mirror ''".to_owned());
    }
    Err(CommandError::usage(format!(
        "{}. To adopt the table as it is, give the values yourself: {}",
        problems.join("; "),
        ways.join(" or ")
    )))
}

/// Asks which way of the guess is right, and for the value of dead rows. Prints a warning for each doubt that is left.
pub(super) fn ask(guess: Guess, rows: &str) -> Result<Mirror, CommandError> {
    for unclear in &guess.unclear {
        let problem = unclear_column(rows, unclear);
        print_line!(
            "warning: {problem}; to give the values: {}",
            flags_of_unclear(unclear)
        );
    }
    let mut candidates = guess.candidates;
    if candidates.is_empty() {
        return Ok(Mirror::new());
    }
    let mut choices: Vec<String> = candidates
        .iter()
        .map(|candidate| mirror_lines(&candidate.mirror).replace('\n', ", "))
        .collect();
    choices.push("no column shows it".to_owned());
    let prompt = "How does the table show other programs that a row is done?";
    let chosen = Select::new()
        .with_prompt(prompt)
        .items(&choices)
        .default(0)
        .interact()?;
    if chosen == candidates.len() {
        return Ok(Mirror::new());
    }
    let Candidate { mut mirror, doubts } = candidates.swap_remove(chosen);
    for doubt in &doubts {
        print_line!("warning: {}", doubtful_rows(rows, doubt));
    }
    if let Some((column, leased)) = kept_by_dead_rows(&mirror) {
        let column = column.to_owned();
        let prompt = format!("Value of {column} for dead rows (empty: they keep {leased})");
        let input = Input::<String>::new().with_prompt(prompt).allow_empty(true);
        let value = input.interact_text()?;
        if !value.is_empty() {
            mirror.push((State::Dead, vec![(column, value.into())]));
        }
    }
    Ok(mirror)
}

/// Describes the rows of dead items, if they would show the values of leased ones. `None`: they show their own.
pub(super) fn hidden_deaths(mirror: &Mirror) -> Option<String> {
    let (column, value) = kept_by_dead_rows(mirror)?;
    Some(format!(
        "the row of an item that dies keeps {column} = {value}: add `dead = {{ {column} = … }}` to the section mirror before you serve \
         the queue"
    ))
}

/// Returns the column that shows leased rows, and dead rows too, with its value.
fn kept_by_dead_rows(mirror: &Mirror) -> Option<(&str, &Value)> {
    let dead = columns_of(mirror, State::Dead).map_or(&[][..], Vec::as_slice);
    let is_kept = |(column, value): &&(String, Value)| {
        // A name or a time says nothing about the state.
        let is_state = value.as_str().is_none_or(|text| !text.starts_with('$'));
        is_state && dead.iter().all(|(other, _)| other != column)
    };
    let mut leased = columns_of(mirror, State::Leased)?.iter();
    let (column, value) = leased.find(is_kept)?;
    Some((column, value))
}

fn unclear_column(rows: &str, unclear: &Unclear) -> String {
    format!(
        "{rows} have {} = {}, and no known value shows which of them are ready or which are done",
        unclear.column,
        shown(&unclear.values)
    )
}

fn doubtful_rows(rows: &str, doubt: &Doubt) -> String {
    let Doubt { column, values, .. } = doubt;
    let values = shown(values);
    let first = if doubt.in_progress {
        "let other programs finish the rows that they process, or give them the value of a ready row"
    } else {
        "give rows that are done the value of a done row"
    };
    format!("{rows} have {column} = {values}, and workers would get them: first {first}")
}

/// Renders values, each with its number of rows.
fn shown(values: &Values) -> String {
    let named = values.iter().take(NAMED_VALUES).map(|(value, rows)| {
        let value = text::visible(value);
        format!("{value:?} ({})", plural(*rows, "row"))
    });
    let mut named: Vec<String> = named.collect();
    if values.len() > NAMED_VALUES {
        named.push("…".to_owned());
    }
    named.join(", ")
}

/// Renders mirror columns as flags.
fn flags(mirror: &Mirror) -> String {
    let flags = mirror.iter().flat_map(|(state, columns)| {
        columns.iter().map(|(column, value)| {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            flag(*state, column, &value)
        })
    });
    flags.collect::<Vec<_>>().join(" ")
}

/// Renders the flags for a column, with VALUE for values that are not known.
fn flags_of_unclear(unclear: &Unclear) -> String {
    let is_unknown = |state: &State| columns_of(&unclear.mirror, *state).is_none();
    let unknown = [State::Ready, State::Completed].into_iter();
    let unknown = unknown.filter(is_unknown);
    let unknown = unknown.map(|state| flag(state, &unclear.column, "VALUE"));
    let known = Some(flags(&unclear.mirror)).filter(|flags| !flags.is_empty());
    known
        .into_iter()
        .chain(unknown)
        .collect::<Vec<_>>()
        .join(" ")
}

fn flag(state: State, column: &str, value: &str) -> String {
    let flag = format!("{}:{column}={value}", state.name());
    format!("--mirror {}", text::shell_word(&flag))
}
