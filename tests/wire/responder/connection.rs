//! One connection to the scripted server, from its prelogin to its end.

use std::collections::VecDeque;
use std::io::Result;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::log::{Event, Log};
use super::packet::{self, ANSWER, ATTENTION, BATCH, End, LOGIN, Message, PRELOGIN, RPC};
use super::request::Request;
use super::script::{Reply, Script};
use super::server::{Encryption, Login};
use super::tls;
use super::tokens::Tokens;

/// The interval between the packets of an answer that never ends.
const PACKET_INTERVAL: Duration = Duration::from_millis(20);

/// State that all connections share.
pub(super) struct Shared {
    pub(super) encryption: Encryption,
    pub(super) login: Login,
    /// The errors that the next logins are refused with, whatever `login` says.
    pub(super) refusals: Mutex<VecDeque<u32>>,
    /// The answer to each login, while one is set.
    pub(super) refusal: Mutex<Option<Tokens>>,
    pub(super) script: Mutex<Script>,
    pub(super) log: Log,
}

/// Serves one connection until either side ends it.
pub(super) async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    shared.log.add(number, Event::Accepted);
    let session = Session {
        number,
        shared: &shared,
    };
    // An error is ignored. The server does not care how a broker disconnects.
    let _ = session.run(stream).await;
    shared.log.add(number, Event::Closed);
}

struct Session<'a> {
    number: usize,
    shared: &'a Shared,
}

/// Whether the connection stays open after a reply.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

impl Session<'_> {
    async fn run(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        if matches!(self.shared.login, Login::Silence) {
            return self.read_until_closed(&mut stream).await;
        }
        match &self.shared.encryption {
            Encryption::Unsupported => {
                if pre_login(&mut stream, 2).await? {
                    self.log_in(stream, false).await?;
                }
            }
            Encryption::Required(identity) => {
                if pre_login(&mut stream, 3).await? {
                    let stream = tls::accept(stream, identity.config()).await?;
                    self.log_in(stream, true).await?;
                }
            }
            Encryption::Strict(identity) => {
                let mut stream = tls::accept_strict(stream, identity.config()).await?;
                if pre_login(&mut stream, 3).await? {
                    self.log_in(stream, true).await?;
                }
            }
        }
        Ok(())
    }

    async fn log_in(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        encrypted: bool,
    ) -> Result<()> {
        let Some(Message { kind: LOGIN, .. }) = packet::read(&mut stream).await? else {
            return Ok(());
        };
        self.shared.log.add(self.number, Event::Login { encrypted });
        let refusal = self.shared.refusals.lock().expect("refusals").pop_front();
        if let Some(number) = refusal {
            let tokens = Tokens::new().error(number, "Not now.");
            return packet::write(&mut stream, ANSWER, &tokens.finished(), End::Last).await;
        }
        let refusal = self.shared.refusal.lock().expect("a refusal").clone();
        if let Some(tokens) = refusal {
            return packet::write(&mut stream, ANSWER, &tokens.finished(), End::Last).await;
        }
        let tokens = match &self.shared.login {
            Login::Refuse(number, message) => Tokens::new().error(*number, message),
            Login::Route(host, port) => Tokens::new().login_ack().route(host, *port),
            Login::Silence | Login::Unanswered => {
                return self.read_until_closed(&mut stream).await;
            }
            Login::Accept => Tokens::new().info(5701, "Changed database").login_ack(),
        };
        packet::write(&mut stream, ANSWER, &tokens.finished(), End::Last).await?;
        while let Some(message) = packet::read(&mut stream).await? {
            let request = match message.kind {
                BATCH => Request::batch(&message.payload),
                RPC => Request::call(&message.payload),
                ATTENTION => {
                    self.attend(&mut stream).await?;
                    continue;
                }
                _ => return Ok(()),
            };
            // Before the event: a test that waits for the event may then change the script.
            let reply = self.shared.script.lock().expect("a script").reply(&request);
            self.shared
                .log
                .add(self.number, Event::Request(request.clone()));
            if self.reply(&mut stream, &request, reply).await? == Next::Close {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn reply(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        request: &Request,
        reply: Reply,
    ) -> Result<Next> {
        let finished = |tokens: Tokens| {
            if request.is_call {
                let wants_mark = request.text.contains("AS lb_committed");
                tokens.marked(wants_mark).finished_call()
            } else {
                tokens.finished()
            }
        };
        match reply {
            Reply::Answer(tokens) => {
                packet::write(stream, ANSWER, &finished(tokens), End::Last).await?;
            }
            Reply::After(gate, tokens) => {
                gate.pass().await;
                packet::write(stream, ANSWER, &finished(tokens), End::Last).await?;
            }
            Reply::AnswerAndClose(tokens) => {
                packet::write(stream, ANSWER, &finished(tokens), End::Last).await?;
                return Ok(Next::Close);
            }
            Reply::Silent(flag, tokens) => {
                let bytes = tokens.finished_silently(flag);
                packet::write(stream, ANSWER, &bytes, End::Last).await?;
                return Ok(Next::Close);
            }
            Reply::Cut(tokens) => {
                packet::write(stream, ANSWER, &tokens.unfinished(), End::MoreToCome).await?;
                return Ok(Next::Close);
            }
            Reply::Stall(tokens) => {
                packet::write(stream, ANSWER, &tokens.unfinished(), End::MoreToCome).await?;
                self.read_until_closed(stream).await?;
                return Ok(Next::Close);
            }
            Reply::Forever(tokens) => loop {
                let more = tokens.clone().unfinished();
                packet::write(stream, ANSWER, &more, End::MoreToCome).await?;
                tokio::time::sleep(PACKET_INTERVAL).await;
            },
        }
        Ok(Next::Continue)
    }

    /// Reads until the broker closes the connection, and answers only attentions.
    async fn read_until_closed(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<()> {
        while let Some(message) = packet::read(stream).await? {
            if message.kind == ATTENTION {
                self.attend(stream).await?;
            }
        }
        Ok(())
    }

    async fn attend(&self, stream: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
        self.shared.log.add(self.number, Event::Attention);
        packet::write(stream, ANSWER, &Tokens::attention_done(), End::Last).await
    }
}

/// Reads a prelogin and answers it. Returns false if the other side sent something else.
async fn pre_login(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    encryption: u8,
) -> Result<bool> {
    let Some(Message { kind: PRELOGIN, .. }) = packet::read(stream).await? else {
        return Ok(false);
    };
    packet::write(stream, ANSWER, &prelogin(encryption), End::Last).await?;
    Ok(true)
}

/// Writes the options version and encryption (MS-TDS 2.2.6.5).
fn prelogin(encryption: u8) -> Vec<u8> {
    let mut bytes = vec![0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF];
    bytes.extend([16, 0, 0, 0, 0, 0]);
    bytes.push(encryption);
    bytes
}
