//! The audit in the log: nobody can hide what others do.

use data_encoding::HEXLOWER;
use lease_broker_proto::CompleteRequest;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use crate::security::fixture::{Files, authorization, call};
use crate::support::client::completion;
use crate::support::http::send;
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until;

const AUTH: &str = "
[[auth.identities]]
name = 'loud'
token = 'loud'
roles = { worker = ['work'] }
[[auth.identities]]
name = 'quiet'
token = 'quiet'
roles = { worker = ['work'] }
";

#[tokio::test]
async fn refusals_of_one_identity_hide_none_of_another() {
    let files = Files::new();
    let [loud, quiet] = ["loud", "quiet"].map(|name| files.add_token(name));
    let audit = files.file("audit.jsonl");
    let settings = files.plain_text_settings(AUTH);
    let settings = format!("log.audit_file = '{}'\n{settings}", audit.display());
    files.write("config.toml", &settings);
    let mut broker = BrokerProcess::serve(&files.file("queues.db"), &files.file("config.toml"));
    let endpoint = Endpoint::from_shared(broker.url()).expect("a URL");
    let channel = endpoint.connect_lazy();
    let refused = async |token: &str, queue: &str| {
        let refused = call(&channel, Some(token), "ClaimBatch", queue).await;
        let code = refused.expect_err("no role").code();
        assert_eq!(code, Code::PermissionDenied);
    };
    for kind in 0..25 {
        refused(&loud, &format!("queue-{kind}")).await;
    }
    for _ in 0..350 {
        refused(&quiet, "hidden").await;
    }
    let lines = |log: &str, identity: &str| {
        let lines = log.lines();
        lines
            .filter(|line| line.contains("auth.denied") && line.contains(identity))
            .count()
    };
    wait_until("the refusal of the second is in the log", async || {
        lines(&broker.log(), "quiet") == 1
    })
    .await;
    assert_eq!(lines(&broker.log(), "loud"), 20);
    // The summaries come at the end at the latest.
    broker.signal("TERM");
    broker.wait();
    let log = broker.log();
    for (subject, left_out) in [("loud", 5), ("quiet", 349)] {
        let summary = log.lines().find(|line| {
            line.contains("similar audit lines left out")
                && line.contains(&format!("subject={subject} "))
        });
        let summary = summary.unwrap_or_else(|| panic!("no summary of {subject}: {log}"));
        assert!(
            summary.contains(&format!("left_out={left_out}")),
            "{summary}"
        );
    }
    expect_chain(&std::fs::read_to_string(audit).expect("a file"));
}

#[tokio::test]
async fn log_level_hides_no_line_of_the_audit() {
    let files = Files::new();
    let quiet = files.add_token("quiet");
    let audit = files.file("audit.jsonl");
    let settings = files.plain_text_settings(AUTH);
    let settings = format!("log.audit_file = '{}'\n{settings}", audit.display());
    files.write("config.toml", &settings);
    let mut broker = BrokerProcess::serve(&files.file("queues.db"), &files.file("config.toml"));
    let level = "off,lease_broker::audit[{event}]=off";
    let changed = send(broker.admin_address(), "PUT", "/log/level", level);
    assert_eq!(changed.status, 200, "{changed:?}");
    let endpoint = Endpoint::from_shared(broker.url()).expect("a URL");
    let channel = endpoint.connect_lazy();
    let refused = call(&channel, Some(&quiet), "ClaimBatch", "hidden").await;
    refused.expect_err("no role");
    broker.signal("TERM");
    broker.wait();
    assert!(broker.log().contains("auth.denied"), "{}", broker.log());
    let text = std::fs::read_to_string(audit).expect("a file");
    let events: Vec<Json> = text.lines().map(parse_line).collect();
    let of = |name: &str| events.iter().find(|event| event["event"] == name);
    assert!(of("auth.denied").is_some(), "{text}");
    let change = of("log.level").expect("a line");
    assert_eq!(change["before"], "info");
    assert_eq!(change["after"], level);
    assert_eq!(change["peer"], "127.0.0.1");
}

#[tokio::test]
async fn call_with_denied_follow_ups_has_one_line() {
    let files = Files::new();
    let quiet = files.add_token("quiet");
    let audit = files.file("audit.jsonl");
    let settings = files.plain_text_settings(AUTH);
    let settings = format!("log.audit_file = '{}'\n{settings}", audit.display());
    files.write("config.toml", &settings);
    let mut broker = BrokerProcess::serve(&files.file("queues.db"), &files.file("config.toml"));
    let endpoint = Endpoint::from_shared(broker.url()).expect("a URL");
    let mut client = LeaseServiceClient::new(endpoint.connect_lazy());
    let mut request = Request::new(CompleteRequest {
        queue: "work".to_owned(),
        completions: ["hidden", "nowhere"]
            .map(|queue| completion("no lease", &[(queue, "x")]))
            .into(),
        next: None,
    });
    *request.metadata_mut() = authorization(&quiet);
    client.complete(request).await.expect("answered");
    broker.signal("TERM");
    broker.wait();
    let text = std::fs::read_to_string(audit).expect("a file");
    let events = text.lines().map(parse_line);
    let denied: Vec<Json> = events
        .filter(|event| event["event"] == "auth.denied")
        .collect();
    let [line] = &denied[..] else {
        panic!("{text}");
    };
    assert_eq!(
        (&line["rpc"], &line["queue"]),
        (&"Enqueue".into(), &"hidden".into())
    );
}

/// Returns the members of an object whose names are unique.
fn parse_line(line: &str) -> Json {
    let fields: Json = serde_json::from_str(line).expect("JSON");
    let names = fields.as_object().expect("an object").keys();
    for name in names {
        let name = format!("\"{name}\":");
        assert_eq!(line.matches(&name).count(), 1, "{name} in {line}");
    }
    fields
}

/// Expects the lines of the audit, each with the hash of the one before.
fn expect_chain(text: &str) {
    let mut previous = hash(b"");
    let mut events = Vec::new();
    for line in text.lines() {
        let fields = parse_line(line);
        assert_eq!(fields["previous"], previous, "{line}");
        assert!(
            fields["target"]
                .as_str()
                .is_some_and(|target| target.starts_with("lease_broker::audit")),
            "{line}"
        );
        previous = hash(line.as_bytes());
        events.push(fields);
    }
    let refused = events
        .iter()
        .filter(|event| event["event"] == "auth.denied")
        .inspect(|event| {
            let identity = event["identity"].as_str();
            assert!(matches!(identity, Some("loud" | "quiet")), "{event}");
            assert_eq!(event["rpc"], "ClaimBatch", "{event}");
        });
    assert_eq!(refused.count(), 21, "{text}");
    let summaries = events.iter().filter(|event| event["left_out"].is_u64());
    assert_eq!(summaries.count(), 2, "{text}");
}

fn hash(line: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(line))
}
