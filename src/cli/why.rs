//! `why`: tells an operator why an item is not being claimed.

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_model::item_state::State;
use lease_broker_model::key::rfc3339_of_millis;
use lease_broker_model::millis::duration_between;
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::text;
use lease_broker_store::{Ahead, ForeignLock, ItemFacts, ItemRow, QueueIndex};
use serde_json::json;

use super::CommandError;
use super::config_args::{ConfigArgs, configured_queue, open_to_read};
use super::operate::complete;
use super::output::{OutputFormat, Row, moment, print_line, seconds};
use crate::why::{Cause, causes, short_duration};

/// Tell why an item is not being claimed
///
/// Prints one paragraph: the state of the item, its attempts, its worker, its last error, and what it waits for. Reads the store
/// directly with the configuration of the service, which need not run. Needs no right to write. Takes up to a second if another
/// program holds a lock.
#[derive(Debug, Args)]
#[command(after_help = "\
Causes: delayed, delay_over, no_due_time, leased, lease_expired, completed, dead, paused (the queue), group_paused, group_halted \
(by a dead item), group_leased and group_delayed (by an item of a group that keeps an order), group_full, max_leases, rate, \
behind (other ready items come first), first, suspect, changing, locked (a foreign transaction holds a lock), no_broker, not_served, \
draining, brokers_unknown, unknown_state, no_row. Several can hold, the worst first.

Fields of --output json and csv: queue; key; state; causes; text (the paragraph); attempt; max_attempts (null: no limit); owner; \
state_time and age_seconds; due_time and due_in_seconds; error; fencing_token; ahead (ready items that come first) and \
ahead_is_lower_bound; locked (row, file or null); blocking_session; blocking_login, blocking_host, blocking_program; brokers (number \
of brokers that run). Moments are RFC 3339 in UTC.

Examples:
  lease-broker why rainfall 4711
  lease-broker why orders '[\"de\",42]' --config queues.toml --output json

The exit code is 1 if no row has the key.")]
pub(super) struct Why {
    /// Queue of the item
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Key of the item, as `list` and `claim` print it
    #[arg(allow_hyphen_values = true, add = ArgValueCandidates::new(complete::keys))]
    key: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format. JSON has one object per line
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

/// The only queue of the store that is opened.
const QUEUE: QueueIndex = QueueIndex(0);

impl Why {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        let queue = configured_queue(&config, &self.queue)?;
        let store = open_to_read(&config, std::slice::from_ref(queue)).await?;
        let key = store.parse_key(QUEUE, &self.key);
        let key = key.map_err(|problem| CommandError::usage(problem).with_context("KEY"))?;
        let facts = store.item_facts(QUEUE, key.clone()).await?;
        let (key, causes) = (key.to_string(), causes(&facts, queue));
        let paragraph = paragraph(&facts, queue, &key, &causes);
        match self.output {
            OutputFormat::Table => print_line!("{paragraph}"),
            format => format.print(&[row(&facts, queue, key, &causes, paragraph)], ""),
        }
        match facts.row {
            Some(_) => Ok(()),
            None => Err(CommandError::failed("no row has this key")),
        }
    }
}

/// Returns the facts in sentences.
fn paragraph(facts: &ItemFacts, queue: &QueueSpec, key: &str, causes: &[Cause]) -> String {
    let name = format!("Item {} of queue {}", text::visible(key), queue.name);
    let mut sentences = Vec::new();
    match &facts.row {
        None => sentences.push(format!("{name} does not exist.")),
        Some(row) => {
            sentences.push(format!(
                "{name} {}",
                describe_state(row, facts.now, queue.retry.max_attempts)
            ));
            sentences.extend(describe_worker(row));
            if let Some(error) = row.error.as_deref().filter(|error| !error.is_empty()) {
                sentences.push(format!("The last error was: \"{}\".", text::visible(error)));
            }
        }
    }
    for cause in causes {
        // A command at the end has no full stop, so that it can be copied.
        if let Some(before) = sentences.last_mut().filter(|text| !text.ends_with('.')) {
            before.push('.');
        }
        sentences.push(cause.sentence(&queue.name, key));
    }
    sentences.join(" ")
}

fn describe_state(row: &ItemRow, now: i64, max_attempts: Option<u32>) -> String {
    let state = row.state.map_or("in an unknown state", State::name);
    let since = match row.state_time {
        Some(time) => format!(
            " since {}, {} ago",
            rfc3339_of_millis(time),
            short_duration(duration_between(time, now))
        ),
        None => ", since an unknown time".to_owned(),
    };
    let attempts = match (row.attempt, max_attempts) {
        (0, None) => "no attempt was made".to_owned(),
        (1, None) => "1 attempt was made, and their number has no limit".to_owned(),
        (used, None) => format!("{used} attempts were made, and their number has no limit"),
        (used, Some(max)) => format!("{used} of {max} attempts are used"),
    };
    format!("is {state}{since}; {attempts}.")
}

fn describe_worker(row: &ItemRow) -> Option<String> {
    let owner = text::visible(row.owner.as_deref()?).into_owned();
    Some(match row.state {
        Some(State::Leased) => format!("Worker {owner} holds it."),
        Some(State::Completed) => format!("Worker {owner} completed it."),
        _ => format!("Worker {owner} had it last."),
    })
}

/// Returns the facts for programs.
fn row(
    facts: &ItemFacts,
    queue: &QueueSpec,
    key: String,
    causes: &[Cause],
    paragraph: String,
) -> Row {
    let row = facts.row.as_ref();
    let age = row.and_then(|row| Some(duration_between(row.state_time?, facts.now)));
    let due_time = row.and_then(|row| row.due_time);
    let due_in = due_time.map(|due| duration_between(facts.now, due));
    let (ahead, is_lower_bound) = match row.and_then(|row| row.ahead) {
        Some(Ahead::Exactly(items)) => (Some(items), Some(false)),
        Some(Ahead::AtLeast(items)) => (Some(items), Some(true)),
        None => (None, None),
    };
    let (locked, session) = match &facts.lock {
        None => (None, None),
        Some(ForeignLock::File) => (Some("file"), None),
        Some(ForeignLock::Row(session)) => (Some("row"), session.as_ref()),
    };
    let names: Vec<&str> = causes.iter().map(Cause::name).collect();
    let state = row.and_then(|row| row.state).map(State::name);
    let text_of_session = |text: fn(&lease_broker_store::BlockingSession) -> &Option<String>| {
        json!(session.and_then(|session| text(session).as_deref()))
    };
    Row::default()
        .data("queue", queue.name.clone())
        .data("key", key)
        .data("state", state)
        .data("causes", names)
        .data("text", paragraph)
        .data("attempt", row.map(|row| row.attempt))
        .data("max_attempts", queue.retry.max_attempts)
        .data("owner", json!(row.and_then(|row| row.owner.as_deref())))
        .data("state_time", moment(row.and_then(|row| row.state_time)))
        .data("age_seconds", seconds(age))
        .data("due_time", moment(due_time))
        .data("due_in_seconds", seconds(due_in))
        .data("error", json!(row.and_then(|row| row.error.as_deref())))
        .data("fencing_token", row.map(|row| row.fence))
        .data("ahead", ahead)
        .data("ahead_is_lower_bound", is_lower_bound)
        .data("locked", locked)
        .data("blocking_session", session.map(|session| session.id))
        .data("blocking_login", text_of_session(|session| &session.login))
        .data("blocking_host", text_of_session(|session| &session.host))
        .data(
            "blocking_program",
            text_of_session(|session| &session.program),
        )
        .data("brokers", facts.brokers.as_ref().map(Vec::len))
}
