//! The server of the admin port: its listener, its thread, and the limits of a connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use lease_broker_model::text::visible;
use parking_lot::{Mutex, RwLock};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host_check::HostCheck;
use super::routes::router;
use super::seats::{Seat, Seats};
use super::state::AdminState;
use crate::config;
use crate::security::{ServerTls, ShownCertificate};

/// The time limit from the acceptance of a connection, or from its handshake, to the last header of its request.
/// Browsers open connections before they need them, and a page would lose its style if one ended at the moment of its use.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit of a connection. Each connection carries one request. One that follows a live page has no limit. Prometheus waits as
/// long for the metrics, if it is not told otherwise.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for the answers that are due when the port closes.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(5);
/// The bytes of an answer that the kernel takes before the client reads them. The default is up to 4 MiB, so that a viewer of a live page
/// that reads nothing would hold many snapshots.
const SEND_BUFFER: usize = 64 << 10;
/// The pause after a connection could not be accepted, for example because the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running admin port. Dropping it closes the port: it accepts no more connections, and gives the answers that are due.
pub struct AdminPort {
    address: SocketAddr,
    shared: SharedService,
    hosts: HostCheck,
    /// Cancelled when the router is replaced.
    replaced: Mutex<CancellationToken>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The service of the connections that are accepted next.
#[derive(Clone)]
struct Service {
    router: Router,
    /// `None`: plain text.
    tls: Option<Arc<ServerTls>>,
}

type SharedService = Arc<RwLock<Service>>;

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
    let hosts = HostCheck::new(&settings.hosts);
    let replaced = CancellationToken::new();
    let service = Service {
        tls: state.tls.clone(),
        router: router(Arc::new(state), hosts.clone(), replaced.clone()),
    };
    let shared = SharedService::new(RwLock::new(service));
    let served = shared.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let thread = std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let (seats, answers) = (Arc::default(), TaskTracker::new());
                tokio::select! {
                    () = serve(listener, served, &seats, &answers) => {}
                    () = stopped.cancelled() => {}
                }
                seats.end_idle();
                answers.close();
                // One of these answers is often that to the order to stop this broker.
                let _ = tokio::time::timeout(LAST_ANSWERS_TIMEOUT, answers.wait()).await;
            });
        })?;
    Ok(Some(AdminPort {
        address,
        shared,
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
        let (hosts, replaced) = (self.hosts.clone(), CancellationToken::new());
        let tls = state.tls.clone();
        let router = router(Arc::new(state), hosts, replaced.clone());
        let service = Service { router, tls };
        *self.shared.write() = service;
        std::mem::replace(&mut *self.replaced.lock(), replaced).cancel();
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
async fn serve(
    listener: TcpListener,
    shared: SharedService,
    seats: &Arc<Seats>,
    answers: &TaskTracker,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "admin port failed"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let service = shared.read();
                let (seat, service) = (Arc::new(seats.take(address.ip())), service.clone());
                answers.spawn(async move {
                    tokio::select! {
                        () = answer(stream, address.ip(), service, &seat) => {}
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

/// Makes the handshake of a connection, if there is one, and answers its one request. A failure concerns the client only.
async fn answer(stream: TcpStream, peer: IpAddr, service: Service, seat: &Arc<Seat>) {
    let Some(tls) = service.tls else {
        return answer_on(stream, service.router, seat, None).await;
    };
    let acceptor = TlsAcceptor::from(tls.state().admin.clone());
    match acceptor.accept(stream).await {
        Ok(stream) => {
            let certificate = ShownCertificate::new(stream.get_ref().1.peer_certificates(), tls);
            answer_on(stream, service.router, seat, certificate).await;
        }
        Err(cause) => {
            let cause = cause.to_string();
            tracing::warn!(
                target: "lease_broker::audit",
                event = "tls.failed", %peer, cause = %visible(&cause), "TLS handshake of the admin port failed"
            );
        }
    }
}

/// Answers the one request of a connection. The request carries the seat and the certificate of the client as extensions.
async fn answer_on<S>(
    stream: S,
    router: Router,
    seat: &Arc<Seat>,
    certificate: Option<ShownCertificate>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let certificate = certificate.map(Arc::new);
    let service = service_fn(|mut request: Request<Incoming>| {
        seat.has_request();
        request.extensions_mut().insert(seat.clone());
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        router.call(request)
    });
    let answered = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that does not take its answer is gone.
    let _ = answered.await;
}
