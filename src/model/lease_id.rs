//! Lease ids: text that identifies a lease to clients and contains all that a broker needs to extend or settle it.
//!
//! Brokers keep no state, so any broker must be able to settle a lease by its id alone. To clients an id is opaque text
//! that they cannot guess or change. It is the base64url text of these bytes. A varint is LEB128, in zigzag form if it
//! is signed.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version: 1 |
//! | 1 | number of the secret, which the table `lease_broker_secret` has |
//! | 1 | scope: 0 if every caller can use the id, 1 if only the identity that claimed the lease can |
//! | 1 | flags: 1 if the lease's span is sampled, 2 if a producer's span follows |
//! | 16 | lease token |
//! | 1 to 10 | fencing token, varint |
//! | 1 to 10 | number of the attempt, varint |
//! | 1 to 10 | time of the claim in milliseconds since 1970, varint |
//! | 1 to 10 | duration that was claimed, in milliseconds, varint |
//! | 0 or 24 | producer's span: trace id and span id |
//! | 2 or more | values of the item's key: type and content of each |
//! | 8 | tag: the first bytes of a `SipHash` over the queue's name, the scope, the identity's name if the scope is 1, and all bytes before, keyed with the secret |
//!
//! All leases of one claim call have the same token. Without the tag, a client could change one of its ids into the id
//! of another lease of that call.

mod owner;
mod secret;
mod signing;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lease_broker_value::Value;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

pub use self::owner::LeaseOwner;
use self::secret::Purpose;
pub use self::secret::Secret;
pub use self::signing::{SigningSecrets, StoredSecret};
use crate::key::Key;
use crate::key_bytes::{max_value_bytes, read, read_key, read_varint, write_key, write_varint};
use crate::queue::{OnComplete, QueueSpec};
use crate::trace_context::{Span, TraceContext};

/// The version of the format, the first byte of an id.
const VERSION: u8 = 1;
/// The lowest version that this build does not know.
const NEXT_VERSION: u8 = VERSION + 1;
/// The highest version that a later build can have. A text with a higher first byte is not a lease id.
const MAX_VERSION: u8 = 15;
/// The scope of an id that every caller can use. The name of its identity is empty.
const QUEUE_SCOPE: u8 = 0;
/// The scope of an id that only one identity can use.
const IDENTITY_SCOPE: u8 = 1;
const SAMPLED: u8 = 1;
const HAS_PRODUCER: u8 = 2;
const TAG_BYTES: usize = 8;
/// The length of the token and the tag alone, in characters. An id of any version is longer.
const MIN_ID_CHARACTERS: usize = (16 + TAG_BYTES) / 3 * 4;
/// The maximum length of an id, in characters.
pub const MAX_ID_CHARACTERS: usize = 4_096;
const MAX_ID_BYTES: usize = MAX_ID_CHARACTERS / 4 * 3;
/// The bytes that are not the key's, if every varint has its maximum length.
const MAX_BYTES_BESIDES_KEY: usize = 4 + 16 + 4 * 10 + 24 + TAG_BYTES;
/// The maximum number of bytes of a key whose leases all have ids.
pub const MAX_KEY_BYTES: usize = MAX_ID_BYTES - MAX_BYTES_BESIDES_KEY;

/// A lease as a store identifies it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseRef {
    /// The leased item.
    pub key: Key,
    /// The lease token, the proof that its owner holds the lease. All leases of one claim call have the same token.
    pub token: Uuid,
    /// The fencing token: the number of times that the item has been claimed, this lease included.
    ///
    /// The token alone is not enough. A request id that is used again can claim the same item twice with the same
    /// token.
    pub fence: i64,
    /// The number of this attempt, 1 for the first. It decides whether a failure is followed by a retry.
    pub attempt: u32,
}

/// The facts about the claim that gave a lease, as far as its id contains them.
///
/// Two ids of one lease can differ in them, if a claim was sent again with another duration. Both identify the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseOrigin {
    /// The time of the claim by the store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub claim_time: i64,
    /// The duration that was claimed, in whole milliseconds.
    pub duration: Duration,
    /// The span of the item's producer, if the item has a valid trace context.
    pub producer: Option<Span>,
    /// True if the lease's span is recorded.
    pub sampled: bool,
}

