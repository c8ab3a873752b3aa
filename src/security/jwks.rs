//! Sets of JSON Web Keys: the public keys that an issuer publishes.
//!
//! Issuers publish keys for encryption beside those for signatures, and keys of kinds that this broker does not know. RFC 7517,
//! section 5, has such keys skipped, so that a new one does not make the others useless. A set is refused as a whole only if
//! no key is left, or if it cannot be meant as it is: with a symmetric key, the broker would know how to sign, and with two keys
//! of one name, it would have to guess which of them a token names.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey};
use lease_broker_model::text::visible;
use serde::Deserialize;
use serde_json::Value as Json;

/// The sizes of RSA keys that can be used, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// The reason why a set without any key cannot be used.
pub(super) const EMPTY_SET: &str = "the set has no key";
/// The cause of a refusal that fetching the issuer's keys again can remove.
pub(super) const UNKNOWN_KEY: &str = "unknown key";
/// The skipped keys that the log names.
const NAMED_SKIPPED: usize = 8;

/// The keys of a set that can verify signatures.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// In the order of their ids.
    usable: Vec<Key>,
    skipped: Vec<String>,
}

/// A key, and the algorithms that a token can use with it.
pub(super) struct Key {
    id: Option<String>,
    pub(super) algorithms: &'static [Algorithm],
    pub(super) decoding: DecodingKey,
    /// The numbers of the key, as published.
    numbers: [Vec<u8>; 2],
}

/// Sets are equal if they verify the same tokens.
impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        self.usable == other.usable
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, self.algorithms, &self.numbers) == (&other.id, other.algorithms, &other.numbers)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Json>,
}

/// The members of a key that matter here.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The reason why a key, or the set with it, is not used.
enum Unusable {
    Skipped(String),
    Refused(String),
}

