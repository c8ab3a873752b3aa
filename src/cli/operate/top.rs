//! `top`: a full-screen view of the queues, the oldest leases, the last failures and the brokers.

mod keyboard;
mod keys;
mod model;
mod style;
mod view;

use std::future::pending;
use std::io::{IsTerminal as _, stdin, stdout};
use std::time::Duration;

use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use lease_broker_proto as proto;
use ratatui::DefaultTerminal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::keyboard::{Key, read_keys};
use self::keys::Command;
use self::model::{Model, Snapshot};
use super::admin::Admin;
use super::place_args::{PlaceArgs, with_place};
use super::queue_row::pause_text;
use crate::cli::CommandError;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watch the queues, the oldest leases, the last failures and the brokers on the whole screen
///
/// Looks once a second. Keys: up and down select a queue, Enter opens it and Esc closes it, s sorts by another column and r turns the
/// order around, p pauses or resumes the queue after a question, q quits. The colours follow `NO_COLOR`.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker top
  lease-broker top --address https://broker-2:50051
  lease-broker top --config queues.toml"))]
pub(in crate::cli) struct Top {
    #[command(flatten)]
    place: PlaceArgs,
}

/// A pause that is being made or ended. It returns a text for the screen.
type Running<'a> = LocalBoxFuture<'a, Result<String, CommandError>>;

impl Top {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Err(CommandError::usage(
                "top needs a terminal; `stats --watch` prints changes into a pipe",
            ));
        }
        // The first look tells about a wrong address or file before the screen is taken.
        let admin = self.place.look_at_all().await?;
        let first = Snapshot::read(&admin, None).await?;
        let model = Model::new(self.place.name(), first);
        let (sender, snapshots) = mpsc::channel(1);
        let (open, opened) = watch::channel(None);
        let looker = tokio::spawn(look(admin, opened, sender));
        let (ended, keyboard) = match ratatui::try_init() {
            Ok(mut terminal) => {
                let (pressed, keys) = mpsc::channel(16);
                let keyboard = read_keys(pressed);
                let ended = self.show(&mut terminal, model, keys, snapshots, open).await;
                if terminal.show_cursor().is_err() {
                    // The terminal is gone. Its destructor would write that to standard error, which can be gone with it.
                    std::mem::forget(terminal);
                }
                (ended, Some(keyboard))
            }
            Err(error) => (Err(broken(&error)), None),
        };
        looker.abort();
        if let Some(keyboard) = keyboard {
            // A key that is read later would be missing in the shell.
            let _ = keyboard.join();
        }
        // A terminal that is gone needs nothing.
        let _ = ratatui::try_restore();
        ended
    }

    async fn show(
        &self,
        terminal: &mut DefaultTerminal,
        mut model: Model,
        mut keys: mpsc::Receiver<Key>,
        mut snapshots: mpsc::Receiver<Result<Snapshot, CommandError>>,
        open: watch::Sender<Option<String>>,
    ) -> Result<(), CommandError> {
        let signal = |kind| signal(kind).map_err(|error| broken(&error));
        // In raw mode Ctrl-C is a key. Another program can send its signal all the same.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut resized = signal(SignalKind::window_change())?;
        let mut running: Option<Running<'_>> = None;
        loop {
            let drawn = terminal.draw(|frame| view::draw(frame, &model));
            drawn.map_err(|error| broken(&error))?;
            let key = tokio::select! {
                key = keys.recv() => key,
                _ = interrupted.recv() => return Ok(()),
                _ = terminated.recv() => return Ok(()),
                // The next drawing takes the new size.
                _ = resized.recv() => continue,
                Some(looked) = snapshots.recv() => {
                    match looked {
                        Ok(snapshot) => model.update(snapshot),
                        Err(error) => model.fail(&error),
                    }
                    continue;
                }
                done = or_never(&mut running) => {
                    running = None;
                    model.message = done.unwrap_or_else(|error| error.to_string());
                    continue;
                }
            };
            // Without a key the terminal is gone.
            let Some(key) = key else {
                return Ok(());
            };
            match model.press(key) {
                None => {}
                Some(Command::Quit) => return Ok(()),
                Some(Command::Open(queue)) => {
                    open.send_replace(queue);
                }
                Some(Command::Pause { queue, reason }) => {
                    running = Some(pause(&self.place, queue, reason).boxed_local());
                }
                Some(Command::Resume { queue }) => {
                    running = Some(resume(&self.place, queue).boxed_local());
                }
            }
        }
    }
}

fn broken(error: &std::io::Error) -> CommandError {
    CommandError::io(format!("the terminal: {error}"))
}

async fn or_never(running: &mut Option<Running<'_>>) -> Result<String, CommandError> {
    match running {
        Some(running) => running.await,
        None => pending().await,
    }
}

/// Looks again and again: after [`INTERVAL`], and when another queue is opened.
async fn look(
    admin: Admin,
    mut opened: watch::Receiver<Option<String>>,
    sender: mpsc::Sender<Result<Snapshot, CommandError>>,
) {
    loop {
        let _ = timeout(INTERVAL, opened.changed()).await;
        let queue = opened.borrow_and_update().clone();
        let snapshot = Snapshot::read(&admin, queue.as_deref()).await;
        if sender.send(snapshot).await.is_err() {
            return;
        }
    }
}

async fn pause(place: &PlaceArgs, queue: String, reason: String) -> Result<String, CommandError> {
    let admin = place.change(Some(&queue)).await?;
    let request = proto::PauseQueueRequest {
        queue,
        reason,
        ..proto::PauseQueueRequest::default()
    };
    let paused = admin.pause_queue(request).await?.pause;
    Ok(pause_text(&paused.unwrap_or_default()))
}

async fn resume(place: &PlaceArgs, queue: String) -> Result<String, CommandError> {
    let admin = place.change(Some(&queue)).await?;
    let text = format!("queue {queue} is not paused any more");
    let request = proto::ResumeQueueRequest {
        queue,
        reason: String::new(),
    };
    admin.resume_queue(request).await?;
    Ok(text)
}
