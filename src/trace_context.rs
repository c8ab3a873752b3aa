//! W3C trace contexts: the text of the header `traceparent` and of the soft-lock column `trace_parent`.

use std::fmt;

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

/// A span, and whether it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The span.
    pub span: Span,
    /// True if the span is recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// Parses a trace context of exactly 55 characters, the length of version 00. Returns `None` if it is invalid.
    ///
    /// A context of a later version is read as version 00, as the W3C recommends. Of the flags only "sampled" is kept.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let valid = text.len() == TEXT_LENGTH
            && is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && is_hex(span, 16)
            && is_hex(flags, 2);
        if !valid {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok()?;
        let span_id = u64::from_str_radix(span, 16).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace_id != 0 && span_id != 0).then_some(Self {
            span: Span { trace_id, span_id },
            sampled: flags & 1 == 1,
        })
    }
}

/// Writes the context as version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { trace_id, span_id } = self.span;
        let flags = u8::from(self.sampled);
        write!(out, "00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
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
