//! The scripted server: a listener with a script and a log.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::certificate::Identity;
use super::connection::{Shared, serve};
use super::log::{Event, Log};
use super::request::Request;
use super::script::{Reply, Script};
use super::tokens::Tokens;

/// The TLS setting of the server.
pub(crate) enum Encryption {
    Unsupported,
    Required(Identity),
    /// TLS from the first byte (TDS 8.0).
    Strict(Identity),
}

/// The reaction of the server to a login.
pub(crate) enum Login {
    Accept,
    /// Refuses it with this error number and message.
    Refuse(u32, &'static str),
    /// Redirects it to another server: host and port.
    Route(String, u16),
    /// Accepts the connection and sends nothing.
    Silence,
    /// Reads the login and sends no answer.
    Unanswered,
}

/// A statement and the number of its connection.
#[derive(Clone, Debug)]
pub(crate) struct LoggedRequest {
    pub(crate) connection: usize,
    pub(crate) request: Request,
}

/// A running scripted server. Dropping it stops it and closes all connections.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

impl Server {
    /// Starts on a free port. `otherwise` answers the statements that no rule matches.
    pub(crate) async fn start(
        encryption: Encryption,
        login: Login,
        otherwise: fn(&Request) -> Tokens,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            encryption,
            login,
            refusals: Mutex::default(),
            refusal: Mutex::default(),
            script: Mutex::new(Script::new(otherwise)),
            log: Log::default(),
        });
        let listening = tokio::spawn(listen(listener, shared.clone()));
        Self {
            address,
            shared,
            listening,
        }
    }

    /// Gives these replies, one after the other, to the next statements that contain all fragments.
    pub(crate) fn on(&self, fragments: &[&str], replies: Vec<Reply>) {
        self.script().add(fragments, replies, None);
    }

    /// Gives this reply to every statement that contains all fragments.
    pub(crate) fn always(&self, fragments: &[&str], reply: Reply) {
        self.script().add(fragments, Vec::new(), Some(reply));
    }

    /// Refuses the next logins, each with one of these errors.
    pub(crate) fn refuse_logins(&self, errors: &[u32]) {
        let mut refusals = self.shared.refusals.lock().expect("refusals");
        refusals.extend(errors);
    }

    /// Refuses all logins from now on with this answer. `None`: no longer.
    pub(crate) fn refuse_every_login(&self, answer: Option<Tokens>) {
        *self.shared.refusal.lock().expect("a refusal") = answer;
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.shared.script.lock().expect("a script")
    }

    pub(crate) fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Returns the statements that contain these fragments, in order.
    pub(crate) fn requests(&self, fragments: &[&str]) -> Vec<LoggedRequest> {
        let entries = self.log().entries().into_iter();
        entries
            .filter_map(|entry| match entry.event {
                Event::Request(request) if request.has(fragments) => Some(LoggedRequest {
                    connection: entry.connection,
                    request,
                }),
                _ => None,
            })
            .collect()
    }

    /// Returns the number of events for which the condition holds.
    pub(crate) fn count(&self, condition: impl Fn(&Event) -> bool) -> usize {
        let entries = self.log().entries();
        entries
            .iter()
            .filter(|entry| condition(&entry.event))
            .count()
    }

    /// Waits until this number of statements with these fragments has arrived.
    pub(crate) async fn wait_for_requests(&self, fragments: &[&str], times: usize) {
        let asked =
            |event: &Event| matches!(event, Event::Request(request) if request.has(fragments));
        self.log()
            .until(|entries| entries.iter().filter(|entry| asked(&entry.event)).count() >= times)
            .await;
    }

    /// Waits until a connection has ended.
    pub(crate) async fn wait_for_close(&self, connection: usize) {
        self.log()
            .until(|entries| {
                let mut entries = entries.iter();
                entries.any(|entry| entry.connection == connection && entry.event == Event::Closed)
            })
            .await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    for number in 0.. {
        let (stream, _) = listener.accept().await.expect("a connection");
        connections.spawn(serve(stream, number, shared.clone()));
    }
}
