//! Warnings in the log while no broker answers.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lease_broker_client::{Context, Done, Item, RunningWorker, Worker};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt as _};

use crate::client::scripted::Scripted;
use crate::support::timeout::with_timeout;

/// Passes the warnings of all threads to all tests. Workers have threads of their own, so the subscriber is global.
struct Warnings(broadcast::Sender<String>);

/// The message of an event and its fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a text can grow");
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            let mut text = Text::default();
            event.record(&mut text);
            // No test may listen.
            let _ = self.0.send(text.0);
        }
    }
}

/// The warnings about one address.
struct Watcher {
    address: String,
    warnings: broadcast::Receiver<String>,
}

/// Replaces the seconds, which depend on the machine.
fn without_seconds(text: &str) -> String {
    let (before, after) = text.split_once("seconds=").expect("the seconds");
    format!(
        "{before}seconds=N{}",
        after.trim_start_matches(|digit: char| digit.is_ascii_digit())
    )
}

impl Watcher {
    fn new(address: impl fmt::Display) -> Self {
        static WARNINGS: OnceLock<broadcast::Sender<String>> = OnceLock::new();
        let sender = WARNINGS.get_or_init(|| {
            let sender = broadcast::Sender::new(1_000);
            let subscriber = tracing_subscriber::registry().with(Warnings(sender.clone()));
            tracing::subscriber::set_global_default(subscriber).expect("it is the first one");
            sender
        });
        Self {
            address: format!("{:?}", address.to_string()),
            warnings: sender.subscribe(),
        }
    }

    async fn next(&mut self) -> String {
        loop {
            let warning = with_timeout(self.warnings.recv()).await;
            let warning = warning.expect("the log is read in time");
            if warning.contains(&self.address) {
                return without_seconds(&warning.replace(&self.address, "ADDRESS"));
            }
        }
    }
}

fn start(address: impl fmt::Display) -> RunningWorker {
    let worker = Worker::new(address.to_string(), "work");
    let worker = worker.start(async |_: Item, _: Context| Ok(Done::new()));
    worker.expect("it starts")
}

#[tokio::test]
async fn outage_is_warned_about_until_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut log = Watcher::new(address);
    let begun = Instant::now();
    let worker = start(address);
    let mut warning = log.next().await;
    assert!(begun.elapsed() >= Duration::from_secs(2));
    while warning.ends_with("cause=\"no answer yet\"") {
        // On a busy machine the first attempt takes longer than the time before the first warning.
        warning = log.next().await;
    }
    let expected = "calls to the broker fail address=ADDRESS seconds=N cause=\"Unavailable: ";
    assert!(warning.starts_with(expected), "{warning}");
    assert!(warning.contains("Connection refused"), "{warning}");
    Scripted::new([]).serve_at(address).await;
    let end = log.next().await;
    assert_eq!(end, "broker answers again address=ADDRESS seconds=N");
    worker.stop(Duration::ZERO).await.expect("it stops");
}

#[tokio::test]
async fn broker_that_accepts_and_is_silent_is_warned_about() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut log = Watcher::new(address);
    let _worker = start(address);
    let expected = "calls to the broker fail address=ADDRESS seconds=N cause=\"no answer yet\"";
    assert_eq!(log.next().await, expected);
}

#[tokio::test]
async fn error_of_a_handler_is_logged() {
    let fixture = crate::client::fixture::Fixture::start().await;
    let mut log = Watcher::new("an error of edges");
    let (worker, _events) = fixture.worker();
    let worker = worker.start(async |_: Item, _: Context| {
        Err::<Done, _>(lease_broker_client::HandlerError::new("an error of edges"))
    });
    fixture.enqueue(&["x"]).await;
    loop {
        let warning = with_timeout(log.warnings.recv()).await.expect("a warning");
        if warning.contains("an error of edges") {
            let expected = "handler failed key=\"1\" attempt=1 error=\"Error: an error of edges\"";
            assert_eq!(warning, expected);
            break;
        }
    }
    worker
        .expect("it starts")
        .stop(Duration::ZERO)
        .await
        .expect("it stops");
}
