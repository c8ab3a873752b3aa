//! What the test files share.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod api_error;
pub(crate) mod client;
pub(crate) mod database;
pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod timeout;
