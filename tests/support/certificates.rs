//! Certificates of a test: an authority, and the certificates that it signs.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    date_time_ymd,
};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its private key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A certificate with the name of its authority would look as if it had signed itself.
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "Test authority");
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for these names. One that starts with `spiffe://` is a URI, `expired` makes the certificate end in
    /// the past, the others are DNS names.
    pub(crate) fn sign(&self, names: &[&str]) -> Signed {
        let mut params = CertificateParams::default();
        for name in names {
            let text = (*name).try_into().expect("ASCII");
            match *name {
                "expired" => params.not_after = date_time_ymd(2020, 1, 1),
                uri if uri.starts_with("spiffe://") => {
                    params.subject_alt_names.push(SanType::URI(text));
                }
                _ => params.subject_alt_names.push(SanType::DnsName(text)),
            }
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0);
        Signed {
            certificate: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
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
