//! Credentials that are not valid: every cause has the same answer.

use std::net::SocketAddr;
use std::time::Duration;

use lease_broker_proto::EnqueueRequest;
use serde_json::{Value as Json, json};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::security::fixture::{
    Files, ISSUER, call, call_with, claims, everything, seconds_from_now,
};
use crate::support::api_error::{ApiError, assert_api_error};
use crate::support::frames::ENQUEUE;
use crate::support::raw_connection::{RawConnection, Received, blocking};
use crate::support::server::Server;
use crate::support::timeout::{TEST_TIMEOUT, with_timeout};

const AUTH: &str = "
[[auth.identities]]
name = 'loader'
token = 'loader'
roles = { producer = ['work'] }
[[auth.identities]]
name = 'people'
jwt_subject = 'user:*'
jwt_claims = { groups = 'on-call' }
roles = { producer = ['work'] }
[[auth.identities]]
name = 'fleet'
spiffe = 'spiffe://test/fleet/*'
roles = { producer = ['work'] }
[[auth.identities]]
name = 'by name'
dns = '*.dns.example'
roles = { producer = ['work'] }
";

/// Returns the claims of a valid token, with one of them replaced. `null`: it is left out.
fn user(claim: &str, value: Json) -> Json {
    let mut claims = claims("user:ann");
    claims["groups"] = json!(["on-call", "dev"]);
    if value.is_null() {
        claims.as_object_mut().expect("claims").remove(claim);
    } else {
        claims[claim] = value;
    }
    claims
}

async fn enqueue(files: &Files, server: &Server, token: Option<&str>) -> Result<(), Status> {
    // A connection of its own, because one with five failures is closed.
    let channel = files.connect(server, None).await;
    call(&channel, token, "Enqueue", "work").await
}

