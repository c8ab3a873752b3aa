//! Lease ids: text that identifies a lease to clients and contains all that a broker needs to settle it.
//!
//! Brokers keep no state, so any broker must be able to settle a lease by its id alone. To clients an id is opaque text
//! that they cannot guess or change. It is the base64url text of these parts:
//!
//! - a version
//! - the lease token
//! - the fencing token
//! - the number of the attempt
//! - the values of the item's key
//! - a `SipHash` tag of all of this and of the queue's name, made with a secret that is stored in the database
//!
//! All leases of one claim call have the same token. Without the tag, a client could change one of its ids into the id
//! of another lease of that call.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher as _;
use uuid::Uuid;

use crate::value::{Key, Value, hex};

/// The version of the format, the first byte of an id.
const VERSION: u8 = 1;
const TAG_BYTES: usize = 16;
/// The maximum length of an id that is decoded. Databases limit the key of an index to far fewer bytes.
const MAX_ID_BYTES: usize = 64 * 1024;

// The first input of each keyed hash. It separates the uses, so that the result of one cannot serve as that of another.
const LEASE_ID: u8 = b'l';
const REQUEST_ID: u8 = b'r';
const SPAN_ID: u8 = b's';
const TRACE_ID: u8 = b't';

/// The key of the hashes that a client must not be able to compute.
///
/// A store creates the secret when the database is first used. All brokers on that database share it.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Returns the secret with the bytes that the database stores.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn tag(&self, purpose: u8, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        keyed_hash(&self.0, purpose, parts)
    }

    /// Derives the lease token of a claim from its request id.
    ///
    /// If the request is sent again, any broker derives the same token and finds the same leases. A client cannot
    /// compute the token from the request id.
    pub fn token_of_request(&self, queue: &str, worker: &str, request_id: Uuid) -> Uuid {
        let tag = self.tag(
            REQUEST_ID,
            &[queue.as_bytes(), worker.as_bytes(), request_id.as_bytes()],
        );
        uuid::Builder::from_random_bytes(tag).into_uuid()
    }
}

/// Hashes a list of parts. Each part is preceded by its length, so that different lists never give the same input.
fn keyed_hash(key: &[u8; 16], purpose: u8, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write_u8(purpose);
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    hasher.finish128().as_bytes()
}

/// A lease as a lease id identifies it.
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

impl LeaseRef {
    /// Returns the lease id of this lease in `queue`.
    pub fn encode(&self, secret: &Secret, queue: &str) -> String {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(VERSION);
        bytes.extend_from_slice(self.token.as_bytes());
        bytes.extend_from_slice(&self.fence.to_be_bytes());
        bytes.extend_from_slice(&self.attempt.to_be_bytes());
        for value in &self.key.0 {
            write_value(&mut bytes, value);
        }
        let tag = secret.tag(LEASE_ID, &[queue.as_bytes(), &bytes]);
        bytes.extend_from_slice(&tag);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a lease id. Returns `None` if the brokers that share `secret` never issued this id for `queue`.
    pub fn decode(secret: &Secret, queue: &str, id: &str) -> Option<Self> {
        if id.len() > MAX_ID_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (signed, tag) = bytes.split_last_chunk::<TAG_BYTES>()?;
        if secret.tag(LEASE_ID, &[queue.as_bytes(), signed]) != *tag {
            return None;
        }
        let mut rest = signed;
        if read::<1>(&mut rest)? != [VERSION] {
            return None;
        }
        let token = Uuid::from_bytes(read(&mut rest)?);
        let fence = i64::from_be_bytes(read(&mut rest)?);
        let attempt = u32::from_be_bytes(read(&mut rest)?);
        let mut key = Vec::with_capacity(1);
        while !rest.is_empty() {
            key.push(read_value(&mut rest)?);
        }
        Some(Self {
            key: Key(key.into()),
            token,
            fence,
            attempt,
        })
    }

    /// Returns a lease that cannot exist, because its key has no columns. It stands for a lease id that cannot be
    /// decoded.
    pub fn invalid() -> Self {
        Self {
            key: Key(Box::new([])),
            token: Uuid::nil(),
            fence: 0,
            attempt: 0,
        }
    }

    /// Returns the W3C trace context of the span that represents this lease.
    ///
    /// The span belongs to the producer's trace if `producer` is a valid trace context. Otherwise it belongs to a new
    /// trace. All ids are derived from the lease alone, so that every broker computes the same span.
    pub fn trace_parent(&self, queue: &str, producer: Option<&str>) -> String {
        /// Span and trace ids are visible to everyone and need no secret.
        const PUBLIC_KEY: [u8; 16] = [0; 16];

        let mut key = Vec::new();
        for value in &self.key.0 {
            write_value(&mut key, value);
        }
        let fence = self.fence.to_be_bytes();
        let parts: [&[u8]; 4] = [queue.as_bytes(), self.token.as_bytes(), &fence, &key];
        let span = &keyed_hash(&PUBLIC_KEY, SPAN_ID, &parts)[..8];
        let span = hex(span);
        if let Some((trace, flags)) = producer.and_then(split_trace_parent) {
            format!("00-{trace}-{span}-{flags}")
        } else {
            let trace = hex(&keyed_hash(&PUBLIC_KEY, TRACE_ID, &parts));
            format!("00-{trace}-{span}-01")
        }
    }
}

/// Returns the trace id and the flags of a W3C `traceparent`, or `None` if it is invalid.
fn split_trace_parent(text: &str) -> Option<(&str, &str)> {
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let valid = is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && is_hex(span, 16)
        && is_hex(flags, 2)
        && trace.bytes().any(|b| b != b'0')
        && span.bytes().any(|b| b != b'0')
        && (version != "00" || parts.next().is_none());
    valid.then_some((trace, flags))
}

/// Returns whether `text` is a valid W3C `traceparent` of 55 characters. The column that stores it holds no more.
pub fn is_trace_parent(text: &str) -> bool {
    text.len() == 55 && split_trace_parent(text).is_some()
}

fn read<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>()?;
    *bytes = tail;
    Some(*head)
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    let mut write_sized = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Null => out.push(0),
        Value::Bool(bool) => out.extend_from_slice(&[1, u8::from(*bool)]),
        Value::Int(int) => {
            out.push(2);
            out.extend_from_slice(&int.to_be_bytes());
        }
        Value::Double(double) => {
            out.push(3);
            out.extend_from_slice(&double.to_be_bytes());
        }
        Value::Text(text) => write_sized(4, text.as_bytes()),
        Value::Bytes(bytes) => write_sized(5, bytes),
        Value::Timestamp { seconds, nanos } => {
            out.push(6);
            out.extend_from_slice(&seconds.to_be_bytes());
            out.extend_from_slice(&nanos.to_be_bytes());
        }
        Value::Decimal(digits) => write_sized(7, digits.as_bytes()),
    }
}

