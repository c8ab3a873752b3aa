//! The guard of a server: finds out who a call comes from before its body is read, and refuses callers without the role.
//!
//! A server without the section `auth` has no guard. The refusal of a call is the same for every cause that the caller must
//! not learn. The cause is in the log only.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request};
use lease_broker_model::call_source::CallSource;
use lease_broker_model::text::log_field;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::caller::Caller;
use super::connections::{Connection, OpenConnections};
use super::status;
use crate::security::{Access, Identity, Lost, Refusal, Rpc};

/// Checks the callers of a server.
pub(super) struct Guard {
    access: Arc<Access>,
}

impl Guard {
    pub(super) fn new(access: Arc<Access>) -> Self {
        Self { access }
    }

    /// Ends the open connections of callers that have lost a right, at each change of the rules, until `stop` is cancelled.
    pub(super) fn end_lost_connections(
        self: Arc<Self>,
        open: Arc<OpenConnections>,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> {
        // Now, so that a change is seen that comes before the task runs.
        let mut changes = self.access.changes();
        async move {
            while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
                let (this, open) = (self.clone(), open.all());
                // It verifies the signature of every known token.
                let _ = tokio::task::spawn_blocking(move || this.check(open)).await;
            }
        }
    }

    fn check(&self, connections: impl Iterator<Item = Arc<Connection>>) {
        for connection in connections {
            let Some(lost) = self.access.check_again(&connection.login) else {
                continue;
            };
            let peer = connection.account.peer.ip();
            match lost {
                Lost::Right(identity) => {
                    let identity = log_field(&identity.name);
                    tracing::warn!(
                        target: "lease_broker::audit",
                        event = "auth.lost", %peer, identity = &*identity, "connection closed: its caller has lost a right"
                    );
                }
                Lost::Track => tracing::warn!(
                    target: "lease_broker::audit",
                    event = "auth.unchecked", %peer,
                    "connection closed: rights have changed, and it has used more tokens than can be checked again"
                ),
            }
            connection.end_now();
        }
    }

    /// Admits a call of the API whose caller has the needed role on some queue. The handler checks the queue of the call.
    ///
    /// # Errors
    /// The status for the caller.
    pub(super) fn admit(
        &self,
        connection: &Connection,
        rpc: Rpc,
        headers: &HeaderMap,
    ) -> Result<Caller, Status> {
        let identity = self.identity(connection, headers, rpc.name())?;
        let caller = Caller::of(identity, connection.account.peer.ip());
        caller.check_somewhere(rpc)?;
        caller.count(rpc, Identity::count_call)?;
        Ok(caller)
    }

    /// Admits a call of a service that callers with any role may use, and notes the login. Returns the source of the call.
    ///
    /// # Errors
    /// The status for the caller.
    pub(super) fn admit_any_role<B>(
        &self,
        connection: &Connection,
        request: &Request<B>,
    ) -> Result<Arc<CallSource>, Status> {
        let service = "ServerReflection";
        let identity = self.identity(connection, request.headers(), service)?;
        if identity.rights.is_empty() {
            let caller = Caller::of(identity, connection.account.peer.ip());
            caller.report_denied(service, None);
            return Err(status::any_role_missing(service));
        }
        let (account, source) = (&connection.account, identity.source.as_ref());
        account.log_in(&identity.name, source);
        Ok(source.unwrap_or(&account.source).clone())
    }

    fn identity(
        &self,
        connection: &Connection,
        headers: &HeaderMap,
        rpc: &str,
    ) -> Result<Arc<Identity>, Status> {
        let peer = connection.account.peer.ip();
        let address = (!connection.account.is_proxy).then_some(peer);
        let token = presented(headers).map_err(|cause| Refusal::Invalid { cause });
        let (access, login) = (&self.access, &connection.login);
        let found = token.and_then(|token| access.identify(login, address, token));
        let refusal = match found {
            Ok(identity) => return Ok(identity),
            Err(refusal) => refusal,
        };
        let rpc = &*log_field(rpc);
        Err(match refusal {
            Refusal::Missing => {
                tracing::warn!(
                    target: "lease_broker::audit",
                    event = "auth.missing", %peer, rpc, "call refused: no credentials"
                );
                status::credentials_missing()
            }
            Refusal::Invalid { cause } => {
                connection.count_failed_login();
                tracing::warn!(
                    target: "lease_broker::audit",
                    event = "auth.invalid", %peer, rpc, cause, "call refused: invalid credentials"
                );
                status::credentials_invalid(None)
            }
            Refusal::Fetching => {
                tracing::warn!(
                    target: "lease_broker::audit",
                    event = "auth.keys", %peer, rpc, "call refused: the keys of tokens are being fetched"
                );
                status::credentials_invalid(Some(Refusal::RETRY_DELAY))
            }
            Refusal::TooMany => {
                tracing::warn!(
                    target: "lease_broker::audit",
                    event = "auth.rate", %peer, "calls refused: too many unknown tokens"
                );
                status::token_not_verified(Refusal::RETRY_DELAY)
            }
        })
    }
}

/// Returns the bearer token in the headers of a call. `None`: it has no credentials.
///
/// # Errors
/// The reason why its credentials cannot be used.
fn presented(headers: &HeaderMap) -> Result<Option<&[u8]>, &'static str> {
    const SCHEME: &[u8] = b"bearer ";
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), second) = (values.next(), values.next()) else {
        return Ok(None);
    };
    if second.is_some() {
        return Err("several authorization headers");
    }
    match value.as_bytes().split_at_checked(SCHEME.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            Ok(Some(token.trim_ascii()))
        }
        _ => Err("the authorization header is not a bearer token"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        values.map(|value| (AUTHORIZATION, value)).collect()
    }

    #[test]
    fn only_one_bearer_token_is_presented() {
        assert_eq!(presented(&headers(&[])), Ok(None));
        for value in ["Bearer lb_x", "bearer  lb_x ", "BEARER lb_x"] {
            assert_eq!(presented(&headers(&[value])), Ok(Some(&b"lb_x"[..])));
        }
        for values in [
            &["Basic eDp5"][..],
            &["lb_x"],
            &[""],
            &["Bearer a", "Bearer a"],
        ] {
            assert!(presented(&headers(values)).is_err());
        }
    }
}
