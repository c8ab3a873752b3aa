//! Counts the messages of a stream of requests as their bytes arrive.

use super::read_message::HEADER_BYTES;

/// The messages that a stream may still bring.
pub(in crate::grpc) struct MessageCounter {
    messages_left: u32,
    max_message_bytes: usize,
    header: [u8; HEADER_BYTES],
    header_length: usize,
    /// The bytes of the present message that have not arrived.
    missing: usize,
}

impl MessageCounter {
    pub(in crate::grpc) fn new(max_messages: u32, max_message_bytes: usize) -> Self {
        Self {
            messages_left: max_messages,
            max_message_bytes,
            header: [0; HEADER_BYTES],
            header_length: 0,
            missing: 0,
        }
    }

    /// Counts the messages in these bytes. Returns false if there are too many messages, or one is too long.
    pub(in crate::grpc) fn accepts(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let skipped = self.missing.min(bytes.len());
            self.missing -= skipped;
            bytes = &bytes[skipped..];
            let Some((byte, rest)) = bytes.split_first() else {
                break;
            };
            self.header[self.header_length] = *byte;
            self.header_length += 1;
            bytes = rest;
            if self.header_length < HEADER_BYTES {
                continue;
            }
            self.header_length = 0;
            let [_, a, b, c, d] = self.header;
            self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
            if self.messages_left == 0 || self.missing > self.max_message_bytes {
                return false;
            }
            self.messages_left -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_split() {
        let message = [0, 0, 0, 0, 2, 7, 7];
        for part in 1..=3 * message.len() {
            let mut counter = MessageCounter::new(3, 2);
            let mut parts = message.repeat(3);
            parts.extend([0, 0, 0, 0]);
            assert!(parts.chunks(part).all(|part| counter.accepts(part)));
            assert!(!counter.accepts(&[0]), "parts of {part}");
        }
    }

    #[test]
    fn long_message_is_refused() {
        assert!(!MessageCounter::new(3, 2).accepts(&[0, 0, 0, 0, 3]));
    }
}