impl LeaseOrigin {
    /// Returns the origin of a lease on an item with the trace context `producer`.
    ///
    /// The lease's span is recorded if the producer's is. A sampler can decide otherwise.
    pub fn new(claim_time: i64, duration: Duration, producer: Option<&str>) -> Self {
        let producer = producer.and_then(TraceContext::parse);
        Self {
            claim_time,
            duration,
            producer: producer.map(|context| context.span),
            sampled: producer.is_some_and(|context| context.sampled),
        }
    }

    /// Returns the item's trace context, if it has a valid one.
    pub fn producer_context(&self) -> Option<TraceContext> {
        let sampled = self.sampled;
        self.producer.map(|span| TraceContext { span, sampled })
    }
}

/// The content of a lease id.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseId {
    /// The lease.
    pub lease: LeaseRef,
    /// The claim that gave the lease.
    pub origin: LeaseOrigin,
}

/// The reason why a text is not a lease id that a broker can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLeaseId {
    /// The brokers that share the secret never issued this id for the queue.
    Unknown,
    /// The id was signed with a secret of this number, which the broker does not know.
    UnknownSecret(u8),
    /// The first byte is a version that only a newer build knows.
    NewerVersion(u8),
}

/// Returns the lease id of a lease of `owner` in `queue`, or `None` if it would have more than [`MAX_ID_CHARACTERS`].
pub fn encode(
    secrets: &SigningSecrets,
    queue: &str,
    owner: &LeaseOwner,
    lease: &LeaseRef,
    origin: &LeaseOrigin,
) -> Option<String> {
    let (number, secret) = secrets.current();
    let (scope, name) = match owner.exclusive_name() {
        None => (QUEUE_SCOPE, ""),
        Some(name) => (IDENTITY_SCOPE, name),
    };
    let sampled = if origin.sampled { SAMPLED } else { 0 };
    let has_producer = origin.producer.map_or(0, |_| HAS_PRODUCER);
    let mut bytes = Vec::with_capacity(96);
    bytes.extend_from_slice(&[VERSION, number, scope, sampled | has_producer]);
    bytes.extend_from_slice(lease.token.as_bytes());
    write_varint(&mut bytes, lease.fence.cast_unsigned());
    write_varint(&mut bytes, lease.attempt);
    write_varint(&mut bytes, origin.claim_time.cast_unsigned());
    write_varint(
        &mut bytes,
        u64::try_from(origin.duration.as_millis()).unwrap_or(u64::MAX),
    );
    if let Some(Span { trace_id, span_id }) = origin.producer {
        bytes.extend_from_slice(&trace_id.to_be_bytes());
        bytes.extend_from_slice(&span_id.to_be_bytes());
    }
    write_key(&mut bytes, &lease.key);
    let tag = tag(&secret, queue, (scope, name), &bytes);
    bytes.extend_from_slice(&tag);
    (bytes.len() <= MAX_ID_BYTES).then(|| URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns whether a text can be a lease id: it has the length and the characters of one.
pub fn can_be_id(text: &str) -> bool {
    bytes_of(text).is_some()
}

fn bytes_of(id: &str) -> Option<Vec<u8>> {
    let has_length = (MIN_ID_CHARACTERS..=MAX_ID_CHARACTERS).contains(&id.len());
    URL_SAFE_NO_PAD.decode(id).ok().filter(|_| has_length)
}

/// Decodes a lease id that `owner` has sent.
///
/// # Errors
/// [`InvalidLeaseId`] if this build cannot use the id, or if it belongs to another owner.
pub fn decode(
    secrets: &SigningSecrets,
    queue: &str,
    owner: &LeaseOwner,
    id: &str,
) -> Result<LeaseId, InvalidLeaseId> {
    let bytes = bytes_of(id).ok_or(InvalidLeaseId::Unknown)?;
    match bytes.first() {
        // Only a newer build can check the tag of this id.
        Some(&version @ NEXT_VERSION..=MAX_VERSION) => Err(InvalidLeaseId::NewerVersion(version)),
        Some(&VERSION) => {
            let number = bytes.get(1).copied().unwrap_or_default();
            let secret = secrets.accepted(number);
            let secret = secret.ok_or(InvalidLeaseId::UnknownSecret(number))?;
            decode_bytes(&secret, queue, owner, &bytes).ok_or(InvalidLeaseId::Unknown)
        }
        _ => Err(InvalidLeaseId::Unknown),
    }
}

fn decode_bytes(secret: &Secret, queue: &str, owner: &LeaseOwner, bytes: &[u8]) -> Option<LeaseId> {
    let (signed, given_tag) = bytes.split_last_chunk::<TAG_BYTES>()?;
    let mut rest = signed;
    let [_version, _secret_number, scope, flags] = read(&mut rest)?;
    if flags & !(SAMPLED | HAS_PRODUCER) != 0 {
        return None;
    }
    // The comparison takes the same time for every tag. Otherwise a client could find a valid tag byte by byte.
    let is_of = |name: &str| {
        let tag = tag(secret, queue, (scope, name), signed);
        bool::from(tag.ct_eq(given_tag))
    };
    let is_valid = match scope {
        QUEUE_SCOPE => is_of(""),
        IDENTITY_SCOPE => owner.names().any(is_of),
        _ => false,
    };
    if !is_valid {
        return None;
    }
    let token = Uuid::from_bytes(read(&mut rest)?);
    let fence = read_varint::<u64>(&mut rest)?.cast_signed();
    let attempt = read_varint(&mut rest)?;
    let claim_time = read_varint::<u64>(&mut rest)?.cast_signed();
    let duration = Duration::from_millis(read_varint(&mut rest)?);
    let producer = if flags & HAS_PRODUCER == 0 {
        None
    } else {
        Some(Span {
            trace_id: u128::from_be_bytes(read(&mut rest)?),
            span_id: u64::from_be_bytes(read(&mut rest)?),
        })
    };
    Some(LeaseId {
        lease: LeaseRef {
            key: read_key(rest)?,
            token,
            fence,
            attempt,
        },
        origin: LeaseOrigin {
            claim_time,
            duration,
            producer,
            sampled: flags & SAMPLED != 0,
        },
    })
}

/// Returns the tag of an id with this scope and the name of its identity.
fn tag(secret: &Secret, queue: &str, (scope, name): (u8, &str), signed: &[u8]) -> [u8; TAG_BYTES] {
    let parts = [queue.as_bytes(), &[scope], name.as_bytes(), signed];
    let hash = secret.hash(Purpose::LeaseId, &parts);
    hash.first_chunk().copied().unwrap_or_default()
}

/// A queue whose leases have spans.
#[derive(Clone, Debug)]
pub struct TracedQueue {
    /// The queue's name.
    pub name: String,
    /// True: a completed item runs again. Each of its leases is a trace of its own, because a common one would have no end.
    pub recurs: bool,
}

impl TracedQueue {
    /// Returns the facts about a queue that the spans of its leases need.
    pub fn new(queue: &QueueSpec) -> Self {
        Self {
            name: queue.name.clone(),
            recurs: matches!(queue.on_complete, OnComplete::Recur(_)),
        }
    }
}

/// Returns the trace context of the span of an item's lease with this fencing token.
///
/// If the item has a producer's span, that is the parent, and the lease's span belongs to its trace. Otherwise the span has no
/// parent, and all leases of the item belong to one trace. The ids are derived from the arguments alone, so that every broker
/// computes the same span, also of an earlier lease, whose token the row no longer has.
pub fn trace_context(
    secret: &Secret,
    queue: &TracedQueue,
    key: &Key,
    fence: i64,
    origin: &LeaseOrigin,
) -> TraceContext {
    let mut key_bytes = Vec::with_capacity(16);
    write_key(&mut key_bytes, key);
    let (name, fence) = (queue.name.as_bytes(), fence.to_be_bytes());
    let parent = origin.producer.unwrap_or_else(|| {
        let run = if queue.recurs { fence } else { [0; 8] };
        let hash = secret.hash(Purpose::Trace, &[name, &key_bytes, &run]);
        // Zero is not a valid id of a trace. Of a span, it stands for the parent that is missing.
        let trace_id = u128::from_be_bytes(hash).max(1);
        let span_id = 0;
        Span { trace_id, span_id }
    });
    let (trace, above) = (parent.trace_id.to_be_bytes(), parent.span_id.to_be_bytes());
    let hash = secret.hash(Purpose::Span, &[name, &trace, &above, &key_bytes, &fence]);
    let id = hash.first_chunk().copied().map_or(0, u64::from_be_bytes);
    TraceContext {
        span: parent.with_span_id(id.max(1)),
        sampled: origin.sampled,
    }
}

/// Returns the bytes that these values of a key take in a lease id, at most a few too many. If a key takes more than
/// [`MAX_KEY_BYTES`], its leases may have no ids.
pub fn key_bytes<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    values.into_iter().map(max_value_bytes).sum()
}

#[cfg(test)]
mod tests;
