//! The machine-readable details of an API error, and assertions about them.

use std::time::Duration;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The parts of a gRPC status that clients decide by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: Code,
    pub(crate) reason: String,
    /// Path of the invalid field, from the one violation in `BadRequest`.
    pub(crate) field: Option<String>,
    /// Delay from `RetryInfo`. `None`: a retry would not help.
    pub(crate) retry_after: Option<Duration>,
}

impl ApiError {
    /// Reads a status. Panics if it lacks an `ErrorInfo` with the domain of the API, or the trailer for retry policies.
    pub(crate) fn from_status(status: &Status) -> Self {
        let info = status.get_details_error_info();
        let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
        assert_eq!(info.domain, "leasebroker", "{status:?}");
        let applied = info.metadata.get("applied").map(String::as_str);
        assert!(matches!(applied, Some("no" | "unknown")), "{status:?}");
        let bad_request = status.get_details_bad_request();
        let retry_after = status
            .get_details_retry_info()
            .and_then(|info| info.retry_delay);
        let pushback = status.metadata().get("grpc-retry-pushback-ms");
        let expected = retry_after.map_or("-1".to_owned(), |delay| delay.as_millis().to_string());
        assert_eq!(
            pushback.map(MetadataValue::as_encoded_bytes),
            Some(expected.as_bytes()),
            "{status:?}"
        );
        Self {
            code: status.code(),
            reason: info.reason,
            field: bad_request.map(|bad_request| {
                assert_eq!(bad_request.field_violations.len(), 1, "{bad_request:?}");
                let violation = &bad_request.field_violations[0];
                assert!(!violation.description.is_empty(), "{bad_request:?}");
                violation.field.clone()
            }),
            retry_after,
        }
    }
}

/// Asserts that a call failed with this code and reason, and that the error names this field.
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

/// Asserts that a call failed with this code and reason, and whether the error has a delay for a retry.
pub(crate) fn assert_api_error<T: std::fmt::Debug>(
    outcome: Result<T, Status>,
    code: Code,
    reason: &str,
    has_retry_delay: bool,
) {
    let status = outcome.expect_err(reason);
    let error = ApiError::from_status(&status);
    let actual = (error.code, &*error.reason, error.field);
    assert_eq!(actual, (code, reason, None), "{status:?}");
    assert_eq!(error.retry_after.is_some(), has_retry_delay, "{status:?}");
}
