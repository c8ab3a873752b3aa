//! Each rpc with each role and each kind of credentials. The table is printed.

use std::process::Command;

use lease_broker_proto::admin_service_client::AdminServiceClient;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::security::fixture::{Files, call, claims, everything};
use crate::support::certificates::Signed;
use crate::support::raw_connection::blocking;
use crate::support::server::Server;
use crate::support::skipped::skipped;
use crate::support::timeout::with_timeout;

/// Each rpc with the roles that may send it: the table of `docs/security.md`.
const TABLE: [(&str, &[&str]); 17] = [
    ("ClaimBatch", &["worker", "admin"]),
    ("Heartbeat", &["worker", "admin"]),
    ("Complete", &["worker", "admin"]),
    ("Fail", &["worker", "admin"]),
    ("Release", &["worker", "admin"]),
    ("ReleaseClaims", &["worker", "admin"]),
    ("CancelLeases", &["operator", "admin"]),
    ("ListItems", &["observer", "operator", "admin"]),
    ("PauseQueue", &["operator", "admin"]),
    ("ResumeQueue", &["operator", "admin"]),
    ("SetQueueLimits", &["operator", "admin"]),
    ("ListGroups", &["observer", "operator", "admin"]),
    ("PauseGroup", &["operator", "admin"]),
    ("ResumeGroup", &["operator", "admin"]),
    ("StartOperation", &["operator", "admin"]),
    ("Wake", &["worker", "producer", "admin"]),
    ("Enqueue", &["producer", "admin"]),
];
const ROLES: [&str; 5] = ["worker", "producer", "observer", "operator", "admin"];
/// A queue with roles, one without, and one that does not exist.
const QUEUES: [&str; 3] = ["work", "hidden", "nowhere"];
const KINDS: [&str; 4] = ["spiffe", "dns", "token", "jwt"];

/// Credentials of a caller.
struct Credentials {
    certificate: Option<Signed>,
    token: Option<String>,
}

/// Returns the entry of an identity, and credentials that have it.
fn identity(files: &Files, kind: &str, role: &str) -> (String, Credentials) {
    let name = format!("{role}-{kind}");
    let (setting, certificate, token) = match kind {
        "spiffe" => {
            let id = format!("spiffe://test/{name}");
            let own = files.authority.sign(&[&id]);
            (format!("spiffe = '{id}'"), Some(own), None)
        }
        "dns" => {
            let dns = format!("{name}.example");
            let own = files.authority.sign(&[&dns]);
            (format!("dns = '{dns}'"), Some(own), None)
        }
        "token" => {
            let token = files.add_token(&name);
            (format!("token = '{name}'"), None, Some(token))
        }
        _ => {
            let token = files.sign(&claims(&name));
            (format!("jwt_subject = '{name}'"), None, Some(token))
        }
    };
    let entry = format!(
        "[[auth.identities]]\nname = '{name}'\n{setting}\nroles = {{ {role} = ['work'] }}\n"
    );
    (entry, Credentials { certificate, token })
}

/// Makes each call to each queue. Returns one cell per rpc, and checks the cells.
async fn row(files: &Files, server: &Server, role: &str, credentials: &Credentials) -> String {
    let channel = files
        .connect(server, credentials.certificate.as_ref())
        .await;
    let token = credentials.token.as_deref();
    let mut cells = String::new();
    for (rpc, roles) in TABLE {
        let mut results = Vec::new();
        for queue in QUEUES {
            results.push(call(&channel, token, rpc, queue).await);
        }
        let allowed = roles.contains(&role);
        let may_send = results[0].is_ok();
        assert_eq!(may_send, allowed, "{role} {rpc}: {:?}", results[0]);
        let [_, hidden, nowhere] = &results[..] else {
            panic!("three results");
        };
        assert_denied(hidden, rpc);
        // The answer does not tell whether the queue exists.
        let (hidden, nowhere) = (hidden.as_ref().err(), nowhere.as_ref().err());
        assert_eq!(
            hidden.map(everything),
            nowhere.map(everything),
            "{role} {rpc}"
        );
        if !allowed {
            assert_denied(&results[0], rpc);
        }
        cells.push_str(if allowed { "  yes" } else { "  -  " });
    }
    cells
}

/// Sends the same calls with the gRPC library of Python. Returns the names of the codes by caller, rpc and queue. `None`: there
/// is no Python with grpcio.
async fn codes_of_python(
    files: &Files,
    server: &Server,
    callers: &[(&str, &str, Credentials)],
) -> Option<Vec<Vec<Vec<String>>>> {
    let python = std::env::var_os("LEASE_BROKER_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let check = Command::new(&python).args(["-c", "import grpc"]).output();
    if !check.is_ok_and(|output| output.status.success()) {
        skipped("the calls of Python: no Python with grpcio");
        return None;
    }
    let callers: Vec<_> = callers
        .iter()
        .enumerate()
        .map(|(index, (_, _, credentials))| {
            let own = credentials.certificate.as_ref();
            let own = own.map(|own| own.write(files.path(), &format!("caller-{index}")));
            let mut caller = json!({});
            if let Some(own) = own {
                caller["certificate"] = json!(own);
            }
            if let Some(token) = &credentials.token {
                caller["token"] = json!(token);
            }
            caller
        })
        .collect();
    let calls = json!({
        "rpcs": TABLE.map(|(rpc, _)| rpc),
        "queues": QUEUES,
        "callers": callers,
    });
    let (address, ca) = (server.address.to_string(), files.file("clients.crt"));
    let output = blocking(move || {
        let program = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/security/other_client.py"
        );
        let mut command = Command::new(python);
        command
            .args([program, &address])
            .arg(ca)
            .arg(calls.to_string());
        command.output().expect("Python runs")
    })
    .await;
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "Python failed");
    Some(serde_json::from_slice(&output.stdout).expect("a list"))
}

