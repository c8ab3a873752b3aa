//! `top`: a full-screen view of the queues, the oldest leases, the last failures and the brokers.

mod keys;
mod model;
mod style;
mod view;

use std::future::pending;
use std::io::{IsTerminal as _, stdin, stdout};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use lease_broker_proto as proto;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

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
/// Looks once a second. The leases and the dead items are those of up to 20 queues: of those with the oldest leases, and of those that fail
/// most often now. Keys: up and down select a queue, Enter opens it and Esc closes it, s sorts by another column and r turns the
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

/// Something that changes the screen.
enum Change {
    Key(KeyEvent),
    /// The terminal has another size.
    Size,
    Looked(Result<Snapshot, CommandError>),
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
        let (sender, changes) = mpsc::channel(16);
        let (open, opened) = watch::channel(None);
        let looker = tokio::spawn(look(admin, opened, sender.clone()));
        let (ended, keyboard) = match ratatui::try_init() {
            Ok(terminal) => {
                let keyboard = read_keys(sender);
                let ended = self.show(terminal, model, changes, open).await;
                (ended, Some(keyboard))
            }
            Err(error) => (Err(broken(&error)), None),
        };
        looker.abort();
        if let Some(keyboard) = keyboard {
            // A key that is read later would be missing in the shell.
            let _ = keyboard.join();
        }
        ratatui::restore();
        ended
    }

    async fn show(
        &self,
        mut terminal: DefaultTerminal,
        mut model: Model,
        mut changes: mpsc::Receiver<Change>,
        open: watch::Sender<Option<String>>,
    ) -> Result<(), CommandError> {
        let signal = |kind| signal(kind).map_err(|error| broken(&error));
        // In raw mode Ctrl-C is a key. Another program can send its signal all the same.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut running: Option<Running<'_>> = None;
        loop {
            let drawn = terminal.draw(|frame| view::draw(frame, &model));
            drawn.map_err(|error| broken(&error))?;
            let change = tokio::select! {
                change = changes.recv() => change,
                _ = interrupted.recv() => None,
                _ = terminated.recv() => None,
                done = or_never(&mut running) => {
                    running = None;
                    model.message = done.unwrap_or_else(|error| error.to_string());
                    continue;
                }
            };
            match change {
                None => return Ok(()),
                Some(Change::Size) => {}
                Some(Change::Looked(Ok(snapshot))) => model.update(snapshot),
                Some(Change::Looked(Err(error))) => model.fail(&error),
                Some(Change::Key(key)) => match model.press(key) {
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
                },
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
    sender: mpsc::Sender<Change>,
) {
    loop {
        let _ = timeout(INTERVAL, opened.changed()).await;
        let queue = opened.borrow_and_update().clone();
        let snapshot = Snapshot::read(&admin, queue.as_deref()).await;
        if sender.send(Change::Looked(snapshot)).await.is_err() {
            return;
        }
    }
}

/// Reads keys on a thread of its own, until the screen ends.
fn read_keys(sender: mpsc::Sender<Change>) -> JoinHandle<()> {
    thread::spawn(move || {
        while !sender.is_closed() {
            // The wait is short, so that the thread ends soon after the screen.
            match event::poll(Duration::from_millis(100)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => return,
            }
            let change = match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => Change::Key(key),
                Ok(Event::Resize(..)) => Change::Size,
                Ok(_) => continue,
                Err(_) => return,
            };
            if sender.blocking_send(change).is_err() {
                return;
            }
        }
    })
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
