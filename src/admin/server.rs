//! The server of the admin port: its listener, its thread, and the limits of a connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::host_check::HostCheck;
use super::log_level::are_changes_allowed;
use super::routes::router;
use super::seats::{Seat, Seats};
use super::state::AdminState;
use crate::config;

/// The time limit from the acceptance of a connection to the last header of its request.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
/// The time limit of a connection. Each connection carries one request. One that follows a live page has no limit.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The bytes of an answer that the kernel takes before the client reads them. The default is up to 4 MiB, so that a viewer of a live page
/// that reads nothing would hold many snapshots.
const SEND_BUFFER: usize = 64 << 10;
/// The pause after a connection could not be accepted, for example because the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running admin port. Dropping it closes the port.
pub struct AdminPort {
    address: SocketAddr,
    router: SharedRouter,
    allow_changes: bool,
    hosts: HostCheck,
    /// Cancelled when the router is replaced.
    replaced: Mutex<CancellationToken>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The router of the connections that are accepted next.
type SharedRouter = Arc<RwLock<Router>>;

/// Opens the admin port. Returns `None` if the configuration turns it off.
///
/// If the default address is in use, for example by another broker on the host, a free port is taken.
///
/// # Errors
/// The address cannot be used, or the thread cannot be started.
pub fn start(settings: &config::Admin, state: AdminState) -> io::Result<Option<AdminPort>> {
    let Some(listener) = bind(settings)? else {
        return Ok(None);
    };
    let address = listener.local_addr()?;
    // Accepted connections inherit it.
    SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER)?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let allow_changes = are_changes_allowed(settings.allow_changes, address);
    let hosts = HostCheck::new(&settings.hosts);
    let replaced = CancellationToken::new();
    let shared = SharedRouter::new(RwLock::new(router(
        Arc::new(state),
        allow_changes,
        hosts.clone(),
        replaced.clone(),
    )));
    let router = shared.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let thread = std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, shared) => {}
                    () = stopped.cancelled() => {}
                }
            });
        })?;
    Ok(Some(AdminPort {
        address,
        router,
        allow_changes,
        hosts,
        replaced: Mutex::new(replaced),
        stop,
        thread: Some(thread),
    }))
}

impl AdminPort {
    /// Returns the address and port that the admin port listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reports on other parts of the process from now on. Live pages connect again, and then show those.
    pub fn show(&self, state: AdminState) {
        let (state, hosts, replaced) = (
            Arc::new(state),
            self.hosts.clone(),
            CancellationToken::new(),
        );
        let router = router(state, self.allow_changes, hosts, replaced.clone());
        *self.router.write().unwrap_or_else(PoisonError::into_inner) = router;
        let mut former = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *former, replaced).cancel();
    }
}

impl Drop for AdminPort {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bind(settings: &config::Admin) -> io::Result<Option<TcpListener>> {
    let Some(address) = settings.listen else {
        return Ok(None);
    };
    match TcpListener::bind(address) {
        Err(error)
            if address == config::Admin::DEFAULT_LISTEN
                && error.kind() == io::ErrorKind::AddrInUse =>
        {
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(Some)
        }
        bound => bound.map(Some),
    }
}

/// Accepts connections until the future is dropped.
async fn serve(listener: TcpListener, router: SharedRouter) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "admin port failed"),
    };
    let seats = Arc::<Seats>::default();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let router = router.read().unwrap_or_else(PoisonError::into_inner);
                let (seat, router) = (Arc::new(seats.take(address.ip())), router.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = answer(stream, router, &seat) => {}
                        () = is_too_slow(&seat) => {}
                        () = seat.ended() => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Waits for the time limit of a connection.
async fn is_too_slow(seat: &Seat) {
    tokio::time::sleep(CONNECTION_TIMEOUT).await;
    if seat.follows() {
        std::future::pending::<()>().await;
    }
}

/// Answers the one request of a connection. The request carries the seat as an extension.
async fn answer(stream: TcpStream, router: Router, seat: &Arc<Seat>) -> hyper::Result<()> {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        seat.has_request();
        request.extensions_mut().insert(seat.clone());
        router.call(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
