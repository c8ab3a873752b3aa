//! Sets of items' keys: a bit each for the integers that managed tables count up, a hash for any other key.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The keys of a page are neighbours and share an allocation.
const PAGE_WORDS: usize = 64;
const PAGE_KEYS: u64 = 64 * PAGE_WORDS as u64;

/// An item's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKey {
    Number(u64),
    /// The hash of a key that is no positive integer: of millions of keys, two rarely have the same.
    Other(u64),
}

impl ItemKey {
    /// Reads a key as the API writes it.
    pub(super) fn of_text(text: &[u8]) -> Self {
        let number = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok());
        number.map_or_else(
            || {
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                Self::Other(hasher.finish())
            },
            Self::Number,
        )
    }
}

/// A set of keys.
#[derive(Default)]
pub(super) struct Keys {
    pages: HashMap<u64, Box<[u64; PAGE_WORDS]>>,
    others: HashSet<u64>,
}

impl Keys {
    /// Adds a key; returns whether it is new.
    pub(super) fn insert(&mut self, key: ItemKey) -> bool {
        match key {
            ItemKey::Other(hash) => self.others.insert(hash),
            ItemKey::Number(number) => {
                let page = self.pages.entry(number / PAGE_KEYS);
                let (word, bit) = place(number);
                let word = &mut page.or_insert_with(|| Box::new([0; PAGE_WORDS]))[word];
                let is_new = *word & bit == 0;
                *word |= bit;
                is_new
            }
        }
    }

    /// Returns whether it has a key.
    pub(super) fn contains(&self, key: ItemKey) -> bool {
        match key {
            ItemKey::Other(hash) => self.others.contains(&hash),
            ItemKey::Number(number) => {
                let (word, bit) = place(number);
                let page = self.pages.get(&(number / PAGE_KEYS));
                page.is_some_and(|page| page[word] & bit != 0)
            }
        }
    }

    /// Counts the keys that the other set lacks.
    pub(super) fn count_without(&self, other: &Self) -> u64 {
        let numbers = self.pages.iter().map(|(at, page)| {
            let theirs = other.pages.get(at);
            let words = page.iter().enumerate();
            let lacking =
                words.map(|(at, word)| word & !theirs.map_or(0, |theirs: &Box<_>| theirs[at]));
            lacking
                .map(|word| u64::from(word.count_ones()))
                .sum::<u64>()
        });
        numbers.sum::<u64>() + self.others.difference(&other.others).count() as u64
    }
}

/// Returns the word of its page and the bit that stand for a number.
const fn place(number: u64) -> (usize, u64) {
    ((number % PAGE_KEYS / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> Keys {
        let mut keys = Keys::default();
        for text in texts {
            assert!(keys.insert(ItemKey::of_text(text.as_bytes())), "{text}");
        }
        keys
    }

    #[test]
    fn a_key_is_new_once() {
        let mut keys = set(&["1", "64", "4096", "18446744073709551615", "[1,\"a\"]", "-1"]);
        for text in ["1", "64", "4096", "18446744073709551615", "[1,\"a\"]", "-1"] {
            assert!(!keys.insert(ItemKey::of_text(text.as_bytes())), "{text}");
        }
        let two = ItemKey::of_text(b"2");
        assert!(!keys.contains(two));
        assert!(keys.insert(two) && keys.contains(two));
    }

    #[test]
    fn what_another_set_lacks_is_counted() {
        let (some, all) = (set(&["1", "a"]), set(&["1", "2", "5000", "a", "b"]));
        assert_eq!(all.count_without(&some), 3);
        assert_eq!(some.count_without(&all), 0);
    }
}
