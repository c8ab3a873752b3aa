//! The keyboard of the screen: reads what the terminal sends, and splits it into keys.
//!
//! The library that draws the screen can read keys too. But it loses a key that comes at the moment at which the terminal changes its
//! size, and it does not notice that the terminal is gone.

use std::io::stdin;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use tokio::sync::mpsc;

/// The time for which the thread waits for a key. It is short, so that the thread ends soon after the screen. An Esc without more bytes
/// in this time is the key, and not the begin of the bytes of another key.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// The number of bytes that are read at once.
const MAX_BYTES: usize = 1_024;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    Enter,
    Esc,
    Backspace,
    /// Ctrl-C, which is no signal on a terminal in raw mode.
    Interrupt,
}

/// Reads keys on a thread of its own, until their receiver is dropped or the terminal is gone.
pub(super) fn read_keys(sender: mpsc::Sender<Key>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut typed = Typed::default();
        while !sender.is_closed() {
            let terminal = stdin();
            let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
            match poll(&mut polled, Some(&WAIT)) {
                Ok(0) => typed.has_paused = true,
                Ok(_) => {
                    let mut bytes = [0; MAX_BYTES];
                    match read(&terminal, &mut bytes) {
                        // The terminal is gone.
                        Ok(0) => return,
                        Ok(length) => typed.push(&bytes[..length]),
                        Err(Errno::INTR | Errno::AGAIN) => continue,
                        Err(_) => return,
                    }
                }
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            while let Some(key) = typed.next_key() {
                if sender.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    })
}

/// The bytes that are not keys yet.
#[derive(Debug, Default)]
struct Typed {
    bytes: Vec<u8>,
    /// No byte has come for a while.
    has_paused: bool,
}

impl Typed {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.has_paused = false;
    }

    /// Returns the next key. `None`: its bytes are not complete. Keys that the screen does not know are skipped.
    fn next_key(&mut self) -> Option<Key> {
        loop {
            let (length, key) = match self.bytes[..] {
                [] => return None,
                [0x1b, ..] => self.escape()?,
                [b'\r' | b'\n', ..] => (1, Some(Key::Enter)),
                [0x08 | 0x7f, ..] => (1, Some(Key::Backspace)),
                [0x03, ..] => (1, Some(Key::Interrupt)),
                [..0x20, ..] => (1, None),
                _ => self.character()?,
            };
            self.bytes.drain(..length);
            if key.is_some() {
                return key;
            }
        }
    }

    /// Returns the key that begins with Esc, and the number of its bytes. ECMA-48 calls `ESC [` a control sequence, which ends with one of
    /// `@` to `~`. Terminals send arrows as control sequences or, in another mode, with `ESC O`.
    fn escape(&self) -> Option<(usize, Option<Key>)> {
        let arrow = |last: u8| match last {
            b'A' => Some(Key::Up),
            b'B' => Some(Key::Down),
            _ => None,
        };
        let end = match self.bytes[1..] {
            [] => None,
            [b'O', ref rest @ ..] => (!rest.is_empty()).then_some(2),
            [b'[', ref rest @ ..] => {
                let last = rest.iter().position(|byte| (b'@'..=b'~').contains(byte));
                last.map(|last| 2 + last)
            }
            // Another key follows.
            [..] => return Some((1, Some(Key::Esc))),
        };
        match end {
            Some(end) => Some((end + 1, arrow(self.bytes[end]))),
            None => self.has_paused.then_some((1, Some(Key::Esc))),
        }
    }

    /// Returns the character at the begin, and the number of its bytes. Bytes that are not UTF-8 are skipped.
    fn character(&self) -> Option<(usize, Option<Key>)> {
        let valid = match str::from_utf8(&self.bytes) {
            Ok(text) => text,
            Err(error) => match (error.valid_up_to(), error.error_len()) {
                (0, Some(length)) => return Some((length, None)),
                (0, None) => return self.has_paused.then_some((1, None)),
                (valid, _) => str::from_utf8(&self.bytes[..valid]).unwrap_or_default(),
            },
        };
        let character = valid.chars().next()?;
        Some((character.len_utf8(), Some(Key::Char(character))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(typed: &mut Typed) -> Vec<Key> {
        std::iter::from_fn(|| typed.next_key()).collect()
    }

    fn keys_of(bytes: &[u8]) -> Vec<Key> {
        let mut typed = Typed::default();
        typed.push(bytes);
        keys(&mut typed)
    }

    #[test]
    fn bytes_are_split_into_keys() {
        let known = keys_of(b"j\x1b[A\x1bOB\r\x7f\x03q");
        let expected = [
            Key::Char('j'),
            Key::Up,
            Key::Down,
            Key::Enter,
            Key::Backspace,
            Key::Interrupt,
            Key::Char('q'),
        ];
        assert_eq!(known, expected);
        // F5, Ctrl-Right, a tabulator and a byte that is not UTF-8.
        assert_eq!(keys_of(b"\x1b[15~\x1b[1;5C\t\xffp"), [Key::Char('p')]);
        assert_eq!(keys_of(b"\x1bq"), [Key::Esc, Key::Char('q')]);
    }

    #[test]
    fn key_whose_bytes_come_apart_is_one_key() {
        for (bytes, key) in [
            (&b"\x1b[1;5A"[..], Key::Up),
            ("\u{1f600}".as_bytes(), Key::Char('\u{1f600}')),
        ] {
            let mut typed = Typed::default();
            for byte in &bytes[..bytes.len() - 1] {
                typed.push(&[*byte]);
                assert_eq!(typed.next_key(), None);
            }
            typed.push(&bytes[bytes.len() - 1..]);
            assert_eq!(keys(&mut typed), [key]);
        }
    }

    #[test]
    fn escape_is_a_key_after_a_pause() {
        let mut typed = Typed::default();
        typed.push(b"\x1b");
        assert_eq!(typed.next_key(), None);
        typed.has_paused = true;
        assert_eq!(keys(&mut typed), [Key::Esc]);
    }
}
