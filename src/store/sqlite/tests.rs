//! Tests of the SQLite store that read its internal statements.

mod group_plans;
mod query_plans;
