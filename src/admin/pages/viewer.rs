//! The viewer of a page: its session, its identity, and the calls that it makes.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, header};
use lease_broker_model::text::log_field;
use subtle::ConstantTimeEq as _;
use tonic::Status;

use super::answer::Failure;
use super::calls;
use crate::admin::seats::peer;
use crate::admin::state::AdminState;
use crate::grpc::{AdminApi, Caller};
use crate::security::{Access, Refusal, Rpc, ShownCertificate};

/// The credentials of a request, which can be checked again while its response lasts.
pub(super) struct Credentials {
    headers: HeaderMap,
    /// `None`: the browser has shown no certificate.
    certificate: Option<Arc<ShownCertificate>>,
    peer: IpAddr,
}

/// The viewer of a page.
pub(super) struct Viewer {
    state: Arc<AdminState>,
    pub(super) caller: Caller,
    peer: IpAddr,
    /// The token that forms of this viewer carry.
    pub(super) form: String,
    /// Whether the viewer has logged in, so that it can log out.
    pub(super) has_session: bool,
}

impl<S: Sync> FromRequestParts<S> for Credentials {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self {
            headers: parts.headers.clone(),
            certificate: parts.extensions.get().cloned(),
            peer: peer(&parts.extensions),
        })
    }
}

impl FromRequestParts<Arc<AdminState>> for Viewer {
    type Rejection = Failure;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<AdminState>,
    ) -> Result<Self, Failure> {
        let Ok(credentials) = Credentials::from_request_parts(parts, state).await;
        Self::of(state, &credentials)
    }
}

/// Returns the caller with this token.
///
/// # Errors
/// The reason why the token is refused.
pub(super) fn identify(
    state: &AdminState,
    access: &Access,
    token: &[u8],
    peer: IpAddr,
) -> Result<Caller, Refusal> {
    // Many viewers share the address of a reverse proxy.
    let address = state.token_header.is_none().then_some(peer);
    let identity = access.of_bearer(token, address)?;
    Ok(Caller::of(identity, peer))
}

/// Returns the token that a program or a reverse proxy sends with each request.
fn sent_token<'a>(headers: &'a HeaderMap, of_proxy: Option<&HeaderName>) -> Option<&'a str> {
    let proxy = of_proxy.and_then(|name| headers.get(name)?.to_str().ok());
    proxy.filter(|token| !token.is_empty()).or_else(|| {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        is_bearer.then(|| token.trim_ascii())
    })
}

/// Returns the name of the cookie that has the id of a session. It has the port, because browsers send the cookies of a host to all of
/// its ports, and each can be that of another broker.
pub(super) fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let authority: Option<Authority> = host.and_then(|host| host.parse().ok());
    let port = authority.and_then(|authority| authority.port_u16());
    port.map_or_else(
        || "lease_broker_session".to_owned(),
        |port| format!("lease_broker_session_{port}"),
    )
}

/// Returns the id of the session in the cookie.
pub(super) fn cookie(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let mut cookies = headers.get_all(header::COOKIE).iter();
    cookies.find_map(|value| {
        // Cookies of other programs on the host come too, and need not be ASCII.
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut parts = value.split(';').map(str::trim);
        parts.find_map(|part| Some(part.strip_prefix(&*name)?.strip_prefix('=')?.to_owned()))
    })
}

impl Viewer {
    /// Returns the viewer with these credentials: a token, or else a session, or else a certificate. Without any, the viewer has the
    /// rights of `auth.anonymous`, if these include looking at queues and the port is on a loopback address or `admin.allow_changes` is
    /// set.
    ///
    /// # Errors
    /// [`Failure::Login`] and [`Failure::Forbidden`].
    pub(super) fn of(state: &Arc<AdminState>, credentials: &Credentials) -> Result<Self, Failure> {
        let Credentials {
            headers,
            certificate,
            peer,
        } = credentials;
        let viewer = |caller, form, has_session| Self {
            state: state.clone(),
            caller,
            peer: *peer,
            form,
            has_session,
        };
        let Some(access) = &state.access else {
            if !state.allows_changes {
                refused(*peer, "the service has no identities");
                let problem = "The pages show rows and change them. On an address of other hosts they need the section [auth] of the \
                               configuration, or admin.allow_changes.";
                return Err(Failure::Forbidden(problem));
            }
            let form = state.sessions.open_form.clone();
            return Ok(viewer(Caller::at(*peer), form, false));
        };
        let without_session = |caller: Caller| {
            let form = state.sessions.form_of(caller.name());
            viewer(caller, form, false)
        };
        if let Some(token) = sent_token(headers, state.token_header.as_ref()) {
            return match identify(state, access, token.as_bytes(), *peer) {
                Ok(caller) => Ok(without_session(caller)),
                Err(refusal) => {
                    refused(*peer, refusal.cause());
                    Err(Failure::of_refusal(refusal))
                }
            };
        }
        let id = cookie(headers).unwrap_or_default();
        if let Some((token, form)) = state.sessions.find(&id) {
            match identify(state, access, &token, *peer) {
                Ok(caller) => return Ok(viewer(caller, form, true)),
                Err(Refusal::Invalid { .. } | Refusal::Missing) => {
                    state.sessions.end(&id);
                    return Err(Failure::Login);
                }
                Err(refusal) => return Err(Failure::of_refusal(refusal)),
            }
        }
        let Some(certificate) = certificate else {
            // As without identities: everybody has these rights, where the pages may change rows. A proxy names its viewers.
            let is_open = state.allows_changes && state.token_header.is_none();
            let anonymous = access.anonymous().filter(|_| is_open);
            let caller = anonymous.map(|identity| Caller::of(identity, *peer));
            let caller = caller.filter(|caller| caller.may_somewhere(Rpc::ListQueues));
            return caller.map(without_session).ok_or(Failure::Login);
        };
        let Some(identity) = certificate.identity(access) else {
            refused(*peer, "the certificate has no identity");
            return Err(Failure::Login);
        };
        Ok(without_session(Caller::of(identity, *peer)))
    }

    /// Returns the state of the process.
    pub(super) fn state(&self) -> &Arc<AdminState> {
        &self.state
    }

    /// Checks that a form came from a page of this viewer.
    ///
    /// # Errors
    /// [`Failure::Forbidden`].
    pub(super) fn check_form(&self, token: &str) -> Result<(), Failure> {
        if bool::from(token.as_bytes().ct_eq(self.form.as_bytes())) {
            return Ok(());
        }
        let (peer, identity) = (self.peer, log_field(self.caller.name()));
        tracing::warn!(
            target: "lease_broker::audit",
            event = "dashboard.form_refused", %peer, identity = &*identity, "form refused: it is not one of this viewer's pages"
        );
        Err(Failure::Forbidden(
            "The form is too old, or came from another site. Go back, load the page again, and send it again.",
        ))
    }

    /// Makes a call with the rights of the viewer.
    ///
    /// # Errors
    /// [`Failure::Starting`] while there is no broker. [`Failure::Call`] with the error of the call.
    pub(super) async fn call<T: Send + 'static, F>(
        &self,
        call: impl FnOnce(AdminApi, Caller) -> F + Send + 'static,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        if self.state.broker.get().is_none() {
            return Err(Failure::Starting);
        }
        let made = calls::make(&self.state, self.caller.clone(), call).await;
        made.map_err(Failure::Call)
    }
}

/// Reports a page that is refused because of the viewer's credentials.
fn refused(peer: IpAddr, cause: &str) {
    tracing::warn!(
        target: "lease_broker::audit",
        event = "dashboard.refused", %peer, cause, "page refused: invalid credentials"
    );
}
