//! The exit code of a command, and how its item ends.

use std::os::unix::process::ExitStatusExt as _;

use lease_broker_client::{Context, DeadLetter, Done, HandlerError, Release, Retry, Row};
use lease_broker_proto::{self as proto, UnknownKind};

use super::child::{EndedCommand, MAX_ERROR_CHARS, MAX_FOLLOW_UP_BYTES, MAX_FOLLOW_UPS};
use super::settings::{PAUSE, Settings};
use crate::cli::item_input::item_from_text;

/// Exit codes of `sysexits.h`.
const EX_DATAERR: i32 = 65;
const EX_UNAVAILABLE: i32 = 69;
const EX_TEMPFAIL: i32 = 75;
/// Exit codes of a shell that cannot run a command.
const CANNOT_EXECUTE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Returns the end of the item. A command that was ended by the worker ends its item by the cause of that.
pub(super) async fn of_command(
    ended: EndedCommand,
    settings: &Settings,
    context: &Context,
) -> Result<Done, HandlerError> {
    if ended.status.code() == Some(0) {
        return follow_ups(&ended, settings);
    }
    context.check()?;
    let text = error_text(&ended);
    match ended.status.code() {
        Some(EX_TEMPFAIL) => Err(Retry::new(text).into()),
        Some(EX_DATAERR) => Err(DeadLetter::new(text).into()),
        Some(EX_UNAVAILABLE) => {
            context.unless_cancelled(tokio::time::sleep(PAUSE)).await?;
            Err(Release::new().into())
        }
        Some(code @ (CANNOT_EXECUTE | NOT_FOUND)) => {
            let program = settings.command.join(" ");
            Err(settings.mistake.set(format!(
                "{program}: exit code {code}: the command cannot be run"
            )))
        }
        _ => Err(HandlerError::failed(text)),
    }
}

/// Returns the status and the last characters of standard error, at most 1,024 together.
fn error_text(ended: &EndedCommand) -> String {
    let status = match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let mut error = String::new();
    for char in ended.error.trim_end().chars() {
        if char.is_control() {
            error.extend(char.escape_default());
        } else {
            error.push(char);
        }
    }
    if error.is_empty() {
        return status;
    }
    let room = MAX_ERROR_CHARS.saturating_sub(status.len() + 2);
    let cut = error.chars().count().saturating_sub(room);
    let tail: String = error.chars().skip(cut).collect();
    format!("{status}: {tail}")
}

fn follow_ups(ended: &EndedCommand, settings: &Settings) -> Result<Done, HandlerError> {
    let Some(queue) = &settings.follow_up else {
        return Ok(Done::new());
    };
    if ended.lines.len() > MAX_FOLLOW_UPS || ended.follow_up_bytes > MAX_FOLLOW_UP_BYTES {
        return Err(HandlerError::new(format!(
            "the command printed more than {MAX_FOLLOW_UPS} follow-ups or {MAX_FOLLOW_UP_BYTES} bytes"
        )));
    }
    let mut done = Done::new();
    for (index, line) in ended.lines.iter().enumerate() {
        let text = str::from_utf8(line).map_err(|error| error.to_string());
        let item = text.and_then(item_from_text);
        let item =
            item.map_err(|reason| HandlerError::new(format!("follow-up {}: {reason}", index + 1)))?;
        done = done.follow_up(queue, row_of(item)?);
    }
    Ok(done)
}

fn row_of(item: proto::NewItem) -> Result<Row, UnknownKind> {
    let columns = item.columns.into_iter();
    columns
        .map(|(name, value)| Ok((name, value.try_into()?)))
        .collect()
}
