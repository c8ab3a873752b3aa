//! JSON Web Tokens: the checks of a token.
//!
//! The algorithm comes from the key and never from the token alone. A key is used only with algorithms that fit its kind, so
//! a token cannot ask for a weaker one. `jsonwebtoken` checks the signature. The header and the claims are checked here, because
//! the crate accepts what RFC 7515 and RFC 7519 do not: critical extensions that it does not know, several issuers, names that
//! appear twice.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value as Json};

use super::jwks::Keys;
use crate::config;
use crate::json_object::UniqueObject;

/// The difference between the clocks of issuer and broker that is tolerated.
const LEEWAY: Duration = Duration::from_secs(30);
/// The longest time until a token ends.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3_600);
/// The types of tokens that prove a login: those of RFC 7519 and RFC 9068. Others, such as `logout+jwt`, say something else.
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// The claims of a token that was verified.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) expiry: SystemTime,
    all: Map<String, Json>,
}

impl Claims {
    /// Returns whether a claim has this value or is a list that contains it.
    pub(super) fn has(&self, claim: &str, value: &str) -> bool {
        has(self.all.get(claim), value)
    }
}

/// Checks a token. Returns its claims.
///
/// # Errors
/// The cause, for the log of the broker.
pub(super) fn verify(
    token: &[u8],
    keys: &Keys,
    settings: &config::Jwt,
    now: SystemTime,
) -> Result<Claims, &'static str> {
    let token = str::from_utf8(token).map_err(|_| MALFORMED)?;
    let (signed, signature) = token.rsplit_once('.').ok_or(MALFORMED)?;
    let (header, claims) = signed.split_once('.').ok_or(MALFORMED)?;
    let header = object(header)?;
    // The broker knows no extension, so each is one that it must not ignore.
    if header.contains_key("crit") {
        return Err("the token needs an extension that is not known (crit)");
    }
    if let Some(kind) = text(&header, "typ")? {
        let kind = kind.to_ascii_lowercase();
        let kind = kind.strip_prefix("application/").unwrap_or(&kind);
        if !TYPES.contains(&kind) {
            return Err("the token is not for logins (typ)");
        }
    }
    let key = keys.find(text(&header, "kid")?)?;
    let algorithm = text(&header, "alg")?.and_then(algorithm);
    let algorithm = algorithm
        .filter(|algorithm| key.algorithms.contains(algorithm))
        .ok_or("the algorithm does not fit the key")?;
    let verified =
        jsonwebtoken::crypto::verify(signature, signed.as_bytes(), &key.decoding, algorithm);
    match verified {
        Ok(true) => {}
        Ok(false) => return Err("wrong signature"),
        Err(_) => return Err(MALFORMED),
    }
    check(object(claims)?, settings, now)
}

/// Checks the claims of a token with a valid signature.
fn check(
    all: Map<String, Json>,
    settings: &config::Jwt,
    now: SystemTime,
) -> Result<Claims, &'static str> {
    if text(&all, "iss")? != Some(&*settings.issuer) {
        return Err("wrong issuer");
    }
    if !has(all.get("aud"), &settings.audience) {
        return Err("wrong audience");
    }
    let subject = text(&all, "sub")?
        .ok_or("the claim sub is missing")?
        .to_owned();
    let expiry = time(&all, "exp")?.ok_or("the claim exp is missing")?;
    if after(expiry, LEEWAY) <= now {
        return Err("expired token");
    }
    if expiry > after(now, MAX_LIFETIME + LEEWAY) {
        return Err("the token ends more than 24 h from now");
    }
    if time(&all, "nbf")?.is_some_and(|start| start > after(now, LEEWAY)) {
        return Err("the token is not valid yet");
    }
    Ok(Claims {
        subject,
        expiry,
        all,
    })
}

const MALFORMED: &str = "malformed token";

fn object(part: &str) -> Result<Map<String, Json>, &'static str> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED)?;
    let object: UniqueObject = serde_json::from_slice(&json).map_err(|_| MALFORMED)?;
    Ok(object.0)
}

/// Returns a member that must be a text. `None`: it is absent.
fn text<'a>(object: &'a Map<String, Json>, name: &str) -> Result<Option<&'a str>, &'static str> {
    let member = object.get(name);
    member
        .map(|member| member.as_str().ok_or(MALFORMED))
        .transpose()
}

