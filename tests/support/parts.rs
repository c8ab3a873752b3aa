//! What the test files share.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod client;
pub(crate) mod database;
pub(crate) mod patience;
pub(crate) mod process;
pub(crate) mod refusal;
pub(crate) mod server;
