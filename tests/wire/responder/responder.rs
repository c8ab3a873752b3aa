//! A scripted server that speaks TDS on loopback: as much of it as a broker needs, and what a broken server does.

pub(crate) mod certificate;
mod connection;
pub(crate) mod log;
mod packet;
pub(crate) mod request;
pub(crate) mod script;
pub(crate) mod server;
mod tls;
pub(crate) mod tokens;
