//! The section `admin` of the configuration: the HTTP port for probes, metrics and operators.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use http::HeaderName;
use serde::{Deserialize, Deserializer, de::Error as _};

use super::error::InvalidSetting;
use super::{address, collector_address};

/// Settings of the admin port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The address and port to listen on. Port 0 selects a free port. `None`, written as empty text: no admin port.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    /// True: requests that change something are allowed although the port does not listen on a loopback address.
    pub allow_changes: bool,
    /// True: the port speaks TLS, with the certificate of `server.tls`.
    pub tls: bool,
    /// The address of a trace in a viewer of traces, with `{trace_id}` in place of the id. Empty: the dashboard links no traces.
    pub trace_url: String,
    /// The header in which a reverse proxy sends the token of the viewer. `None`, written as empty text: only `Authorization`.
    #[serde(deserialize_with = "optional_header")]
    pub token_header: Option<HeaderName>,
    /// The names by which clients call the port, besides its IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

impl Admin {
    /// The address of the default configuration. Several brokers on one host share it, so a broker that finds it in use
    /// takes a free port.
    pub const DEFAULT_LISTEN: SocketAddr =
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9_464));

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let is_part = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
        let is_name =
            |name: &String| !name.is_empty() && !name.ends_with('.') && name.chars().all(is_part);
        if let Some((index, name)) = self
            .hosts
            .iter()
            .enumerate()
            .find(|(_, name)| !is_name(name))
        {
            let reason = format!(
                "{name:?} is not the name of a host, without a port, such as \"broker-1.example\""
            );
            return Err(InvalidSetting::new(format!("admin.hosts[{index}]"), reason));
        }
        let url = &self.trace_url;
        let is_plain = !url.contains(|character: char| character.is_control() || character == ' ');
        let names_a_trace = url.contains("{trace_id}");
        if url.is_empty() || (is_plain && names_a_trace && collector_address::is_address(url)) {
            return Ok(());
        }
        let reason = format!(
            "{url:?} is not an address such as \"https://jaeger.example/trace/{{trace_id}}\"; \"\" turns the links off"
        );
        Err(InvalidSetting::new("admin.trace_url", reason))
    }

    /// Returns whether requests that change something are allowed without identities.
    pub fn allows_changes(&self) -> bool {
        let is_loopback = self
            .listen
            .is_none_or(|listen| listen.ip().to_canonical().is_loopback());
        self.allow_changes || is_loopback
    }
}

fn optional_address<'de, D: Deserializer<'de>>(input: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    let listen = address::parse(&text).map(Some);
    listen.map_err(|problem| D::Error::custom(format!("{problem}; \"\" turns the admin port off")))
}

fn optional_header<'de, D: Deserializer<'de>>(input: D) -> Result<Option<HeaderName>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    let name = HeaderName::try_from(&text);
    name.map(Some)
        .map_err(|_| D::Error::custom(format!("{text:?} is not the name of a header")))
}

#[cfg(test)]
mod tests {
    use crate::config::Sources;

    use super::Admin;

    #[test]
    fn mapped_loopback_address_allows_changes() {
        for (listen, allowed) in [
            ("[::ffff:127.0.0.1]:0", true),
            ("[::ffff:10.0.0.1]:0", false),
        ] {
            let text = format!("admin.listen = '{listen}'");
            let config = Sources::default().load_text(&text).expect("valid");
            assert_eq!(config.admin.allows_changes(), allowed, "{listen}");
        }
    }

    #[test]
    fn constant_is_the_default_of_the_configuration() {
        let config = Sources::default().load().expect("valid");
        assert_eq!(config.admin.listen, Some(Admin::DEFAULT_LISTEN));
    }
}
