//! The section `auth.jwt` of the configuration: the issuer of JSON Web Tokens.

use std::path::PathBuf;

use http::Uri;
use serde::Deserialize;

use super::error::InvalidSetting;
use super::this_host::is_this_host;

/// Settings of JSON Web Tokens. Exactly one of `jwks_file` and `jwks_url` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// A file with the public keys of the issuer, in the format JWKS. Another program keeps it up to date.
    pub jwks_file: Option<PathBuf>,
    /// The address at which the issuer publishes its keys.
    pub jwks_url: Option<String>,
    /// A PEM file with the authorities that sign the certificate of that address. `None`: those of the system.
    pub jwks_ca_file: Option<PathBuf>,
    /// The claim `iss` of every token.
    pub issuer: String,
    /// The claim `aud` of every token, or one of its values.
    pub audience: String,
}

impl Jwt {
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        for (key, text) in [("issuer", &self.issuer), ("audience", &self.audience)] {
            if text.is_empty() {
                let key = format!("auth.jwt.{key}");
                return Err(InvalidSetting::new(key, "must not be empty"));
            }
        }
        if self.jwks_file.is_some() == self.jwks_url.is_some() {
            let reason = "set exactly one of jwks_file and jwks_url";
            return Err(InvalidSetting::new("auth.jwt.jwks_file", reason));
        }
        match &self.jwks_url {
            Some(url) if !is_secure(url) => Err(InvalidSetting::new(
                "auth.jwt.jwks_url",
                "must be an address as https://issuer.example/keys, without a password; http only with a host on loopback",
            )),
            None if self.jwks_ca_file.is_some() => Err(InvalidSetting::new(
                "auth.jwt.jwks_ca_file",
                "needs jwks_url, whose certificate it is for",
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether the keys come from a program on this host, without TLS.
    pub fn is_local(&self) -> bool {
        let uri = self
            .jwks_url
            .as_ref()
            .and_then(|url| url.parse::<Uri>().ok());
        uri.is_some_and(|uri| uri.scheme_str() == Some("http"))
    }
}

/// Returns whether nobody on the way to this address can change the answer.
fn is_secure(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return false;
    };
    let host = authority.host();
    let has_login = authority.as_str().contains('@');
    !host.is_empty() && !has_login && (scheme == "https" || scheme == "http" && is_this_host(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_this_host() {
        for url in [
            "https://issuer.example/keys",
            "https://issuer.example:8443/realms/a/protocol/openid-connect/certs?x=1",
            "http://127.0.0.1:8080/keys",
            "http://[::1]/keys",
            "http://localhost/keys",
        ] {
            assert!(is_secure(url), "{url}");
        }
        for url in [
            "",
            "/keys",
            "issuer.example/keys",
            "http://issuer.example/keys",
            "http://127.0.0.1.evil.example/keys",
            "http://localhost.evil.example/keys",
            "https://user:password@issuer.example/keys",
            "http://127.0.0.1@evil.example/keys",
            "ftp://127.0.0.1/keys",
            "file:///keys",
        ] {
            assert!(!is_secure(url), "{url}");
        }
    }
}