/// Anonymous callers have their roles on all queues.
async fn anonymous_row(files: &Files, role: &str) -> String {
    let server = files.start(&format!("anonymous = ['{role}']")).await;
    let channel = files.connect(&server, None).await;
    let mut cells = String::new();
    for (rpc, roles) in TABLE {
        let allowed = roles.contains(&role);
        let known = call(&channel, None, rpc, "work").await;
        assert_eq!(known.is_ok(), allowed, "{role} {rpc}: {known:?}");
        let unknown = call(&channel, None, rpc, "nowhere").await.expect_err(rpc);
        let expected = if allowed {
            Code::NotFound
        } else {
            Code::PermissionDenied
        };
        assert_eq!(unknown.code(), expected, "{role} {rpc}: {unknown:?}");
        cells.push_str(if allowed { "  yes" } else { "  -  " });
    }
    cells
}

#[track_caller]
fn assert_denied(result: &Result<(), Status>, rpc: &str) {
    let status = result.as_ref().expect_err(rpc);
    assert_eq!(status.code(), Code::PermissionDenied, "{rpc}: {status:?}");
}

#[tokio::test]
async fn each_role_may_send_exactly_its_rpcs() {
    let files = Files::new();
    let (mut entries, mut callers) = (String::new(), Vec::new());
    for kind in KINDS {
        for role in ROLES {
            let (entry, credentials) = identity(&files, kind, role);
            entries.push_str(&entry);
            callers.push((kind, role, credentials));
        }
    }
    let server = files.start(&entries).await;
    let names: Vec<&str> = TABLE.iter().map(|(rpc, _)| *rpc).collect();
    eprintln!("{:20}{}", "", names.join(" "));
    for (kind, role, credentials) in &callers {
        let cells = with_timeout(row(&files, &server, role, credentials)).await;
        eprintln!("{:20}{cells}", format!("{kind} {role}"));
    }
    if let Some(codes) = codes_of_python(&files, &server, &callers).await {
        for ((kind, role, _), codes) in callers.iter().zip(&codes) {
            for ((rpc, roles), codes) in TABLE.iter().zip(codes) {
                let allowed = roles.contains(role);
                let denied = codes.iter().map(|code| code == "PERMISSION_DENIED");
                let denied: Vec<bool> = denied.collect();
                assert_eq!(
                    denied,
                    [!allowed, true, true],
                    "{kind} {role} {rpc}: {codes:?}"
                );
            }
        }
    }
    for role in ROLES {
        let cells = with_timeout(anonymous_row(&files, role)).await;
        eprintln!("{:20}{cells}", format!("anonymous {role}"));
    }
}

#[tokio::test]
async fn refused_purge_names_the_role_admin() {
    let files = Files::new();
    let (entry, credentials) = identity(&files, "token", "operator");
    let server = files.start(&entry).await;
    let channel = files.connect(&server, None).await;
    let purge = call(&channel, credentials.token.as_deref(), "Purge", "work");
    let refused = purge.await.expect_err("an operator cannot purge");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    let details = refused.get_error_details();
    let metadata = &details.error_info().expect("an ErrorInfo").metadata;
    assert_eq!(metadata["rpc"], "StartOperation");
    assert_eq!(metadata["role"], "admin");
    assert!(refused.message().contains("a purge needs the role admin"));
}

#[tokio::test]
async fn rpcs_without_a_queue_show_only_queues_of_the_role() {
    let files = Files::new();
    let mut entries = String::new();
    let mut callers = Vec::new();
    for role in ROLES {
        let (entry, credentials) = identity(&files, "token", role);
        entries.push_str(&entry);
        callers.push((role, credentials));
    }
    let server = files.start(&entries).await;
    let channel = files.connect(&server, None).await;
    let request = |token: Option<&str>| {
        let mut request = tonic::Request::new(lease_broker_proto::ListQueuesRequest::default());
        let token = token.expect("a token");
        *request.metadata_mut() = crate::security::fixture::authorization(token);
        request
    };
    for (role, credentials) in &callers {
        let mut admin = AdminServiceClient::new(channel.clone());
        let listed = admin
            .list_queues(request(credentials.token.as_deref()))
            .await;
        if matches!(*role, "worker" | "producer") {
            assert_denied(&listed.map(drop), "ListQueues");
        } else {
            let queues = listed.expect(role).into_inner().queues;
            let names: Vec<&str> = queues.iter().map(|queue| &*queue.queue).collect();
            assert_eq!(names, ["work"], "{role}");
        }
    }
}
