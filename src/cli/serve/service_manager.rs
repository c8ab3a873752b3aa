//! Tells systemd, or another service manager with its protocol, that the service is ready, works and stops.
//!
//! The manager restarts a service that does not report in time. On SQLite this also ends the wait of all other brokers for a lock that
//! a stopped process holds.

use std::ffi::OsString;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
#[cfg(target_os = "linux")]
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sd_notify::NotifyState;
use tokio_util::task::AbortOnDropHandle;

/// Reports that the service is ready. From then on a task reports that it works, twice within the time of the watchdog, until the
/// result is dropped. Without a service manager, nothing is reported.
pub(super) fn ready() -> Option<AbortOnDropHandle<()>> {
    send(NotifyState::Ready);
    let limit = sd_notify::watchdog_enabled()?;
    let task = tokio::spawn(async move {
        loop {
            send(NotifyState::Watchdog);
            tokio::time::sleep(limit / 2).await;
        }
    });
    Some(AbortOnDropHandle::new(task))
}

/// Reports that the service stops.
pub(super) fn stopping() {
    send(NotifyState::Stopping);
}

fn send(state: NotifyState<'_>) {
    let sent = match abstract_socket() {
        Some(name) => send_to_abstract(name.as_bytes(), &state),
        None => sd_notify::notify(&[state]),
    };
    if let Err(error) = sent {
        tracing::warn!(%error, "service manager not reached");
    }
}

/// Returns the name of the manager's socket without its `@`, if it has no file. The crate knows only files.
fn abstract_socket() -> Option<OsString> {
    let socket = std::env::var_os("NOTIFY_SOCKET")?;
    let name = socket.as_bytes().strip_prefix(b"@")?;
    Some(OsString::from_vec(name.to_owned()))
}

#[cfg(target_os = "linux")]
fn send_to_abstract(name: &[u8], state: &NotifyState<'_>) -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(name)?;
    let message = format!("{state}\n");
    let socket = UnixDatagram::unbound()?;
    socket
        .send_to_addr(message.as_bytes(), &address)
        .map(|_| ())
}

#[cfg(not(target_os = "linux"))]
fn send_to_abstract(_: &[u8], _: &NotifyState<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
