//! A broker with TLS and access control, the credentials of its callers, and the calls of the API.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use lease_broker::security::hash_of_token;
use lease_broker_proto::admin_service_client::AdminServiceClient;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{
    CancelLeasesRequest, ClaimBatchRequest, CompleteRequest, EnqueueRequest, FailRequest,
    HeartbeatRequest, ItemState, ListGroupsRequest, ListItemsRequest, PauseGroupRequest,
    PauseQueueRequest, Purge, Redrive, ReleaseClaimsRequest, ReleaseRequest, ResumeGroupRequest,
    ResumeQueueRequest, SetQueueLimitsRequest, StartOperationRequest, WakeRequest,
};
use prost::Message;
use rcgen::KeyPair;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

use crate::support::certificates::{Authority, Signed};
use crate::support::client::Client;
use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, call_block, frame, message};
use crate::support::server::Server;

pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const AUDIENCE: &str = "lease-broker";

/// Two queues. Tests give roles on `work` only. It has groups, so that every rpc is possible.
const QUEUES: &str = "
[queues.work]
managed_columns = { payload = \"text\" }
group = { column = \"payload\", order = \"none\" }
[queues.hidden]
managed_columns = { payload = \"text\" }
";

/// The files of a broker: certificates, tokens, and the public key of an issuer of JSON Web Tokens.
pub(crate) struct Files {
    folder: TempDir,
    pub(crate) authority: Authority,
    issuer: KeyPair,
}

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self {
            folder: TempDir::new().expect("a folder"),
            authority: Authority::new(),
            issuer: KeyPair::generate().expect("a key"),
        };
        files
            .authority
            .sign(&["localhost"])
            .write(files.path(), "tls");
        files.write("clients.crt", &files.authority.pem());
        files.write("tokens", "");
        files.write("jwks.json", &files.jwks().to_string());
        files
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("the file is written");
    }

    /// Adds a token to the file of tokens. Returns it.
    pub(crate) fn add_token(&self, name: &str) -> String {
        let token = lease_broker::security::new_token();
        let tokens = std::fs::read_to_string(self.file("tokens")).expect("the file of tokens");
        self.write(
            "tokens",
            &format!("{tokens}{name}:{}\n", hash_of_token(&token)),
        );
        token
    }

    /// Returns the public key of the issuer.
    pub(crate) fn jwks(&self) -> Json {
        let point = self.issuer.public_key_raw();
        let coordinate = |bytes: &[u8]| {
            use base64::Engine as _;
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
        };
        assert_eq!(point.len(), 65, "an uncompressed point of P-256");
        let (x, y) = (coordinate(&point[1..33]), coordinate(&point[33..]));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y}]})
    }

    /// Signs a JSON Web Token.
    pub(crate) fn sign(&self, claims: &Json) -> String {
        let header = Header {
            kid: Some("1".to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        let key = EncodingKey::from_ec_der(self.issuer.serialized_der());
        jsonwebtoken::encode(&header, claims, &key).expect("a token")
    }

    /// Signs a JSON Web Token of this header and these claims, both as the text of JSON.
    pub(crate) fn sign_text(&self, header: &str, claims: &str) -> String {
        use base64::Engine as _;
        let [header, claims] = [header, claims]
            .map(|part| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{claims}");
        let key = EncodingKey::from_ec_der(self.issuer.serialized_der());
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &key, Algorithm::ES256);
        format!("{signed}.{}", signature.expect("a signature"))
    }

    /// Returns the settings of TLS with certificates of clients, and of access control with these settings.
    pub(crate) fn settings(&self, auth: &str) -> String {
        let folder = self.path().display();
        format!(
            "[server.tls]
certificate = \"{folder}/tls.crt\"
key = \"{folder}/tls.key\"
client_authorities = \"{folder}/clients.crt\"
[auth]
tokens_file = \"{folder}/tokens\"
jwt = {{ jwks_file = \"{folder}/jwks.json\", issuer = \"{ISSUER}\", audience = \"{AUDIENCE}\" }}
{auth}
{QUEUES}"
        )
    }

    /// Returns the settings of a broker without TLS on loopback, and of access control with these settings.
    pub(crate) fn plain_text_settings(&self, auth: &str) -> String {
        let folder = self.path().display();
        format!(
            "admin.listen = \"127.0.0.1:0\"
[auth]
tokens_file = \"{folder}/tokens\"
jwt = {{ jwks_file = \"{folder}/jwks.json\", issuer = \"{ISSUER}\", audience = \"{AUDIENCE}\" }}
{auth}
{QUEUES}"
        )
    }

    /// Starts a broker with these settings of the section `auth`.
    pub(crate) async fn start(&self, auth: &str) -> Server {
        Server::with_config(&self.settings(auth)).await
    }

    /// Returns the endpoint of a broker, for a client with this certificate.
    pub(crate) fn endpoint(&self, server: &Server, certificate: Option<&Signed>) -> Endpoint {
        let ca = Certificate::from_pem(self.authority.pem());
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(ca)
            .domain_name("localhost");
        if let Some(own) = certificate {
            tls = tls.identity(Identity::from_pem(&own.certificate, &own.key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", server.address));
        let endpoint = endpoint.expect("a URL").tls_config(tls);
        endpoint.expect("settings of TLS")
    }

    /// Connects a caller.
    pub(crate) async fn connect(&self, server: &Server, certificate: Option<&Signed>) -> Channel {
        let connected = self.endpoint(server, certificate).connect().await;
        connected.expect("the broker accepts the connection")
    }

    /// Connects a client of the queue `work` that identifies itself by a certificate with this SPIFFE id.
    pub(crate) async fn client(&self, server: &Server, spiffe_id: &str) -> Client {
        let own = self.authority.sign(&[spiffe_id]);
        Client::new(self.connect(server, Some(&own)).await, "work")
    }
}

/// Builds the frames of a call with a token.
pub(crate) fn call_with(stream: u32, path: &str, token: &str, request: &impl Message) -> Vec<u8> {
    let bearer = format!("Bearer {token}");
    let block = call_block(path, &[("authorization", &bearer)]);
    [
        frame(HEADERS, END_HEADERS, stream, &block),
        message(stream, &request.encode_to_vec(), END_STREAM),
    ]
    .concat()
}

/// Returns the claims of a valid token for this subject.
pub(crate) fn claims(subject: &str) -> Json {
    json!({"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "exp": seconds_from_now(600)})
}

/// Returns a time in seconds since 1970.
pub(crate) fn seconds_from_now(seconds: i64) -> i64 {
    time::OffsetDateTime::now_utc().unix_timestamp() + seconds
}

/// Makes a call of the API without content for a queue, with a token.
#[expect(clippy::too_many_lines, reason = "one case for each rpc")]
pub(crate) async fn call(
    channel: &Channel,
    token: Option<&str>,
    rpc: &str,
    queue: &str,
) -> Result<(), Status> {
    let queue = queue.to_owned();
    let mut client = LeaseServiceClient::new(channel.clone());
    let mut admin = AdminServiceClient::new(channel.clone());
    macro_rules! send {
        ($method:ident, $message:expr) => {
            send!(client, $method, $message)
        };
        ($client:ident, $method:ident, $message:expr) => {{
            let mut request = Request::new($message);
            if let Some(token) = token {
                *request.metadata_mut() = authorization(token);
            }
            $client.$method(request).await.map(drop)
        }};
    }
    match rpc {
        "ClaimBatch" => {
            let claim = ClaimBatchRequest {
                queue,
                worker_id: "w".to_owned(),
                max_items: 1,
                ..ClaimBatchRequest::default()
            };
            send!(claim_batch, claim)
        }
        "Heartbeat" => send!(
            heartbeat,
            HeartbeatRequest {
                queue,
                ..Default::default()
            }
        ),
        "Complete" => send!(
            complete,
            CompleteRequest {
                queue,
                ..Default::default()
            }
        ),
        "Fail" => send!(
            fail,
            FailRequest {
                queue,
                ..Default::default()
            }
        ),
        "Release" => send!(
            release,
            ReleaseRequest {
                queue,
                ..Default::default()
            }
        ),
        "ReleaseClaims" => send!(
            release_claims,
            ReleaseClaimsRequest {
                queue,
                worker_id: "worker".to_owned(),
                ..Default::default()
            }
        ),
        "CancelLeases" => send!(
            admin,
            cancel_leases,
            CancelLeasesRequest {
                queue,
                ..Default::default()
            }
        ),
        "ListItems" => {
            let list = ListItemsRequest {
                queue,
                state: ItemState::Dead.into(),
                ..Default::default()
            };
            send!(admin, list_items, list)
        }
        "PauseQueue" => send!(
            admin,
            pause_queue,
            PauseQueueRequest {
                queue,
                ..Default::default()
            }
        ),
        "ResumeQueue" => send!(
            admin,
            resume_queue,
            ResumeQueueRequest {
                queue,
                ..Default::default()
            }
        ),
        "SetQueueLimits" => send!(
            admin,
            set_queue_limits,
            SetQueueLimitsRequest {
                queue,
                ..Default::default()
            }
        ),
        "ListGroups" => send!(
            admin,
            list_groups,
            ListGroupsRequest {
                queue,
                ..Default::default()
            }
        ),
        "PauseGroup" => send!(
            admin,
            pause_group,
            PauseGroupRequest {
                queue,
                ..Default::default()
            }
        ),
        "ResumeGroup" => send!(
            admin,
            resume_group,
            ResumeGroupRequest {
                queue,
                ..Default::default()
            }
        ),
        "StartOperation" | "Purge" => {
            let action = match rpc {
                "Purge" => Action::Purge(Purge::default()),
                _ => Action::Redrive(Redrive::default()),
            };
            let start = StartOperationRequest {
                queue,
                action: Some(action),
                dry_run: true,
                ..Default::default()
            };
            send!(admin, start_operation, start)
        }
        "Wake" => send!(wake, WakeRequest { queue }),
        "Enqueue" => send!(
            enqueue,
            EnqueueRequest {
                queue,
                ..Default::default()
            }
        ),
        other => panic!("unknown rpc {other}"),
    }
}

/// Returns everything that a caller learns from an error.
pub(crate) fn everything(status: &Status) -> String {
    let mut headers = status.metadata().clone();
    headers.remove("date");
    let mut details = status.get_error_details();
    let info = details.error_info().cloned().expect("an ErrorInfo");
    // The entries of the map come in a random order.
    details.set_error_info(info.reason, info.domain, HashMap::new());
    let metadata: BTreeMap<_, _> = info.metadata.into_iter().collect();
    let (code, text, length) = (status.code(), status.message(), status.details().len());
    format!("{code} {text} {details:?} {metadata:?} {length} {headers:?}")
}

/// Returns the headers of a call with a token.
pub(crate) fn authorization(token: &str) -> MetadataMap {
    let mut headers = MetadataMap::new();
    let value = format!("Bearer {token}").parse().expect("a header");
    headers.insert("authorization", value);
    headers
}
