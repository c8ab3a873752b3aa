//! Texts for the errors of TLS and login: the server's address, the event, and the setting that helps. The driver's texts name its
//! methods as the remedy, and no address.

use std::io::ErrorKind;
use std::time::Duration;

use tiberius::error::Error;

use super::error::{in_own_words, while_connecting};
use crate::StoreError;

/// The beginning of the advice in the driver's message about a certificate. It names methods of the driver, which only a program can call.
const ADVICE_OF_DRIVER: &str = " To connect anyway";
const CERTIFICATE_REMEDY: &str = "in store.connection_string, set TrustServerCertificateCA=FILE to trust the authority that signed it, \
    HostNameInCertificate=NAME if it is for another name than that of the server, or, only on a trusted network, \
    TrustServerCertificate=true to accept any certificate";

/// Converts the error of a connection between TCP and the end of the login. `timeout` is the time limit of TLS and login.
pub(super) fn of_login(error: Error, address: &str, timeout: Duration) -> StoreError {
    let error = match in_own_words(error, || timed_out(timeout)) {
        Error::Tls(text) => Error::Tls(format!("{address}: {}", tls_problem(&text))),
        Error::Io { kind, message } => Error::Io {
            kind,
            message: format!("{address}: {}", io_problem(kind, message)),
        },
        other => other,
    };
    match (&error, while_connecting(&error)) {
        (Error::Server(token), StoreError::Unavailable(mut outage)) => {
            outage.reason = of_server(address, &outage.reason, token.code());
            StoreError::Unavailable(outage)
        }
        (_, failure) => failure,
    }
}

/// Returns the error for a server that accepted the connection and did not finish the login within the timeout.
fn timed_out(timeout: Duration) -> Error {
    let timeout = humantime::format_duration(timeout);
    Error::Io {
        kind: ErrorKind::TimedOut,
        message: format!("no TLS and login within {timeout}, the value of store.handshake_timeout"),
    }
}

fn tls_problem(text: &str) -> String {
    if text.contains("certificate") {
        let (cause, _) = text.split_once(ADVICE_OF_DRIVER).unwrap_or((text, ""));
        format!("{}; {CERTIFICATE_REMEDY}", cause.trim_end_matches('.'))
    } else {
        format!("TLS failed: {text}")
    }
}

fn io_problem(kind: ErrorKind, message: String) -> String {
    match kind {
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe => "the server closed the connection during the login".to_owned(),
        _ => message,
    }
}

/// Returns the message of a server that refuses the login, with the settings that it depends on.
fn of_server(address: &str, message: &str, number: u32) -> String {
    let remedy = match number {
        18486 => {
            "; an administrator unlocks it with ALTER LOGIN … WITH PASSWORD = '…' UNLOCK, and store.connection_string must have the same \
             password"
        }
        18456 | 18452 | 18470 | 18487 | 18488 => {
            "; check user and password in store.connection_string, or store.access_token_file"
        }
        4060 | 4064 | 911 | 916 => "; check the database and the user in store.connection_string",
        _ => "",
    };
    format!("{address}: {message}{remedy}")
}
