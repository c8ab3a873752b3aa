//! Migrations of the broker's own tables, `lease_broker_*`: which ones a database still needs.
//!
//! A migration is a numbered SQL file that is applied once. The table `lease_broker_migration` records each one with the
//! checksum of its text. A published file never changes: a database that was prepared with another text is refused.
//!
//! The table also records the oldest version of lease-broker that can run on a database with the migration. An older build
//! that does not know the migration can therefore decide if it may start. So two versions can serve one database during an
//! upgrade, and an operator can go back to the older one.

use std::collections::BTreeMap;

use lease_broker_model::key::hex;
use semver::Version;
use sha2::{Digest as _, Sha256};

use super::StoreError;

/// The name of the migration that creates the table of the secrets. The store adds a [`new_secret`] in the same transaction.
pub(super) const CREATES_SECRETS: &str = "0001_broker";

/// A migration that this build knows.
pub(super) struct Migration {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    /// The oldest version of lease-broker that can run on a database with this migration.
    pub(super) oldest_reader: &'static str,
}

/// A migration that was applied to a database, as the database records it.
pub(super) struct Applied {
    pub(super) name: String,
    pub(super) checksum: String,
    /// The oldest version that can run on the database.
    pub(super) oldest_reader: String,
}

/// A migration that a database needs.
pub(super) struct Pending {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    pub(super) oldest_reader: &'static str,
    /// SHA-256 of the text, in hexadecimal digits.
    pub(super) checksum: String,
}

/// Returns the migrations of `known`, which is in order, that are not in `applied`.
///
/// # Errors
/// [`StoreError::Misconfigured`] if a migration was applied with another text, or if `applied` has an unknown migration that
/// this version cannot run with.
pub(super) fn pending(
    known: &[Migration],
    applied: impl IntoIterator<Item = Applied>,
) -> Result<Vec<Pending>, StoreError> {
    let applied = applied.into_iter();
    let mut applied: BTreeMap<String, Applied> = applied
        .map(|migration| (migration.name.clone(), migration))
        .collect();
    let mut pending = Vec::new();
    for migration in known {
        let name = migration.name;
        let checksum = hex(&Sha256::digest(migration.sql.as_bytes()));
        match applied.remove(name).map(|applied| applied.checksum) {
            Some(applied) if applied == checksum => {}
            Some(applied) => {
                return Err(StoreError::Misconfigured(format!(
                    "migration {name} was applied with another text (checksum {applied}; this build has {checksum}): a build \
                     of lease-broker that was never released prepared this database. Run that build, or use another database. \
                     Or stop every broker and drop the tables lease_broker_*, except lease_broker_added and \
                     lease_broker_fence, and run `lease-broker restore --in-place`, so that no fencing token is given twice: this build \
                     creates them again, and knows neither lease ids and request ids from before nor pauses, limits and operations"
                )));
            }
            None => pending.push(Pending {
                name,
                sql: migration.sql,
                oldest_reader: migration.oldest_reader,
                checksum,
            }),
        }
    }
    for unknown in applied.values() {
        check_readable(unknown, env!("CARGO_PKG_VERSION"))?;
    }
    Ok(pending)
}

/// Checks that version `own` can run on a database with an unknown migration.
///
/// # Errors
/// [`StoreError::Misconfigured`] if `own` is older than the migration's oldest reader, or if the database does not record a
/// valid version.
fn check_readable(unknown: &Applied, own: &str) -> Result<(), StoreError> {
    let oldest_reader = unknown.oldest_reader.as_str();
    let version = |text| Version::parse(text).ok();
    let is_readable = version(oldest_reader)
        .zip(version(own))
        .is_some_and(|(oldest_reader, own)| oldest_reader <= own);
    let name = &unknown.name;
    if is_readable {
        tracing::info!(
            migration = name,
            oldest_reader,
            "a newer version has prepared this database"
        );
        return Ok(());
    }
    Err(StoreError::Misconfigured(format!(
        "this database has migration {name}, which lease-broker {own} does not know. Oldest version that can run on it: \
         {oldest_reader}. Run a newer lease-broker"
    )))
}

/// Returns the bytes of a new secret, from a cryptographic generator.
pub(super) fn new_secret() -> [u8; 16] {
    rand::random()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(oldest_reader: &str, own: &str) -> bool {
        let unknown = Applied {
            name: "9999_future".to_owned(),
            checksum: String::new(),
            oldest_reader: oldest_reader.to_owned(),
        };
        check_readable(&unknown, own).is_ok()
    }

    #[test]
    fn versions_are_compared_by_number_and_not_as_text() {
        assert!(is_readable("0.2.0", "0.10.0"));
        assert!(!is_readable("0.10.0", "0.2.0"));
        assert!(is_readable("0.2.0", "0.2.0"));
        assert!(!is_readable("1.0.0", "0.99.9"));
        assert!(!is_readable("0.3.0", "0.3.0-alpha.1"));
        assert!(is_readable("0.3.0-alpha.1", "0.3.0"));
    }

    #[test]
    fn unknown_oldest_reader_is_refused() {
        for oldest_reader in ["", "0.2", "new"] {
            assert!(!is_readable(oldest_reader, "0.2.0"), "{oldest_reader:?}");
        }
    }

    #[test]
    fn new_secrets_differ() {
        assert_ne!(new_secret(), new_secret());
    }
}
