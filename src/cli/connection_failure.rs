//! The reason why a connection to a service failed, with its remedy.

use std::error::Error;
use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError};
use tonic::transport::Endpoint;

use super::port_protocol::{self, PortProtocol, Unreachable};
use crate::security::end_entity;

const START: &str = "start it with `lease-broker serve`, or name another address with --address";
const OTHER_ADDRESS: &str = "name the address of a broker with --address";

/// The reason why a connection failed, and its remedy.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: String,
    remedy: &'static str,
    /// Whether another attempt can succeed, although the user changes nothing.
    pub(super) can_pass: bool,
    /// Whether the port speaks the protocol of the address.
    pub(super) is_expected_protocol: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.cause, self.remedy)
    }
}

impl Failure {
    /// Returns the failure of a list of addresses that is empty.
    pub(super) fn no_address() -> Self {
        Self::lasting("no address is given", OTHER_ADDRESS)
    }

    fn passing(cause: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            cause: cause.into(),
            remedy,
            can_pass: true,
            is_expected_protocol: false,
        }
    }

    fn lasting(cause: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            can_pass: false,
            ..Self::passing(cause, remedy)
        }
    }

    fn with_expected_protocol(self) -> Self {
        Self {
            is_expected_protocol: true,
            ..self
        }
    }
}

/// Finds out why an attempt or a call has failed. Asks the port which protocol it speaks, unless the error tells it.
pub(super) async fn explain(
    endpoint: &Endpoint,
    error: &(dyn Error + Send + Sync + 'static),
) -> Failure {
    let uri = endpoint.uri();
    let is_tls = uri.scheme_str() == Some("https");
    if let Some(failure) = certificate_failure(error) {
        return failure.with_expected_protocol();
    }
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or_default();
    let protocol = match port_protocol::find(host.trim_matches(['[', ']']), port).await {
        Ok(protocol) => protocol,
        Err(Unreachable::NoAddress(error)) => {
            let cause = format!("the host {host} has no address ({error})");
            return Failure::passing(cause, OTHER_ADDRESS);
        }
        Err(Unreachable::NoConnection(error)) => {
            let cause = if error.kind() == io::ErrorKind::ConnectionRefused {
                format!("nothing listens on {host}:{port}")
            } else {
                format!("{host}:{port} does not answer ({error})")
            };
            return Failure::passing(cause, START);
        }
    };
    match (protocol, is_tls) {
        (PortProtocol::Http2, false) | (PortProtocol::Tls, true) => {
            Failure::passing(innermost_cause(error), "try again").with_expected_protocol()
        }
        (PortProtocol::Http2, true) => Failure::lasting(
            "the port speaks plain text, not TLS",
            "write http:// instead of https://, or give the broker the section [server.tls]",
        ),
        (PortProtocol::Tls, false) => Failure::lasting(
            "the port speaks TLS, not plain text",
            "write https:// instead of http://",
        ),
        (PortProtocol::Http1, _) => Failure::lasting(
            "the port speaks HTTP/1, as an admin port or a web server does, and not gRPC",
            OTHER_ADDRESS,
        ),
        (PortProtocol::Unknown, _) => {
            Failure::lasting("the port speaks another protocol than gRPC", OTHER_ADDRESS)
        }
        (PortProtocol::Closing, _) => Failure::passing(
            "the port closes the connection without an answer, as a load balancer without a broker does",
            OTHER_ADDRESS,
        ),
        (PortProtocol::Silent, _) => Failure::passing(
            "the port accepts connections and does not answer",
            "check that the broker works, or name another address with --address",
        ),
    }
}

/// The alerts by which a service refuses the certificate of a client, or asks for one.
const CERTIFICATE_ALERTS: [AlertDescription; 6] = [
    AlertDescription::CertificateRequired,
    AlertDescription::UnknownCA,
    AlertDescription::BadCertificate,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::HandshakeFailure,
];

/// Explains an error about a certificate. `None`: the error is not about one.
fn certificate_failure(error: &(dyn Error + 'static)) -> Option<Failure> {
    let cause = innermost_cause(error);
    // With TLS 1.3 an alert can arrive during the first call. HTTP/2 keeps only its text.
    let mut alerts = CERTIFICATE_ALERTS.into_iter();
    if alerts.any(|alert| cause == rustls::Error::AlertReceived(alert).to_string()) {
        return Some(Failure::lasting(
            format!("the service refuses the certificate of this command ({cause})"),
            "give a certificate that the service accepts with --certificate and --key",
        ));
    }
    let rustls::Error::InvalidCertificate(problem) = find(error)? else {
        return None;
    };
    Some(match problem {
        CertificateError::UnknownIssuer => Failure::lasting(
            "the certificate of the service is not trusted",
            "name the file of the authority that signed it with --ca",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Failure::lasting(cause, "name one of these with --server-name")
        }
        problem if end_entity::is_reported_by(problem) => Failure::lasting(
            "the certificate of the service is one of an authority (CA:TRUE)",
            end_entity::REMEDY,
        ),
        _ => Failure::lasting(cause, "give the broker another certificate"),
    })
}

/// Returns the first error of this type among an error and its causes. An I/O error can contain one.
pub(super) fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref());
        if let Some(found) = error.downcast_ref().or(inner) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Returns the text of the error that caused another one, such as an invalid certificate.
pub(super) fn innermost_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
