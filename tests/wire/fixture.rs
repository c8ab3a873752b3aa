//! The fixture of these tests: a store on a scripted server, and operations with prepared requests.

use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::mssql::{MssqlStore, Settings};
use lease_broker_store::{
    Checkpoints, ClaimedItem, EnqueueOnce, EnqueuedOnce, FollowUp, LeaseExpiry, Leases as _,
    NewItem, Operate as _, QueueIndex, Renewal, Renewed, Settled, Settlement, StoreError,
};
use lease_broker_value::Value;

use crate::harness::fixture::{HOUR, call, complete, complete_with, new_item, queue, text};
use crate::harness::operation::{Running, redrive};
use crate::support::timeout::{TEST_TIMEOUT, with_timeout};
use crate::wire::answers::{OPERATION, TOKEN, held};
use crate::wire::database;
use crate::wire::responder::log::Event;
use crate::wire::responder::script::Reply;
use crate::wire::responder::server::{Encryption, Login, Server};

pub(crate) const PASSWORD: &str = "Sw0rdfish;of{the}deep";
pub(crate) const QUEUE: QueueIndex = QueueIndex(0);

/// Timeouts and maximum number of connections of a store.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) handshake: Duration,
    pub(crate) command: Duration,
    pub(crate) connections: usize,
}

/// Timeouts that no test reaches.
pub(crate) const LONG_LIMITS: Limits = Limits {
    connect: TEST_TIMEOUT,
    handshake: TEST_TIMEOUT,
    command: TEST_TIMEOUT,
    connections: 4,
};

/// A timeout short enough for a test to wait for, and long enough for an answer on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// Returns the settings of a store.
pub(crate) fn settings(connection_string: &str, limits: Limits) -> Settings {
    Settings {
        connect_timeout: limits.connect,
        handshake_timeout: limits.handshake,
        command_timeout: limits.command,
        max_connections: limits.connections,
        ..Settings::new(connection_string)
    }
}

/// Connection string option that turns TLS off. Most tests do not need TLS.
pub(crate) const PLAIN: &str = "Encrypt=DANGER_PLAINTEXT";

/// Opens a store over the table `items`.
pub(crate) async fn open_with(
    address: std::net::SocketAddr,
    limits: Limits,
    more: &str,
) -> Result<MssqlStore, StoreError> {
    open_queues(address, limits, more, &[queue("items")]).await
}

/// Opens a store as [`open_with`] does, and returns why it is refused.
pub(crate) async fn refused(server: &Server, more: &str) -> StoreError {
    let opened = open_with(server.address, LONG_LIMITS, more).await;
    opened.map(drop).expect_err("refused")
}

pub(crate) async fn open_queues(
    address: std::net::SocketAddr,
    limits: Limits,
    more: &str,
    queues: &[QueueSpec],
) -> Result<MssqlStore, StoreError> {
    let (host, port) = (address.ip(), address.port());
    let connection_string = format!(
        "server=tcp:{host},{port};user=broker;password=\"{PASSWORD}\";database=work;{more}"
    );
    let settings = settings(&connection_string, limits);
    let open = Box::pin(MssqlStore::open(&settings, queues));
    with_timeout(open).await
}

/// Starts a server without TLS that accepts every login and answers as the database.
pub(crate) async fn responder() -> Server {
    Server::start(Encryption::Unsupported, Login::Accept, database::answer).await
}

