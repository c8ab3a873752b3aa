//! The plan of a run: its length, its load and its faults.

use std::path::PathBuf;
use std::time::Duration;

use crate::chaos::actor::Role;
use crate::chaos::database::Kind;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) store: Kind,
    pub(crate) seed: u64,
    /// The time during which faults occur.
    pub(crate) time: Duration,
    /// The mean time from one fault to the next. `None`: there are no faults.
    pub(crate) fault_interval: Option<Duration>,
    /// The number of brokers.
    pub(crate) brokers: usize,
    /// The number of worker processes.
    pub(crate) workers: usize,
    pub(crate) items_per_second: usize,
    pub(crate) lease: Duration,
    /// The share of batches that are worked on for longer than the lease lasts.
    pub(crate) late: f64,
    /// Environment variables of the brokers.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// The program of the brokers.
    pub(crate) program: PathBuf,
    /// The program of an earlier version. The brokers then begin with it, and change between the versions during the run.
    pub(crate) earlier: Option<PathBuf>,
    /// A statement that another program runs about ten times per second, to break a promise.
    pub(crate) sabotage: Option<&'static str>,
}

impl Plan {
    /// Returns the plan of a short run. Environment variables replace some of its values; `tests/README.md` lists them.
    pub(crate) fn short(store: Kind) -> Self {
        Self {
            store,
            seed: variable("LEASE_BROKER_TEST_SEED").unwrap_or_else(rand::random),
            time: Duration::from_secs(variable("LEASE_BROKER_TEST_CHAOS_SECONDS").unwrap_or(15)),
            fault_interval: Some(Duration::from_millis(500)),
            brokers: variable("LEASE_BROKER_TEST_CHAOS_BROKERS").unwrap_or(2),
            workers: variable("LEASE_BROKER_TEST_CHAOS_WORKERS").unwrap_or(3),
            items_per_second: variable("LEASE_BROKER_TEST_CHAOS_RATE").unwrap_or(100),
            lease: Duration::from_secs(match store {
                Kind::Sqlite => 2,
                // A statement can take a second on Babelfish.
                Kind::Mssql => 6,
            }),
            late: 0.02,
            environment: Vec::new(),
            program: std::env::var_os("LEASE_BROKER_TEST_CHAOS_PROGRAM")
                .map_or(env!("CARGO_BIN_EXE_lease-broker").into(), PathBuf::from),
            earlier: None,
            sabotage: None,
        }
    }

    /// Returns the plan of a run without faults, in which another program runs this statement.
    pub(crate) fn sabotaged_by(statement: &'static str) -> Self {
        Self {
            fault_interval: None,
            time: Duration::from_secs(5),
            sabotage: Some(statement),
            ..Self::short(Kind::Sqlite)
        }
    }

    /// Returns the settings of a broker. `store`: those of its store.
    pub(crate) fn settings(&self, store: &str, text_type: &str) -> String {
        let lease = humantime::format_duration(self.lease);
        format!(
            "{store}
server.drain_delay = '1s'
server.drain_grace = '5s'
server.max_connection_age = '0s'
[queues.work]
managed_columns = {{ payload = '{text_type}' }}
lease_duration = '{lease}'
max_attempts = 0
backoff = {{ initial = '0s', factor = 1.0, max = '0s', jitter = 0.0 }}
[queues.outbox]
managed_columns = {{ payload = '{text_type}' }}
"
        )
    }

    pub(crate) fn worker(&self) -> Role {
        Role::Worker {
            threads: 4,
            lease: self.lease,
            late: self.late,
            batch: i32::try_from(self.items_per_second / 10)
                .map_or(200, |batch| batch.clamp(20, 200)),
        }
    }

    pub(crate) fn producer(&self) -> Role {
        let batch = (self.items_per_second / 20).max(1);
        Role::Producer {
            batch,
            pause: Duration::from_secs(1) * u32::try_from(batch).expect("a small batch")
                / u32::try_from(self.items_per_second).expect("a small rate"),
        }
    }
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{name} is not a number: {text}")))
}
