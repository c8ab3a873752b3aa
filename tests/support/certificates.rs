//! Certificates of a test: an authority, and the certificates that it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its private key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) serial: SerialNumber,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("Test authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::with_params(name, CertificateParams::default())
    }

    /// An authority whose own certificate has ended in 2020.
    pub(crate) fn ended() -> Self {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(2020, 1, 1);
        Self::with_params("Ended authority", params)
    }

    fn with_params(name: &str, mut params: CertificateParams) -> Self {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A certificate with the name of its authority would look as if it had signed itself.
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for these names. One with `://` is a URI, `expired` makes the certificate end in
    /// the past, an IP address is one, and the others are DNS names.
    pub(crate) fn sign(&self, names: &[&str]) -> Signed {
        self.sign_params(names, CertificateParams::default())
    }

    /// Does the same with the end of the certificate.
    pub(crate) fn sign_until(&self, names: &[&str], end: time::OffsetDateTime) -> Signed {
        let mut params = CertificateParams::default();
        params.not_after = end;
        self.sign_params(names, params)
    }

    fn sign_params(&self, names: &[&str], mut params: CertificateParams) -> Signed {
        for name in names {
            let text = (*name).try_into().expect("ASCII");
            match *name {
                "expired" => params.not_after = date_time_ymd(2020, 1, 1),
                uri if uri.contains("://") => {
                    params.subject_alt_names.push(SanType::URI(text));
                }
                name => params.subject_alt_names.push(match name.parse() {
                    Ok(address) => SanType::IpAddress(address),
                    Err(_) => SanType::DnsName(text),
                }),
            }
        }
        let serial = SerialNumber::from(rand::random::<u64>() >> 1);
        params.serial_number = Some(serial.clone());
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0);
        Signed {
            certificate: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
            serial,
        }
    }

    /// Makes a certificate for this name that signs itself, as `openssl req -x509` does by default.
    pub(crate) fn for_itself(name: &str) -> Signed {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let serial = SerialNumber::from(1);
        params.serial_number = Some(serial.clone());
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Signed {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            serial,
        }
    }

    /// Signs a list of revoked certificates that is valid until the end of this year.
    pub(crate) fn revoke(&self, revoked: &[&Signed], last_year: i32) -> String {
        let revoked = revoked.iter().map(|signed| RevokedCertParams {
            serial_number: signed.serial.clone(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(last_year, 12, 31),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.0).expect("a list");
        list.pem().expect("a list")
    }
}

impl Signed {
    /// Writes both files into a folder. Returns their paths.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> [PathBuf; 2] {
        let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
        std::fs::write(&certificate, &self.certificate).expect("written");
        std::fs::write(&key, &self.key).expect("written");
        [certificate, key]
    }
}
