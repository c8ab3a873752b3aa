//! The decision which traces are recorded.

use crate::trace_context::TraceContext;

/// Decides which traces are recorded. The decision is made once per trace: every part of the trace follows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Traces are recorded if 63 bits of their id are below this bound.
    bound: u64,
    /// True: a caller's decision about its trace counts.
    trust_parents: bool,
}

impl Sampler {
    /// Creates a sampler that records this part of all traces, from 0 to 1. If `trust_parents` is set, a trace that a
    /// caller has begun is recorded if, and only if, the caller records it.
    pub fn new(ratio: f64, trust_parents: bool) -> Self {
        const ALL: u64 = 1 << 63;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the ratio is between 0 and 1"
        )]
        let bound = (ratio.clamp(0.0, 1.0) * ALL as f64) as u64;
        Self {
            bound,
            trust_parents,
        }
    }

    /// Returns whether a span of the trace is recorded. `parent`: the context that a caller has sent, if it has.
    pub fn samples(self, parent: Option<TraceContext>, trace_id: u128) -> bool {
        match parent {
            Some(parent) if self.trust_parents => parent.sampled,
            _ => self.samples_by_id(trace_id),
        }
    }

    /// Decides as the samplers of OpenTelemetry named `TraceIdRatioBased` do. So the workers' samplers, with the same
    /// ratio, agree with the broker.
    fn samples_by_id(self, trace_id: u128) -> bool {
        let [.., b8, b9, b10, b11, b12, b13, b14, b15] = trace_id.to_be_bytes();
        u64::from_be_bytes([b8, b9, b10, b11, b12, b13, b14, b15]) >> 1 < self.bound
    }
}

impl Default for Sampler {
    /// Records no trace, unless a caller records it.
    fn default() -> Self {
        Self::new(0.0, true)
    }
}

/// Which leases are recorded as spans, and what the spans show.
#[derive(Clone, Copy, Debug)]
pub struct TraceSettings {
    /// Decides which traces are recorded.
    pub sampler: Sampler,
    /// The number of leases per second that are recorded although their traces are not, for each way to end badly.
    pub keep_per_second: u32,
    /// True: spans show the keys of items.
    pub item_keys: bool,
    /// True: spans show the error messages of workers.
    pub error_messages: bool,
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanKind, TraceId};
    use opentelemetry_sdk::trace::{Sampler as SdkSampler, SamplingDecision, ShouldSample as _};
    use rand::RngExt as _;

    use super::*;
    use crate::trace_context::Span;

    #[test]
    fn decisions_are_those_of_the_opentelemetry_sdk() {
        let mut rng = rand::rng();
        for ratio in [0.0, 0.01, 0.5, 0.999, 1.0] {
            let (own, sdk) = (
                Sampler::new(ratio, true),
                SdkSampler::TraceIdRatioBased(ratio),
            );
            for _ in 0..1_000 {
                let trace_id: u128 = rng.random();
                let id = TraceId::from(trace_id);
                let expected = sdk
                    .should_sample(None, id, "", &SpanKind::Server, &[], &[])
                    .decision
                    == SamplingDecision::RecordAndSample;
                assert_eq!(own.samples(None, trace_id), expected, "{ratio} {id}");
            }
        }
    }

    #[test]
    fn trusted_parent_decides() {
        let context = |sampled| {
            let span = Span {
                trace_id: 1,
                span_id: 1,
            };
            Some(TraceContext { span, sampled })
        };
        let (all, none) = (Sampler::new(1.0, true), Sampler::new(0.0, true));
        assert!(none.samples(context(true), 1));
        assert!(!all.samples(context(false), 1));
        let (all, none) = (Sampler::new(1.0, false), Sampler::new(0.0, false));
        assert!(!none.samples(context(true), 1));
        assert!(all.samples(context(false), 1));
    }
}
