//! Requests that are sent again, tokens and TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lease_broker_client::{
    Applied, Client, Context, Credentials, Done, EventName, Item, NewItem, Pem, Tls, Token, Worker,
    WorkerError,
};
use lease_broker_proto::{self as proto, Outcome};
use tonic::metadata::MetadataValue;
use tonic::transport::{Identity, ServerTlsConfig};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::client::scripted::{Answers, Scripted, claimed, lease};
use crate::support::timeout::with_timeout;

/// Returns a status of the broker with a pushback in milliseconds.
fn status(code: Code, reason: &str, pushback: Option<&'static str>) -> Status {
    let details = ErrorDetails::with_error_info(reason, "leasebroker", []);
    let mut status = Status::with_error_details(code, "scripted", details);
    if let Some(pushback) = pushback {
        let pushback = MetadataValue::from_static(pushback);
        status
            .metadata_mut()
            .insert("grpc-retry-pushback-ms", pushback);
    }
    status
}

async fn wake(
    broker: &Scripted,
    token: Option<Token>,
) -> Result<(), lease_broker_client::CallError> {
    let address = broker.serve(None).await.to_string();
    let client = Client::new(&address, Credentials::plaintext(), token).expect("valid");
    with_timeout(client.wake("work")).await
}

#[tokio::test]
async fn retry_waits_as_long_as_the_broker_asks() {
    let away = status(Code::Unavailable, "STORE_UNAVAILABLE", Some("700"));
    let broker = Scripted::new([away]);
    wake(&broker, None)
        .await
        .expect("the second attempt succeeds");
    let calls = broker.calls();
    assert_eq!(calls.len(), 2);
    assert!(
        calls[1].at - calls[0].at >= Duration::from_millis(700),
        "{calls:?}"
    );
}

#[tokio::test]
async fn errors_that_a_retry_cannot_help_are_returned() {
    for refused in [
        status(Code::Unavailable, "STORE_UNAVAILABLE", Some("-1")),
        status(Code::InvalidArgument, "INVALID_FIELD", None),
        status(Code::NotFound, "QUEUE_NOT_FOUND", None),
        status(Code::Internal, "INTERNAL", None),
        Status::resource_exhausted("the program's own limit"),
    ] {
        let code = refused.code();
        let broker = Scripted::new([refused]);
        let error = wake(&broker, None)
            .await
            .expect_err("the error is returned");
        assert_eq!((error.code, broker.calls().len()), (code, 1));
    }
}

#[tokio::test]
async fn errors_of_the_connection_are_sent_again() {
    for passing in [
        Status::unavailable("connection refused"),
        Status::unknown("h2 protocol error"),
        Status::cancelled("by a proxy"),
        status(Code::ResourceExhausted, "OVERLOADED", Some("0")),
    ] {
        let broker = Scripted::new([passing]);
        wake(&broker, None)
            .await
            .expect("the second attempt succeeds");
        assert_eq!(broker.calls().len(), 2);
    }
}

#[tokio::test]
async fn error_says_whether_any_attempt_was_applied() {
    let unchanged = || {
        let metadata = [("applied", "no")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let details = ErrorDetails::with_error_info("INVALID_FIELD", "leasebroker", metadata);
        Status::with_error_details(Code::InvalidArgument, "scripted", details)
    };
    let lost_answer = Status::unavailable("connection reset");
    for (errors, applied) in [
        (vec![unchanged()], Applied::No),
        (vec![lost_answer, unchanged()], Applied::Unknown),
        (
            vec![status(Code::InvalidArgument, "INVALID_FIELD", None)],
            Applied::Unknown,
        ),
    ] {
        let error = wake(&Scripted::new(errors), None).await;
        assert_eq!(error.expect_err("it is refused").applied, applied);
    }
}

#[tokio::test]
async fn wrong_number_of_results_is_an_error() {
    let broker = Scripted::new([]);
    let address = broker.serve(None).await.to_string();
    let client = Client::new(&address, Credentials::plaintext(), None).expect("valid");
    let error = with_timeout(client.enqueue("work", [NewItem::new()])).await;
    let error = error.expect_err("a result is missing").error;
    assert_eq!((error.code, broker.calls().len()), (Code::Internal, 1));
    assert!(error.message.contains("0 results for 1 entries"), "{error}");
}

#[tokio::test]
async fn refused_token_is_replaced_once() {
    let refused = || Status::unauthenticated("expired");
    let asked = Arc::new(AtomicUsize::new(0));
    let token = || {
        let asked = asked.clone();
        Token::function(move |fresh| {
            asked.fetch_add(1, Ordering::Relaxed);
            async move { Ok(if fresh { "new" } else { "old" }.to_owned()) }
        })
    };
    let broker = Scripted::new([refused()]);
    wake(&broker, Some(token()))
        .await
        .expect("the new token is accepted");
    let sent: Vec<_> = broker
        .calls()
        .into_iter()
        .map(|call| call.authorization)
        .collect();
    assert_eq!(
        sent,
        [Some("Bearer old".to_owned()), Some("Bearer new".to_owned())]
    );

    let broker = Scripted::new([refused(), refused()]);
    let error = wake(&broker, Some(token()))
        .await
        .expect_err("both tokens are refused");
    assert_eq!(
        (error.code, broker.calls().len()),
        (Code::Unauthenticated, 2)
    );
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn token_file_is_read_again_after_a_refusal() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, "first\n").expect("written");
    let broker = Scripted::new([]);
    let address = broker.serve(None).await.to_string();
    let token = Some(Token::file(file.path()));
    let client = Client::new(&address, Credentials::plaintext(), token).expect("valid");
    client.wake("work").await.expect("the call succeeds");
    std::fs::write(&file, "second\n").expect("written");
    client.wake("work").await.expect("the call succeeds");
    let refusing = Scripted::new([Status::unauthenticated("expired")]);
    let sent = |broker: &Scripted| -> Vec<_> {
        broker
            .calls()
            .into_iter()
            .filter_map(|call| call.authorization)
            .collect()
    };
    assert_eq!(sent(&broker), ["Bearer first", "Bearer first"]);
    wake(&refusing, Some(Token::file(file.path())))
        .await
        .expect("the token is accepted");
    assert_eq!(sent(&refusing), ["Bearer second", "Bearer second"]);
}

