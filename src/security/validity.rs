//! The time during which a certificate is valid.

use std::time::Duration;

use lease_broker_model::key::rfc3339;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// The first and the last second in which a certificate is valid, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    not_before: u64,
    pub(crate) not_after: u64,
}

impl Validity {
    /// Reads the times of a certificate.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let problem = |error: Error| format!("the certificate cannot be read: {error}");
        let certificate = EndEntityCert::try_from(certificate).map_err(problem)?;
        // webpki shows these times only in its errors. Its search for an authority checks them first.
        let check = |seconds| {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            let usage = KeyUsage::server_auth();
            let checked = certificate.verify_for_usage(&[], &[], &[], time, usage, None, None);
            checked.err().unwrap_or(Error::UnknownIssuer)
        };
        let not_before = match check(0) {
            Error::CertNotValidYet { not_before, .. } => not_before.as_secs(),
            _ => 0,
        };
        match check(u64::MAX) {
            Error::CertExpired { not_after, .. } => Ok(Self {
                not_before,
                not_after: not_after.as_secs(),
            }),
            error => Err(problem(error)),
        }
    }

    /// Returns why the certificate is not valid at this time. `None`: it is.
    pub(crate) fn problem(self, now: UnixTime) -> Option<String> {
        if now.as_secs() < self.not_before {
            let start = moment(self.not_before);
            Some(format!("the certificate is not valid before {start}"))
        } else if now.as_secs() > self.not_after {
            let end = moment(self.not_after);
            Some(format!("the certificate expired at {end}"))
        } else {
            None
        }
    }

    /// Returns the end as text.
    pub(crate) fn end(self) -> String {
        format!("the certificate is valid until {}", moment(self.not_after))
    }
}

fn moment(seconds: u64) -> String {
    rfc3339(i64::try_from(seconds).unwrap_or(i64::MAX), 0)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn validity(first: i32, last: i32) -> Validity {
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(first, 1, 1);
        params.not_after = date_time_ymd(last, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Validity::of(certificate.der()).expect("a validity")
    }

    #[test]
    fn times_are_read_and_compared() {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        assert_eq!(validity(1970, 2100).problem(now), None);
        assert_eq!(
            validity(2000, 2001).problem(now).as_deref(),
            Some("the certificate expired at 2001-01-01T00:00:00Z")
        );
        assert_eq!(
            validity(2100, 9999).problem(now).as_deref(),
            Some("the certificate is not valid before 2100-01-01T00:00:00Z")
        );
        assert!(Validity::of(&CertificateDer::from(vec![0; 9])).is_err());
    }
}
