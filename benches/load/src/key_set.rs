//! Sets of item keys: a compressed bitmap for integer keys, hashes for all other keys.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use roaring::RoaringTreemap;

/// An item's key in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKey {
    Integer(u64),
    /// The hash of a key that is not an integer from 0. Two of a million keys share a hash with a probability of 3e-8.
    Hash(u64),
}

impl ItemKey {
    /// Reads a key in the text form of the API.
    pub(crate) fn parse(text: &str) -> Self {
        text.parse().map_or_else(
            |_| {
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                Self::Hash(hasher.finish())
            },
            Self::Integer,
        )
    }
}

/// A set of keys.
#[derive(Default)]
pub(crate) struct KeySet {
    integers: RoaringTreemap,
    hashes: HashSet<u64>,
}

impl KeySet {
    /// Adds a key. Returns whether the set did not contain it.
    pub(crate) fn insert(&mut self, key: ItemKey) -> bool {
        match key {
            ItemKey::Integer(integer) => self.integers.insert(integer),
            ItemKey::Hash(hash) => self.hashes.insert(hash),
        }
    }

    /// Returns whether the set contains a key.
    pub(crate) fn contains(&self, key: ItemKey) -> bool {
        match key {
            ItemKey::Integer(integer) => self.integers.contains(integer),
            ItemKey::Hash(hash) => self.hashes.contains(&hash),
        }
    }

    /// Counts the keys of this set that the other set does not contain.
    pub(crate) fn difference_len(&self, other: &Self) -> u64 {
        let hashes = self.hashes.difference(&other.hashes).count() as u64;
        self.integers.difference_len(&other.integers) + hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 6] = ["1", "64", "4096", "18446744073709551615", "[1,\"a\"]", "-1"];

    fn set(keys: &[&str]) -> KeySet {
        let mut set = KeySet::default();
        for key in keys {
            assert!(set.insert(ItemKey::parse(key)), "{key}");
        }
        set
    }

    #[test]
    fn a_key_is_inserted_once() {
        let mut keys = set(&KEYS);
        let two = ItemKey::parse("2");
        assert!(!keys.contains(two));
        assert!(keys.insert(two) && keys.contains(two));
        assert!(KEYS.iter().all(|key| !keys.insert(ItemKey::parse(key))));
    }

    #[test]
    fn difference_counts_keys_of_both_kinds() {
        let (some, all) = (set(&["1", "a"]), set(&["1", "2", "5000", "a", "b"]));
        assert_eq!(all.difference_len(&some), 3);
        assert_eq!(some.difference_len(&all), 0);
    }
}
