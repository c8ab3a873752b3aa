//! Hosts of addresses that reach this host alone.

use std::net::IpAddr;

/// Returns whether a host is `localhost` or an address on loopback. IPv6 addresses may have brackets. Another name could get another
/// address.
pub(crate) fn is_this_host(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_address_alone() {
        for host in [
            "localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_this_host(host), "{host}");
        }
        for host in ["", "collector", "localhost.example", "10.0.0.1", "[::]"] {
            assert!(!is_this_host(host), "{host}");
        }
    }
}
