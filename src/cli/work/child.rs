//! The process of one item: its start, its streams, and its end.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lease_broker_client::{Context, HandlerError, Item, Release};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child as Process, Command};
use tokio::time::{sleep, timeout};

use super::lines::{for_each_line, write_error_line};
use super::settings::Settings;
use super::variables;
use crate::cli::output::write_line;

/// The time between SIGTERM and SIGKILL. The worker gives a cancelled handler 5 s.
const KILL_AFTER: Duration = Duration::from_secs(4);
/// The time in which the rest of the output is read after the end of the command. Its own children can hold the pipes open.
const OUTPUT_AFTER_END: Duration = Duration::from_secs(1);
/// The number of characters of standard error that are kept.
pub(super) const MAX_ERROR_CHARS: usize = 1_024;
/// The limits of the follow-ups of one item.
pub(super) const MAX_FOLLOW_UPS: usize = 1_000;
pub(super) const MAX_FOLLOW_UP_BYTES: usize = 1 << 20;

/// A command that runs. Dropping it kills its process group.
pub(super) struct Child {
    process: Process,
    group: Option<Pid>,
}

/// A command that has ended, and its output.
pub(super) struct EndedCommand {
    pub(super) status: ExitStatus,
    /// The lines of standard output, if they are follow-ups. One more than the limits allow.
    pub(super) lines: Vec<String>,
    pub(super) follow_up_bytes: usize,
    /// The last characters of standard error.
    pub(super) error: String,
}

impl Child {
    /// Starts the command in a process group of its own.
    ///
    /// # Errors
    /// The item cannot be passed to the command, or the command cannot be run. In the second case the worker ends.
    pub(super) fn spawn(settings: &Settings, item: &Item) -> Result<Self, HandlerError> {
        let (program, arguments) = settings.command.split_first().ok_or_else(Release::new)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        variables::set(&mut command, settings, item)?;
        match command.spawn() {
            Ok(process) => {
                let id = process.id().and_then(|id| i32::try_from(id).ok());
                let group = id.and_then(Pid::from_raw);
                Ok(Self { process, group })
            }
            // A value of the item is too long for an environment variable, or has a zero byte.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong
                ) =>
            {
                Err(error.into())
            }
            Err(error) => Err(settings.mistake.set(format!("{program}: {error}"))),
        }
    }

    /// Passes the item, passes the output on, and waits for the end. If the handler is cancelled, ends the process group.
    pub(super) async fn run(
        mut self,
        input: Vec<u8>,
        settings: &Settings,
        item: &Item,
        context: &Context,
    ) -> Result<EndedCommand, HandlerError> {
        let streams = (
            self.process.stdin.take(),
            self.process.stdout.take(),
            self.process.stderr.take(),
        );
        let (stdin, stdout, stderr) = streams;
        let prefix = if settings.prefix_output {
            format!("{}: ", item.key())
        } else {
            String::new()
        };
        let (mut lines, mut follow_up_bytes) = (Vec::new(), 0);
        let mut tail = VecDeque::new();
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command need not read its input.
                let _ = stdin.write_all(&input).await;
            }
        };
        let read_output = for_each_line(stdout, |line| {
            if settings.follow_up.is_none() {
                return write_line(&format!("{prefix}{line}"));
            }
            follow_up_bytes += line.len();
            if lines.len() <= MAX_FOLLOW_UPS && follow_up_bytes <= MAX_FOLLOW_UP_BYTES {
                lines.push(line.to_owned());
            }
        });
        let read_errors = for_each_line(stderr, |line| {
            write_error_line(&format!("{prefix}{line}"));
            if !tail.is_empty() {
                tail.push_back('\n');
            }
            tail.extend(line.chars());
            tail.drain(..tail.len().saturating_sub(MAX_ERROR_CHARS));
        });
        let status = {
            let streams = async { tokio::join!(write, read_output, read_errors) };
            tokio::pin!(streams);
            let mut streams_ended = false;
            let end = self.end(context);
            tokio::pin!(end);
            let status = loop {
                tokio::select! {
                    status = &mut end => break status?,
                    _ = &mut streams, if !streams_ended => streams_ended = true,
                }
            };
            if !streams_ended {
                let _ = timeout(OUTPUT_AFTER_END, streams).await;
            }
            status
        };
        Ok(EndedCommand {
            status,
            lines,
            follow_up_bytes,
            error: tail.into_iter().collect(),
        })
    }

    async fn end(&mut self, context: &Context) -> io::Result<ExitStatus> {
        let group = self.group;
        let stop = async {
            context.cancelled().await;
            signal(group, Signal::TERM);
            sleep(KILL_AFTER).await;
            signal(group, Signal::KILL);
            std::future::pending::<()>().await;
        };
        let status = tokio::select! {
            status = self.process.wait() => status,
            () = stop => return Err(io::ErrorKind::Interrupted.into()),
        };
        // The process was waited for: its number may belong to another one soon.
        self.group = None;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        signal(self.group, Signal::KILL);
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // An error means that the group has ended.
        let _ = kill_process_group(group, signal);
    }
}
