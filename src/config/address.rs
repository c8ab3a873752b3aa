//! Addresses to listen on. They are written as an IP address and a port, such as `127.0.0.1:50051`, or as `localhost` and a
//! port.

use std::net::{Ipv4Addr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Reads an address.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<SocketAddr, D::Error> {
    parse(&String::deserialize(input)?).map_err(D::Error::custom)
}

/// Parses an address. Names other than `localhost` are refused: a name can have several addresses, and others later.
///
/// # Errors
/// A message that quotes the text.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Some(("localhost", port)) = text.split_once(':')
        && let Ok(port) = port.parse()
    {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not an IP address and a port, such as 127.0.0.1:50051, localhost:50051, 0.0.0.0:50051 (all IPv4 \
             addresses of this host) or [::]:50051 (all addresses)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_the_loopback_address() {
        assert_eq!(parse("localhost:80"), Ok(([127, 0, 0, 1], 80).into()));
        assert_eq!(parse("[::1]:80").map(|address| address.port()), Ok(80));
        for wrong in ["localhost", "localhost:", "host:80", ":80", "127.0.0.1"] {
            let error = parse(wrong).expect_err(wrong);
            assert!(
                error.starts_with(&format!("{wrong:?} is not an IP")),
                "{error}"
            );
        }
    }
}
