//! The secret of a deployment, and the hashes that are keyed with it.

use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher as _;
use uuid::Uuid;

use super::owner::LeaseOwner;

/// The use of a keyed hash, and the first byte of its input. It separates the uses, so that the result of one cannot
/// serve as that of another.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Purpose {
    LeaseId = b'l',
    RequestId = b'r',
    EnqueueRequest = b'e',
    Span = b's',
    Trace = b't',
}

/// The key of the hashes that a client must not be able to compute. All brokers on a database share its secrets.
///
/// A store creates secret 0 when the database is first used. Lease tokens and spans are always derived from it. Further
/// secrets replace it for the signatures of lease ids only: a token is of no use without the id that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl Secret {
    /// Returns the secret with the bytes that the database stores.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the secret with these halves.
    pub(super) fn from_halves(halves: [u64; 2]) -> Self {
        let [first, second] = halves.map(u128::from);
        Self((first << 64 | second).to_be_bytes())
    }

    /// Returns both halves.
    #[expect(clippy::cast_possible_truncation, reason = "each half has 64 bits")]
    pub(super) fn halves(&self) -> [u64; 2] {
        let both = u128::from_be_bytes(self.0);
        [(both >> 64) as u64, both as u64]
    }

    /// Derives the lease token of a claim from its request id.
    ///
    /// If the request is sent again, any broker derives the same token and finds the same leases. A client cannot
    /// compute the token from the request id. An owner whose leases no other can use has tokens of its own.
    pub fn token_of_request(
        &self,
        queue: &str,
        owner: &LeaseOwner,
        worker: &str,
        request_id: Uuid,
    ) -> Uuid {
        let parts: [&[u8]; 3] = [queue.as_bytes(), worker.as_bytes(), request_id.as_bytes()];
        let name = owner.oldest_name().filter(|_| owner.is_exclusive());
        let hash = match name {
            None => self.hash(Purpose::RequestId, &parts),
            Some(name) => {
                let [queue, worker, request_id] = parts;
                let parts = [queue, worker, request_id, name.as_bytes()];
                self.hash(Purpose::RequestId, &parts)
            }
        };
        uuid::Builder::from_random_bytes(hash).into_uuid()
    }

    /// Derives the id under which the store remembers an Enqueue call.
    ///
    /// Each identity has ids of its own. So nobody gets the keys of another identity's items by one of its request ids, or
    /// keeps it from adding them.
    pub fn enqueue_request(&self, queue: &str, owner: &LeaseOwner, request_id: Uuid) -> Uuid {
        let Some(name) = owner.oldest_name() else {
            return request_id;
        };
        let parts: [&[u8]; 3] = [queue.as_bytes(), request_id.as_bytes(), name.as_bytes()];
        let hash = self.hash(Purpose::EnqueueRequest, &parts);
        uuid::Builder::from_random_bytes(hash).into_uuid()
    }

    /// Hashes a list of parts. Each part is preceded by its length, so that different lists never give the same input.
    pub(super) fn hash(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(purpose as u8);
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        hasher.finish128().as_bytes()
    }
}
