//! The process of one item: its start, its streams, and its end.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lease_broker_client::{Context, HandlerError, Item, Release};
use lease_broker_model::text;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child as Process, ChildStderr, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::lines::Lines;
use super::settings::{PAUSE, Settings};
use super::variables;

/// The time between SIGTERM and SIGKILL. The worker gives a cancelled handler 5 s.
const KILL_AFTER: Duration = Duration::from_secs(4);
/// The time between two looks at a process group that shall end.
const GROUP_INTERVAL: Duration = Duration::from_millis(50);
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
    pub(super) lines: Vec<Vec<u8>>,
    pub(super) follow_up_bytes: usize,
    /// The last characters of standard error.
    pub(super) error: String,
}

impl Child {
    /// Starts the command in a process group of its own.
    ///
    /// # Errors
    /// The item cannot be passed to the command, or the command cannot be run. In the second case the worker ends, unless the
    /// host only lacks files, processes or memory at the moment.
    pub(super) async fn spawn(
        settings: &Settings,
        item: &Item,
        context: &Context,
    ) -> Result<Self, HandlerError> {
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
            Err(error) if is_shortage(&error) => {
                let key = text::visible(item.key());
                settings.errors.report(format!(
                    "lease-broker: released: item {key}: {program}: {error}"
                ));
                context.unless_cancelled(sleep(PAUSE)).await?;
                Err(Release::new().into())
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
        let group = self.group;
        let ended = {
            let whole = self.pass_all(input, settings, item);
            tokio::pin!(whole);
            if let Ok(ended) = context.unless_cancelled(&mut whole).await {
                Some(ended?)
            } else {
                let kill_at = Instant::now() + KILL_AFTER;
                signal(group, Signal::TERM);
                let ended = timeout_at(kill_at, &mut whole).await;
                // A child of the command can ignore the signal.
                while Instant::now() < kill_at && is_alive(group) {
                    sleep(GROUP_INTERVAL).await;
                }
                signal(group, Signal::KILL);
                ended.ok().transpose()?
            }
        };
        // The process was waited for: its number may belong to another one soon.
        self.group = None;
        if let Some(ended) = ended {
            return Ok(ended);
        }
        // The command or its output has not ended in time.
        match self.process.try_wait()? {
            Some(status) if settings.follow_up.is_none() => Ok(EndedCommand {
                status,
                lines: Vec::new(),
                follow_up_bytes: 0,
                error: String::new(),
            }),
            _ => {
                context.check()?;
                Err(io::Error::from(io::ErrorKind::Interrupted).into())
            }
        }
    }

    /// Passes the item and the output, and waits for the end of both.
    async fn pass_all(
        &mut self,
        input: Vec<u8>,
        settings: &Settings,
        item: &Item,
    ) -> io::Result<EndedCommand> {
        let (stdin, stdout) = (self.process.stdin.take(), self.process.stdout.take());
        let stderr = self.process.stderr.take();
        let prefix = if settings.prefix_output {
            format!("{}: ", text::visible(item.key()))
        } else {
            String::new()
        };
        // All streams have ended; a stream is held open by a child of the command.
        let (closed, overdue) = (CancellationToken::new(), CancellationToken::new());
        let never = CancellationToken::new();
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command need not read its input.
                let _ = overdue.run_until_cancelled(stdin.write_all(&input)).await;
            }
        };
        let streams = async {
            let read_output = async {
                match &settings.follow_up {
                    None => {
                        pass_output(stdout, &overdue, settings, &prefix).await;
                        (Vec::new(), 0)
                    }
                    // A row that is missing is worse than a slot that waits.
                    Some(_) => read_follow_ups(stdout, &never).await,
                }
            };
            let read_errors = pass_errors(stderr, &overdue, settings, &prefix);
            let ((), follow_ups, error) = tokio::join!(write, read_output, read_errors);
            closed.cancel();
            (follow_ups, error)
        };
        let end = async {
            let status = self.process.wait().await;
            let open = closed.cancelled();
            if timeout(OUTPUT_AFTER_END, open).await.is_err() {
                overdue.cancel();
            }
            status
        };
        let (status, ((lines, follow_up_bytes), error)) = tokio::join!(end, streams);
        Ok(EndedCommand {
            status: status?,
            lines,
            follow_up_bytes,
            error,
        })
    }
}

/// Passes the lines of standard output on.
async fn pass_output(
    stdout: Option<ChildStdout>,
    overdue: &CancellationToken,
    settings: &Settings,
    prefix: &str,
) {
    let Some(stdout) = stdout else {
        return;
    };
    let mut output = Lines::new(stdout, overdue);
    while let Some(line) = output.next().await {
        let line = [prefix.as_bytes(), &line].concat();
        settings.output.write(line).await;
    }
}

/// Returns the lines of standard output, and the number of their bytes.
async fn read_follow_ups(
    stdout: Option<ChildStdout>,
    overdue: &CancellationToken,
) -> (Vec<Vec<u8>>, usize) {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    if let Some(stdout) = stdout {
        let mut output = Lines::new(stdout, overdue);
        while let Some(line) = output.next().await {
            bytes += line.len();
            if lines.len() <= MAX_FOLLOW_UPS && bytes <= MAX_FOLLOW_UP_BYTES {
                lines.push(line);
            }
        }
    }
    (lines, bytes)
}

/// Passes the lines of standard error on. Returns its last characters.
async fn pass_errors(
    stderr: Option<ChildStderr>,
    overdue: &CancellationToken,
    settings: &Settings,
    prefix: &str,
) -> String {
    let mut tail = VecDeque::new();
    if let Some(stderr) = stderr {
        let mut errors = Lines::new(stderr, overdue);
        while let Some(line) = errors.next().await {
            if !tail.is_empty() {
                tail.push_back('\n');
            }
            tail.extend(String::from_utf8_lossy(&line).chars());
            tail.drain(..tail.len().saturating_sub(MAX_ERROR_CHARS));
            let line = [prefix.as_bytes(), &line].concat();
            settings.errors.write(line).await;
        }
    }
    tail.into_iter().collect()
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

/// Returns whether a process of the group is left.
fn is_alive(group: Option<Pid>) -> bool {
    group.is_some_and(|group| test_kill_process_group(group).is_ok())
}

/// Returns whether a command cannot be started now, and can be later.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::TXTBSY,
    ];
    Errno::from_io_error(error).is_some_and(|error| shortages.contains(&error))
}
