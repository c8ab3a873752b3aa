//! Opens sessions on a server: TCP, TLS and login, and the redirects that a server can answer a login with.

use std::io::{Error as IoError, ErrorKind};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tiberius::error::Error;
use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use super::Settings;
use super::error::while_connecting;
use super::login_error::of_login;
use crate::StoreError;

/// A session after its login.
pub(super) type Session = Client<Compat<TcpStream>>;

/// A second handle of a session's socket. It shows whether the server has closed the connection.
pub(super) struct Socket(std::net::TcpStream);

impl Socket {
    /// Returns whether the connection is open and has no unread data. The broker calls this only between batches. A
    /// server sends data then only to end the connection.
    pub(super) fn is_open_and_idle(&self) -> bool {
        let peeked = self.0.peek(&mut [0]);
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// Maximum number of redirects of a login to another server.
const MAX_REDIRECTS: usize = 3;
/// Delay between the starts of two TCP connects, if the server's name has several addresses.
const CONNECT_STAGGER: Duration = Duration::from_millis(250);

/// Time without traffic after which the operating system asks whether the other side still answers, and the time
/// between two such questions. Firewalls and load balancers forget connections that are idle for some minutes (Azure
/// after 4), and Microsoft's own drivers use this value.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Connects to the server and logs in.
pub(super) async fn connect(
    server: &Config,
    settings: &Settings,
) -> Result<(Session, Socket), StoreError> {
    let mut config = server.clone();
    config.handshake_timeout(Some(settings.handshake_timeout));
    config.command_timeout(Some(settings.try_timeout()));
    let mut redirects = 0;
    loop {
        let opened = open_socket(&config, settings.connect_timeout).await;
        let (stream, socket) = opened.map_err(|error| while_connecting(&error))?;
        let login = Client::connect(config.clone(), stream.compat_write());
        // The driver's futures are large. On the heap they do not enlarge the futures of all callers.
        match Box::pin(login).await {
            Err(Error::Routing { host, port }) if redirects < MAX_REDIRECTS => {
                redirects += 1;
                // A named instance has the form `HOST\INSTANCE`. The port is that of the instance.
                config.host(host.split('\\').next().unwrap_or_default());
                config.port(port);
            }
            Err(error) => {
                let timeout = settings.handshake_timeout;
                return Err(of_login(error, &config.get_addr(), timeout));
            }
            Ok(session) => return Ok((session, socket)),
        }
    }
}

/// Opens a TCP connection, with a second handle of its socket.
async fn open_socket(config: &Config, timeout: Duration) -> Result<(TcpStream, Socket), Error> {
    let stream = connect_tcp(config, timeout).await?.into_std()?;
    let socket = Socket(stream.try_clone()?);
    Ok((TcpStream::from_std(stream)?, socket))
}

/// Opens a TCP connection to the first of the server's addresses that accepts. The addresses are tried one after the
/// other, with a delay. With `MultiSubnetFailover` they are all tried at once, for a listener with an address in each
/// subnet.
async fn connect_tcp(config: &Config, connect_timeout: Duration) -> Result<TcpStream, Error> {
    let stagger = if config.get_multi_subnet_failover() {
        Duration::ZERO
    } else {
        CONNECT_STAGGER
    };
    let address = config.get_addr();
    let no_connection =
        || IoError::new(ErrorKind::TimedOut, format!("{address}: no TCP connection"));
    let connected = timeout(connect_timeout, connect_first(&address, stagger)).await;
    let stream = connected.unwrap_or_else(|_| Err(no_connection()))?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let keepalive = keepalive.with_interval(KEEPALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// Starts a connect to each address of `HOST:PORT`, `stagger` apart, and returns the first that succeeds. If all fail,
/// returns the last error.
async fn connect_first(address: &str, stagger: Duration) -> Result<TcpStream, IoError> {
    let with_address = |error: IoError| IoError::new(error.kind(), format!("{address}: {error}"));
    // The port follows the last colon. An IPv6 address, which has no brackets here, contains colons as well.
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let port: u16 = port.parse().map_err(IoError::other)?;
    let mut addresses = tokio::net::lookup_host((host, port))
        .await
        .map_err(with_address)?;
    let mut connects = JoinSet::new();
    let mut last_error = IoError::new(ErrorKind::NotFound, "the name has no address");
    loop {
        let mut has_more = true;
        match addresses.next() {
            Some(next) => drop(connects.spawn(TcpStream::connect(next))),
            None if connects.is_empty() => return Err(with_address(last_error)),
            None => has_more = false,
        }
        tokio::select! {
            biased;
            Some(joined) = connects.join_next() => match joined {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last_error = error,
                Err(error) => last_error = IoError::other(error),
            },
            () = tokio::time::sleep(stagger), if has_more => {}
        }
    }
}