/// An open store and its scripted server.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) store: std::sync::Arc<MssqlStore>,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(LONG_LIMITS).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let server = responder().await;
        let store = open_with(server.address, limits, PLAIN).await;
        let store = store.expect("the scripted database is ready for a broker");
        Self {
            server,
            store: store.into(),
        }
    }

    /// Lets the server close the connection of the operations. That of the probe stays open.
    pub(crate) async fn close_connection(&self) {
        self.server
            .on(OPERATION, vec![Reply::AnswerAndClose(held(1))]);
        self.heartbeat(1).await.expect("extended");
        let request = self.server.requests(OPERATION).pop().expect("a request");
        self.server.wait_for_close(request.connection).await;
    }

    /// Runs one claim without a request id.
    pub(crate) async fn claim(&self) -> Result<Vec<ClaimedItem>, StoreError> {
        self.claim_by("worker", false).await
    }

    pub(crate) async fn claim_by(
        &self,
        worker: &str,
        has_request_id: bool,
    ) -> Result<Vec<ClaimedItem>, StoreError> {
        let mut call = call(worker, 3);
        call.has_request_id = has_request_id;
        call.token = TOKEN;
        let results = with_timeout(self.store.claim(QUEUE, [call].into(), usize::MAX)).await?;
        Ok(results
            .into_iter()
            .flat_map(|claimed| claimed.items)
            .collect())
    }

    /// Extends the given number of leases.
    pub(crate) async fn heartbeat(
        &self,
        leases: i64,
    ) -> Result<Vec<Option<LeaseExpiry>>, StoreError> {
        let renewed = with_timeout(self.store.heartbeat(QUEUE, renewals(leases))).await?;
        Ok(renewed.iter().map(Renewed::expiry).collect())
    }

    /// Completes the given number of leases.
    pub(crate) async fn complete(&self, leases: i64) -> Result<Vec<Settled>, StoreError> {
        let settlements = (1..=leases).map(|id| Settlement::new(lease(id), complete()));
        let settled = with_timeout(self.store.settle(QUEUE, settlements.collect())).await?;
        Ok(settled.results)
    }

    /// Completes the given number of leases, each with two follow-ups.
    pub(crate) async fn complete_and_add(&self, leases: i64) -> Result<Vec<Settled>, StoreError> {
        let follow_up = |delay| FollowUp {
            queue: QUEUE,
            item: NewItem { delay, ..item(0) },
        };
        let settlements = (1..=leases).map(|id| {
            Settlement::new(
                lease(id),
                complete_with(vec![follow_up(Duration::ZERO), follow_up(HOUR)]),
            )
        });
        let settled = with_timeout(self.store.settle(QUEUE, settlements.collect())).await?;
        Ok(settled.results)
    }

    pub(crate) async fn reap(&self) -> Result<lease_broker_store::Reaped, StoreError> {
        with_timeout(self.store.reap(QUEUE, 100, None)).await
    }

    pub(crate) async fn enqueue(&self, items: i64) -> Result<Vec<Key>, StoreError> {
        with_timeout(self.store.enqueue(QUEUE, (1..=items).map(item).collect())).await
    }

    /// Adds the given number of items with a request id.
    pub(crate) async fn enqueue_once(&self, items: i64) -> Result<EnqueuedOnce, StoreError> {
        with_timeout(self.store.enqueue_once(QUEUE, request(items).into())).await
    }

    /// Applies a batch of an operation. `None`: nothing was changed.
    pub(crate) async fn redrive(&self) -> Result<Option<usize>, StoreError> {
        self.redrive_items(4).await
    }

    /// Applies a batch of an operation that changes no item.
    pub(crate) async fn redrive_nothing(&self) -> Result<Option<usize>, StoreError> {
        self.redrive_items(0).await
    }

    async fn redrive_items(&self, items: i64) -> Result<Option<usize>, StoreError> {
        let running = Running {
            id: TOKEN,
            holder: TOKEN,
        };
        let items = (1..=items).map(|id| (lease(id).key, 1)).collect();
        let batch = running.batch(0, redrive(Duration::ZERO, Checkpoints::Keep), items);
        let applied = with_timeout(self.store.apply_batch(QUEUE, batch)).await?;
        Ok(applied.changed)
    }

    /// Returns the number of statements that the server received so far.
    pub(crate) fn statements(&self) -> usize {
        self.server
            .count(|event| matches!(event, Event::Request(_)))
    }
}

fn request(items: i64) -> EnqueueOnce {
    EnqueueOnce {
        request_id: TOKEN,
        items: (1..=items).map(item).collect(),
    }
}

/// Returns the digest of [`Fixture::enqueue_once`]'s items, as the statement stores it.
pub(crate) fn request_digest(items: i64) -> String {
    lease_broker_model::key::hex(&request(items).digest())
}

pub(crate) fn lease(id: i64) -> LeaseRef {
    LeaseRef {
        key: Key([Value::Int(id)].into()),
        token: TOKEN,
        fence: 1,
        attempt: 1,
    }
}

pub(crate) fn renewals(leases: i64) -> std::sync::Arc<[Renewal]> {
    let renewal = |id| Renewal::new(lease(id), HOUR);
    (1..=leases).map(renewal).collect()
}

fn item(number: i64) -> NewItem {
    new_item(&[("payload", text(&format!("payload {number}")))])
}