fn read_value(bytes: &mut &[u8]) -> Option<Value> {
    let [tag] = read::<1>(bytes)?;
    Some(match tag {
        0 => Value::Null,
        1 => Value::Bool(read::<1>(bytes)? != [0]),
        2 => Value::Int(i64::from_be_bytes(read(bytes)?)),
        3 => Value::Double(f64::from_be_bytes(read(bytes)?)),
        4 => Value::Text(String::from_utf8(read_sized(bytes)?.to_vec()).ok()?),
        5 => Value::Bytes(read_sized(bytes)?.to_vec()),
        6 => Value::Timestamp {
            seconds: i64::from_be_bytes(read(bytes)?),
            nanos: i32::from_be_bytes(read(bytes)?),
        },
        7 => Value::Decimal(String::from_utf8(read_sized(bytes)?.to_vec()).ok()?),
        _ => return None,
    })
}

fn read_sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(read(bytes)?) as usize;
    let (head, tail) = bytes.split_at_checked(length)?;
    *bytes = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: Secret = Secret::new([7; 16]);

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-1e300..1e300).prop_map(Value::Double),
            any::<String>().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Bytes),
            any::<(i64, i32)>().prop_map(|(seconds, nanos)| Value::Timestamp { seconds, nanos }),
            "[0-9]{1,30}".prop_map(Value::Decimal),
        ]
    }

    fn lease() -> impl Strategy<Value = LeaseRef> {
        let key = prop::collection::vec(value(), 1..4);
        (key, any::<u128>(), any::<i64>(), any::<u32>()).prop_map(|(key, token, fence, attempt)| {
            LeaseRef {
                key: Key(key.into()),
                token: Uuid::from_u128(token),
                fence,
                attempt,
            }
        })
    }

    proptest! {
        #[test]
        fn lease_ids_decode_to_the_encoded_lease(lease in lease(), queue: String) {
            let id = lease.encode(&SECRET, &queue);
            prop_assert_eq!(LeaseRef::decode(&SECRET, &queue, &id), Some(lease));
        }

        #[test]
        fn arbitrary_text_is_not_a_lease_id(id: String) {
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &id), None);
        }

        #[test]
        fn changed_lease_ids_are_refused(
            lease in lease(), index: prop::sample::Index, character in "[A-Za-z0-9_=-]"
        ) {
            let id = lease.encode(&SECRET, "queue");
            let index = index.index(id.len());
            let mut changed = id.clone();
            changed.replace_range(index..=index, &character);
            prop_assume!(changed != id);
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &changed), None);
            let mut longer = id.clone();
            longer.push_str(&character);
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &longer), None);
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &id[..id.len() - 1]), None);
        }

        #[test]
        fn lease_ids_of_other_queues_or_secrets_are_refused(lease in lease()) {
            let id = lease.encode(&SECRET, "queue");
            prop_assert_eq!(LeaseRef::decode(&SECRET, "other", &id), None);
            prop_assert_eq!(LeaseRef::decode(&Secret::new([8; 16]), "queue", &id), None);
        }

        #[test]
        fn trace_context_is_valid_for_any_producer_context(lease in lease(), producer: String) {
            prop_assert!(is_trace_parent(&lease.trace_parent("queue", Some(&producer))));
        }
    }

    #[test]
    fn span_continues_the_trace_of_the_producer() {
        let lease = LeaseRef {
            key: Key([Value::Int(1)].into()),
            token: Uuid::from_u128(1),
            fence: 1,
            attempt: 1,
        };
        let producer = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let context = lease.trace_parent("queue", Some(producer));
        assert!(context.starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
        assert!(context.ends_with("-00"));
        assert_ne!(context, producer);
        assert_eq!(context, lease.trace_parent("queue", Some(producer)));
    }
}
