//! Migrations of the broker's own tables, `lease_broker_*`: which ones a database still needs.
//!
//! A migration is a numbered SQL file that is applied once. The table `lease_broker_migration` records each one with the
//! checksum of its text. The files never change: a database keeps the checksum of the text that it was prepared with.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::StoreError;
use crate::lease_id::Secret;
use crate::value::hex;

/// A migration that a database needs.
pub(super) struct Pending {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    /// SHA-256 of the text, in hexadecimal digits.
    pub(super) checksum: String,
}

/// Returns the migrations of `known` (name and text, in order) that are not in `applied` (name and checksum).
///
/// # Errors
/// [`StoreError::Misconfigured`] if a migration was applied with another text, or if `applied` has an unknown one, which only
/// a newer broker can have applied.
pub(super) fn pending(
    known: &[(&'static str, &'static str)],
    mut applied: BTreeMap<String, String>,
) -> Result<Vec<Pending>, StoreError> {
    let mut pending = Vec::new();
    for &(name, sql) in known {
        let checksum = hex(&Sha256::digest(sql.as_bytes()));
        match applied.remove(name) {
            Some(applied) if applied == checksum => {}
            Some(applied) => {
                return Err(StoreError::Misconfigured(format!(
                    "migration {name} was applied with another text (checksum {applied}; this build has {checksum}): another \
                     build of lease-broker prepared this database; run that build, or use another database"
                )));
            }
            None => pending.push(Pending {
                name,
                sql,
                checksum,
            }),
        }
    }
    match applied.into_keys().next_back() {
        Some(unknown) => Err(StoreError::Misconfigured(format!(
            "this database has migration {unknown}, which this build does not know: run a newer lease-broker"
        ))),
        None => Ok(pending),
    }
}

/// Returns the deployment's secret from the row of `lease_broker_meta` that holds it.
///
/// # Errors
/// [`StoreError::Misconfigured`] if the row is missing or does not have 16 bytes. Every lease id carries a tag that is computed
/// with the secret, so a new secret would invalidate all leases.
pub(super) fn secret(value: Option<&[u8]>) -> Result<Secret, StoreError> {
    let bytes = value.and_then(|value| value.try_into().ok());
    bytes.map(Secret::new).ok_or_else(|| {
        StoreError::Misconfigured(
            "lease_broker_meta has no secret of 16 bytes: restore the row \"secret\" from a backup"
                .to_owned(),
        )
    })
}