/// Returns a member that must be a number of seconds since 1970, whole or not. `None`: it is absent.
fn time(object: &Map<String, Json>, name: &str) -> Result<Option<SystemTime>, &'static str> {
    let Some(member) = object.get(name) else {
        return Ok(None);
    };
    let seconds = member.as_f64().ok_or(MALFORMED)?;
    // A time before 1970 is over like 1970. One that a clock cannot show is refused.
    let since = Duration::try_from_secs_f64(seconds.max(0.0)).map_err(|_| MALFORMED)?;
    let time = UNIX_EPOCH.checked_add(since).ok_or(MALFORMED)?;
    Ok(Some(time))
}

/// Returns a time and a duration after it. The largest times stay as they are.
fn after(time: SystemTime, duration: Duration) -> SystemTime {
    time.checked_add(duration).unwrap_or(time)
}

/// Returns whether a claim has this value or is a list that contains it.
fn has(claim: Option<&Json>, value: &str) -> bool {
    match claim {
        Some(Json::Array(values)) => values.iter().any(|one| one.as_str() == Some(value)),
        Some(one) => one.as_str() == Some(value),
        None => false,
    }
}

fn algorithm(name: &str) -> Option<Algorithm> {
    match name {
        "RS256" => Some(Algorithm::RS256),
        "PS256" => Some(Algorithm::PS256),
        "ES256" => Some(Algorithm::ES256),
        "EdDSA" => Some(Algorithm::EdDSA),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: u64 = 1_800_000_000;

    /// Checks the claims of a valid token after `change`.
    fn checked(change: impl FnOnce(&mut Json)) -> Result<Claims, &'static str> {
        let settings = config::Jwt {
            issuer: "issuer".to_owned(),
            audience: "broker".to_owned(),
            ..config::Jwt::default()
        };
        let mut claims = json!({"iss": "issuer", "aud": "broker", "sub": "me", "exp": NOW + 600});
        change(&mut claims);
        let Json::Object(claims) = claims else {
            unreachable!("an object");
        };
        check(claims, &settings, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn with(claim: &str, value: Json) -> Result<Claims, &'static str> {
        checked(|claims| claims[claim] = value)
    }

    #[test]
    fn expiry_can_have_a_fraction() {
        let claims = with("exp", json!(1_800_000_599.5)).expect("valid");
        let left = claims.expiry.duration_since(UNIX_EPOCH).expect("a time");
        assert_eq!(left, Duration::from_millis(1_800_000_599_500));
    }

    #[test]
    fn expiry_must_be_within_a_day() {
        let day = 24 * 3_600;
        for (exp, is_valid) in [
            (json!(NOW - 29), true),
            (json!(NOW - 30), false),
            (json!(NOW + day + 30), true),
            (json!(NOW + day + 31), false),
            (json!(1_u64 << 63), false),
            (json!(u64::MAX), false),
            (json!(1e300), false),
            (json!(-1), false),
            (json!(i64::MIN), false),
            (json!((NOW + 600).to_string()), false),
            (Json::Null, false),
        ] {
            assert_eq!(with("exp", exp.clone()).is_ok(), is_valid, "{exp}");
        }
        for nbf in [json!(NOW + 31), json!("0"), json!(1e300), Json::Null] {
            assert!(with("nbf", nbf.clone()).is_err(), "{nbf}");
        }
        with("nbf", json!(1_800_000_029.5)).expect("valid");
    }

    #[test]
    fn issuer_is_one_text_and_audience_can_be_a_list() {
        assert_eq!(with("iss", json!(["issuer"])).err(), Some(MALFORMED));
        assert_eq!(with("iss", json!("other")).err(), Some("wrong issuer"));
        with("aud", json!(["other", "broker"])).expect("valid");
        assert!(with("aud", json!(["other"])).is_err());
        assert!(with("aud", json!({"broker": 1})).is_err());
        assert!(with("sub", json!(["me"])).is_err());
        for claim in ["iss", "aud", "sub", "exp"] {
            let without = checked(|claims| {
                claims.as_object_mut().expect("claims").remove(claim);
            });
            assert!(without.is_err(), "{claim}");
        }
    }
}
