//! Tests of the SQLite store that read its internal statements.

mod query_plans;
