//! The gRPC API, tested through a real socket with an embedded `SQLite` file as the store.
//!
//! Covers each rpc, each error, waiting claims, deadlines, cancellation, draining, health checks and reflection.

mod support;

#[path = "api/basic_calls.rs"]
mod basic_calls;
#[path = "api/budgets.rs"]
mod budgets;
#[path = "api/cancel_leases.rs"]
mod cancel_leases;
#[path = "api/cancellation.rs"]
mod cancellation;
#[path = "api/checkpoints.rs"]
mod checkpoints;
#[path = "api/clock_steps.rs"]
mod clock_steps;
#[path = "api/connections.rs"]
mod connections;
#[path = "api/deadlines.rs"]
mod deadlines;
#[path = "api/draining.rs"]
mod draining;
#[path = "api/enqueue_once.rs"]
mod enqueue_once;
#[path = "api/fairness.rs"]
mod fairness;
#[path = "api/health.rs"]
mod health;
#[path = "api/incomplete_requests.rs"]
mod incomplete_requests;
#[path = "api/invalid_fields.rs"]
mod invalid_fields;
#[path = "api/isolation.rs"]
mod isolation;
#[path = "api/lease_ids.rs"]
mod lease_ids;
#[path = "api/limits.rs"]
mod limits;
#[path = "api/next_claims.rs"]
mod next_claims;
#[path = "api/outcomes.rs"]
mod outcomes;
#[path = "api/rejected_calls.rs"]
mod rejected_calls;
#[path = "api/request_ids.rs"]
mod request_ids;
#[path = "api/response_budget.rs"]
mod response_budget;
#[path = "api/response_size.rs"]
mod response_size;
#[path = "api/retention.rs"]
mod retention;
#[path = "api/retries.rs"]
mod retries;
#[path = "api/shedding.rs"]
mod shedding;
#[path = "api/store_failures.rs"]
mod store_failures;
#[path = "api/stream_limits.rs"]
mod stream_limits;
#[path = "api/trace_context.rs"]
mod trace_context;
#[path = "api/waiting_claims.rs"]
mod waiting_claims;
#[path = "api/written_columns.rs"]
mod written_columns;
