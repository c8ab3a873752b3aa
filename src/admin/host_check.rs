//! Refuses requests that a web page of another site sends by the browser of an operator.
//!
//! The port has no login, so a page must not be able to use it. A page that reaches the port under a name of its own site (DNS
//! rebinding) sends this name as the host. A page of another site sends its site as the origin, at least with each request that
//! changes something.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lease_broker_model::text::{Quoted, log_field};

use super::seats::peer;

/// The names by which the port may be called, besides IP addresses and `localhost`.
#[derive(Clone)]
pub(super) struct HostCheck(Arc<[String]>);

impl HostCheck {
    pub(super) fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    /// Checks the host and the origin of a request.
    ///
    /// # Errors
    /// The status and the text of the answer.
    fn check(&self, request: &Request) -> Result<(), (StatusCode, String)> {
        let host = host_of(request)?;
        if let Some(host) = &host
            && !self.is_known(host.host())
        {
            let text = format!(
                "the admin port is not called {}: use its IP address, or list the name in admin.hosts",
                Quoted(host.host())
            );
            return Err((StatusCode::FORBIDDEN, text));
        }
        for origin in request.headers().get_all(header::ORIGIN) {
            let is_own = host.as_ref().is_some_and(|host| {
                let own = ["http://", "https://"].map(|scheme| format!("{scheme}{host}"));
                own.iter().any(|own| origin == own.as_str())
            });
            if !is_own {
                let origin = String::from_utf8_lossy(origin.as_bytes());
                let text = format!(
                    "the admin port answers no page of another site, such as {}",
                    Quoted(&origin)
                );
                return Err((StatusCode::FORBIDDEN, text));
            }
        }
        Ok(())
    }

    fn is_known(&self, host: &str) -> bool {
        let name = host.strip_suffix('.').unwrap_or(host);
        let is_ip = name.parse::<Ipv4Addr>().is_ok()
            || name
                .strip_prefix('[')
                .and_then(|name| name.strip_suffix(']'))
                .is_some_and(|name| name.parse::<Ipv6Addr>().is_ok());
        let mut names = self.0.iter().map(String::as_str).chain(["localhost"]);
        is_ip || names.any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Returns the host of a request. `None`: it is of HTTP/1.0 and has none, so no browser has sent it.
fn host_of(request: &Request) -> Result<Option<Authority>, (StatusCode, String)> {
    let malformed = |text: &str| Err((StatusCode::BAD_REQUEST, text.to_owned()));
    let header = match &header_values(request.headers())[..] {
        [] if request.version() < Version::HTTP_11 => None,
        [value] => match Authority::try_from(*value) {
            Ok(host) => Some(host),
            Err(_) => return malformed("the header Host is malformed"),
        },
        _ => return malformed("the request must have one header Host"),
    };
    // An address in the request line replaces the header (RFC 9112, 3.2.2).
    Ok(request.uri().authority().cloned().or(header))
}

fn header_values(headers: &HeaderMap) -> Vec<&[u8]> {
    let values = headers.get_all(header::HOST).iter();
    values.map(axum::http::HeaderValue::as_bytes).collect()
}

/// Passes a request on, or refuses it.
pub(super) async fn check(
    State(check): State<HostCheck>,
    request: Request,
    next: Next,
) -> Response {
    match check.check(&request) {
        Ok(()) => next.run(request).await,
        Err((status, problem)) => {
            let peer = peer(request.extensions());
            tracing::warn!(
                target: "lease_broker::audit",
                event = "dashboard.host_refused", %peer, problem = &*log_field(&problem), "request of the admin port refused"
            );
            (status, problem).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: axum::http::request::Builder) -> u16 {
        let check = HostCheck::new(&["Broker-1".to_owned()]);
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let refused = check.check(&request).err();
        refused.map_or(200, |(status, _)| status.as_u16())
    }

    #[test]
    fn hosts_are_addresses_localhost_and_listed_names() {
        for (host, expected) in [
            ("127.0.0.1:9464", 200),
            ("10.0.0.7", 200),
            ("[::1]:9464", 200),
            ("LOCALHOST:1", 200),
            ("broker-1:9464", 200),
            ("broker-1.", 200),
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("broker-1.evil.example:9464", 403),
            ("localhost@evil.example", 403),
            ("", 400),
            ("a b", 400),
        ] {
            assert_eq!(
                status(Request::get("/").header("host", host)),
                expected,
                "{host}"
            );
        }
        let two = Request::get("/").header("host", "[::1]");
        assert_eq!(status(two.header("host", "[::1]")), 400);
        assert_eq!(status(Request::get("/")), 400);
        assert_eq!(status(Request::get("/").version(Version::HTTP_10)), 200);
        let absolute = Request::get("http://evil.example/livez").header("host", "[::1]");
        assert_eq!(status(absolute), 403);
    }

    #[test]
    fn origins_are_those_of_the_host() {
        for (origin, expected) in [
            ("http://127.0.0.1:9464", 200),
            ("https://127.0.0.1:9464", 200),
            ("http://127.0.0.1:3000", 403),
            ("http://127.0.0.1", 403),
            ("http://evil.example", 403),
            ("null", 403),
            ("", 403),
        ] {
            let request = Request::put("/log/level").header("host", "127.0.0.1:9464");
            assert_eq!(
                status(request.header("origin", origin)),
                expected,
                "{origin}"
            );
        }
        let no_host = Request::put("/").version(Version::HTTP_10);
        assert_eq!(status(no_host.header("origin", "http://evil.example")), 403);
    }
}
