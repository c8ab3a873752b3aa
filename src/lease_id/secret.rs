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
        let mut input = Input::new(&mut hasher);
        input.write(&[purpose as u8]);
        for part in parts {
            input.write(&(part.len() as u64).to_le_bytes());
            input.write(part);
        }
        input.end();
        hasher.finish128().as_bytes()
    }
}

/// The input of a hash. Short parts are collected, because the hasher takes one long part in less time than many short ones.
struct Input<'a> {
    hasher: &'a mut SipHasher24,
    collected: [u8; 192],
    length: usize,
}

impl<'a> Input<'a> {
    fn new(hasher: &'a mut SipHasher24) -> Self {
        Self {
            hasher,
            collected: [0; 192],
            length: 0,
        }
    }

    fn write(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        if let Some(free) = self.collected.get_mut(self.length..end) {
            free.copy_from_slice(part);
            self.length = end;
        } else {
            self.end();
            self.hasher.write(part);
        }
    }

    /// Passes on what is collected.
    fn end(&mut self) {
        self.hasher.write(&self.collected[..self.length]);
        self.length = 0;
    }
}