impl Keys {
    /// Parses a set.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let set: Set = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if set.keys.is_empty() {
            return Err(EMPTY_SET.to_owned());
        }
        let mut keys = Self::default();
        for (index, json) in set.keys.into_iter().enumerate() {
            let id = json.get("kid").and_then(Json::as_str).map(str::to_owned);
            let named = |reason: &str| {
                let id = id.iter().map(|id| format!(" ({})", visible(id)));
                format!("key {}{}: {reason}", index + 1, id.collect::<String>())
            };
            match key(json) {
                Ok(key) => keys.usable.push(key),
                Err(Unusable::Skipped(reason)) => keys.skipped.push(named(&reason)),
                Err(Unusable::Refused(reason)) => return Err(named(&reason)),
            }
        }
        keys.check_ids()?;
        if keys.usable.is_empty() {
            return Err(format!("no key can be used: {}", keys.reasons()));
        }
        Ok(keys)
    }

    /// Skips keys that no token can name, and refuses two keys of one name.
    fn check_ids(&mut self) -> Result<(), String> {
        if self.usable.len() > 1 {
            let usable = std::mem::take(&mut self.usable);
            let (named, unnamed): (Vec<_>, Vec<_>) =
                usable.into_iter().partition(|key| key.id.is_some());
            self.usable = named;
            let reason = "a key without kid: no token can name it beside the others";
            let unnamed = unnamed.iter().map(|_| reason.to_owned());
            self.skipped.extend(unnamed);
        }
        self.usable.sort_by(|one, other| one.id.cmp(&other.id));
        let mut pairs = self.usable.windows(2);
        match pairs.find(|pair| pair[0].id == pair[1].id) {
            Some([Key { id: Some(id), .. }, _]) => {
                Err(format!("two keys have the kid {:?}", visible(id)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the key that a token names. A token that names none means the only key.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn find(&self, id: Option<&str>) -> Result<&Key, &'static str> {
        match (&self.usable[..], id) {
            ([key], None) => Ok(key),
            (keys, Some(id)) => {
                let mut keys = keys.iter();
                keys.find(|key| key.id.as_deref() == Some(id))
                    .ok_or(UNKNOWN_KEY)
            }
            (_, None) => Err("the token names no key"),
        }
    }

    /// Returns the number of keys in use.
    pub(super) fn len(&self) -> usize {
        self.usable.len()
    }

    /// Returns the number of keys that were skipped.
    pub(super) fn skipped(&self) -> usize {
        self.skipped.len()
    }

    /// Returns why keys were skipped.
    pub(super) fn reasons(&self) -> String {
        let more = self.skipped.len().saturating_sub(NAMED_SKIPPED);
        let named = self.skipped[..self.skipped.len() - more].join("; ");
        if more == 0 {
            return named;
        }
        format!("{named}; and {more} more")
    }

    /// Logs the keys that were skipped, in one line. `from`: the setting that names the set.
    pub(super) fn log_skipped(&self, from: &'static str) {
        if !self.skipped.is_empty() {
            let (used, skipped, reasons) = (self.len(), self.skipped(), self.reasons());
            tracing::info!(
                target: "lease_broker::audit",
                setting = from, used, skipped, %reasons, "keys skipped that cannot verify tokens"
            );
        }
    }
}

fn key(json: Json) -> Result<Key, Unusable> {
    let skipped = |reason: &str| Unusable::Skipped(reason.to_owned());
    // The error of serde would show the value, which can be a secret.
    let jwk = Jwk::deserialize(json).map_err(|_| skipped("a member is missing or malformed"))?;
    if jwk.kty == "oct" {
        let reason = "a symmetric key (oct); whoever reads the set could sign tokens";
        return Err(Unusable::Refused(reason.to_owned()));
    }
    if jwk.usage.as_ref().is_some_and(|usage| usage != "sig") {
        return Err(skipped("use is not sig"));
    }
    let is_verify = |operation: &String| operation == "verify";
    if jwk
        .key_ops
        .as_ref()
        .is_some_and(|operations| !operations.iter().any(is_verify))
    {
        return Err(skipped("key_ops has no verify"));
    }
    let part = |part: &Option<String>| {
        let bytes = part.as_ref().map(|text| URL_SAFE_NO_PAD.decode(text));
        bytes
            .and_then(Result::ok)
            .ok_or_else(|| skipped("a part of the key is not base64url"))
    };
    let (fitting, decoding, numbers): (&'static [Algorithm], _, _) =
        match (&*jwk.kty, jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (modulus, exponent) = (part(&jwk.n)?, part(&jwk.e)?);
                let bits = bits(&modulus);
                if !RSA_BITS.contains(&bits) {
                    let (least, most) = RSA_BITS.into_inner();
                    let reason = format!("RSA with {bits} bits; {least} to {most} can be used");
                    return Err(Unusable::Skipped(reason));
                }
                let decoding = DecodingKey::from_rsa_raw_components(&modulus, &exponent);
                let numbers = [modulus, exponent];
                (&[Algorithm::RS256, Algorithm::PS256], decoding, numbers)
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (part(&jwk.x)?, part(&jwk.y)?);
                if x.len() != 32 || y.len() != 32 {
                    return Err(skipped("a coordinate does not have 32 bytes"));
                }
                let point = [&[4], &x[..], &y].concat();
                let decoding = DecodingKey::from_ec_der(&point);
                (&[Algorithm::ES256], decoding, [x, y])
            }
            ("OKP", Some("Ed25519")) => {
                let x = part(&jwk.x)?;
                if x.len() != 32 {
                    return Err(skipped("the key does not have 32 bytes"));
                }
                let decoding = DecodingKey::from_ed_der(&x);
                (&[Algorithm::EdDSA], decoding, [x, Vec::new()])
            }
            ("EC" | "OKP", _) => return Err(skipped("the curve is not P-256 or Ed25519")),
            _ => return Err(skipped("kty is not RSA, EC or OKP")),
        };
    let algorithms: &'static [Algorithm] = match jwk.alg.as_deref() {
        None => fitting,
        Some("RS256") if jwk.kty == "RSA" => &[Algorithm::RS256],
        Some("PS256") if jwk.kty == "RSA" => &[Algorithm::PS256],
        Some("ES256") if jwk.kty == "EC" => fitting,
        Some("EdDSA") if jwk.kty == "OKP" => fitting,
        Some(_) => {
            return Err(skipped(
                "alg is not RS256, PS256, ES256 or EdDSA, or not of this key",
            ));
        }
    };
    Ok(Key {
        id: jwk.kid,
        algorithms,
        decoding,
        numbers,
    })
}

/// Returns the length of a number.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = &number[zeros..];
    let leading = digits.first().map_or(0, |first| first.leading_zeros());
    digits.len() * 8 - leading as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn rsa(bytes: usize) -> String {
        format!(
            r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#,
            encode(&vec![0xff; bytes])
        )
    }

    fn with(key: &str, members: &str) -> String {
        key.replacen('{', &format!("{{{members},"), 1)
    }

    fn parse(keys: &[&str]) -> Result<Keys, String> {
        Keys::parse(&format!("{{\"keys\":[{}]}}", keys.join(",")))
    }

    #[test]
    fn sets_with_the_same_keys_are_equal() {
        let [one, two] = ["1", "2"].map(|id| with(&rsa(256), &format!("\"kid\":\"{id}\"")));
        let set = |keys: &[&str]| parse(keys).expect("a set");
        let encryption = with(&rsa(256), "\"kid\":\"3\",\"use\":\"enc\"");
        assert_eq!(set(&[&one, &two]), set(&[&two, &encryption, &one]));
        assert_ne!(set(&[&one]), set(&[&two]));
        let other = with(&rsa(384), "\"kid\":\"1\"");
        assert_ne!(set(&[&one]), set(&[&other]));
        let only_pss = with(&one, "\"alg\":\"PS256\"");
        assert_ne!(set(&[&one]), set(&[&only_pss]));
    }

    #[test]
    fn sets_of_identity_providers_load() {
        for (provider, used, skipped) in [
            ("auth0", 2, 0),
            ("dex", 2, 0),
            ("entra", 3, 0),
            ("google", 2, 0),
            ("keycloak", 1, 1),
            ("okta", 1, 0),
        ] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/jwks");
            let text = std::fs::read_to_string(format!("{folder}/{provider}.json"));
            let keys = Keys::parse(&text.expect("the file")).expect(provider);
            assert_eq!(
                (keys.len(), keys.skipped()),
                (used, skipped),
                "{provider}: {keys:?}"
            );
        }
    }

    #[test]
    fn key_that_cannot_be_used_is_skipped() {
        let good = with(&rsa(256), r#""kid":"good""#);
        let point = encode(&[1; 48]);
        let p384 = format!(r#"{{"kty":"EC","crv":"P-384","x":"{point}","y":"{point}"}}"#);
        let short = r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}"#;
        for (key, reason) in [
            (&*rsa(255), "key 2: RSA with 2040 bits"),
            (&rsa(1_025), "key 2: RSA with 8200 bits"),
            (&p384, "key 2: the curve"),
            (short, "key 2: a coordinate"),
            (
                r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#,
                "key 2: the key",
            ),
            (r#"{"kty":"AKP","pub":"AAAA"}"#, "key 2: kty"),
            (r#"{"kty":"RSA","n":"AQAB"}"#, "key 2: a part"),
            (r#"{"kty":7}"#, "key 2: a member"),
            ("7", "key 2: a member"),
            (
                &with(&rsa(256), r#""kid":"e","use":"enc""#),
                "key 2 (e): use",
            ),
            (
                &with(&rsa(256), r#""kid":"w","key_ops":["wrapKey"]"#),
                "key 2 (w): key_ops",
            ),
            (
                &with(&rsa(256), r#""kid":"a","alg":"ES256""#),
                "key 2 (a): alg",
            ),
            (
                &with(&rsa(256), r#""kid":"\u001b","alg":"RSA-OAEP""#),
                r"key 2 (\u{1b}): alg",
            ),
            (&rsa(256), "a key without kid"),
        ] {
            let keys = parse(&[&good, key]).expect(key);
            assert_eq!((keys.len(), keys.skipped()), (1, 1), "{key}");
            assert!(
                keys.reasons().starts_with(reason),
                "{key}: {}",
                keys.reasons()
            );
            assert!(keys.find(Some("good")).is_ok(), "{key}");
        }
        let sign = with(&rsa(256), r#""use":"sig","key_ops":["sign","verify"]"#);
        assert_eq!(parse(&[&sign]).expect("a key").len(), 1);
    }

    #[test]
    fn set_without_a_meaning_is_refused() {
        let named = with(&rsa(256), r#""kid":"1""#);
        let enc = with(&rsa(256), r#""use":"enc""#);
        for (keys, reason) in [
            (&[][..], "the set has no key"),
            (
                &[&*named, r#"{"kty":"oct","k":"AAAA"}"#],
                "key 2: a symmetric key",
            ),
            (&[&*named, &named], "two keys have the kid \"1\""),
            (
                &[&*rsa(256), &rsa(256)],
                "no key can be used: a key without kid",
            ),
            (&[&*enc], "no key can be used: key 1: use is not sig"),
        ] {
            let error = parse(keys).expect_err(reason);
            assert!(error.starts_with(reason), "{error}");
        }
        assert!(Keys::parse("no JSON").is_err());
        assert!(Keys::parse("[]").is_err());
    }

    #[test]
    fn only_key_needs_no_name() {
        let keys = parse(&[&rsa(256), &with(&rsa(256), r#""use":"enc""#)]).expect("a key");
        assert!(keys.find(None).is_ok());
        assert_eq!(keys.find(Some("1")).err(), Some(UNKNOWN_KEY));
        let [one, two] = ["1", "2"].map(|id| with(&rsa(256), &format!(r#""kid":"{id}""#)));
        let keys = parse(&[&one, &two]).expect("keys");
        assert_eq!(keys.find(None).err(), Some("the token names no key"));
    }

    #[test]
    fn log_names_few_of_many_skipped_keys() {
        let good = with(&rsa(256), r#""kid":"good""#);
        let keys = [&[&*good][..], &["{}"; 20]].concat();
        let keys = parse(&keys).expect("a key");
        assert_eq!(keys.skipped(), 20);
        assert!(
            keys.reasons().ends_with("; and 12 more"),
            "{}",
            keys.reasons()
        );
    }
}