#[tokio::test]
async fn every_invalid_credential_has_the_same_answer() {
    let files = Files::new();
    let known = files.add_token("loader");
    let unnamed = files.add_token("nobody");
    let ended = lease_broker::security::new_token();
    let tokens = std::fs::read_to_string(files.file("tokens")).expect("the file");
    let hash = lease_broker::security::hash_of_token(&ended);
    files.write(
        "tokens",
        &format!("{tokens}loader:{hash}:2020-01-01T00:00:00Z\n"),
    );
    let other_issuer = Files::new();
    let server = files.start(AUTH).await;
    let valid = files.sign(&user("jti", json!("1")));
    for token in [&known, &valid] {
        enqueue(&files, &server, Some(token)).await.expect("valid");
    }

    let (head, signature) = valid.rsplit_once('.').expect("a signature");
    let other_start = if signature.starts_with('A') { 'B' } else { 'A' };
    let unsigned = jsonwebtoken::encode(
        &jsonwebtoken::Header::default(),
        &user("jti", json!("1")),
        &jsonwebtoken::EncodingKey::from_secret(b"guess"),
    );
    let invalid = [
        ("unknown token", lease_broker::security::new_token()),
        ("half of a token", known[..23].to_owned()),
        ("longer token", format!("{known}x")),
        ("empty token", String::new()),
        ("more than 8 KiB", format!("lb_{}", "x".repeat(9_000))),
        ("ended token", ended),
        ("token without an identity", unnamed),
        (
            "other signature",
            format!("{head}.{other_start}{}", &signature[1..]),
        ),
        ("no signature", format!("{head}.")),
        ("symmetric signature", unsigned.expect("a token")),
        (
            "other issuer's key",
            other_issuer.sign(&user("jti", json!("1"))),
        ),
        (
            "expired",
            files.sign(&user("exp", json!(seconds_from_now(-60)))),
        ),
        (
            "not valid yet",
            files.sign(&user("nbf", json!(seconds_from_now(300)))),
        ),
        (
            "too long",
            files.sign(&user("exp", json!(seconds_from_now(90_000)))),
        ),
        (
            "issuer",
            files.sign(&user("iss", json!("https://other.example"))),
        ),
        ("audience", files.sign(&user("aud", json!("other")))),
        ("no audience", files.sign(&user("aud", Json::Null))),
        ("no expiry", files.sign(&user("exp", Json::Null))),
        ("no subject", files.sign(&user("sub", Json::Null))),
        (
            "other subject",
            files.sign(&user("sub", json!("robot:ann"))),
        ),
        ("other group", files.sign(&user("groups", json!("dev")))),
    ];
    let mut answers = Vec::new();
    for (cause, token) in invalid {
        let refused = enqueue(&files, &server, Some(&token)).await;
        let status = refused.expect_err(cause);
        let error = ApiError::from_status(&status);
        let seen = (error.code, &*error.reason);
        assert_eq!(
            seen,
            (Code::Unauthenticated, "CREDENTIALS_INVALID"),
            "{cause}"
        );
        answers.push(everything(&status));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:#?}");
    let missing = enqueue(&files, &server, None).await;
    assert_api_error(missing, Code::Unauthenticated, "CREDENTIALS_MISSING", false);
}

#[tokio::test]
async fn token_that_breaks_its_standard_is_refused() {
    const HEADER: &str = r#"{"alg":"ES256","kid":"1"}"#;
    let files = Files::new();
    let server = files.start(AUTH).await;
    let claims = user("jti", json!("1")).to_string();
    let header = |members: &str| HEADER.replace('}', &format!(",{members}}}"));
    let later = seconds_from_now(600);
    for (header, claims) in [
        (HEADER.to_owned(), claims.clone()),
        (header(r#""typ":"at+jwt""#), claims.clone()),
        (
            header(r#""typ":"application/JWT","unknown":1"#),
            claims.clone(),
        ),
        (
            HEADER.to_owned(),
            user(
                "exp",
                json!(f64::from(i32::try_from(later).expect("soon")) + 0.5),
            )
            .to_string(),
        ),
    ] {
        let token = files.sign_text(&header, &claims);
        let called = enqueue(&files, &server, Some(&token)).await;
        called.unwrap_or_else(|status| panic!("{header} {claims}: {status}"));
    }
    let twice = |name: &str| claims.replacen('{', &format!("{{\"{name}\":\"x\","), 1);
    for (header, claims) in [
        (
            HEADER.to_owned(),
            user("exp", json!(1_u64 << 63)).to_string(),
        ),
        (HEADER.to_owned(), user("iss", json!([ISSUER])).to_string()),
        (HEADER.to_owned(), twice("sub")),
        (HEADER.to_owned(), twice("groups")),
        (header(r#""alg":"ES256""#), claims.clone()),
        (header(r#""typ":"logout+jwt""#), claims.clone()),
        (header(r#""crit":["exp"],"exp":1"#), claims.clone()),
        (header(r#""crit":[]"#), claims.clone()),
    ] {
        let token = files.sign_text(&header, &claims);
        let refused = enqueue(&files, &server, Some(&token)).await;
        let error = refused.expect_err(&format!("{header} {claims}"));
        assert_eq!(error.code(), Code::Unauthenticated, "{header} {claims}");
    }
}

#[tokio::test]
async fn keys_for_other_purposes_do_not_stop_the_start() {
    let files = Files::new();
    let mut set = files.jwks();
    let mut encryption = set["keys"][0].clone();
    encryption["kid"] = json!("2");
    encryption["use"] = json!("enc");
    encryption["alg"] = json!("ECDH-ES");
    let unknown = json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "3", "pub": "AAAA"});
    let keys = set["keys"].as_array_mut().expect("keys");
    keys.extend([encryption, unknown]);
    files.write("jwks.json", &set.to_string());
    let server = files.start(AUTH).await;
    let valid = files.sign(&user("jti", json!("1")));
    enqueue(&files, &server, Some(&valid)).await.expect("valid");
    let claims = user("jti", json!("1")).to_string();
    let with_encryption_key = files.sign_text(r#"{"alg":"ES256","kid":"2"}"#, &claims);
    let refused = enqueue(&files, &server, Some(&with_encryption_key)).await;
    assert_api_error(refused, Code::Unauthenticated, "CREDENTIALS_INVALID", false);
}

#[tokio::test]
async fn certificate_without_an_identity_is_refused() {
    let files = Files::new();
    let token = files.add_token("loader");
    let server = files.start(AUTH).await;
    for (names, is_valid) in [
        (&["spiffe://test/fleet/1"][..], true),
        (&["spiffe://test/fleet/1/x"], false),
        (&["spiffe://test/fleet/1", "spiffe://test/fleet/2"], false),
        (&["spiffe://test/fleet/1", "https://test/fleet/1"], false),
        (&["spiffe://test/fleet/1", "a.dns.example"], true),
        (&["a.dns.example"], true),
        (&["*.dns.example"], false),
        (&["fleet.example"], false),
    ] {
        let own = files.authority.sign(names);
        let channel = files.connect(&server, Some(&own)).await;
        let called = call(&channel, None, "Enqueue", "work").await;
        if is_valid {
            called.expect("a valid certificate");
            // A token decides, even an invalid one.
            let called = call(&channel, Some("lb_x"), "Enqueue", "work").await;
            assert_api_error(called, Code::Unauthenticated, "CREDENTIALS_INVALID", false);
        } else {
            assert_api_error(called, Code::Unauthenticated, "CREDENTIALS_INVALID", false);
            let called = call(&channel, Some(&token), "Enqueue", "work").await;
            called.expect("the token counts, not the certificate");
        }
    }
}

#[tokio::test]
async fn four_failures_leave_the_connection_open() {
    let files = Files::new();
    let token = files.add_token("loader");
    let server = files.start(AUTH).await;
    let channel = files.connect(&server, None).await;
    for _ in 0..4 {
        let refused = call(&channel, Some("lb_x"), "Enqueue", "work").await;
        assert_api_error(refused, Code::Unauthenticated, "CREDENTIALS_INVALID", false);
    }
    call(&channel, Some(&token), "Enqueue", "work")
        .await
        .expect("the connection is open");
}

/// Sends five tokens that are not valid on each of 100 connections.
fn send_wrong_tokens(address: SocketAddr, token: &str) {
    let calls =
        [1, 3, 5, 7, 9].map(|stream| call_with(stream, ENQUEUE, token, &EnqueueRequest::default()));
    for _ in 0..100 {
        let mut connection = RawConnection::open(address);
        connection.send(&calls.concat()).expect("sent");
        let all = |received: &Received| received.answers == calls.len() || received.closed;
        let (received, answered) = connection.wait(TEST_TIMEOUT, all);
        assert!(answered, "{received:?}");
    }
}

#[tokio::test]
async fn wrong_tokens_do_not_lock_out_known_callers() {
    let files = Files::new();
    let token = files.add_token("loader");
    // The other identities need TLS.
    let (auth, _) = AUTH
        .split_once("[[auth.identities]]\nname = 'fleet'")
        .expect("an identity with a SPIFFE id");
    let server = Server::with_config(&files.plain_text_settings(auth)).await;
    let address = server.address;
    let enqueue = async |token: &str| {
        let url = format!("http://{address}");
        let endpoint = Endpoint::from_shared(url).expect("a URL");
        call(&endpoint.connect_lazy(), Some(token), "Enqueue", "work").await
    };
    let mut valid = (0..).map(|id| files.sign(&user("jti", json!(id))));
    let known = valid.next().expect("a token");
    enqueue(&known).await.expect("valid");
    // A key of the same name, so that the signature must be verified.
    let wrong = Files::new().sign(&user("jti", json!("1")));
    let refused = with_timeout(async {
        loop {
            let wrong = wrong.clone();
            blocking(move || send_wrong_tokens(address, "lb_wrong")).await;
            blocking(move || send_wrong_tokens(address, &wrong)).await;
            let unknown = valid.next().expect("a token");
            if let Err(refused) = enqueue(&unknown).await {
                return refused;
            }
        }
    });
    let refused = ApiError::from_status(&refused.await);
    assert_eq!(
        (refused.code, &*refused.reason),
        (Code::ResourceExhausted, "OVERLOADED")
    );
    assert_eq!(refused.retry_after, Some(Duration::from_secs(1)));
    for credentials in [&token, &known] {
        enqueue(credentials).await.expect("a known caller");
    }
}

#[tokio::test]
async fn health_needs_no_credentials_and_reflection_a_role() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

    let files = Files::new();
    let token = files.add_token("loader");
    let server = files.start(AUTH).await;
    let channel = files.connect(&server, None).await;
    let mut health = HealthClient::new(channel.clone());
    health
        .check(HealthCheckRequest::default())
        .await
        .expect("checked");
    health
        .watch(HealthCheckRequest::default())
        .await
        .expect("watched");

    let reflect = async |token: Option<&str>| {
        let body = tokio_stream::empty::<tonic_reflection::pb::v1::ServerReflectionRequest>();
        let mut request = tonic::Request::new(body);
        if let Some(token) = token {
            *request.metadata_mut() = crate::security::fixture::authorization(token);
        }
        let mut client = ServerReflectionClient::new(channel.clone());
        client.server_reflection_info(request).await.map(drop)
    };
    let refused = reflect(None).await;
    assert_api_error(refused, Code::Unauthenticated, "CREDENTIALS_MISSING", false);
    let is_known = || {
        let open = server.broker().ledger().accounts();
        open.iter().any(|account| account.has_recent_login())
    };
    assert!(!is_known());
    reflect(Some(&token)).await.expect("a role");
    assert!(is_known(), "the login counts");
}

#[tokio::test]
async fn one_identity_leaves_reflection_streams_to_others() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

    let files = Files::new();
    let loader = files.add_token("loader");
    let people = files.sign(&user("groups", json!("on-call")));
    let server = files.start(AUTH).await;
    let open = async |token: &str| {
        let mut request = tonic::Request::new(tokio_stream::pending::<ServerReflectionRequest>());
        *request.metadata_mut() = crate::security::fixture::authorization(token);
        let channel = files.connect(&server, None).await;
        let mut client = ServerReflectionClient::new(channel);
        client.server_reflection_info(request).await
    };
    let mut streams = Vec::new();
    let refused = with_timeout(async {
        loop {
            match open(&loader).await {
                Ok(stream) => streams.push(stream),
                Err(refused) => return refused,
            }
        }
    });
    assert_eq!(refused.await.code(), Code::ResourceExhausted);
    open(&people).await.expect("a place is left");
    drop(streams);
}
