//! Reaches a server: TCP to the address that answers first, TLS and login, and on to where the server sends the login.

use std::io::{Error as IoError, ErrorKind};
use std::time::Duration;

use tiberius::error::Error;
use tiberius::{AuthMethod, Client, Config};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use super::Settings;

/// A logged-in session.
pub(super) type Session = Client<Compat<TcpStream>>;

/// The socket under a session, to look at.
pub(super) struct Socket(std::net::TcpStream);

impl Socket {
    /// Returns whether nothing has come from a server that was not asked: what comes then is the end.
    pub(super) fn is_open_and_idle(&self) -> bool {
        let looked = self.0.peek(&mut [0]);
        matches!(looked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// How often a login may be sent on to another server.
const MAX_REDIRECTS: usize = 3;
/// How long an address is tried alone before the next one is tried beside it.
const CONNECT_STAGGER: Duration = Duration::from_millis(250);

/// Connects and logs in.
pub(super) async fn connect(
    server: &Config,
    settings: &Settings,
) -> Result<(Session, Socket), Error> {
    let mut config = server.clone();
    config.handshake_timeout(Some(settings.handshake_timeout));
    config.command_timeout(Some(settings.try_timeout()));
    if let Some(path) = &settings.access_token_file {
        // Read anew for each connection: whoever renews the token writes the file.
        let token = tokio::fs::read_to_string(path).await.map_err(|error| {
            let place = path.display();
            IoError::new(
                error.kind(),
                format!("the access token file {place}: {error}"),
            )
        })?;
        config.authentication(AuthMethod::aad_token(token.trim()));
    }
    let mut routes = 0;
    loop {
        let stream = connect_tcp(&config, settings.connect_timeout)
            .await?
            .into_std()?;
        let socket = Socket(stream.try_clone()?);
        let stream = TcpStream::from_std(stream)?;
        let login = Client::connect(config.clone(), stream.compat_write());
        // The driver's futures are large: on the heap they don't weigh on every caller's.
        match Box::pin(login).await {
            Err(Error::Routing { host, port }) if routes < MAX_REDIRECTS => {
                routes += 1;
                config.host(host);
                config.port(port);
            }
            outcome => return Ok((outcome?, socket)),
        }
    }
}

/// Dials the server's addresses, one a moment after the other, or all at once for a listener with an address in each
/// subnet (`MultiSubnetFailover`), and takes the first that answers.
async fn connect_tcp(config: &Config, patience: Duration) -> Result<TcpStream, Error> {
    let pause = if config.get_multi_subnet_failover() {
        Duration::ZERO
    } else {
        CONNECT_STAGGER
    };
    let address = config.get_addr();
    let silent = || IoError::new(ErrorKind::TimedOut, format!("{address}: no TCP connection"));
    let reached = timeout(patience, first_to_answer(&address, pause)).await;
    let stream = reached.unwrap_or_else(|_| Err(silent()))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn first_to_answer(address: &str, pause: Duration) -> Result<TcpStream, IoError> {
    let named = |error: IoError| IoError::new(error.kind(), format!("{address}: {error}"));
    // An IPv6 address has colons of its own, and no brackets here.
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let port: u16 = port.parse().map_err(IoError::other)?;
    let mut addresses = tokio::net::lookup_host((host, port)).await.map_err(named)?;
    let mut dials = JoinSet::new();
    let mut last = IoError::new(ErrorKind::NotFound, "the name has no address");
    loop {
        let mut more = true;
        match addresses.next() {
            Some(next) => drop(dials.spawn(TcpStream::connect(next))),
            None if dials.is_empty() => return Err(named(last)),
            None => more = false,
        }
        tokio::select! {
            biased;
            Some(joined) = dials.join_next() => match joined {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(error) => last = IoError::other(error),
            },
            () = tokio::time::sleep(pause), if more => {}
        }
    }
}
