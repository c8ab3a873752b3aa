//! A client for producers: adds items to queues, and wakes waiting claims.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;
use uuid::Uuid;

use super::calls::{CallOptions, Caller, Rpc};
use super::credentials::{Credentials, Token};
use super::errors::{Applied, CallError, WorkerError};
use super::events::RetriedCall;
use super::failure::Failure;
use super::options::MAX_ITEMS_PER_CALL;
use super::settler::MAX_GROUP_BYTES;
use super::transport::{Addresses, Transport};
use super::values::{NewItem, after};
use lease_broker_proto as proto;

/// The time for which a call is sent again.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection for programs that add work. It belongs to the tokio runtime on which its first call is made. A clone
/// shares the connection.
#[derive(Clone)]
pub struct Client {
    caller: Caller,
    timeout: Duration,
}

/// The error of [`Client::enqueue`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct EnqueueError {
    /// The keys of the first items, which earlier calls have added.
    pub keys: Vec<String>,
    /// The error of the call that failed. If `keys` is not empty, its `applied` is [`Applied::Partly`] if the other items were
    /// not added and will not be.
    pub error: CallError,
}

impl EnqueueError {
    /// Returns the error of a call after others that have added items with these keys.
    fn new(keys: Vec<String>, mut error: CallError) -> Self {
        let count = keys.len();
        if count > 0 {
            let message = shift_index(&error.message, count);
            error.message = format!("{message}; the first {count} rows were added");
            for field in &mut error.fields {
                *field = shift_index(field, count);
            }
            if error.applied == Applied::No {
                error.applied = Applied::Partly;
            }
            // The same items again would add the first ones twice.
            error.temporary = false;
        }
        Self { keys, error }
    }
}

/// Adds the number of earlier items to the index at the beginning of a field's path, such as `items[2].delay`.
fn shift_index(text: &str, count: usize) -> String {
    let index = text
        .strip_prefix("items[")
        .and_then(|rest| rest.split_once(']'))
        .and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest)));
    match index {
        Some((index, rest)) => format!("items[{}]{rest}", index + count),
        None => text.to_owned(),
    }
}

impl Client {
    /// Returns a client that connects with the first call. The address is as for [`Worker::new`](super::Worker::new).
    ///
    /// # Errors
    /// The address, the token or the credentials are malformed, or would send plaintext to another machine.
    pub fn new(
        address: &str,
        credentials: Credentials,
        token: Option<Token>,
    ) -> Result<Self, WorkerError> {
        token.as_ref().map_or(Ok(()), Token::check)?;
        let transport = Transport::new(Addresses::parse(address, credentials)?);
        let log_retry = |retry: RetriedCall, failure: &Failure| {
            let (rpc, wait) = (retry.rpc, retry.wait);
            tracing::debug!(rpc, ?wait, code = ?retry.code, error = failure.message, "retry");
        };
        let caller = Caller {
            transport,
            token,
            on_attempt: Arc::new(|_| ()),
            on_retry: Arc::new(log_retry),
        };
        Ok(Self {
            caller,
            timeout: CALL_TIMEOUT,
        })
    }

    /// Sets the time for which a call is sent again. Default: 60 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds items and returns their keys in order. Items beyond the first 1,000, or beyond 3 MiB, are sent by further
    /// calls. Each call adds its items once, even if it is sent again.
    ///
    /// # Errors
    /// The broker refuses an item, or does not answer. [`EnqueueError::keys`] has the items of earlier calls. The values of all
    /// items are checked before the first call: a double that is not a number, a moment outside the years 0001 to 9999 and a decimal
    /// that is none are refused.
    pub async fn enqueue<I>(&self, queue: &str, items: I) -> Result<Vec<String>, EnqueueError>
    where
        I: IntoIterator<Item: Into<NewItem>>,
    {
        let items = items.into_iter().enumerate().map(|(index, item)| {
            let item = item.into();
            match item.refused_column() {
                None => Ok(item.into_proto()),
                Some((column, problem)) => Err(refused(index, column, &problem)),
            }
        });
        let items: Vec<_> = items.collect::<Result<_, _>>()?;
        let mut keys = Vec::with_capacity(items.len());
        let mut rest = items.as_slice();
        while !rest.is_empty() {
            let (call, further) = rest.split_at(count_within_limits(rest));
            let request = proto::EnqueueRequest {
                queue: queue.to_owned(),
                items: call.to_vec(),
                request_id: Uuid::new_v4().to_string(),
            };
            match self.call(request).await {
                Ok(response) => keys.extend(response.results.into_iter().map(|result| result.key)),
                Err(error) => return Err(EnqueueError::new(keys, error)),
            }
            rest = further;
        }
        Ok(keys)
    }

