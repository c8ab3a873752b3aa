//! A broker with two queues, and the events of a worker.

use lease_broker_client::{Client, Credentials, Event, EventName, NewItem, Worker};
use tokio::sync::mpsc;

use crate::support::server::Server;
use crate::support::timeout::with_timeout;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text', result = 'text' }
writable = ['result']
lease_duration = '30s'
checkpoint = true
[queues.mail]
managed_columns = { payload = 'text' }
";

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

/// The observer's end and the test's end of the events of a worker.
pub(crate) struct Watcher(mpsc::UnboundedReceiver<Event>);

impl Fixture {
    pub(crate) async fn start() -> Self {
        let server = Server::with_config(QUEUES).await;
        let address = server.address.to_string();
        let client = Client::new(&address, Credentials::plaintext(), None);
        Self {
            server,
            client: client.expect("the address is valid"),
        }
    }

    /// Adds items with these payloads to the queue `work`.
    pub(crate) async fn enqueue(&self, payloads: &[&str]) -> Vec<String> {
        let items = payloads
            .iter()
            .map(|payload| NewItem::new().column("payload", *payload));
        self.client
            .enqueue("work", items)
            .await
            .expect("the items are added")
    }

    /// Returns a worker on the queue `work`, and its events.
    pub(crate) fn worker(&self) -> (Worker, Watcher) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let worker = Worker::new(self.server.address.to_string(), "work");
        let worker = worker.on_event(move |event| {
            // The test may have ended already.
            let _ = sender.send(event.clone());
        });
        (worker, Watcher(receiver))
    }

    /// Returns state, attempt and error of the items of the queue `work`, in the order of their keys.
    pub(crate) fn rows(&self) -> Vec<(i64, i64, Option<String>)> {
        let database = self.server.database();
        let sql = "SELECT lease_state, lease_attempt, lease_error FROM work ORDER BY id";
        let mut statement = database.prepare(sql).expect("the table exists");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.expect("the query runs")
            .collect::<Result<_, _>>()
            .expect("each row is read")
    }
}

impl Watcher {
    /// Waits for the next event with this name, and drops those before it.
    pub(crate) async fn wait_for(&mut self, name: EventName) -> Event {
        loop {
            let event = with_timeout(self.0.recv()).await;
            let event = event.expect("the worker runs");
            if event.name == name {
                return event;
            }
        }
    }

    /// Waits for several events with this name.
    pub(crate) async fn wait_for_all(&mut self, name: EventName, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.wait_for(name).await);
        }
        events
    }
}

/// The states of rows.
pub(crate) const READY: i64 = 0;
pub(crate) const LEASED: i64 = 1;
pub(crate) const DELAYED: i64 = 2;
pub(crate) const COMPLETED: i64 = 3;
pub(crate) const DEAD: i64 = 4;