#[tokio::test]
async fn tls_connection_proves_both_sides() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = pem("CERTIFICATE", key.cert.der());
    let private = pem("PRIVATE KEY", key.signing_key.serialized_der());
    let broker = Scripted::new([]);
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&certificate, &private))
        .client_ca_root(tonic::transport::Certificate::from_pem(&certificate));
    let address = broker.serve(Some(tls)).await.to_string();
    let credentials = Credentials::tls(Tls {
        ca: Some(Pem::Text(certificate.clone().into_bytes())),
        identity: Some((
            Pem::Text(certificate.into_bytes()),
            Pem::Text(private.into_bytes()),
        )),
        server_name: Some("localhost".to_owned()),
    });
    let client = Client::new(&address, credentials, Some(Token::text("secret"))).expect("valid");
    with_timeout(client.wake("work"))
        .await
        .expect("the call succeeds");
    assert_eq!(
        broker.calls()[0].authorization.as_deref(),
        Some("Bearer secret")
    );
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// Runs a worker on the scripted broker until its item has ended. Returns the name of the event.
async fn end_of_item(broker: &Scripted) -> EventName {
    let address = broker.serve(None).await.to_string();
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(address, "work").on_event(move |event| {
        // The test may have ended already.
        let _ = sender.send(event.name);
    });
    let worker = worker
        .start(async |_: Item, _: Context| Ok(Done::new()))
        .expect("it starts");
    let ends = [EventName::Completed, EventName::Unknown, EventName::Lost];
    loop {
        let name = with_timeout(events.recv()).await.expect("the worker runs");
        if ends.contains(&name) {
            worker.stop(Duration::ZERO).await.expect("it stops");
            return name;
        }
    }
}

#[tokio::test]
async fn pause_before_a_retry_does_not_outlast_the_lease() {
    let two_seconds = proto::HeartbeatResult {
        outcome: Outcome::Applied.into(),
        time_left: lease(2).time_left,
        ..proto::HeartbeatResult::default()
    };
    let extended = proto::HeartbeatResponse {
        results: vec![two_seconds],
    };
    let broker = Scripted::with_answers(Answers {
        errors: vec![Status::unavailable("away"); 7].into(),
        claims: [claimed(lease(2))].into(),
        heartbeats: vec![extended; 100].into(),
        ..Answers::default()
    });
    assert_eq!(end_of_item(&broker).await, EventName::Completed);
}

#[tokio::test]
async fn row_gone_after_a_retry_was_completed() {
    let lost_reply = Status::unavailable("connection reset");
    assert_eq!(
        end_of_item(&Scripted::new([lost_reply])).await,
        EventName::Completed
    );
}

#[tokio::test]
async fn row_gone_at_the_first_attempt_is_unknown() {
    assert_eq!(end_of_item(&Scripted::new([])).await, EventName::Unknown);
}

#[tokio::test]
async fn worker_ends_when_its_settlement_is_not_allowed() {
    let broker = Scripted::new([Status::permission_denied("no")]);
    let address = broker.serve(None).await.to_string();
    let worker = Worker::new(address, "work").start(async |_: Item, _: Context| Ok(Done::new()));
    let worker = worker.expect("it starts");
    let error = with_timeout(worker.wait())
        .await
        .expect_err("the call is not allowed");
    assert!(
        matches!(&error, WorkerError::Refused(error) if error.code == Code::PermissionDenied),
        "{error}"
    );
}
