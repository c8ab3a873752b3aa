//! The broker's own certificate and its key. They are used together: a new one of them waits until the other fits it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;

use super::end_entity;
use super::pem::{certificates, private_key};
use super::validity::Validity;
use super::watched_file::{Watched, WatchedFile};
use crate::config;

/// The permissions of a key file that let every user of the host read or change it.
const OPEN_TO_OTHERS: u32 = 0o007;

/// The files of the pair, and the last pair that can be used.
pub(super) struct OwnPair {
    certificate: Arc<WatchedFile<Vec<CertificateDer<'static>>>>,
    key: Arc<WatchedFile<PrivateKeyDer<'static>>>,
    last: Mutex<Last>,
}

/// A certificate with its key.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) validity: Validity,
    /// Whether the certificate is one of an authority.
    is_authority: bool,
}

struct Last {
    in_use: Pair,
    /// The reason why the files are not used.
    problem: Option<String>,
    /// The warnings that hold.
    warnings: [Option<String>; 3],
}

impl OwnPair {
    /// Reads the files. A certificate that is not valid now is reported and used: the clock of this host can be wrong.
    ///
    /// # Errors
    /// The setting, the file, and the reason why it cannot be used.
    pub(super) fn open(settings: &config::Tls) -> Result<Self, String> {
        let certificate = settings.certificate.clone();
        let certificate =
            WatchedFile::open("server.tls.certificate", certificate, certificates, None)?;
        let key = WatchedFile::open("server.tls.key", settings.key.clone(), private_key, None)?;
        let in_use = pair(&certificate.current(), &key.current());
        let in_use = in_use.map_err(|reason| problem(certificate.path(), &reason))?;
        let this = Self {
            certificate,
            key,
            last: Mutex::new(Last {
                in_use,
                problem: None,
                warnings: [None, None, None],
            }),
        };
        this.warn(&mut this.last.lock(), UnixTime::now());
        Ok(this)
    }

    /// Returns the pair in use.
    pub(super) fn current(&self) -> Pair {
        self.last.lock().in_use.clone()
    }

    /// Returns the pair of the files, or the reason why the one in use stays. It stays in place of one that is not valid now, unless it is
    /// not valid either.
    fn next(&self, in_use: &Pair, now: UnixTime) -> Result<Pair, String> {
        let next = pair(&self.certificate.current(), &self.key.current())?;
        match next.validity.problem(now) {
            Some(reason) if in_use.validity.problem(now).is_none() => Err(reason),
            _ => Ok(next),
        }
    }

    /// Reports once why the files are not used.
    fn refuse(&self, last: &mut Last, reason: &str) {
        let reason = problem(self.certificate.path(), reason);
        if last.problem.as_ref() != Some(&reason) {
            tracing::error!(
                target: "lease_broker::audit",
                event = "file.refused", reason,
                "certificate and key cannot be used; the old ones stay in use"
            );
        }
        last.problem = Some(reason);
    }

    /// Warns if callers refuse the certificate because of its time or, in part, because it is one of an authority, and if every user of
    /// the host can read the key. Each warning is written once while it holds.
    fn warn(&self, last: &mut Last, now: UnixTime) {
        let mode = std::fs::metadata(self.key.path()).map_or(0, |file| file.permissions().mode());
        let open_mode = (mode & OPEN_TO_OTHERS != 0).then(|| format!("{:04o}", mode & 0o7777));
        let is_authority = last.in_use.is_authority;
        let remedy = is_authority.then(|| end_entity::REMEDY.to_owned());
        let warnings = [last.in_use.validity.problem(now), open_mode, remedy];
        let former = std::mem::replace(&mut last.warnings, warnings.clone());
        let [reason, mode, remedy] = [0, 1, 2].map(|index| {
            let is_new = warnings[index] != former[index];
            warnings[index].as_ref().filter(|_| is_new)
        });
        if let Some(reason) = reason {
            let file = self.certificate.path().display();
            tracing::warn!(
                target: "lease_broker::audit",
                setting = "server.tls.certificate", %file, reason,
                "callers refuse the certificate: replace it, or correct the clock"
            );
        }
        if let Some(remedy) = remedy {
            let file = self.certificate.path().display();
            tracing::warn!(
                target: "lease_broker::audit",
                setting = "server.tls.certificate", %file, remedy,
                "commands and workers in Rust refuse the certificate, because it is one of an authority (CA:TRUE)"
            );
        }
        if let Some(mode) = mode {
            let file = self.key.path().display();
            tracing::warn!(
                target: "lease_broker::audit",
                setting = "server.tls.key", %file, mode,
                "every user of this host can read the private key: set the mode to 0600 or 0640"
            );
        }
    }
}

impl Watched for OwnPair {
    fn read(&self) -> bool {
        let has_changed = self.certificate.read() | self.key.read();
        let now = UnixTime::now();
        let mut last = self.last.lock();
        let mut is_new = false;
        // A certificate that is refused because of its time can be used later.
        if has_changed || last.problem.is_some() {
            match self.next(&last.in_use, now) {
                Ok(next) => {
                    is_new = true;
                    last.in_use = next;
                    last.problem = None;
                }
                Err(reason) => self.refuse(&mut last, &reason),
            }
        }
        self.warn(&mut last, now);
        is_new
    }

    fn report_hang(&self) {
        self.certificate.report_hang();
        self.key.report_hang();
    }

    fn problem(&self) -> Option<String> {
        let of_files = self.certificate.problem().or_else(|| self.key.problem());
        of_files.or_else(|| self.last.lock().problem.clone())
    }
}

fn pair(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> Result<Pair, String> {
    let validity = Validity::of(&chain[0])?;
    let provider = aws_lc_rs::default_provider();
    let certified = CertifiedKey::from_der(chain.to_vec(), key.clone_key(), &provider);
    let certified = certified.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            "server.tls.key has another key than the first certificate, which must be the broker's own"
                .to_owned()
        }
        error => error.to_string(),
    })?;
    Ok(Pair {
        certified: Arc::new(certified),
        validity,
        is_authority: end_entity::is_authority(&chain[0], validity),
    })
}

fn problem(certificate: &Path, reason: &str) -> String {
    format!(
        "server.tls.certificate: {}: {reason}",
        certificate.display()
    )
}
