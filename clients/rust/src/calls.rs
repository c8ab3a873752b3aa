//! The one place where requests are sent again. It stops when a retry cannot help, and each retry is observed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::credentials::Token;
use super::errors::{Applied, CallError};
use super::events::RetriedCall;
use super::failure::{Failure, Pushback};
use super::transport::Transport;
use lease_broker_proto::{self as proto, HeldBack, lease_service_client::LeaseServiceClient};

/// The time after which an attempt is given up. Claims that wait add their wait.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// A request message with its method.
pub(super) trait Rpc: Sized + Send + 'static {
    type Response: Send;
    const NAME: &'static str;

    /// Returns the number of entries, of which each has one result.
    fn entries(&self) -> usize {
        0
    }

    fn results(_: &Self::Response) -> usize {
        0
    }

    /// Returns whether the broker that has answered stops.
    fn is_stopping(_: &Self::Response) -> bool {
        false
    }

    fn send(
        client: LeaseServiceClient<Channel>,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;
}

macro_rules! rpcs {
    ($($name:literal $method:ident $request:ident $response:ident $(($entries:ident))? $({ $($more:item)* })?,)*) => {$(
        impl Rpc for proto::$request {
            type Response = proto::$response;
            const NAME: &'static str = $name;

            $(
                fn entries(&self) -> usize {
                    self.$entries.len()
                }

                fn results(response: &Self::Response) -> usize {
                    response.results.len()
                }
            )?

            $($($more)*)?

            async fn send(
                mut client: LeaseServiceClient<Channel>,
                request: Request<Self>,
            ) -> Result<Response<Self::Response>, Status> {
                client.$method(request).await
            }
        }
    )*};
}

rpcs! {
    "ClaimBatch" claim_batch ClaimBatchRequest ClaimBatchResponse {
        fn is_stopping(response: &Self::Response) -> bool {
            response.held_back() == HeldBack::Stopping
        }
    },
    "Heartbeat" heartbeat HeartbeatRequest HeartbeatResponse (renewals),
    "Complete" complete CompleteRequest CompleteResponse (completions),
    "Fail" fail FailRequest FailResponse (failures),
    "Release" release ReleaseRequest ReleaseResponse (releases),
    "ReleaseClaims" release_claims ReleaseClaimsRequest ReleaseClaimsResponse,
    "Wake" wake WakeRequest WakeResponse,
    "Enqueue" enqueue EnqueueRequest EnqueueResponse (items),
}

type AttemptObserver = Arc<dyn Fn(Option<&Failure>) + Send + Sync>;
type RetryObserver = Arc<dyn Fn(RetriedCall, &Failure) + Send + Sync>;

/// Sends requests on the connections of one thread.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) transport: Transport,
    pub(super) token: Option<Token>,
    /// Receives the result of each attempt. `None`: it was answered.
    pub(super) on_attempt: AttemptObserver,
    /// Receives each request that is about to be sent again, with the failure of the attempt before.
    pub(super) on_retry: RetryObserver,
}

/// How long a call is worth sending.
#[derive(Default)]
pub(super) struct CallOptions<'a> {
    /// Returns the moment after which no attempt is made. `None`: there is none.
    pub(super) until: Option<&'a (dyn Fn() -> Instant + Sync)>,
    /// The time that each attempt may take. `None`: [`ATTEMPT_TIMEOUT`].
    pub(super) attempt_timeout: Option<Duration>,
    /// Is called before the request is sent again.
    pub(super) on_retry: Option<&'a (dyn Fn() + Sync)>,
    /// Receives each failure after which the request can be sent again. Returns true if that is of no use.
    pub(super) gives_up: Option<&'a (dyn Fn(&Failure) -> bool + Sync)>,
}

/// The moments of a call that was answered.
#[derive(Clone, Copy)]
pub(super) struct CallTimes {
    /// The moment before the first attempt.
    pub(super) first_sent_at: Instant,
    /// The moment before the attempt that was answered.
    pub(super) sent_at: Instant,
    pub(super) arrived_at: Instant,
    pub(super) attempts: u32,
}

#[cfg(test)]
impl CallTimes {
    /// Returns the times of a call that was answered at once.
    pub(super) fn at(now: Instant) -> Self {
        Self {
            first_sent_at: now,
            sent_at: now,
            arrived_at: now,
            attempts: 1,
        }
    }
}