    /// Lets waiting claims look for items now. Call it after rows were added by SQL.
    ///
    /// # Errors
    /// The broker refuses the call, or does not answer.
    pub async fn wake(&self, queue: &str) -> Result<(), CallError> {
        let queue = queue.to_owned();
        self.call(proto::WakeRequest { queue }).await.map(drop)
    }

    async fn call<R: Rpc + Clone + Sync>(&self, request: R) -> Result<R::Response, CallError> {
        let until = after(Instant::now(), self.timeout);
        let options = CallOptions {
            until: Some(&|| until),
            ..CallOptions::default()
        };
        let answered = self.caller.call(|_| request.clone(), options).await?;
        Ok(answered.0)
    }
}

/// Returns the error of a value before the first call.
fn refused(index: usize, column: &str, problem: &str) -> EnqueueError {
    let field = format!("items[{index}].columns[{column:?}]");
    let failure = Failure {
        reason: "INVALID_FIELD".to_owned(),
        applied: Applied::No,
        fields: vec![field.clone()],
        ..Failure::new(tonic::Code::InvalidArgument, format!("{field}: {problem}"))
    };
    EnqueueError::new(Vec::new(), failure.into_error("Enqueue"))
}

/// A value counts as at least this size, because a call has at most 65,536 values.
const MIN_VALUE_BYTES: usize = MAX_GROUP_BYTES / 65_536;

/// Returns the number of items that one call can carry, at least 1.
fn count_within_limits(items: &[proto::NewItem]) -> usize {
    let mut bytes = 0;
    let fits = items.iter().take(MAX_ITEMS_PER_CALL).take_while(|item| {
        bytes += item.encoded_len().max(MIN_VALUE_BYTES * item.columns.len());
        bytes <= MAX_GROUP_BYTES
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_has_at_most_65536_values() {
        let item = |columns: usize| proto::NewItem {
            columns: (0..columns)
                .map(|name| (name.to_string(), proto::ColumnValue::default()))
                .collect(),
            ..proto::NewItem::default()
        };
        assert_eq!(count_within_limits(&vec![item(70); 1_000]), 65_536 / 70);
        assert_eq!(count_within_limits(&vec![item(60); 1_001]), 1_000);
    }

    #[test]
    fn error_after_the_first_items_counts_them() {
        let mut failure = Failure::new(tonic::Code::Unavailable, "items[200].delay: no");
        failure.fields.push("items[200].delay".to_owned());
        for (applied, partly) in [
            (Applied::No, Applied::Partly),
            (Applied::Unknown, Applied::Unknown),
        ] {
            failure.applied = applied;
            let error = failure.clone().into_error("Enqueue");
            let first = EnqueueError::new(Vec::new(), error.clone()).error;
            assert_eq!((first.applied, first.temporary), (applied, true));
            assert_eq!(first.fields, ["items[200].delay"]);
            let later = EnqueueError::new(vec![String::new(); 1_000], error).error;
            assert_eq!((later.applied, later.temporary), (partly, false));
            assert_eq!(later.fields, ["items[1200].delay"]);
            assert_eq!(
                later.message,
                "items[1200].delay: no; the first 1000 rows were added"
            );
        }
    }
}
