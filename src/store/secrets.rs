//! The secrets of a deployment, as both stores read them from the table `lease_broker_secret`.

use std::time::Duration;

use lease_broker_model::lease_id::{Secret, SigningSecrets, StoredSecret};

use super::StoreError;

/// Returns a secret with its number. `age_millis`: the time since it was made.
///
/// # Errors
/// [`StoreError::Misconfigured`] if the row does not have a number below 256 and 16 bytes.
pub(super) fn stored_secret(
    number: i64,
    bytes: &[u8],
    age_millis: i64,
    is_retired: bool,
) -> Result<StoredSecret, StoreError> {
    let secret = u8::try_from(number)
        .ok()
        .zip(<[u8; 16]>::try_from(bytes).ok());
    let (number, bytes) = secret.ok_or_else(|| {
        StoreError::Misconfigured(format!(
            "lease_broker_secret has a row with id {number} and {} bytes; a secret has 16 bytes: restore the table from a backup",
            bytes.len()
        ))
    })?;
    Ok(StoredSecret {
        number,
        secret: Secret::new(bytes),
        age: Duration::from_millis(u64::try_from(age_millis).unwrap_or(0)),
        is_retired,
    })
}

/// Returns secret 0.
///
/// # Errors
/// [`StoreError::Misconfigured`] if it is missing.
pub(super) fn first_secret(stored: &[StoredSecret]) -> Result<Secret, StoreError> {
    let first = stored.iter().find(|secret| secret.number == 0);
    first.map(|first| first.secret).ok_or_else(|| {
        StoreError::Misconfigured(
            "lease_broker_secret has no secret 0 of 16 bytes: restore the row with id 0 from a backup"
                .to_owned(),
        )
    })
}

/// Takes over the secrets that were read.
///
/// # Errors
/// Those of [`first_secret`].
pub(super) fn replace(secrets: &SigningSecrets, stored: &[StoredSecret]) -> Result<(), StoreError> {
    first_secret(stored)?;
    secrets.replace(stored);
    Ok(())
}

/// Returns the error if every number is in use.
pub(super) fn no_number_left() -> StoreError {
    StoreError::Misconfigured(
        "lease_broker_secret has 256 secrets that have not retired; wait until old ones retire"
            .to_owned(),
    )
}
