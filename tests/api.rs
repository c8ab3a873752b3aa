//! The service as clients see it: real gRPC over a real socket, on a real file.

mod support;

#[path = "api/cancellation.rs"]
mod cancellation;
#[path = "api/connections.rs"]
mod connections;
#[path = "api/deadlines.rs"]
mod deadlines;
#[path = "api/draining.rs"]
mod draining;
#[path = "api/fields.rs"]
mod fields;
#[path = "api/health.rs"]
mod health;
#[path = "api/limits.rs"]
mod limits;
#[path = "api/next.rs"]
mod next;
#[path = "api/outcomes.rs"]
mod outcomes;
#[path = "api/refusals.rs"]
mod refusals;
#[path = "api/request_ids.rs"]
mod request_ids;
#[path = "api/responses.rs"]
mod responses;
#[path = "api/retries.rs"]
mod retries;
#[path = "api/six_calls.rs"]
mod six_calls;
#[path = "api/store_trouble.rs"]
mod store_trouble;
#[path = "api/waiting.rs"]
mod waiting;
