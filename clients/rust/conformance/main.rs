//! The worker program of `clients/harness`, which starts it, gives it commands as JSON lines on standard input, and reads its
//! events as JSON lines from standard output.

mod journal;
mod raw;
mod script;

use std::io::{self, BufRead as _};
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_client::{
    BatchDone, Context, Credentials, Item, Pem, RunningWorker, Tls, Worker, WorkerError,
};
use serde_json::{Value as Json, json};

use self::journal::{Journal, print};
use self::script::Script;

/// Exit code of an error that is not one of the library's ends.
const EXIT_FAILED: i32 = 2;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The options of the command `start`.
struct Options(Json);

impl Options {
    fn text(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    fn count(&self, name: &str) -> Option<usize> {
        self.0[name]
            .as_u64()
            .and_then(|count| count.try_into().ok())
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.0[name].as_bool()
    }

    fn time(&self, name: &str) -> Option<Duration> {
        self.0[name].as_f64().map(millis)
    }

    /// Returns the addresses with commas between them.
    fn address(&self) -> String {
        match &self.0["address"] {
            Json::Array(list) => {
                let texts: Vec<_> = list.iter().filter_map(Json::as_str).collect();
                texts.join(",")
            }
            text => text.as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the files for TLS. `None`: plaintext.
    fn credentials(&self) -> Option<Credentials> {
        let file = |name| self.text(name).map(PathBuf::from).map(Pem::File);
        Some(Credentials::tls(Tls {
            ca: Some(file("ca_file")?),
            identity: file("cert_file").zip(file("key_file")),
            server_name: None,
        }))
    }

    fn concurrency(&self) -> usize {
        self.count("concurrency").unwrap_or(1)
    }
}

#[tokio::main]
async fn main() {
    let code = run().await.unwrap_or_else(|error| {
        eprintln!("{error}");
        EXIT_FAILED
    });
    // A handler that blocks its thread would keep the runtime from ending.
    exit(code);
}

async fn run() -> Result<i32, Error> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let start: Json = serde_json::from_str(&line)?;
    let options = Arc::new(Options(start["options"].clone()));
    let until = options.0["until"].as_u64().unwrap_or(0);
    if options.flag("raw") == Some(true) {
        raw::run(&options, until).await?;
        return Ok(0);
    }
    let journal = Arc::new(Journal::new(options.flag("noop") == Some(true), until));
    let worker = start_worker(&options, &journal)?;
    journal.ready();
    worker.stop_on_signals();
    let grace = options.time("grace_ms").unwrap_or(Duration::from_secs(20));
    let (commands, mut received) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        lines
            .map_while(|line| commands.send(line).ok())
            .for_each(drop);
    });
    let mut has_input = true;
    let end = loop {
        tokio::select! {
            end = worker.wait() => break end,
            () = journal.finished() => stop(&worker, grace),
            command = received.recv(), if has_input => {
                if let Some(line) = command {
                    obey(&worker, &serde_json::from_str(&line)?, grace)?;
                } else {
                    has_input = false;
                    stop(&worker, grace);
                }
            }
        }
    };
    match end {
        Ok(()) => Ok(0),
        Err(WorkerError::HandlersLeft) => Ok(1),
        Err(error) => Err(error.into()),
    }
}

/// Asks the worker to stop, and does not wait for it.
fn stop(worker: &RunningWorker, grace: Duration) {
    let worker = worker.clone();
    tokio::spawn(async move { worker.stop(grace).await });
}

fn obey(worker: &RunningWorker, command: &Json, grace: Duration) -> Result<(), Error> {
    match command["cmd"].as_str() {
        Some("health") => print(json!({"ev": "health", "ok": worker.health()})),
        Some("counters") => {
            let counters = worker
                .counters()
                .into_iter()
                .filter(|(_, count)| *count > 0);
            let counters = counters.map(|(name, count)| (name.as_str().to_owned(), json!(count)));
            let counters: serde_json::Map<_, _> = counters.collect();
            print(json!({"ev": "counters", "counters": counters}));
        }
        Some("stop") => stop(worker, command["grace_ms"].as_f64().map_or(grace, millis)),
        _ => return Err(format!("unknown command {command}").into()),
    }
    Ok(())
}

fn start_worker(
    options: &Arc<Options>,
    journal: &Arc<Journal>,
) -> Result<RunningWorker, WorkerError> {
    let mut worker = Worker::new(options.address(), options.text("queue").unwrap_or_default())
        .concurrency(options.concurrency())
        .heartbeat(options.flag("heartbeat").unwrap_or(true))
        .on_event({
            let journal = journal.clone();
            move |event| journal.event(event)
        });
    if let Some(id) = options.text("worker_id") {
        worker = worker.worker_id(id);
    }
    if let Some(credentials) = options.credentials() {
        worker = worker.credentials(credentials);
    }
    if let Some(max_stuck) = options.count("max_stuck") {
        worker = worker.max_stuck(max_stuck);
    }
    let times = [
        "lease_ms",
        "time_limit_ms",
        "wait_ms",
        "grace_ms",
        "stuck_after_ms",
    ];
    for (name, time) in times
        .iter()
        .filter_map(|name| Some((*name, options.time(name)?)))
    {
        worker = match name {
            "lease_ms" => worker.lease(time),
            "time_limit_ms" => worker.time_limit(time),
            "wait_ms" => worker.wait(time),
            "grace_ms" => worker.grace(time),
            _ => worker.stuck_after(time),
        };
    }
    let (noop, effects) = (
        journal.is_quiet(),
        options.text("effects").map(str::to_owned),
    );
    let act = move |item: Item, context: Context| {
        let effects = effects.clone();
        async move {
            if noop {
                return Ok(lease_broker_client::Done::new());
            }
            Script::parse(&item)?
                .run(&item, &context, effects.as_deref())
                .await
        }
    };
    match options.count("batch") {
        None => worker.start(act),
        Some(batch) => worker.start_batches(batch, move |items: Vec<Item>, context| {
            let act = act.clone();
            async move {
                let mut done = BatchDone::new();
                for item in items {
                    match act(item.clone(), Context::clone(&context)).await {
                        Ok(result) => done.complete(&item, result),
                        Err(error) => done.fail(&item, error),
                    }
                }
                Ok(done)
            }
        }),
    }
}

fn millis(count: f64) -> Duration {
    Duration::from_secs_f64(count.max(0.0) / 1_000.0)
}
