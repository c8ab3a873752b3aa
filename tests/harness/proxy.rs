//! A TCP proxy between two programs. It cuts, delays, stalls and refuses connections as a bad network does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tiberius::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// The faults that are active at the moment.
#[derive(Clone, Debug, Default)]
struct NetworkState {
    refuses: bool,
    stalled: [bool; 2],
    delay: Duration,
    /// Whether each byte is sent by itself.
    is_fragmented: bool,
    /// Number of times that all connections were cut. A connection that was opened before the last cut ends.
    cuts: usize,
    /// Number of bytes per direction after which a new connection ends. `None`: no limit.
    byte_limit: [Option<usize>; 2],
    /// Number of bytes to the client after which each connection stalls. `None`: no limit.
    stall_limit: Option<usize>,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    open: AtomicUsize,
    held: AtomicUsize,
}

/// A proxy that forwards everything until a fault is set. Dropping it ends all its connections.
pub(crate) struct Proxy {
    port: u16,
    connection_string: String,
    network: watch::Sender<NetworkState>,
    counts: Arc<Counts>,
    _accepting: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Starts a proxy on a free port for the server of this connection string.
    pub(crate) async fn before(connection_string: &str) -> Self {
        Self::on_port(0, connection_string).await
    }

    /// Starts a proxy on the given port. 0: a free port.
    pub(crate) async fn on_port(port: u16, connection_string: &str) -> Self {
        let server = Config::from_ado_string(connection_string).expect("a connection string");
        Self::to_server(port, server.get_addr(), connection_string).await
    }

    /// Starts a proxy on a free port for the server with this address.
    pub(crate) async fn to_address(server: SocketAddr) -> Self {
        Self::to_server(0, server.to_string(), "").await
    }

    async fn to_server(port: u16, server: String, connection_string: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let network = watch::Sender::new(NetworkState::default());
        let counts = Arc::<Counts>::default();
        let accepting = accept(listener, server, network.subscribe(), counts.clone());
        Self {
            port,
            // If a keyword occurs twice, the last value counts.
            connection_string: format!("{connection_string};server=tcp:127.0.0.1,{port}"),
            network,
            counts,
            _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the connection string with the address of the proxy instead of the server.
    pub(crate) fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// Ends all open connections.
    pub(crate) fn cut(&self) {
        self.network.send_modify(|network| network.cuts += 1);
    }

    /// Ends each connection that is opened from now on after this number of bytes in one direction. `None`: no limit.
    pub(crate) fn cut_after(&self, direction: Direction, bytes: Option<usize>) {
        self.network
            .send_modify(|network| network.byte_limit[direction as usize] = bytes);
    }

    /// Holds back all bytes of one direction, or forwards them again.
    pub(crate) fn stall(&self, direction: Direction, stalled: bool) {
        self.network
            .send_modify(|network| network.stalled[direction as usize] = stalled);
    }

    /// Holds back the bytes to the client of each connection that has passed this number of bytes from now on.
    pub(crate) fn stall_after(&self, bytes: usize) {
        self.network
            .send_modify(|network| network.stall_limit = Some(bytes));
    }

    /// Resets new connections, or accepts them again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.network
            .send_modify(|network| network.refuses = refuses);
    }

    /// Delays every read of bytes by this time.
    pub(crate) fn delay(&self, delay: Duration) {
        self.network.send_modify(|network| network.delay = delay);
    }

    /// Sends each byte by itself, or as many as come.
    pub(crate) fn fragment(&self, is_fragmented: bool) {
        self.network
            .send_modify(|network| network.is_fragmented = is_fragmented);
    }

    /// Removes all faults. Connections that were cut stay closed.
    pub(crate) fn restore(&self) {
        self.network.send_modify(|network| {
            *network = NetworkState {
                cuts: network.cuts,
                ..NetworkState::default()
            };
        });
    }

    /// Ends all connections, which loses the bytes held back, and removes all faults.
    pub(crate) fn cut_and_restore(&self) {
        self.cut();
        self.restore();
    }

    /// Returns the number of connections that were opened so far, including refused ones.
    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of directions, over all connections, whose bytes are held back.
    pub(crate) fn held(&self) -> usize {
        self.counts.held.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    network: watch::Receiver<NetworkState>,
    counts: Arc<Counts>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        counts.accepted.fetch_add(1, Ordering::SeqCst);
        let (server, network, counts) = (server.clone(), network.clone(), counts.clone());
        connections.spawn(async move {
            let _open = Counted::new(&counts.open);
            let _ = connect(client, &server, network, &counts.held).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Increments a counter and decrements it when dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn connect(
    mut client: TcpStream,
    server: &str,
    mut network: watch::Receiver<NetworkState>,
    held: &AtomicUsize,
) -> io::Result<()> {
    // Every end of a connection is a reset, without an orderly shutdown.
    client.set_zero_linger()?;
    client.set_nodelay(true)?;
    let now = network.borrow_and_update().clone();
    if now.refuses {
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    server.set_zero_linger()?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = forward(
        from_client,
        to_server,
        Direction::ToServer,
        network.clone(),
        held,
    );
    let back = forward(
        from_server,
        to_client,
        Direction::ToClient,
        network.clone(),
        held,
    );
    tokio::select! {
        // The cut comes first, so bytes that are held back are lost.
        biased;
        _ = network.wait_for(|network| network.cuts > now.cuts) => Ok(()),
        ended = async { tokio::try_join!(there, back) } => ended.map(|_| ()),
    }
}

/// Forwards the bytes of one direction until their end or the byte limit.
async fn forward(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    mut network: watch::Receiver<NetworkState>,
    held: &AtomicUsize,
) -> io::Result<()> {
    let direction = direction as usize;
    let mut left = network.borrow().byte_limit[direction].unwrap_or(usize::MAX);
    let mut buffer = vec![0; 16 * 1024];
    let mut passed_with_limit = 0;
    loop {
        let most = if network.borrow().is_fragmented {
            1
        } else {
            buffer.len()
        };
        let read = from.read(&mut buffer[..most]).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let delay = {
            let _held = Counted::new(held);
            let is_over = |network: &NetworkState| {
                let limit = network.stall_limit.unwrap_or(usize::MAX);
                direction == Direction::ToClient as usize && passed_with_limit >= limit
            };
            let now = network
                .wait_for(|network| !network.stalled[direction] && !is_over(network))
                .await;
            now.map(|now| now.delay).map_err(io::Error::other)?
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if network.borrow().stall_limit.is_some() {
            passed_with_limit += read;
        }
        let passed = read.min(left);
        to.write_all(&buffer[..passed]).await?;
        left -= passed;
        if left == 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
}
