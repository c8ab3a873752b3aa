//! The secret of a deployment, and the hashes that are keyed with it.

use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher as _;
use uuid::Uuid;

/// The use of a keyed hash, and the first byte of its input. It separates the uses, so that the result of one cannot
/// serve as that of another.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Purpose {
    LeaseId = b'l',
    RequestId = b'r',
    Span = b's',
    Trace = b't',
}

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

    /// Derives the lease token of a claim from its request id.
    ///
    /// If the request is sent again, any broker derives the same token and finds the same leases. A client cannot
    /// compute the token from the request id.
    pub fn token_of_request(&self, queue: &str, worker: &str, request_id: Uuid) -> Uuid {
        let hash = self.hash(
            Purpose::RequestId,
            &[queue.as_bytes(), worker.as_bytes(), request_id.as_bytes()],
        );
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
