//! Serves one connection until it ends, is too old, or the server stops.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::connection_counts::RefusedConnection;
use super::Connections;
use super::connection::{Connection, Stream};
use super::lifetime::{Activity, Lifetime, Step};
use super::streams::Streams;
use super::tls_port::TlsPort;
use super::turn_io::TurnIo;
use crate::broker::OpenAccount;

/// The time in which a client that has read the end of its connection closes it too.
const LAST_BYTES: Duration = Duration::from_secs(1);

impl Connections {
    /// Makes the TLS handshake of a connection. Returns `None` if it failed, or if the server stops.
    pub(super) async fn shake_hands(
        &self,
        tls: &TlsPort,
        stream: TcpStream,
        open: &OpenAccount,
        stop: CancellationToken,
    ) -> Option<(Stream, Arc<Connection>)> {
        let account = open.account();
        let accepted = tls.accept(stream, account);
        let handshake = tokio::time::timeout(self.limits.handshake_timeout, accepted);
        let handshake = account.end.run_until_cancelled(handshake);
        let cause = match stop.run_until_cancelled(handshake).await?? {
            Ok(Ok((stream, login, state))) => {
                let (account, budgets) = (account.clone(), self.budgets.clone());
                let connection = Arc::new(Connection::new(account, budgets, login, stop));
                self.open.add(&connection);
                tls.check_after(&state, &connection);
                return Some((Stream::Right(Box::new(stream)), connection));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "not complete within server.handshake_timeout".to_owned(),
        };
        self.counts.refuse(RefusedConnection::Handshake);
        let (peer, cause) = (account.peer.ip(), lease_broker_model::text::visible(&cause));
        tracing::warn!(
            target: "lease_broker::audit",
            event = "tls.failed",
            %peer,
            %cause,
            "TLS handshake failed"
        );
        None
    }

    /// Serves a connection that was accepted at this time.
    pub(super) async fn serve(
        &self,
        stream: Stream,
        connection: Arc<Connection>,
        accepted_at: Instant,
    ) {
        let (mut streams, executor, allowance) = Streams::new(connection.clone());
        let (io, turn_end) = TurnIo::new(stream, allowance);
        let service = service_fn(|request| {
            let answer = self.answers.answer(&connection, request);
            answer.map(Ok::<_, Infallible>)
        });
        let builder = self.http(executor);
        let mut http = pin!(builder.serve_connection(TokioIo::new(io), service));
        let (mut lifetime, first_look) = Lifetime::new(self.limits, accepted_at);
        let mut timer = pin!(tokio::time::sleep_until(first_look));
        let mut has_timer = true;
        // Tokens of this connection alone: polling a token locks the list of all that wait for it.
        let cut = self.cut.child_token();
        let (mut stop, mut cut) = (pin!(connection.stop.cancelled()), pin!(cut.cancelled()));
        let mut end = pin!(connection.account.end.cancelled());
        let (mut stopping, mut ending) = (false, false);
        loop {
            let next = tokio::select! {
                biased;
                ended = poll_fn(|context| {
                    let ended = streams.poll_turn(http.as_mut(), context);
                    turn_end.send(context);
                    ended
                }) => {
                    if let Err(error) = ended {
                        let peer = connection.account.peer;
                        tracing::debug!(%peer, %error, "connection failed");
                    } else {
                        let end = tokio::time::timeout(LAST_BYTES, turn_end.read_to_the_end());
                        let _ = self.cut.run_until_cancelled(end).await;
                    }
                    return;
                }
                () = &mut cut => return,
                () = &mut end, if !ending => {
                    (stopping, ending) = (true, true);
                    if !streams.has_greeting() || connection.account.has_lost_its_place() {
                        return;
                    }
                    lifetime.end(Instant::now())
                }
                () = &mut stop, if !stopping => {
                    stopping = true;
                    if !streams.has_greeting() {
                        return;
                    }
                    lifetime.close(Instant::now())
                }
                () = &mut timer, if has_timer => {
                    let activity = Activity {
                        greeted: streams.has_greeting(),
                        is_trusted: connection.account.is_trusted(),
                        started_streams: connection.started_streams.load(Ordering::Relaxed),
                        is_watching: connection.has_watcher.load(Ordering::Relaxed),
                    };
                    lifetime.step(activity, Instant::now())
                }
            };
            has_timer = true;
            match next {
                Step::Wait(Some(time)) => timer.as_mut().reset(time),
                Step::Wait(None) => has_timer = false,
                Step::Close(time) => {
                    http.as_mut().graceful_shutdown();
                    timer.as_mut().reset(time);
                }
                Step::Cut => return,
            }
        }
    }
}
