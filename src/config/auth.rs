//! The section `auth` of the configuration: who may call the broker, and what they may do.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use lease_broker_model::named_enum;
use serde::Deserialize;

use super::error::InvalidSetting;
use super::jwt::Jwt;
use super::range::check_between;

/// Settings of identities and roles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// A file with the hashes of tokens, one `name:sha256` or `name:sha256:not_after` per line. `None`: no tokens.
    pub tokens_file: Option<PathBuf>,
    /// The roles of a caller without credentials, on all queues.
    #[serde(default)]
    pub anonymous: Vec<Role>,
    /// The callers that can use a lease id.
    #[serde(default)]
    pub lease_scope: LeaseScope,
    /// JSON Web Tokens. `None`: they are refused.
    pub jwt: Option<Jwt>,
    /// The identities. The first that fits a caller is the caller's.
    #[serde(default)]
    pub identities: Vec<Identity>,
}

named_enum! {
    /// A set of rpcs that a caller may send. The table is in `docs/security.md`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// Claims items, and extends and settles leases.
        Worker = "worker",
        /// Adds items.
        Producer = "producer",
        /// Looks at queues.
        Observer = "observer",
        /// Looks at queues and operates them: pauses, redrives, cancels leases.
        Operator = "operator",
        /// Everything.
        Admin = "admin",
    }
}

/// The callers that can use a lease id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseScope {
    /// The identity that claimed the lease.
    #[default]
    Identity,
    /// Every identity with the role for the queue.
    Queue,
}

/// An identity: its name, the callers that have it, and their rights. Exactly one of `spiffe`, `dns`, `token` and
/// `jwt_subject` is set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The name in the log, and in the signature of lease ids. 1 to 128 characters.
    pub name: String,
    /// Names that the identity had before, the oldest first. Leases and request ids of calls under them stay valid.
    #[serde(default)]
    pub formerly: Vec<String>,
    /// A pattern for the SPIFFE id in the caller's certificate. `*` fits inside one segment, a trailing `/**` fits the rest.
    pub spiffe: Option<String>,
    /// A pattern for a DNS name in the caller's certificate. `*` fits inside one label.
    pub dns: Option<String>,
    /// The name of a token in `tokens_file`.
    pub token: Option<String>,
    /// A pattern for the claim `sub` of a JSON Web Token. `*` fits any characters.
    pub jwt_subject: Option<String>,
    /// Further claims of the JSON Web Token. Each must have the value, or be a list that contains it.
    #[serde(default)]
    pub jwt_claims: BTreeMap<String, String>,
    /// Each role with patterns for the queues on which the caller has it. `*` fits any characters.
    #[serde(default)]
    pub roles: BTreeMap<Role, Vec<String>>,
    /// The identity's share of the broker.
    #[serde(default)]
    pub limits: IdentityLimits,
}

/// The limits of all callers with one identity together, on one broker. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityLimits {
    /// Calls per second. 1 to 1,000,000. One second's calls can come at once.
    pub calls_per_second: Option<u32>,
    /// Items that Enqueue calls and follow-ups add per second. 1 to 10,000,000. One second's items can come at once, and always
    /// those of the largest Enqueue call.
    pub enqueued_items_per_second: Option<u32>,
    /// Claims that wait for an item. Further claims are answered without waiting, with a `retry_after` if they get no lease. 1 to
    /// 1,048,576.
    pub waiting_claims: Option<u32>,
}

