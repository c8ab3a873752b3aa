//! Lease ids: opaque to clients, unguessable, and carrying all that any broker needs to settle the lease.
//!
//! An id is the base64url text of a version, the lease token, the fencing token, the attempt, the key's values and a
//! `SipHash` tag over all of it and the queue's name, keyed with a secret that lives in the database. One claim call
//! gives all its leases the same token, so without the tag a client could turn one of its ids into another's.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher as _;
use uuid::Uuid;

use crate::value::{Key, Value, hex};

const VERSION: u8 = 1;
const TAG: usize = 16;
/// The longest id that is looked at: keys are columns of an index, which databases bound far lower.
const MAX_LENGTH: usize = 64 * 1024;

/// The deployment's secret: made once, kept in the database, shared by every broker on it.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Wraps the bytes that the store keeps.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn tag(&self, purpose: u8, parts: &[&[u8]]) -> [u8; TAG] {
        keyed_hash(&self.0, purpose, parts)
    }

    /// Derives the lease token of a claim that carries a request id, so that the same request, sent again to any
    /// broker, finds the same leases, and nobody can tell the token from the request id.
    pub fn token_of_request(&self, queue: &str, worker: &str, request: Uuid) -> Uuid {
        let tag = self.tag(
            b'r',
            &[queue.as_bytes(), worker.as_bytes(), request.as_bytes()],
        );
        uuid::Builder::from_random_bytes(tag).into_uuid()
    }
}

/// Hashes length-prefixed parts, so that no two lists of parts are alike.
fn keyed_hash(key: &[u8; 16], purpose: u8, parts: &[&[u8]]) -> [u8; TAG] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write_u8(purpose);
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    hasher.finish128().as_bytes()
}

/// A lease as a worker names it when it extends or settles it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseRef {
    /// The leased item.
    pub key: Key,
    /// Proof of holding the lease.
    pub token: Uuid,
    /// The item's claim count when it was leased: the same request id may win the same item twice.
    pub fence: i64,
    /// The attempt that this lease is, 1 for the first: decides what follows a failure.
    pub attempt: u32,
}

