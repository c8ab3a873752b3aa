//! A scripted server that speaks TDS on loopback. It supports the part of TDS that a broker uses, and it can misbehave.

pub(crate) mod certificate;
mod connection;
pub(crate) mod log;
mod packet;
pub(crate) mod request;
pub(crate) mod script;
pub(crate) mod server;
mod tls;
pub(crate) mod tokens;
