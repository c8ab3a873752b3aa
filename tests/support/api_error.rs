//! What a refused call says for programs to read.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The machine-readable parts of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: Code,
    pub(crate) reason: String,
    pub(crate) field: Option<String>,
    pub(crate) retry_after: Option<Duration>,
}

impl ApiError {
    /// Reads a status of the API; it must carry an `ErrorInfo` of its domain.
    pub(crate) fn of(status: &Status) -> Self {
        let info = status.get_details_error_info();
        let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
        assert_eq!(info.domain, "leasebroker", "{status:?}");
        let bad = status.get_details_bad_request();
        Self {
            code: status.code(),
            reason: info.reason,
            field: bad.map(|bad| {
                assert_eq!(bad.field_violations.len(), 1, "{bad:?}");
                let violation = &bad.field_violations[0];
                assert!(!violation.description.is_empty(), "{bad:?}");
                violation.field.clone()
            }),
            retry_after: status
                .get_details_retry_info()
                .and_then(|info| info.retry_delay),
        }
    }
}

/// Asserts that a call was refused for a field.
pub(crate) fn assert_field_error<T: std::fmt::Debug>(
    outcome: Result<T, Status>,
    code: Code,
    reason: &str,
    field: &str,
) {
    let status = outcome.expect_err(field);
    let expected = ApiError {
        code,
        reason: reason.to_owned(),
        field: Some(field.to_owned()),
        retry_after: None,
    };
    assert_eq!(ApiError::from_status(&status), expected, "{status:?}");
}

/// Asserts that a call was refused, and whether it says when to try again.
pub(crate) fn assert_api_error<T: std::fmt::Debug>(
    outcome: Result<T, Status>,
    code: Code,
    reason: &str,
    retry: bool,
) {
    let status = outcome.expect_err(reason);
    let refusal = ApiError::from_status(&status);
    let told = (refusal.code, &*refusal.reason, refusal.field);
    assert_eq!(told, (code, reason, None), "{status:?}");
    assert_eq!(refusal.retry_after.is_some(), retry, "{status:?}");
}
