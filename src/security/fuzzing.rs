//! Entry points for fuzzing: what issuers, operators and callers send. They panic if a property does not hold.

use std::sync::LazyLock;
use std::time::SystemTime;

use lease_broker_model::text::visible;
use rustls::pki_types::CertificateDer;

use super::certificate_names::CertificateNames;
use super::jwks::Keys;
use super::jwt;
use super::patterns::fits_spiffe_id;
use super::spiffe::trust_domain;
use super::tokens::Tokens;
use crate::config;

/// Parses a set of keys. One that is accepted has a key, and what is logged of it hides no character.
pub(crate) fn key_set(text: &str) {
    match Keys::parse(text) {
        Ok(keys) => {
            assert!(keys.len() > 0);
            let reasons = keys.reasons();
            assert_eq!(visible(&reasons), reasons);
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}

/// Checks a token. Nobody has the key that could sign one.
pub(crate) fn token(token: &[u8]) {
    static KEYS: LazyLock<Option<Keys>> = LazyLock::new(|| {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"1","x":"{x}"}}]}}"#);
        Keys::parse(&set).ok()
    });
    let settings = config::Jwt {
        issuer: "issuer".to_owned(),
        audience: "broker".to_owned(),
        ..config::Jwt::default()
    };
    let keys = KEYS.as_ref();
    let verified = keys.map(|keys| jwt::verify(token, keys, &settings, SystemTime::now()));
    assert!(matches!(verified, Some(Err(_))), "{verified:?}");
}

/// Parses a file of tokens. An error does not show a line, which can be a token.
pub(crate) fn tokens_file(text: &str) {
    match Tokens::parse(text) {
        Ok(tokens) => assert!(tokens.iter().all(|token| !token.name.is_empty())),
        Err(reason) => {
            let secret = |line: &&str| line.len() > 40 && reason.contains(line);
            assert_eq!(text.lines().map(str::trim).find(secret), None);
        }
    }
}

/// Reads a text as a SPIFFE id and, before the first end of a line, a pattern for it. Reads the bytes as a certificate too.
pub(crate) fn spiffe_names(data: &[u8]) {
    let _ = CertificateNames::of(&CertificateDer::from(data));
    let Some((pattern, id)) = str::from_utf8(data)
        .ok()
        .and_then(|text| text.split_once('\n'))
    else {
        return;
    };
    if let Some(domain) = trust_domain(id) {
        assert!(id.starts_with(&format!("spiffe://{domain}/")), "{id}");
        assert!(fits_spiffe_id(id, id), "{id}");
        if fits_spiffe_id(pattern, id) && !pattern.contains('*') {
            assert_eq!(pattern, id);
        }
    }
}
