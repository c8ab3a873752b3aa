//! The secrets that sign lease ids. An id has the number of its secret, so an operator can replace the secret.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::secret::Secret;

/// The age from which a new secret signs lease ids. Every broker has read it by then.
const SIGNING_AGE: Duration = Duration::from_secs(90);

/// A secret, as the database has it.
#[derive(Clone, Copy)]
pub struct StoredSecret {
    /// The number, which lease ids contain.
    pub number: u8,
    /// The key.
    pub secret: Secret,
    /// The time since the secret was made.
    pub age: Duration,
    /// True: the lease ids that it has signed are not valid any more.
    pub is_retired: bool,
}

/// The secrets with which a broker signs and checks lease ids.
///
/// They change while calls use them, so each is in atomics: a call takes no lock.
pub struct SigningSecrets {
    /// One for each number.
    slots: Vec<Slot>,
    /// The number of the secret that signs.
    current: AtomicU8,
}

#[derive(Default)]
struct Slot {
    is_accepted: AtomicBool,
    halves: [AtomicU64; 2],
}

impl Slot {
    fn read(&self) -> Secret {
        let [first, second] = &self.halves;
        Secret::from_halves([
            first.load(Ordering::Relaxed),
            second.load(Ordering::Relaxed),
        ])
    }

    fn write(&self, secret: &Secret) {
        for (half, value) in self.halves.iter().zip(secret.halves()) {
            half.store(value, Ordering::Relaxed);
        }
    }
}

impl SigningSecrets {
    /// Creates the secrets of a deployment.
    pub fn new(stored: &[StoredSecret]) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(usize::from(u8::MAX) + 1, Slot::default);
        let secrets = Self {
            slots,
            current: AtomicU8::new(0),
        };
        secrets.replace(stored);
        secrets
    }

    /// Creates the secrets of a deployment that has only secret 0.
    pub fn only(secret: Secret) -> Self {
        Self::new(&[StoredSecret {
            number: 0,
            secret,
            age: Duration::ZERO,
            is_retired: false,
        }])
    }

    /// Takes over the secrets that the database has now.
    ///
    /// The newest one that every broker has read signs new ids. If there is none, the present one goes on, or the oldest one
    /// if the present one has retired. At the start, secret 0 is the present one.
    pub fn replace(&self, stored: &[StoredSecret]) {
        let accepted = || stored.iter().filter(|secret| !secret.is_retired);
        let mut remaining = [false; 256];
        for stored in accepted() {
            remaining[usize::from(stored.number)] = true;
            let slot = &self.slots[usize::from(stored.number)];
            if slot.read() != stored.secret {
                slot.is_accepted.store(false, Ordering::Release);
                slot.write(&stored.secret);
            }
            slot.is_accepted.store(true, Ordering::Release);
        }
        let known = accepted().filter(|secret| secret.age >= SIGNING_AGE);
        let signing = known.min_by_key(|secret| secret.age);
        let current = self.current.load(Ordering::Acquire);
        let present = || accepted().find(|secret| secret.number == current);
        let oldest = || accepted().max_by_key(|secret| secret.age);
        let signing = signing.or_else(present).or_else(oldest);
        if let Some(signing) = signing {
            self.current.store(signing.number, Ordering::Release);
        }
        for (slot, remains) in self.slots.iter().zip(remaining) {
            if !remains {
                slot.is_accepted.store(false, Ordering::Release);
            }
        }
    }

    /// Returns whether a secret with this number is known and has not retired.
    pub fn accepts(&self, number: u8) -> bool {
        self.accepted(number).is_some()
    }

    /// Returns the secret that signs new ids, with its number.
    pub(super) fn current(&self) -> (u8, Secret) {
        let number = self.current.load(Ordering::Acquire);
        (number, self.slots[usize::from(number)].read())
    }

    /// Returns the secret with this number. `None`: no such secret is known, or it has retired.
    pub(super) fn accepted(&self, number: u8) -> Option<Secret> {
        let slot = &self.slots[usize::from(number)];
        slot.is_accepted
            .load(Ordering::Acquire)
            .then(|| slot.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(number: u8, age: u64) -> StoredSecret {
        StoredSecret {
            number,
            secret: Secret::new([number + 1; 16]),
            age: Duration::from_secs(age),
            is_retired: false,
        }
    }

    fn retired(number: u8) -> StoredSecret {
        StoredSecret {
            is_retired: true,
            ..stored(number, 1_000)
        }
    }

    #[test]
    fn newest_secret_that_brokers_know_signs() {
        for (secrets, signing) in [
            (vec![stored(0, 5)], 0),
            (vec![stored(0, 500), stored(1, 89)], 0),
            (vec![stored(0, 500), stored(1, 90)], 1),
            (vec![stored(0, 5), stored(1, 0)], 0),
            // The clock was set back.
            (vec![stored(0, 0), stored(1, 1)], 0),
            (vec![retired(0), stored(1, 8), stored(2, 7)], 1),
            (vec![retired(0), stored(1, 0)], 1),
            (vec![stored(0, 900), stored(2, 500), stored(1, 91)], 1),
        ] {
            let (number, secret) = SigningSecrets::new(&secrets).current();
            assert_eq!(number, signing);
            assert!(secret == Secret::new([signing + 1; 16]));
        }
    }

    #[test]
    fn retired_and_removed_secrets_are_not_accepted() {
        let secrets = SigningSecrets::new(&[stored(0, 500), stored(1, 200), stored(2, 100)]);
        assert!((0..3).all(|number| secrets.accepted(number).is_some()));
        assert!(secrets.accepted(3).is_none());
        secrets.replace(&[retired(0), stored(2, 100)]);
        assert!(secrets.accepted(0).is_none() && secrets.accepted(1).is_none());
        assert!(secrets.accepted(2) == Some(Secret::new([3; 16])));
        // The number is used again.
        let again = StoredSecret {
            secret: Secret::new([9; 16]),
            ..stored(1, 0)
        };
        secrets.replace(&[retired(0), again, stored(2, 100)]);
        assert!(secrets.accepted(1) == Some(Secret::new([9; 16])));
        assert_eq!(secrets.current().0, 2);
        secrets.replace(&[retired(0), retired(1), retired(2)]);
        assert_eq!(secrets.current().0, 2);
    }
}