impl Caller {
    /// Sends a request until it is answered, or until another attempt is of no use. `request` makes it for each attempt, of which
    /// the first one has the number 1.
    pub(super) async fn call<R: Rpc>(
        &self,
        request: impl Fn(u32) -> R,
        options: CallOptions<'_>,
    ) -> Result<(R::Response, CallTimes), CallError> {
        let first_sent_at = Instant::now();
        let attempt_timeout = options.attempt_timeout.unwrap_or(ATTEMPT_TIMEOUT);
        let (mut backoff, mut fresh, mut attempts) = (MIN_BACKOFF, false, 0);
        let mut applied = Applied::No;
        loop {
            attempts += 1;
            let sent_at = Instant::now();
            let mut timeout = attempt_timeout;
            if let Some(until) = options.until {
                let left = until().saturating_duration_since(sent_at);
                timeout = timeout.min(left).max(Duration::from_millis(1));
            }
            let request = request(attempts);
            let mut failure = match self.attempt(request, timeout, fresh).await {
                Ok(message) => {
                    let times = CallTimes {
                        first_sent_at,
                        sent_at,
                        arrived_at: Instant::now(),
                        attempts,
                    };
                    return Ok((message, times));
                }
                Err(failure) => failure,
            };
            // The error of the last attempt says nothing about the attempts before.
            applied = applied.and(failure.applied);
            failure.applied = applied;
            let asks_for_token =
                failure.code == Code::Unauthenticated && !failure.asks_to_wait() && !fresh;
            let wait = if asks_for_token && self.token.is_some() {
                fresh = true;
                Duration::ZERO
            } else if !failure.may_pass() || options.gives_up.is_some_and(|judge| judge(&failure)) {
                return Err(failure.into_error(R::NAME));
            } else if let Pushback::Wait(wait) = failure.pushback {
                wait
            } else {
                let wait = backoff.mul_f64(rand::random_range(0.5..1.0));
                backoff = (backoff * 2).min(longest_backoff(attempt_timeout));
                wait
            };
            if options
                .until
                .is_some_and(|until| until() <= super::values::after(Instant::now(), wait))
            {
                return Err(failure.into_error(R::NAME));
            }
            let retried = RetriedCall {
                rpc: R::NAME,
                code: failure.code,
                attempt: attempts,
                wait,
            };
            (self.on_retry)(retried, &failure);
            if let Some(on_retry) = options.on_retry {
                on_retry();
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request once. `fresh`: the broker has refused the token before.
    pub(super) async fn attempt<R: Rpc>(
        &self,
        request: R,
        timeout: Duration,
        fresh: bool,
    ) -> Result<R::Response, Failure> {
        let result = self.send(request, timeout, fresh).await;
        (self.on_attempt)(result.as_ref().err());
        result
    }

    async fn send<R: Rpc>(
        &self,
        request: R,
        timeout: Duration,
        fresh: bool,
    ) -> Result<R::Response, Failure> {
        let entries = request.entries();
        let mut request = Request::new(request);
        let begun = Instant::now();
        if let Some(token) = &self.token {
            // The function of the program may never return.
            let token = tokio::time::timeout(timeout, token.get(fresh)).await;
            let token = token.unwrap_or_else(|_| Err(format!("no token within {timeout:?}")));
            let value = token.and_then(|token| {
                let value = MetadataValue::try_from(format!("Bearer {token}"));
                value.map_err(|error| error.to_string())
            });
            let value = value.map_err(|error| {
                let text = format!("the token cannot be read: {error}");
                // A file can be missing for a moment while it is replaced.
                Failure {
                    applied: Applied::No,
                    ..Failure::new(Code::Unavailable, text)
                }
            })?;
            request.metadata_mut().insert("authorization", value);
        }
        let left = || {
            let left = timeout.saturating_sub(begun.elapsed());
            left.max(Duration::from_millis(1))
        };
        let route = tokio::time::timeout(left(), self.transport.route()).await;
        let route = route.unwrap_or_else(|_| Err(format!("no address within {timeout:?}")));
        let route = route.map_err(|error| Failure {
            applied: Applied::No,
            ..Failure::new(Code::Unavailable, error)
        })?;
        let timeout = left();
        request.set_timeout(timeout);
        let sent = R::send(route.client.clone(), request);
        let failure = match tokio::time::timeout(timeout, sent).await {
            Ok(Ok(response)) => {
                let response = response.into_inner();
                if R::is_stopping(&response) {
                    self.transport.note_failure(&route, true, false);
                } else {
                    self.transport.note_answer(&route);
                }
                let results = R::results(&response);
                return if results == entries {
                    Ok(response)
                } else {
                    Err(Failure::of_answer(format!(
                        "the broker returned {results} results for {entries} entries"
                    )))
                };
            }
            Ok(Err(status)) => {
                let failure = Failure::from_status(&status);
                // tonic enforces the time of the request too, and reports its end as CANCELLED.
                match failure.code {
                    Code::Cancelled if failure.reason.is_empty() => {
                        Failure::new(Code::DeadlineExceeded, failure.message)
                    }
                    _ => failure,
                }
            }
            Err(_) => {
                let text = format!("no answer within {timeout:?}");
                Failure::new(Code::DeadlineExceeded, text)
            }
        };
        if failure.is_of_connection() {
            let timed_out = failure.code == Code::DeadlineExceeded;
            self.transport.note_failure(&route, timed_out, timed_out);
        }
        Err(failure)
    }
}

/// Returns the longest wait before a retry for which the broker asks for none. An attempt at a settlement may take half of the
/// lease, and at least 1 s. So a wait takes at most a quarter of the lease, or 0.5 s, and heartbeats extend the lease more often.
fn longest_backoff(attempt_timeout: Duration) -> Duration {
    MAX_BACKOFF.min(attempt_timeout / 2)
}

/// Returns the pause before entries are sent again that a lock has refused this often.
pub(super) fn pause_after_lock(tries: u32, attempt_timeout: Duration) -> Duration {
    let backoff = MIN_BACKOFF.saturating_mul(2_u32.saturating_pow(tries - 1));
    backoff
        .min(longest_backoff(attempt_timeout))
        .mul_f64(rand::random_range(0.5..1.0))
}
