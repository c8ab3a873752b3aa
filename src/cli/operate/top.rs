//! `top`: a full-screen view of the queues, the oldest leases, the last failures and the brokers.

mod keys;
mod model;
mod style;
mod view;

use std::io::{IsTerminal as _, stdin, stdout};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

use self::keys::Command;
use self::model::{Model, Snapshot};
use super::place_args::{PlaceArgs, with_place};
use super::queue_row::pause_text;
use crate::cli::CommandError;
use crate::cli::client_args::proto_duration;
use lease_broker_proto as proto;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watch the queues, the oldest leases, the last failures and the brokers on the whole screen
///
/// Looks once a second. Keys: up and down select a queue, Enter opens it and Esc closes it, s sorts by another column and r turns the
/// order around, p pauses or resumes the queue after a question, q quits. The colours follow NO_COLOR.
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
    Key(event::KeyEvent),
    /// The terminal has another size.
    Size,
    Looked(Result<Snapshot, CommandError>),
    /// A pause or its end has been made, or has failed.
    Done(Result<String, CommandError>),
}

impl Top {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Err(CommandError::usage(
                "top needs a terminal; `stats --watch` prints changes into a pipe",
            ));
        }
        // The first look tells about a wrong address or file before the screen is taken.
        let admin = self.place.look(None).await?;
        let first = Snapshot::read(&admin, None).await?;
        let (sender, changes) = channel(16);
        let model = Model::new(self.place.name(), first);
        let opened = Arc::new(std::sync::Mutex::new(None::<String>));
        let looker = tokio::spawn(look(admin, opened.clone(), sender.clone()));
        let (keyboard, stop) = read_keys(sender.clone());
        let terminal = ratatui::try_init();
        let ended = match terminal {
            Ok(terminal) => self.show(terminal, model, changes, sender, &opened).await,
            Err(error) => Err(CommandError::io(format!("the terminal: {error}"))),
        };
        ratatui::restore();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        looker.abort();
        let _ = keyboard.join();
        ended
    }

    async fn show(
        self,
        mut terminal: ratatui::DefaultTerminal,
        mut model: Model,
        mut changes: Receiver<Change>,
        sender: Sender<Change>,
        opened: &std::sync::Mutex<Option<String>>,
    ) -> Result<(), CommandError> {
        let broken = |error: std::io::Error| CommandError::io(format!("the terminal: {error}"));
        let mut terminated = signal(SignalKind::terminate()).map_err(broken)?;
        let place = Arc::new(self.place);
        loop {
            terminal
                .draw(|frame| view::draw(frame, &mut model))
                .map_err(broken)?;
            let change = tokio::select! {
                change = changes.recv() => change,
                _ = terminated.recv() => None,
            };
            match change {
                None => return Ok(()),
                Some(Change::Size) => {}
                Some(Change::Looked(Ok(snapshot))) => model.update(snapshot),
                Some(Change::Looked(Err(error))) => model.fail(&error),
                Some(Change::Done(done)) => {
                    model.message = done.unwrap_or_else(|error| error.to_string());
                }
                Some(Change::Key(key)) => match model.press(key) {
                    None => {}
                    Some(Command::Quit) => return Ok(()),
                    Some(Command::Open(queue)) => {
                        *opened
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner) = queue;
                    }
                    Some(command) => {
                        let (place, sender) = (place.clone(), sender.clone());
                        tokio::spawn(async move {
                            let done = change_pause(&place, command).await;
                            let _ = sender.send(Change::Done(done)).await;
                        });
                    }
                },
            }
        }
    }
}

/// Looks again and again.
async fn look(
    admin: super::admin::Admin,
    opened: Arc<std::sync::Mutex<Option<String>>>,
    sender: Sender<Change>,
) {
    loop {
        sleep(INTERVAL).await;
        let queue = opened
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let snapshot = Snapshot::read(&admin, queue.as_deref()).await;
        if sender.send(Change::Looked(snapshot)).await.is_err() {
            return;
        }
    }
}

/// Reads keys on a thread of its own, until the flag is set.
fn read_keys(
    sender: Sender<Change>,
) -> (
    std::thread::JoinHandle<()>,
    Arc<std::sync::atomic::AtomicBool>,
) {
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_over = stop.clone();
    let thread = std::thread::spawn(move || {
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
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
    });
    (thread, stop)
}

/// Pauses or resumes a queue. Returns a text for the screen.
async fn change_pause(place: &PlaceArgs, command: Command) -> Result<String, CommandError> {
    match command {
        Command::Pause { queue, reason } => {
            let admin = place.change(Some(&queue)).await?;
            let request = proto::PauseQueueRequest {
                queue,
                reason,
                ..proto::PauseQueueRequest::default()
            };
            let paused = admin.pause_queue(request).await?.pause;
            Ok(pause_text(&paused.unwrap_or_default()))
        }
        Command::Resume { queue } => {
            let admin = place.change(Some(&queue)).await?;
            let text = format!("queue {queue} is not paused any more");
            let request = proto::ResumeQueueRequest {
                queue,
                reason: String::new(),
            };
            admin.resume_queue(request).await?;
            Ok(text)
        }
        Command::Quit | Command::Open(_) => Ok(String::new()),
    }
}
