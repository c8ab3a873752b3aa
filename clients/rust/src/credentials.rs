//! How a program proves to a broker who it is, and the broker to it.

use std::error::Error;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, oneshot};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::errors::WorkerError;

/// The time after which the files of tokens and certificates are read again.
pub(super) const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// How a connection is protected.
#[derive(Clone)]
pub struct Credentials(Kind);

#[derive(Clone)]
enum Kind {
    Plaintext { anywhere: bool },
    Tls(Arc<Tls>),
}

/// The certificates of a TLS connection. The default trusts the authorities of the system.
#[derive(Clone, Default)]
pub struct Tls {
    /// The certificates of the authorities that are trusted. `None`: those of the system.
    pub ca: Option<Pem>,
    /// The certificate and the private key of this program. `None`: it does not identify itself.
    pub identity: Option<(Pem, Pem)>,
    /// The name in the broker's certificate. `None`: the host of the address.
    pub server_name: Option<String>,
}

/// A text in PEM form.
#[derive(Clone)]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// The file of the text. It is looked at every 10 s, so one that was replaced counts soon.
    File(PathBuf),
}

/// The texts of certificates at one moment.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Texts {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Credentials {
    /// Does not encrypt. The default. Only addresses of this machine are accepted.
    pub const fn plaintext() -> Self {
        Self(Kind::Plaintext { anywhere: false })
    }

    /// Does not encrypt, and accepts every address. For trusted networks.
    pub const fn plaintext_anywhere() -> Self {
        Self(Kind::Plaintext { anywhere: true })
    }

    /// Encrypts the connection.
    pub fn tls(tls: Tls) -> Self {
        Self(Kind::Tls(Arc::new(tls)))
    }

    /// Reads the certificates, as their files are now.
    pub(super) fn read(&self) -> Result<Texts, String> {
        let Kind::Tls(tls) = &self.0 else {
            return Ok(Texts::default());
        };
        let read = |pem: &Pem| match pem {
            Pem::Text(text) => Ok(text.clone()),
            Pem::File(path) => std::fs::read(path)
                .map_err(|error| format!("credentials: {}: {error}", path.display())),
        };
        let identity = tls.identity.as_ref();
        let identity =
            identity.map(|(certificate, key)| Ok::<_, String>((read(certificate)?, read(key)?)));
        Ok(Texts {
            ca: tls.ca.as_ref().map(read).transpose()?,
            identity: identity.transpose()?,
        })
    }

    /// Checks that a host may be called. `host` has no port.
    pub(super) fn check(&self, host: &str) -> Result<(), String> {
        match self.0 {
            Kind::Plaintext { anywhere: false } if !is_loopback(host) => Err(format!(
                "{host} is not an address of this machine: set credentials with TLS, or \
                 Credentials::plaintext_anywhere() if the network is trusted"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the TLS settings for a host. `None`: plaintext.
    ///
    /// # Errors
    /// A text has no certificate. tonic takes such authorities, and then trusts no broker.
    pub(super) fn tls_config(
        &self,
        texts: &Texts,
        host: &str,
    ) -> Result<Option<ClientTlsConfig>, String> {
        let Kind::Tls(tls) = &self.0 else {
            return Ok(None);
        };
        let name = tls.server_name.as_deref().unwrap_or(host);
        let mut config = ClientTlsConfig::new().domain_name(name.trim_matches(['[', ']']));
        config = match &texts.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(with_certificate("ca", ca)?)),
            None => config.with_native_roots(),
        };
        if let Some((certificate, key)) = &texts.identity {
            let certificate = with_certificate("identity", certificate)?;
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Ok(Some(config))
    }
}

fn with_certificate<'a>(name: &str, pem: &'a [u8]) -> Result<&'a [u8], String> {
    if String::from_utf8_lossy(pem).contains("-----BEGIN CERTIFICATE-----") {
        Ok(pem)
    } else {
        Err(format!("{name} has no certificate in PEM form"))
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

/// The source of a bearer token, which each call carries in the header `authorization`.
#[derive(Clone)]
pub struct Token {
    /// The token, if it never changes.
    text: Option<String>,
    source: Arc<dyn Fn(bool) -> BoxFuture<'static, TokenResult> + Send + Sync>,
}

type TokenResult = Result<String, Box<dyn Error + Send + Sync>>;

impl Token {
    /// A token that never changes.
    pub fn text(token: impl Into<String>) -> Self {
        let token: String = token.into();
        let text = Some(token.clone());
        let Self { source, .. } = Self::function(move |_| std::future::ready(Ok(token.clone())));
        Self { text, source }
    }

    /// A token in a file. The file is read again every 10 s, and after the broker has refused the token.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let (path, last) = (path.into(), Arc::default());
        Self::function(move |fresh| read_file(path.clone(), Arc::clone(&last), fresh))
    }

    /// A token that a function returns. It is called for each attempt of a call, with true if the broker has refused the
    /// token before. It must not block.
    pub fn function<F>(function: impl Fn(bool) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = TokenResult> + Send + 'static,
    {
        let boxed = move |fresh| -> BoxFuture<'static, TokenResult> { Box::pin(function(fresh)) };
        let (text, source) = (None, Arc::new(boxed));
        Self { text, source }
    }

    /// Checks a token that never changes.
    pub(super) fn check(&self) -> Result<(), WorkerError> {
        let Some(token) = &self.text else {
            return Ok(());
        };
        // The name would be sent as the token.
        if Path::new(token).is_file() {
            let text = format!("token: {token} is a file: use Token::file");
            return Err(WorkerError::Options(text));
        }
        checked(token).map_err(WorkerError::Options).map(drop)
    }

    /// Returns the token without the white space around it. `fresh`: the broker has refused the last one.
    pub(super) async fn get(&self, fresh: bool) -> Result<String, String> {
        let call = AssertUnwindSafe(async { (self.source)(fresh).await }).catch_unwind();
        let token = call.await.map_err(|_| "the function panicked".to_owned())?;
        checked(&token.map_err(|error| error.to_string())?).map(str::to_owned)
    }
}

/// Reads the file of a token, unless it was read less than 10 s ago.
async fn read_file(
    path: PathBuf,
    last: Arc<Mutex<Option<(Instant, String)>>>,
    fresh: bool,
) -> TokenResult {
    let mut last = last.lock_owned().await;
    if let Some((read_at, token)) = &*last
        && !fresh
        && read_at.elapsed() < FILE_INTERVAL
    {
        return Ok(token.clone());
    }
    // It may never return, on a file system that does not answer. Then it must block neither the runtime nor its end.
    let (sender, token) = oneshot::channel();
    let read = move || {
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()));
        // A file that is being written can be empty. It is not kept.
        let token = text.and_then(|text| checked(&text).map(str::to_owned));
        if let Ok(token) = &token {
            *last = Some((Instant::now(), token.clone()));
        }
        drop(last);
        sender.send(token)
    };
    std::thread::Builder::new().spawn(read)?;
    Ok(token.await??)
}

/// Returns a token without the white space around it.
///
/// # Errors
/// It cannot be sent. The text does not contain the token.
fn checked(token: &str) -> Result<&str, String> {
    let token = token.trim();
    if token.is_empty() {
        return Err("the token is empty".to_owned());
    }
    match token.chars().position(|char| !matches!(char, ' '..='~')) {
        None => Ok(token),
        Some(index) => Err(format!(
            "character {} of the token is not a printable ASCII character",
            index + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn token_file_that_does_not_answer_does_not_block_the_runtime() {
        let path = std::env::temp_dir().join(format!("token-pipe-{}", std::process::id()));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, mode, 0).expect("a pipe");
        let token = Token::file(&path);
        for _ in 0..2 {
            let read = tokio::time::timeout(Duration::from_millis(100), token.get(false));
            read.await.expect_err("no token is in the pipe");
        }
        let (written, read) = (path.clone(), token.clone());
        let writer = std::thread::spawn(move || std::fs::write(written, "known"));
        assert_eq!(read.get(false).await.as_deref(), Ok("known"));
        writer.join().expect("a thread").expect("a pipe");
        std::fs::remove_file(&path).expect("the pipe");
    }
}
