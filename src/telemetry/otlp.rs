//! The exporters that send spans and metrics to a collector, built from the configuration.
//!
//! The crate reads some variables of OpenTelemetry itself: headers, timeouts, compression. The others are settings, see
//! `config/otel_variables.rs`.

use std::collections::HashMap;
use std::path::Path;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use reqwest::redirect::Policy;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::config::{Destination, OtlpProtocol, Telemetry};

/// The files that the exporters need, read.
pub(super) struct Credentials {
    headers: HashMap<String, String>,
    ca: Option<Vec<u8>>,
    /// The broker's own certificate and its private key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// A message that names the setting.
    pub(super) fn read(settings: &Telemetry) -> Result<Self, String> {
        let certificate = read_file("client_certificate_file", &settings.client_certificate_file)?;
        let key = read_file("client_key_file", &settings.client_key_file)?;
        let headers = read_file("headers_file", &settings.headers_file)?.unwrap_or_default();
        Ok(Self {
            headers: parse_headers(&headers)?,
            ca: read_file("ca_file", &settings.ca_file)?,
            identity: certificate.zip(key),
        })
    }

    fn metadata(&self) -> Result<MetadataMap, String> {
        let headers = http::HeaderMap::try_from(&self.headers);
        let headers = headers.map_err(|error| format!("telemetry.headers_file: {error}"))?;
        Ok(MetadataMap::from_headers(headers))
    }

    fn tls_config(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new();
        let config = match &self.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(ca)),
            None => config.with_enabled_roots(),
        };
        match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }

    fn http_client(&self, destination: &Destination) -> Result<LoggingClient, String> {
        // A redirect would send the headers, which can hold a token, to another host.
        let mut client = reqwest::Client::builder().redirect(Policy::none());
        if destination.is_local() {
            // A proxy of the environment is for other hosts. It would get the headers, and cannot reach this host's loopback.
            client = client.no_proxy();
        }
        if let Some(ca) = &self.ca {
            let certificates = reqwest::Certificate::from_pem_bundle(ca);
            let certificates =
                certificates.map_err(|error| format!("telemetry.ca_file: {error}"))?;
            client = client.tls_certs_only(certificates);
        }
        if let Some((certificate, key)) = &self.identity {
            let pem = [key.as_slice(), b"\n", certificate].concat();
            let identity = reqwest::Identity::from_pem(&pem);
            let identity =
                identity.map_err(|error| format!("telemetry.client_certificate_file: {error}"))?;
            client = client.identity(identity);
        }
        let built = client.build().map(LoggingClient);
        built.map_err(|error| format!("cannot start the HTTP client of the exporter: {error}"))
    }
}

/// An HTTP client that logs why a collector cannot be reached. The exporter's own error only says that there is a problem.
#[derive(Debug)]
struct LoggingClient(reqwest::Client);

#[async_trait]
impl HttpClient for LoggingClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // Without the part before the host, which can be a password.
        let host = request.uri().host().unwrap_or_default().to_owned();
        let sent = self.0.send_bytes(request).await;
        // The error itself has the whole address, and its sources have the reason.
        if let Some(cause) = sent.as_ref().err().and_then(|error| error.source()) {
            let causes = std::iter::successors(Some(cause), |cause| cause.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            let problem = causes.join(": ");
            tracing::warn!(host, problem, "collector cannot be reached");
        }
        sent
    }
}

/// Builds an exporter. The two builders of the crate have the same functions, but no trait in common.
macro_rules! build {
    ($exporter:ident, $destination:expr, $credentials:expr) => {{
        let (destination, credentials): (&Destination, &Credentials) = ($destination, $credentials);
        let built = match destination.protocol {
            OtlpProtocol::Grpc => {
                let mut builder = $exporter::builder()
                    .with_tonic()
                    .with_endpoint(&destination.endpoint)
                    .with_metadata(credentials.metadata()?);
                if destination.endpoint.starts_with("https:") {
                    builder = builder.with_tls_config(credentials.tls_config());
                }
                builder.build()
            }
            OtlpProtocol::HttpProtobuf => $exporter::builder()
                .with_http()
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_endpoint(&destination.endpoint)
                .with_headers(credentials.headers.clone())
                .with_http_client(credentials.http_client(destination)?)
                .build(),
        };
        built.map_err(|error| format!("cannot export to {}: {error}", destination.endpoint))
    }};
}

/// Builds the exporter of spans. Must be called inside a tokio runtime. It connects with its first message.
///
/// # Errors
/// A message that names what cannot be used.
pub(super) fn span_exporter(
    destination: &Destination,
    credentials: &Credentials,
) -> Result<SpanExporter, String> {
    build!(SpanExporter, destination, credentials)
}

/// Builds the exporter of metrics. Must be called inside a tokio runtime. It connects with its first message.
///
/// # Errors
/// A message that names what cannot be used.
pub(super) fn metric_exporter(
    destination: &Destination,
    credentials: &Credentials,
) -> Result<MetricExporter, String> {
    build!(MetricExporter, destination, credentials)
}

/// Returns the content of a file. `None`: the path is empty.
fn read_file(setting: &str, path: &Path) -> Result<Option<Vec<u8>>, String> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let content = std::fs::read(path);
    content.map(Some).map_err(|error| {
        format!(
            "telemetry.{setting}: cannot read {}: {error}",
            path.display()
        )
    })
}

/// Parses lines of the form `name=value`. The message of an error contains no value.
fn parse_headers(text: &[u8]) -> Result<HashMap<String, String>, String> {
    let text = str::from_utf8(text).map_err(|_| "telemetry.headers_file: not UTF-8".to_owned())?;
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            let header = line.split_once('=');
            let (name, value) = header.ok_or_else(|| {
                let number = index + 1;
                format!("telemetry.headers_file: line {number} is not of the form name=value")
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}
