//! A TCP proxy between a broker and its server that does to connections what networks do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tiberius::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// A way through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// How the network is at the moment.
#[derive(Clone, Debug, Default)]
struct Weather {
    refuses: bool,
    stalled: [bool; 2],
    delay: Duration,
    /// How often all connections have been cut: one opened before the last time is to end.
    cuts: usize,
    /// After how many bytes of each way a connection ends that is opened now.
    budget: [Option<usize>; 2],
}

#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    open: AtomicUsize,
    held: AtomicUsize,
}

/// A proxy that passes everything until it is told otherwise; gone, with its connections, when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    connection_string: String,
    weather: watch::Sender<Weather>,
    counts: Arc<Counts>,
    _accepting: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Starts before the server of this connection string.
    pub(crate) async fn before(connection_string: &str) -> Self {
        Self::on_port(0, connection_string).await
    }

    /// The same on a port that others know.
    pub(crate) async fn on_port(port: u16, connection_string: &str) -> Self {
        let server = Config::from_ado_string(connection_string).expect("a connection string");
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let weather = watch::Sender::new(Weather::default());
        let counts = Arc::<Counts>::default();
        let accepting = accept(
            listener,
            server.get_addr(),
            weather.subscribe(),
            counts.clone(),
        );
        Self {
            port,
            // Of a word that comes twice, the last one counts.
            connection_string: format!("{connection_string};server=tcp:127.0.0.1,{port}"),
            weather,
            counts,
            _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Names the proxy in place of the server.
    pub(crate) fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// Ends all connections now.
    pub(crate) fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Ends each connection that is opened from now on after so many bytes of one way; none: it lasts.
    pub(crate) fn cut_after(&self, way: Way, bytes: Option<usize>) {
        self.weather
            .send_modify(|weather| weather.budget[way as usize] = bytes);
    }

    /// Holds back what goes one way, or lets it pass again.
    pub(crate) fn stall(&self, way: Way, stalled: bool) {
        self.weather
            .send_modify(|weather| weather.stalled[way as usize] = stalled);
    }

    /// Resets new connections, or takes them again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.weather
            .send_modify(|weather| weather.refuses = refuses);
    }

    /// Holds back everything for so long.
    pub(crate) fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Passes everything again; what was cut remains so.
    pub(crate) fn clear_up(&self) {
        self.weather.send_modify(|weather| {
            *weather = Weather {
                cuts: weather.cuts,
                ..Weather::default()
            };
        });
    }

    /// Ends all connections, with what they hold back, and takes new ones.
    pub(crate) fn clear_up_after_cut(&self) {
        self.cut();
        self.clear_up();
    }

    /// How many connections have been opened, the refused ones too.
    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// How many connections have something held back.
    pub(crate) fn held(&self) -> usize {
        self.counts.held.load(Ordering::SeqCst)
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    weather: watch::Receiver<Weather>,
    counts: Arc<Counts>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        counts.accepted.fetch_add(1, Ordering::SeqCst);
        let (server, weather, counts) = (server.clone(), weather.clone(), counts.clone());
        connections.spawn(async move {
            let _open = Counted::new(&counts.open);
            let _ = connect(client, &server, weather, &counts.held).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Counts something while it lasts.
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
    mut weather: watch::Receiver<Weather>,
    held: &AtomicUsize,
) -> io::Result<()> {
    // Whatever ends a connection here ends it abruptly.
    client.set_zero_linger()?;
    client.set_nodelay(true)?;
    let now = weather.borrow_and_update().clone();
    if now.refuses {
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    server.set_zero_linger()?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = pass(from_client, to_server, Way::ToServer, weather.clone(), held);
    let back = pass(from_server, to_client, Way::ToClient, weather.clone(), held);
    tokio::select! {
        ended = async { tokio::try_join!(there, back) } => ended.map(|_| ()),
        _ = weather.wait_for(|weather| weather.cuts > now.cuts) => Ok(()),
    }
}

/// Passes on what comes, until its end.
async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Way,
    mut weather: watch::Receiver<Weather>,
    held: &AtomicUsize,
) -> io::Result<()> {
    let way = way as usize;
    let mut left = weather.borrow().budget[way].unwrap_or(usize::MAX);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let delay = {
            let _held = Counted::new(held);
            let now = weather.wait_for(|weather| !weather.stalled[way]).await;
            now.map(|now| now.delay).map_err(io::Error::other)?
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let passed = read.min(left);
        to.write_all(&buffer[..passed]).await?;
        left -= passed;
        if left == 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
}
