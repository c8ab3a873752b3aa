//! The rules by which callers get an identity: the identities of the configuration, and the files of tokens and keys.

use std::sync::Arc;

use super::certificate_names::CertificateNames;
use super::identity::Identity;
use super::issuer::Issuer;
use super::jwks_url::PublishedKeys;
use super::jwt::Claims;
use super::patterns::{fits, fits_dns_name, fits_spiffe_id};
use super::tokens::{Token, Tokens};
use super::watched_file::{Watched, WatchedFile, text};
use crate::config;

/// The identity of credentials, or the reason why they have none.
pub(super) type Found = Result<Arc<Identity>, &'static str>;

/// The rules of a broker, until its configuration changes.
pub struct Rules {
    entries: Vec<Entry>,
    /// The identity of callers without credentials. `None`: they are refused.
    pub(super) anonymous: Option<Arc<Identity>>,
    tokens: Option<Arc<WatchedFile<Tokens>>>,
    pub(super) issuer: Option<Issuer>,
}

/// An identity with the settings that say which callers have it.
struct Entry {
    settings: config::Identity,
    identity: Arc<Identity>,
}

impl Rules {
    /// Reads the files that the configuration names. `former`: the rules until now. The used parts of
    /// its identities' limits stay used. The last usable contents of the same files, and keys that were fetched from the same address,
    /// stay in use.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why it cannot be used.
    pub(super) fn open(settings: &config::Auth, former: Option<&Self>) -> Result<Self, String> {
        let scope = settings.lease_scope;
        let entry = |settings: &config::Identity| {
            let is_same = |entry: &&Entry| entry.settings.name == settings.name;
            let former = former.and_then(|rules| rules.entries.iter().find(is_same));
            let former = former.map(|entry| &*entry.identity);
            Entry {
                settings: settings.clone(),
                identity: Arc::new(Identity::new(settings, scope, former)),
            }
        };
        let tokens = settings.tokens_file.clone().map(|path| {
            let former = former.and_then(|rules| rules.tokens.as_ref());
            let parse = |content: &[u8]| Tokens::parse(text(content)?);
            WatchedFile::open("auth.tokens_file", path, parse, former)
        });
        let issuer = settings.jwt.as_ref().map(|settings| {
            let former = former.and_then(|rules| rules.issuer.as_ref());
            Issuer::open(settings, former)
        });
        let anonymous = Identity::anonymous(&settings.anonymous, scope);
        Ok(Self {
            entries: settings.identities.iter().map(entry).collect(),
            anonymous: (!anonymous.rights.is_empty()).then(|| Arc::new(anonymous)),
            tokens: tokens.transpose()?,
            issuer: issuer.transpose()?,
        })
    }

    /// Fetches the keys of the issuer once, if they come from an address that the former rules do not name.
    ///
    /// # Errors
    /// A text with the address, and the reason why there are no keys.
    pub(super) async fn fetch_new_keys(&self, former: &Self) -> Result<(), String> {
        match (self.key_address(), former.key_address()) {
            // It can have no keys yet, or not answer now. Both are not the fault of the new rules.
            (Some(address), Some(former)) if address.url == former.url => Ok(()),
            (Some(address), _) => address.fetch_or_name().await,
            (None, _) => Ok(()),
        }
    }

    /// Returns the address that publishes the keys of the issuer. `None`: there is no issuer, or its keys come from a file.
    pub(super) fn key_address(&self) -> Option<&Arc<PublishedKeys>> {
        self.issuer.as_ref().and_then(Issuer::address)
    }

    /// Returns the parts that are read from files.
    pub(super) fn files(&self) -> Vec<Arc<dyn Watched>> {
        let tokens = self.tokens.iter();
        let tokens = tokens.map(|file| file.clone() as Arc<dyn Watched>);
        tokens
            .chain(self.issuer.iter().filter_map(Issuer::file))
            .collect()
    }

    /// Returns the identity of a certificate with these names.
    pub(super) fn of_certificate(&self, names: &CertificateNames) -> Found {
        let fits_names = |entry: &&Entry| {
            let config::Identity { spiffe, dns, .. } = &entry.settings;
            let spiffe_id = names.spiffe_id.as_deref();
            let by_spiffe = spiffe.as_ref().zip(spiffe_id);
            by_spiffe.is_some_and(|(pattern, id)| fits_spiffe_id(pattern, id))
                || dns.as_ref().is_some_and(|pattern| {
                    let mut names = names.dns_names.iter();
                    names.any(|name| fits_dns_name(pattern, name))
                })
        };
        self.find(fits_names)
            .ok_or("no identity fits the certificate")
    }

    /// Returns the identity of the token with this name in the file of tokens.
    pub(super) fn of_token_name(&self, name: &str) -> Found {
        self.find(|entry| entry.settings.token.as_deref() == Some(name))
            .ok_or("no identity has the token's name")
    }

    /// Returns the line of a static token in the file of tokens.
    pub(super) fn static_token(&self, token: &[u8]) -> Result<Token, &'static str> {
        let tokens = self.tokens.as_ref().ok_or("tokens are not configured")?;
        let tokens = tokens.current();
        tokens.find(token).cloned().ok_or("unknown token")
    }

    /// Returns the identity of a JSON Web Token with these claims.
    pub(super) fn of_claims(&self, claims: &Claims) -> Found {
        let fits_claims = |entry: &&Entry| {
            let config::Identity {
                jwt_subject,
                jwt_claims,
                ..
            } = &entry.settings;
            jwt_subject
                .as_ref()
                .is_some_and(|pattern| fits(pattern, &claims.subject))
                && jwt_claims
                    .iter()
                    .all(|(claim, value)| claims.has(claim, value))
        };
        self.find(fits_claims)
            .ok_or("no identity fits the token's claims")
    }

    fn find(&self, fits: impl FnMut(&&Entry) -> bool) -> Option<Arc<Identity>> {
        let entry = self.entries.iter().find(fits);
        entry.map(|entry| entry.identity.clone())
    }
}
