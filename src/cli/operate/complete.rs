//! Values for the completion of command lines: queues, keys, operations and brokers.
//!
//! The shell runs this program with the line that is being typed. The candidates come from the service or the database that the line
//! names. The program must not keep a person waiting, so it gives up after [`LIMIT`], and an error means that there are no candidates.

use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{ArgMatches, Command};
use clap_complete::{CompleteEnv, CompletionCandidate};
use lease_broker_proto::{self as proto, ItemState};

use super::place_args::PlaceArgs;
use crate::cli::CommandError;
use crate::cli::runtime::block_on;
use crate::grpc::Words as _;

/// The time limit for the candidates.
const LIMIT: Duration = Duration::from_millis(300);
/// The maximum number of candidates.
const MAX_CANDIDATES: i32 = 100;

type Candidates = Vec<CompletionCandidate>;

/// Returns all commands with their flags.
static PROGRAM: OnceLock<fn() -> Command> = OnceLock::new();

/// If a shell asks for candidates by the environment variable `COMPLETE`, prints them and ends the process.
pub(in crate::cli) fn answer_shell(program: fn() -> Command) {
    let program = PROGRAM.get_or_init(|| program);
    CompleteEnv::with_factory(program).complete();
}

/// Returns the names of the queues.
pub(in crate::cli) fn queues() -> Candidates {
    ask(async |place, _| {
        let names = place.look(None).await?.queue_names().await;
        Ok(names.into_iter().map(CompletionCandidate::new).collect())
    })
}

/// Returns the keys of items in any state that a person looks at.
pub(in crate::cli) fn keys() -> Candidates {
    let states = [ItemState::Leased, ItemState::Dead, ItemState::Ready];
    ask(async move |place, line| keys_in(&place, &line, &states).await)
}

/// Returns the keys of leased items.
pub(super) fn leased_keys() -> Candidates {
    ask(async |place, line| keys_in(&place, &line, &[ItemState::Leased]).await)
}

/// Returns the keys of dead items.
pub(super) fn dead_keys() -> Candidates {
    ask(async |place, line| keys_in(&place, &line, &[ItemState::Dead]).await)
}

async fn keys_in(
    place: &PlaceArgs,
    line: &ArgMatches,
    states: &[ItemState],
) -> Result<Candidates, CommandError> {
    let queue = line.try_get_one::<String>("queue").ok().flatten();
    let Some(queue) = queue else {
        return Ok(Vec::new());
    };
    let admin = place.look(Some(queue)).await?;
    let mut candidates = Vec::new();
    for state in states {
        let request = proto::ListItemsRequest {
            queue: queue.clone(),
            state: (*state).into(),
            page_size: MAX_CANDIDATES,
            ..proto::ListItemsRequest::default()
        };
        let items = admin.list_items(request).await?.items.into_iter();
        candidates.extend(items.map(|item| CompletionCandidate::new(item.key)));
    }
    Ok(candidates)
}

/// Returns the ids of operations.
pub(super) fn operations() -> Candidates {
    ask(async |place, _| {
        let admin = place.look(None).await?;
        let request = proto::ListOperationsRequest {
            page_size: MAX_CANDIDATES,
            ..proto::ListOperationsRequest::default()
        };
        let operations = admin.list_operations(request).await?.operations;
        let candidate = |operation: proto::Operation| {
            let help = format!("{} {}", operation.queue, operation.state().word());
            CompletionCandidate::new(operation.operation_id).help(Some(help.into()))
        };
        Ok(operations.into_iter().map(candidate).collect())
    })
}

/// Returns the ids of brokers.
pub(super) fn brokers() -> Candidates {
    ask(async |place, _| {
        let admin = place.look(None).await?;
        let brokers = admin.list_brokers(proto::ListBrokersRequest {}).await?;
        let live = brokers.brokers.into_iter().filter(|broker| broker.is_live);
        let candidate = |broker: proto::BrokerInstance| {
            CompletionCandidate::new(broker.broker_id).help(Some(broker.address.into()))
        };
        Ok(live.map(candidate).collect())
    })
}

/// Asks the service or the database that the line names.
fn ask<F>(question: impl FnOnce(PlaceArgs, ArgMatches) -> F + Send + 'static) -> Candidates
where
    F: Future<Output = Result<Candidates, CommandError>>,
{
    let (sender, answer) = channel();
    // The process ends after the answer, and with it a thread that still waits.
    std::thread::spawn(move || {
        let work = async {
            let line = line()?;
            let place = PlaceArgs::of_line(&line).map_err(|error| wrong_line(&error))?;
            let _ = sender.send(question(place, line).await?);
            Ok(())
        };
        let _ = block_on(work);
    });
    answer.recv_timeout(LIMIT).unwrap_or_default()
}

/// Parses the line that is being typed, as far as it goes, and returns the flags of its innermost command.
fn line() -> Result<ArgMatches, CommandError> {
    // The shell gives the line after `--`.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let program = PROGRAM
        .get()
        .ok_or_else(|| CommandError::usage("no shell asks"))?;
    let parsed = program().ignore_errors(true).try_get_matches_from(words);
    let mut matches = parsed.map_err(|error| wrong_line(&error))?;
    while let Some((_, inner)) = matches.remove_subcommand() {
        matches = inner;
    }
    Ok(matches)
}

fn wrong_line(error: &clap::Error) -> CommandError {
    CommandError::usage(error.to_string())
}
