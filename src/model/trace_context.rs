//! W3C trace contexts: the text of the header `traceparent` and of the soft-lock column `trace_parent`.

use std::fmt;

use data_encoding::HEXLOWER;

/// The length of a trace context as text, in characters.
const TEXT_LENGTH: usize = 55;

/// The identity of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The id of the trace. Not zero.
    pub trace_id: u128,
    /// The id of the span in its trace. Not zero.
    pub span_id: u64,
}

impl Span {
    /// Returns a new span of a new trace.
    pub fn random() -> Self {
        Self::random_in(rand::random::<u128>().max(1))
    }

    /// Returns a new span of this trace.
    pub fn random_in(trace_id: u128) -> Self {
        Self {
            trace_id,
            span_id: rand::random::<u64>().max(1),
        }
    }

    /// Returns the span with this id in the same trace.
    #[must_use]
    pub const fn with_span_id(self, span_id: u64) -> Self {
        Self { span_id, ..self }
    }
}

/// A span, and whether it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The span.
    pub span: Span,
    /// True if the span is recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// Parses a trace context. Returns `None` if it is invalid.
    ///
    /// A context of version 00 has exactly 55 characters. One of a later version can be longer. Its first four fields are read
    /// as those of version 00 (W3C Trace Context, "Versioning of traceparent"). Of the flags only "sampled" is kept.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, suffix) = text.as_bytes().split_first_chunk::<TEXT_LENGTH>()?;
        let [version] = from_hex(&text[..2])?;
        if !(suffix.is_empty() || version > 0 && suffix.starts_with(b"-")) {
            return None;
        }
        let span = Span {
            trace_id: u128::from_be_bytes(from_hex(&text[3..35])?),
            span_id: u64::from_be_bytes(from_hex(&text[36..52])?),
        };
        let [flags] = from_hex(&text[53..])?;
        let valid = [2, 35, 52].iter().all(|dash| text[*dash] == b'-')
            && version != 0xff
            && span.trace_id != 0
            && span.span_id != 0;
        valid.then_some(Self {
            span,
            sampled: flags & 1 == 1,
        })
    }
}

/// Writes the context as version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        HEXLOWER.encode_mut(&self.span.trace_id.to_be_bytes(), &mut text[3..35]);
        HEXLOWER.encode_mut(&self.span.span_id.to_be_bytes(), &mut text[36..52]);
        HEXLOWER.encode_mut(&[u8::from(self.sampled)], &mut text[53..]);
        out.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Decodes exactly N bytes of lower-case hexadecimal digits.
fn from_hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    HEXLOWER.decode_mut(digits, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_contexts_are_parsed_and_written() {
        for flags in ["00", "01"] {
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-00ad6b7169203331-{flags}");
            let context = TraceContext::parse(&text).expect("valid");
            assert_eq!(context.to_string(), text);
        }
        let other_flags = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03";
        let context = TraceContext::parse(other_flags).expect("valid");
        assert!(context.sampled);
    }

    #[test]
    fn later_versions_are_read_by_their_first_fields() {
        let fields = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let later = TraceContext::parse(&format!("01-{fields}-what-comes-later"));
        assert_eq!(later, TraceContext::parse(&format!("00-{fields}")));
        assert!(later.is_some());
        for text in [
            format!("01-{fields}."),
            format!("ff-{fields}-what-comes-later"),
        ] {
            assert_eq!(TraceContext::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn malformed_contexts_are_refused() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-+1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c8031-9cb7ad6b7169203331-001",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }
}
