//! A broker process under attack, with its bystander and the record of its memory.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bystander::{self, Bystander, Latencies};
use super::memory::Memory;
use crate::support::client::Client;
use crate::support::database;
use crate::support::process::BrokerProcess;

/// Held by the test that attacks. Two attacks at the same time would spoil each other's latencies.
static TURN: Mutex<()> = Mutex::new(());

/// The bar for the bystander's 99th percentile is this time, and this number of times the 99th percentile of the control in the
/// same run. A release build on an idle machine stays below 100 ms. These tests run unoptimized programs, beside others, and
/// print the values.
const MAX_P99: Duration = Duration::from_secs(3);
const MAX_TIMES_CONTROL: u32 = 20;
/// The bytes that another program inserts in one transaction. The broker waits until it ends.
const INSERTED_BYTES: usize = 16_000_000;

/// The queue that attackers use. A failed item is ready again immediately.
pub(crate) const QUEUE: &str = "work";

/// The name of the database file.
const DATABASE: &str = "queues.db";

/// A broker process under attack.
pub(crate) struct Arena {
    // The fields are dropped in this order: the process ends before its folder is deleted and the next test starts.
    pub(crate) broker: BrokerProcess,
    bystander: Option<Bystander>,
    /// The same worker on another broker, which nothing attacks. It shows how busy the machine is.
    control: Option<Bystander>,
    memory: Option<Memory>,
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The effect of an attack.
pub(crate) struct Effect {
    pub(crate) bystander: Latencies,
    control: Latencies,
    /// The growth of the broker's memory at its peak, in MiB. `None`: this system does not tell.
    peak_growth: Option<u64>,
}

impl Arena {
    /// Starts a broker with the default settings.
    pub(crate) fn start() -> Self {
        Self::with_config("")
    }

    /// Starts a broker with these settings, as TOML. They come before the queues.
    pub(crate) fn with_config(settings: &str) -> Self {
        Self::prepared(settings, |_| ())
    }

    /// Calls `prepare` with the path of the database file before the broker starts.
    pub(crate) fn prepared(settings: &str, prepare: impl FnOnce(&PathBuf)) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let (file, config) = (
            folder.path().join(DATABASE),
            folder.path().join("queues.toml"),
        );
        let queues = [bystander::QUEUE, QUEUE].map(|name| {
            format!(
                "[queues.{name}]\nmanaged_columns = {{ payload = 'text' }}\n\
                 backoff = {{ initial = '0s', factor = 1.0, max = '0s', jitter = 0.0 }}\n"
            )
        });
        let text = format!("admin.listen = ''\n{settings}\n{}", queues.concat());
        std::fs::write(&config, text).expect("the file is written");
        prepare(&file);
        let control = std::thread::spawn(Bystander::on_idle_broker);
        let broker = BrokerProcess::serve(&file, &config);
        let bystander = Bystander::start(client_of(&broker, bystander::QUEUE));
        let control = control.join().expect("the control starts");
        let memory = Memory::start(broker.id());
        Self {
            broker,
            bystander: Some(bystander),
            control: Some(control),
            memory,
            folder,
            _turn: turn,
        }
    }

    /// Adds items of this size to [`QUEUE`], as another program does. Lets the broker have the lock after each transaction.
    pub(crate) fn insert_items(&self, items: usize, bytes: usize) {
        let database = database::open(&self.folder.path().join(DATABASE));
        database
            .execute_batch("PRAGMA synchronous = OFF")
            .expect("a setting");
        let mut left = items;
        while left > 0 {
            let part = left.min(INSERTED_BYTES.div_ceil(bytes));
            let sql = format!(
                "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {part}) \
                 INSERT INTO {QUEUE} (payload) SELECT printf('%.*c', {bytes}, 'x') FROM numbers"
            );
            database.execute_batch(&sql).expect("the items are added");
            self.hold(1);
            left -= part;
        }
    }

    /// Returns a function that creates a client of [`QUEUE`]. It must be called in a runtime.
    pub(crate) fn client(&self) -> impl FnOnce() -> Client + Send + use<> {
        client_of(&self.broker, QUEUE)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.broker.address
    }

    /// Returns the number of bytes that the broker has written to its log.
    pub(crate) fn log_bytes(&self) -> usize {
        self.broker.log().len()
    }

    /// Lets the attack last for this number of heartbeats of the bystander, which are at least 50 ms apart.
    pub(crate) fn hold(&self, heartbeats: usize) {
        let bystander = self.bystander.as_ref().expect("the attack runs");
        bystander.wait_for_heartbeats(heartbeats);
    }

    /// Ends the attack: stops the bystander and prints the line of the table. Checks that the broker is alive.
    pub(crate) fn end(&mut self, attack: &str, bytes_sent: u64) -> Effect {
        let bystander = self.bystander.take().expect("an attack ends once").stop();
        let control = self.control.take().expect("an attack ends once").stop();
        let peak_growth = self.memory.and_then(|memory| memory.peak_growth());
        let line = format!(
            "attack: {attack:<44} sent {bytes_sent:>11} B, memory +{:>4} MiB, bystander p50 {:>4} ms, p99 {:>4} ms, \
             control p99 {:>4} ms, failed {} of {}\n",
            peak_growth.map_or_else(|| "?".to_owned(), |growth| growth.to_string()),
            bystander.percentile(50).as_millis(),
            bystander.percentile(99).as_millis(),
            control.percentile(99).as_millis(),
            bystander.failed.len(),
            bystander.sent(),
        );
        // A direct write, because the test runner hides the output of a test that passes.
        let _ = std::io::stderr().write_all(line.as_bytes());
        assert!(
            self.broker.is_running(),
            "the broker ended: {}",
            self.broker.log()
        );
        Effect {
            bystander,
            control,
            peak_growth,
        }
    }
}

fn client_of(
    broker: &BrokerProcess,
    queue: &'static str,
) -> impl FnOnce() -> Client + Send + use<> {
    let url = broker.url();
    move || {
        let endpoint = tonic::transport::Endpoint::from_shared(url);
        Client::new(endpoint.expect("the URL is valid").connect_lazy(), queue)
    }
}

impl Effect {
    /// Checks that every call of the bystander succeeded, and that it did not wait much longer than the control.
    pub(crate) fn bystander_unharmed(&self) -> &Self {
        let Latencies { failed, .. } = &self.bystander;
        assert!(failed.is_empty(), "the bystander failed: {failed:?}");
        let [p99, control] =
            [&self.bystander, &self.control].map(|latencies| latencies.percentile(99));
        assert!(
            p99 <= MAX_P99 + MAX_TIMES_CONTROL * control,
            "the bystander waited {p99:?}, and the control {control:?}"
        );
        self
    }

    /// Checks that the broker's memory grew by less than this number of MiB.
    pub(crate) fn memory_below(&self, mib: u64) -> &Self {
        let grew = self.peak_growth.unwrap_or(0);
        assert!(
            grew < mib,
            "the memory grew by {grew} MiB, not less than {mib}"
        );
        self
    }
}
