//! Security: which clients may connect, who a caller is, and what it may do.
//!
//! This module knows no gRPC. `grpc` asks it, and turns a refusal into a status. `docs/security.md` explains it to
//! operators.
//!
//! | file | content |
//! |---|---|
//! | `tls.rs`, `pair.rs` | TLS, the broker's certificate and its key |
//! | `client_files.rs`, `client_verifier.rs`, `authorities.rs` | the check of clients' certificates |
//! | `revocation_lists.rs`, `list_age.rs` | the lists of certificates that were revoked |
//! | `pem.rs`, `validity.rs` | certificates and keys in files, and the times of a certificate |
//! | `certificate_names.rs`, `spiffe.rs` | the names in a client's certificate |
//! | `shown_certificate.rs` | the certificate of a client of the admin port |
//! | `tokens.rs`, `jwt.rs` | the two kinds of bearer tokens |
//! | `issuer.rs`, `jwks.rs`, `jwks_url.rs` | the issuer of JSON Web Tokens, and its keys |
//! | `access.rs`, `rules.rs`, `login.rs`, `verification_rate.rs` | from credentials to an identity |
//! | `identity.rs`, `rights.rs`, `patterns.rs` | an identity, its roles and its limits |
//! | `watched_file.rs` | a file that is read again when its content changes |

mod access;
mod authorities;
mod certificate_names;
mod client_files;
mod client_verifier;
pub(crate) mod end_entity;
pub(crate) mod fuzzing;
mod identity;
mod issuer;
mod jwks;
mod jwks_url;
mod jwt;
mod list_age;
mod login;
mod pair;
mod patterns;
pub(crate) mod pem;
mod revocation_lists;
mod rights;
mod rules;
mod shown_certificate;
mod spiffe;
mod tls;
mod tokens;
pub(crate) mod validity;
mod verification_rate;
mod watched_file;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

pub(crate) use self::access::Lost;
pub use self::access::{Access, Refusal};
pub use self::certificate_names::CertificateNames;
pub use self::identity::{Identity, OverLimit};
pub use self::issuer::KeyCounts;
pub use self::login::Login;
pub(crate) use self::rights::rpcs;
pub use self::rights::{Rights, Rpc, RpcService};
pub use self::rules::Rules;
pub(crate) use self::shown_certificate::ShownCertificate;
pub use self::tls::ServerTls;
pub(crate) use self::tls::State as TlsState;
pub use self::tokens::{Token, Tokens, hash_of_token, new_token};
use self::watched_file::{ANSWER_TIME, Watched};
use crate::config::Config;

/// The interval at which files are read again.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// TLS and access control of the process. Both are `None` by default: plain text, and every caller may do everything.
#[derive(Clone, Default)]
pub struct Security {
    /// TLS on the gRPC port.
    pub tls: Option<Arc<ServerTls>>,
    /// Identities and roles.
    pub access: Option<Arc<Access>>,
}

impl Security {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// A text with the setting, the file, and the reason why the file cannot be used.
    pub fn open(config: &Config) -> Result<Self, String> {
        let tls = config.server.tls.as_ref().map(ServerTls::open);
        let access = config.auth.as_ref().map(Access::open);
        Ok(Self {
            tls: tls.transpose()?.map(Arc::new),
            access: access.transpose()?.map(Arc::new),
        })
    }

    /// Replaces the identities, their roles and their limits. `None`: they have not changed.
    pub(crate) fn replace_rules(&self, rules: Option<Rules>) {
        if let (Some(access), Some(rules)) = (&self.access, rules) {
            access.replace(rules);
        }
    }

    /// Reads the files again at intervals, and keeps the keys of the issuer. It does not end by itself.
    pub(crate) async fn watch_files(self) {
        let keep_keys = async {
            if let Some(access) = &self.access {
                access.keep_keys().await;
            }
        };
        let read_again = async {
            loop {
                // The first time at once. A file can have changed since it was opened.
                self.read_files().await;
                sleep(READ_INTERVAL).await;
            }
        };
        tokio::join!(keep_keys, read_again);
    }

