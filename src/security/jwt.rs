//! JSON Web Tokens: the keys that may sign them, and the checks of a token.
//!
//! The algorithm comes from the key and never from the token alone. A key is used only with algorithms that fit its kind, so
//! a token cannot ask for a weaker one. Keys for symmetric algorithms are refused: the broker would know how to sign.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::config;

/// The difference between the clocks of issuer and broker that is tolerated.
const LEEWAY: Duration = Duration::from_secs(30);
/// The longest time until a token ends.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3_600);
/// The smallest RSA key, in bits.
const MIN_RSA_BITS: usize = 2_048;

/// The public keys of an issuer.
#[derive(Debug)]
pub(super) struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    algorithms: &'static [Algorithm],
    decoding: DecodingKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The claims of a token that was verified.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub(super) sub: String,
    exp: u64,
    #[serde(flatten)]
    others: BTreeMap<String, Json>,
}

impl Claims {
    /// Returns whether a claim has this value or is a list that contains it.
    pub(super) fn has(&self, claim: &str, value: &str) -> bool {
        match self.others.get(claim) {
            Some(Json::Array(values)) => values.iter().any(|one| one.as_str() == Some(value)),
            Some(one) => one.as_str() == Some(value),
            None => false,
        }
    }

    /// Returns the time at which the token ends.
    pub(super) fn expiry(&self) -> SystemTime {
        UNIX_EPOCH
            .checked_add(Duration::from_secs(self.exp))
            .unwrap_or(UNIX_EPOCH)
    }
}

impl Keys {
    /// Parses a JWKS file.
    ///
    /// # Errors
    /// The first key that cannot be used, and the reason.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if set.keys.is_empty() {
            return Err("the file has no key".to_owned());
        }
        let several = set.keys.len() > 1;
        let keys = set.keys.iter().enumerate().map(|(index, jwk)| {
            let key = key(jwk, several);
            key.map_err(|reason| format!("key {}: {reason}", index + 1))
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// Checks a token. Returns its claims.
    ///
    /// # Errors
    /// The cause, for the log of the broker.
    pub(super) fn verify(
        &self,
        token: &[u8],
        settings: &config::Jwt,
        now: SystemTime,
    ) -> Result<Claims, &'static str> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| "malformed token")?;
        let key = match (&self.0[..], &header.kid) {
            ([key], None) => key,
            (keys, Some(id)) => {
                let found = keys.iter().find(|key| key.id.as_ref() == Some(id));
                found.ok_or("unknown key")?
            }
            _ => return Err("the token names no key"),
        };
        if !key.algorithms.contains(&header.alg) {
            return Err("the algorithm does not fit the key");
        }
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let decoded = jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation);
        let claims = decoded.map_err(|error| cause(error.kind()))?.claims;
        let latest = now.checked_add(MAX_LIFETIME + LEEWAY).unwrap_or(now);
        if claims.expiry() > latest {
            return Err("the token ends more than 24 h from now");
        }
        Ok(claims)
    }
}

fn cause(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::InvalidSignature => "wrong signature",
        ErrorKind::ExpiredSignature => "expired token",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "wrong issuer",
        ErrorKind::InvalidAudience => "wrong audience",
        ErrorKind::MissingRequiredClaim(_) => "a claim of exp, iss, aud and sub is missing",
        _ => "malformed token",
    }
}

fn key(jwk: &Jwk, several: bool) -> Result<Key, String> {
    let id = jwk.common.key_id.clone();
    if several && id.is_none() {
        return Err("kid is missing; it is needed if the file has more than one key".to_owned());
    }
    let fitting: &'static [Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let bits = rsa_bits(&rsa.n).ok_or("the modulus is not base64url")?;
            if bits < MIN_RSA_BITS {
                return Err(format!(
                    "RSA with {bits} bits; at least {MIN_RSA_BITS} are needed"
                ));
            }
            &[Algorithm::RS256, Algorithm::PS256]
        }
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            &[Algorithm::ES256]
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        AlgorithmParameters::OctetKey(_) => {
            return Err(
                "a symmetric key (oct); whoever reads the file could sign tokens".to_owned(),
            );
        }
        _ => return Err("the curve is not supported; use P-256 or Ed25519".to_owned()),
    };
    let algorithms = match jwk.common.key_algorithm {
        None => fitting,
        Some(KeyAlgorithm::RS256) if fitting.len() == 2 => &[Algorithm::RS256],
        Some(KeyAlgorithm::PS256) if fitting.len() == 2 => &[Algorithm::PS256],
        Some(KeyAlgorithm::ES256) if fitting == [Algorithm::ES256] => fitting,
        Some(KeyAlgorithm::EdDSA) if fitting == [Algorithm::EdDSA] => fitting,
        Some(_) => {
            return Err("alg must be RS256, PS256, ES256 or EdDSA, and fit the key".to_owned());
        }
    };
    let decoding = DecodingKey::from_jwk(jwk).map_err(|error| error.to_string())?;
    Ok(Key {
        id,
        algorithms,
        decoding,
    })
}

/// Returns the length of a modulus.
fn rsa_bits(modulus: &str) -> Option<usize> {
    let bytes = URL_SAFE_NO_PAD.decode(modulus).ok()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let first = bytes.get(zeros)?;
    Some((bytes.len() - zeros) * 8 - first.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(keys: &str) -> String {
        Keys::parse(&format!("{{\"keys\":[{keys}]}}")).expect_err(keys)
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused() {
        let modulus = |bytes: usize| URL_SAFE_NO_PAD.encode(vec![0xff; bytes]);
        let rsa = |bytes| format!(r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#, modulus(bytes));
        let point = modulus(48);
        let p384 = format!(r#"{{"kty":"EC","crv":"P-384","x":"{point}","y":"{point}"}}"#);
        let several = format!("{},{}", rsa(256), rsa(256));
        let wrong_algorithm = rsa(256).replace('{', r#"{"alg":"ES256","#);
        for (keys, reason) in [
            ("", "the file has no key"),
            (r#"{"kty":"oct","k":"AAAA"}"#, "key 1: a symmetric key"),
            (&rsa(255), "key 1: RSA with 2040 bits"),
            (&p384, "key 1: the curve"),
            (&several, "key 1: kid is missing"),
            (&wrong_algorithm, "key 1: alg must be"),
        ] {
            let error = refused(keys);
            assert!(error.starts_with(reason), "{keys}: {error}");
        }
        assert!(Keys::parse("no JSON").is_err());
        Keys::parse(&format!("{{\"keys\":[{}]}}", rsa(256))).expect("a key");
    }
}
