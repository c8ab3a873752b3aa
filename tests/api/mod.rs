//! The gRPC API, tested through a real socket with an embedded `SQLite` file as the store.
//!
//! Covers each rpc, each error, waiting claims, deadlines, cancellation, draining, health checks and reflection.

mod applied;
mod basic_calls;
mod budgets;
mod cancel_leases;
mod cancellation;
mod checkpoints;
mod clock_steps;
mod connections;
mod deadlines;
mod draining;
mod enqueue_once;
mod fairness;
mod groups;
mod health;
mod incomplete_requests;
mod invalid_fields;
mod isolation;
mod lease_ids;
mod limits;
mod newer_operations;
mod next_claims;
mod operators;
mod outcomes;
mod pauses;
mod rejected_calls;
mod request_ids;
mod response_budget;
mod response_size;
mod retention;
mod retries;
mod running_operations;
mod shedding;
mod store_failures;
mod stream_limits;
mod trace_context;
mod unsent_answers;
mod waiting_claims;
mod written_columns;
