//! Instruments for the calls of the API, and for refused connections.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Histogram, Meter};

use super::instruments::{CALL_DURATION, CALLS_ACTIVE, CALLS_REFUSED, CONNECTIONS_REFUSED};
use crate::grpc::{CODE_NAMES, CallMetrics, RefusedCalls, RefusedConnection, error_type};
use crate::span::attribute;

/// The boundaries that the conventions advise, and two for waiting claims.
const BOUNDARIES: [f64; 16] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0,
];
/// Creates the metrics of a server's calls and registers their instruments.
pub(super) fn register(meter: &Meter) -> Arc<CallMetrics> {
    let methods = CallMetrics::method_names().into_iter().map(|name| Method {
        name,
        by_code: Default::default(),
    });
    let durations = CallDurations {
        histogram: CALL_DURATION.histogram(meter, &BOUNDARIES),
        methods: methods.collect(),
    };
    let metrics = Arc::new(CallMetrics::new(move |method, code, duration| {
        durations.record(method, code, duration);
    }));
    let names = CallMetrics::method_names().into_iter();
    let labels: Arc<[_]> = names
        .map(|name| KeyValue::new(attribute::RPC_METHOD, name))
        .collect();
    let active = metrics.clone();
    CALLS_ACTIVE.gauge(meter, move |observer| {
        for (calls, method) in active.active().zip(&*labels) {
            observer.observe(calls, std::slice::from_ref(method));
        }
    });
    let refused = metrics.clone();
    CALLS_REFUSED.counter(meter, move |observer| {
        for RefusedCalls {
            reason,
            limit,
            calls,
        } in refused.refused()
        {
            let mut labels = vec![KeyValue::new(attribute::ERROR_REASON, reason)];
            labels.extend(limit.map(|limit| KeyValue::new(attribute::OVERLOAD_LIMIT, limit)));
            observer.observe(calls, &labels);
        }
    });
    let connections = metrics.connections.clone();
    CONNECTIONS_REFUSED.counter(meter, move |observer| {
        for reason in RefusedConnection::ALL {
            let label = KeyValue::new(attribute::CONNECTION_REFUSAL, reason.name());
            observer.observe(connections.refused(reason), &[label]);
        }
    });
    metrics
}

/// The histogram of durations, with a bound instrument for each method and status that has occurred.
struct CallDurations {
    histogram: Histogram<f64>,
    methods: Vec<Method>,
}

struct Method {
    name: String,
    by_code: [OnceLock<BoundHistogram<f64>>; CODE_NAMES.len()],
}

impl CallDurations {
    fn record(&self, method: usize, code: usize, duration: Duration) {
        let method = &self.methods[method];
        let bound = method.by_code[code].get_or_init(|| {
            let mut labels = vec![
                KeyValue::new(attribute::RPC_SYSTEM_NAME, "grpc"),
                KeyValue::new(attribute::RPC_METHOD, method.name.clone()),
                KeyValue::new(attribute::RPC_RESPONSE_STATUS_CODE, CODE_NAMES[code]),
            ];
            let error = error_type(code);
            labels.extend(error.map(|error| KeyValue::new(attribute::ERROR_TYPE, error)));
            self.histogram.bind(&labels)
        });
        bound.record(duration.as_secs_f64());
    }
}