impl Auth {
    /// Checks the section. `has_client_certificates`: callers can have certificates.
    pub(super) fn check(&self, has_client_certificates: bool) -> Result<(), InvalidSetting> {
        if let Some(jwt) = &self.jwt {
            jwt.check()?;
        }
        let mut names = HashSet::new();
        let mut patterns = HashSet::new();
        for (index, identity) in self.identities.iter().enumerate() {
            let key = |name: &str| format!("auth.identities[{index}].{name}");
            identity.check(&key)?;
            for name in std::iter::once(&identity.name).chain(&identity.formerly) {
                if !names.insert(name) {
                    let reason = format!("{name:?} is the name of another identity already");
                    return Err(InvalidSetting::new(key("name"), reason));
                }
            }
            let (kind, pattern) = identity.pattern(&key)?;
            if !patterns.insert((kind, pattern, &identity.jwt_claims)) {
                let reason =
                    format!("{pattern:?} is in another identity already, which decides for it");
                return Err(InvalidSetting::new(key(kind), reason));
            }
            let missing = match kind {
                "token" => self.tokens_file.is_none().then_some("auth.tokens_file"),
                "jwt_subject" => self.jwt.is_none().then_some("the section [auth.jwt]"),
                _ => (!has_client_certificates).then_some("server.tls.client_authorities"),
            };
            if let Some(missing) = missing {
                return Err(InvalidSetting::new(key(kind), format!("needs {missing}")));
            }
        }
        Ok(())
    }
}

impl Identity {
    fn check(&self, key: &dyn Fn(&str) -> String) -> Result<(), InvalidSetting> {
        for name in std::iter::once(&self.name).chain(&self.formerly) {
            if name.is_empty() || name.chars().count() > 128 {
                return Err(InvalidSetting::new(
                    key("name"),
                    "must have 1 to 128 characters",
                ));
            }
        }
        for (role, patterns) in &self.roles {
            if patterns.iter().any(String::is_empty) {
                return Err(InvalidSetting::new(
                    key(&format!("roles.{}", role.name())),
                    "a pattern is empty; \"*\" stands for all queues",
                ));
            }
        }
        if !self.jwt_claims.is_empty() && self.jwt_subject.is_none() {
            return Err(InvalidSetting::new(key("jwt_claims"), "needs jwt_subject"));
        }
        let limits = &self.limits;
        for (name, value, max) in [
            ("calls_per_second", limits.calls_per_second, 1_000_000),
            (
                "enqueued_items_per_second",
                limits.enqueued_items_per_second,
                10_000_000,
            ),
            ("waiting_claims", limits.waiting_claims, 1 << 20),
        ] {
            if let Some(value) = value {
                let value = usize::try_from(value).unwrap_or(usize::MAX);
                check_between(key(&format!("limits.{name}")), value, 1, max)?;
            }
        }
        Ok(())
    }

    /// Returns the one setting that says which callers have the identity: its name and its value.
    fn pattern(
        &self,
        key: &dyn Fn(&str) -> String,
    ) -> Result<(&'static str, &String), InvalidSetting> {
        let given: Vec<_> = [
            ("spiffe", &self.spiffe),
            ("dns", &self.dns),
            ("token", &self.token),
            ("jwt_subject", &self.jwt_subject),
        ]
        .into_iter()
        .filter_map(|(kind, pattern)| Some((kind, pattern.as_ref()?)))
        .collect();
        let [(kind, pattern)] = given[..] else {
            return Err(InvalidSetting::new(
                key("name"),
                "set exactly one of spiffe, dns, token and jwt_subject",
            ));
        };
        let is_valid = match kind {
            "spiffe" => is_spiffe_pattern(pattern),
            _ => !pattern.is_empty(),
        };
        if kind == "token" && looks_like_token(pattern) {
            return Err(InvalidSetting::new(
                key(kind),
                "is a token itself; write the name that auth.tokens_file has for it, and make a new token, because this one can be read here",
            ));
        }
        if !is_valid {
            let reason = match kind {
                "spiffe" => "must be spiffe://TRUST-DOMAIN/PATH; only the path can have *",
                _ => "must not be empty",
            };
            return Err(InvalidSetting::new(key(kind), reason));
        }
        Ok((kind, pattern))
    }
}

/// Returns whether a text has the form of a token that `lease-broker token new` makes.
fn looks_like_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let random = text.strip_prefix("lb_");
    random.is_some_and(|random| random.len() == 43 && random.bytes().all(is_of_token))
}

fn is_spiffe_pattern(pattern: &str) -> bool {
    let rest = pattern.strip_prefix("spiffe://");
    rest.and_then(|rest| rest.split_once('/'))
        .is_some_and(|(domain, path)| {
            !domain.is_empty() && !domain.contains('*') && !path.is_empty()
        })
}