    /// Reads the files, and fetches the keys of the issuer soon. [`Self::not_in_use`] then tells which files are not used as they are.
    pub async fn read_now(&self) {
        if let Some(access) = &self.access {
            access.fetch_keys_soon();
        }
        self.read_files().await;
    }

    /// Reads each file apart from the others. One that hangs is reported, and its read goes on.
    async fn read_files(&self) {
        let deadline = Instant::now() + ANSWER_TIME;
        let mut reads = Vec::new();
        for (file, on_change) in self.files() {
            let read = file.clone();
            let read = spawn_blocking(move || {
                if read.read() {
                    on_change();
                }
            });
            reads.push((file, read));
        }
        for (file, read) in reads {
            if timeout_at(deadline, read).await.is_err() {
                file.report_hang();
            }
        }
    }

    /// Returns why files are not used as they are, each with its setting. Their last usable contents stay in use.
    pub fn not_in_use(&self) -> Vec<String> {
        let files = self.files();
        let files = files.iter();
        files.filter_map(|(file, _)| file.problem()).collect()
    }

    /// Returns the parts that are read from files, each with the effect of a change.
    fn files(&self) -> Vec<(Arc<dyn Watched>, OnChange)> {
        let mut files: Vec<(_, OnChange)> = Vec::new();
        if let Some(access) = &self.access {
            files.extend(access.files().into_iter().map(|file| {
                let access = access.clone();
                (file, Box::new(move || access.use_files()) as OnChange)
            }));
            if let Some(file) = access.keys_authorities() {
                let access = access.clone();
                files.push((file, Box::new(move || access.fetch_keys_soon())));
            }
        }
        if let Some(tls) = &self.tls {
            files.extend(tls.files().into_iter().map(|file| {
                let tls = tls.clone();
                (file, Box::new(move || tls.use_files()) as OnChange)
            }));
        }
        files
    }
}

/// The effect of a file that has changed.
type OnChange = Box<dyn FnOnce() + Send>;

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rcgen::generate_simple_self_signed;
    use rustix::fs::{FileType, Mode};

    use super::*;
    use crate::config::Sources;

    #[tokio::test(flavor = "multi_thread")]
    async fn tokens_file_that_hangs_does_not_keep_certificates_from_being_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [tokens, certificate, key] =
            ["tokens", "tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let write_certificate = || {
            let signed = generate_simple_self_signed(["localhost".to_owned()]).expect("signed");
            fs::write(&certificate, signed.cert.pem()).expect("written");
            fs::write(&key, signed.signing_key.serialize_pem()).expect("written");
        };
        write_certificate();
        fs::write(&tokens, "").expect("written");
        let [tokens_text, certificate_text, key_text] =
            [&tokens, &certificate, &key].map(|path| path.display());
        let config = Sources::default().load_text(&format!(
            "auth = {{ tokens_file = '{tokens_text}', anonymous = ['worker'] }}
            server.tls = {{ certificate = '{certificate_text}', key = '{key_text}' }}
            queues.work.managed_columns = {{ payload = 'text' }}"
        ));
        let security = Security::open(&config.expect("valid")).expect("usable files");
        // A reader of a pipe waits for a writer.
        fs::remove_file(&tokens).expect("removed");
        rustix::fs::mknodat(rustix::fs::CWD, &tokens, FileType::Fifo, Mode::RWXU, 0).expect("made");
        write_certificate();
        let mut changes = security.tls.as_ref().expect("TLS").changes();
        let watching = tokio::spawn(security.watch_files());
        let read = tokio::time::timeout(2 * READ_INTERVAL, changes.changed()).await;
        // The blocked reader must end, because the runtime waits for it.
        drop(File::options().write(true).open(&tokens).expect("opened"));
        watching.abort();
        read.expect("in time").expect("the state has changed");
    }
}