impl LeaseRef {
    /// Writes the lease id that stands for this lease in `queue`.
    pub fn encode(&self, secret: &Secret, queue: &str) -> String {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(VERSION);
        bytes.extend_from_slice(self.token.as_bytes());
        bytes.extend_from_slice(&self.fence.to_be_bytes());
        bytes.extend_from_slice(&self.attempt.to_be_bytes());
        for value in &self.key.0 {
            put_value(&mut bytes, value);
        }
        let tag = secret.tag(b'l', &[queue.as_bytes(), &bytes]);
        bytes.extend_from_slice(&tag);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a lease id back; none if this deployment never gave it out for `queue`.
    pub fn decode(secret: &Secret, queue: &str, id: &str) -> Option<Self> {
        if id.len() > MAX_LENGTH {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (signed, tag) = bytes.split_last_chunk::<TAG>()?;
        if secret.tag(b'l', &[queue.as_bytes(), signed]) != *tag {
            return None;
        }
        let mut rest = signed;
        if take::<1>(&mut rest)? != [VERSION] {
            return None;
        }
        let token = Uuid::from_bytes(take(&mut rest)?);
        let fence = i64::from_be_bytes(take(&mut rest)?);
        let attempt = u32::from_be_bytes(take(&mut rest)?);
        let mut key = Vec::with_capacity(1);
        while !rest.is_empty() {
            key.push(take_value(&mut rest)?);
        }
        Some(Self {
            key: Key(key.into()),
            token,
            fence,
            attempt,
        })
    }

    /// Returns a lease that no item can have: its key has no columns.
    pub fn invalid() -> Self {
        Self {
            key: Key(Box::new([])),
            token: Uuid::nil(),
            fence: 0,
            attempt: 0,
        }
    }

    /// Returns the W3C trace context of this lease's span: the producer's trace if the item carries one, else a trace
    /// of its own. It derives from the lease alone, so that every broker names the same span.
    pub fn trace_parent(&self, queue: &str, producer: Option<&str>) -> String {
        let mut key = Vec::new();
        for value in &self.key.0 {
            put_value(&mut key, value);
        }
        let fence = self.fence.to_be_bytes();
        let parts: [&[u8]; 4] = [queue.as_bytes(), self.token.as_bytes(), &fence, &key];
        let span = &keyed_hash(&[0; 16], b's', &parts)[..8];
        let span = hex(span);
        if let Some((trace, flags)) = producer.and_then(split_trace_parent) {
            format!("00-{trace}-{span}-{flags}")
        } else {
            let trace = hex(&keyed_hash(&[0; 16], b't', &parts));
            format!("00-{trace}-{span}-01")
        }
    }
}

/// Splits a valid W3C `traceparent` into its trace id and flags; none if it is not valid.
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

/// Returns whether `text` is a W3C `traceparent` that may be kept on an item.
pub fn is_trace_parent(text: &str) -> bool {
    text.len() == 55 && split_trace_parent(text).is_some()
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>()?;
    *bytes = tail;
    Some(*head)
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut sized = |tag: u8, bytes: &[u8]| {
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
        Value::Text(text) => sized(4, text.as_bytes()),
        Value::Bytes(bytes) => sized(5, bytes),
        Value::Timestamp { seconds, nanos } => {
            out.push(6);
            out.extend_from_slice(&seconds.to_be_bytes());
            out.extend_from_slice(&nanos.to_be_bytes());
        }
        Value::Decimal(digits) => sized(7, digits.as_bytes()),
    }
}

fn take_value(bytes: &mut &[u8]) -> Option<Value> {
    let [tag] = take::<1>(bytes)?;
    Some(match tag {
        0 => Value::Null,
        1 => Value::Bool(take::<1>(bytes)? != [0]),
        2 => Value::Int(i64::from_be_bytes(take(bytes)?)),
        3 => Value::Double(f64::from_be_bytes(take(bytes)?)),
        4 => Value::Text(String::from_utf8(take_sized(bytes)?.to_vec()).ok()?),
        5 => Value::Bytes(take_sized(bytes)?.to_vec()),
        6 => Value::Timestamp {
            seconds: i64::from_be_bytes(take(bytes)?),
            nanos: i32::from_be_bytes(take(bytes)?),
        },
        7 => Value::Decimal(String::from_utf8(take_sized(bytes)?.to_vec()).ok()?),
        _ => return None,
    })
}

fn take_sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(take(bytes)?) as usize;
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
        fn a_lease_id_reads_back_as_the_lease_it_was_written_for(lease in lease(), queue: String) {
            let id = lease.encode(&SECRET, &queue);
            prop_assert_eq!(LeaseRef::decode(&SECRET, &queue, &id), Some(lease));
        }

        #[test]
        fn no_text_that_was_not_given_out_is_a_lease_id(id: String) {
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &id), None);
        }

        #[test]
        fn a_lease_id_changed_by_a_character_is_none(
            lease in lease(), at: prop::sample::Index, with in "[A-Za-z0-9_=-]"
        ) {
            let id = lease.encode(&SECRET, "queue");
            let at = at.index(id.len());
            let mut changed = id.clone();
            changed.replace_range(at..=at, &with);
            prop_assume!(changed != id);
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &changed), None);
            let mut longer = id.clone();
            longer.push_str(&with);
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &longer), None);
            prop_assert_eq!(LeaseRef::decode(&SECRET, "queue", &id[..id.len() - 1]), None);
        }

        #[test]
        fn a_lease_id_of_another_queue_or_deployment_is_none(lease in lease()) {
            let id = lease.encode(&SECRET, "queue");
            prop_assert_eq!(LeaseRef::decode(&SECRET, "other", &id), None);
            prop_assert_eq!(LeaseRef::decode(&Secret::new([8; 16]), "queue", &id), None);
        }

        #[test]
        fn any_producer_context_gives_a_valid_one_for_the_lease(lease in lease(), producer: String) {
            prop_assert!(is_trace_parent(&lease.trace_parent("queue", Some(&producer))));
        }
    }

    #[test]
    fn the_leases_span_continues_the_producers_trace() {
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
