//! The server of the admin port: its listener, its thread, and the limits of a connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
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
/// The time limit of a connection. Each connection carries one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted, for example because the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running admin port. Dropping it closes the port.
pub struct AdminPort {
    address: SocketAddr,
    router: SharedRouter,
    allow_changes: bool,
    hosts: HostCheck,
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
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let allow_changes = are_changes_allowed(settings.allow_changes, address);
    let hosts = HostCheck::new(&settings.hosts);
    let shared = SharedRouter::new(RwLock::new(router(
        Arc::new(state),
        allow_changes,
        hosts.clone(),
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
        stop,
        thread: Some(thread),
    }))
}

impl AdminPort {
    /// Returns the address and port that the admin port listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reports on other parts of the process from now on.
    pub fn show(&self, state: AdminState) {
        let router = router(Arc::new(state), self.allow_changes, self.hosts.clone());
        *self.router.write().unwrap_or_else(PoisonError::into_inner) = router;
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
                let (seat, router) = (seats.take(address.ip()), router.clone());
                tokio::spawn(async move {
                    let answered = answer(stream, router, &seat);
                    tokio::select! {
                        // A client that is too slow is disconnected.
                        _ = tokio::time::timeout(CONNECTION_TIMEOUT, answered) => {}
                        () = seat.ended() => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, router: Router, seat: &Seat) -> hyper::Result<()> {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        seat.has_request();
        router.call(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
