//! Calls with grpcurl: the gRPC library and the TLS of Go. It learns the API from server reflection.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::security::fixture::Files;
use crate::support::certificates::Authority;
use crate::support::raw_connection::blocking;
use crate::support::server::Server;
use crate::support::skipped::skipped;

const SERVICE: &str = "leasebroker.v1.LeaseService";
const AUTH: &str = "
[[auth.identities]]
name = 'loader'
token = 'loader'
roles = { producer = ['work'] }
[[auth.identities]]
name = 'fleet'
spiffe = 'spiffe://test/fleet/*'
roles = { worker = ['work'] }
";
const ENQUEUE: &str =
    r#"{"queue": "work", "items": [{"columns": {"payload": {"string_value": "a"}}}]}"#;
const CLAIM: &str = r#"{"queue": "work", "worker_id": "w", "max_items": 2}"#;
/// grpcurl ends with this number plus the code of the status.
const FIRST_CODE: i32 = 64;

/// Returns the path of grpcurl. `None`: it is not installed.
fn grpcurl() -> Option<PathBuf> {
    let program = std::env::var_os("LEASE_BROKER_TEST_GRPCURL").unwrap_or_else(|| "grpcurl".into());
    let version = Command::new(&program).arg("-version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return Some(program.into());
    }
    skipped("no grpcurl; name one in LEASE_BROKER_TEST_GRPCURL");
    None
}

/// The program, and the broker that it calls.
struct Caller {
    program: PathBuf,
    address: String,
    ca: PathBuf,
}

impl Caller {
    fn new(program: PathBuf, server: &Server, ca: PathBuf) -> Self {
        Self {
            program,
            address: server.address.to_string(),
            ca,
        }
    }

    /// Runs the program with these options and a command or a method.
    async fn run(&self, options: &[&str], command: &[&str]) -> Output {
        let mut grpcurl = Command::new(&self.program);
        grpcurl
            .args(["-servername", "localhost", "-max-time", "20", "-cacert"])
            .arg(&self.ca)
            .args(options)
            .arg(&self.address)
            .args(command);
        blocking(move || grpcurl.output().expect("grpcurl runs")).await
    }

    /// Makes a call with this message. Returns the answer, or the code of the status.
    async fn call(&self, options: &[&str], rpc: &str, message: &str) -> Result<Json, i32> {
        let options = [options, &["-d", message]].concat();
        let output = self.run(&options, &[&format!("{SERVICE}/{rpc}")]).await;
        match output.status.code() {
            Some(0) => Ok(serde_json::from_slice(&output.stdout).expect("JSON")),
            Some(code) if code > FIRST_CODE => Err(code - FIRST_CODE),
            _ => panic!("{output:?}"),
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[tokio::test]
async fn token_and_certificate_have_their_roles() {
    let Some(program) = grpcurl() else { return };
    let files = Files::new();
    let token = format!("authorization: Bearer {}", files.add_token("loader"));
    let own = files.authority.sign(&["spiffe://test/fleet/a"]);
    let [certificate, key] = own.write(files.path(), "own");
    let server = files.start(AUTH).await;
    let caller = Caller::new(program, &server, files.file("clients.crt"));
    let with_token = ["-H", &token];
    let with_certificate = ["-cert", text(&certificate), "-key", text(&key)];

    let added = caller.call(&with_token, "Enqueue", ENQUEUE).await;
    assert_eq!(
        added.expect("a producer adds")["results"],
        serde_json::json!([{"key": "1"}])
    );
    let claimed = caller.call(&with_certificate, "ClaimBatch", CLAIM).await;
    let claimed = claimed.expect("a worker claims");
    assert_eq!(
        claimed["leases"][0]["item"]["columns"]["payload"]["stringValue"],
        "a"
    );
    let denied = tonic::Code::PermissionDenied as i32;
    let claimed = caller.call(&with_token, "ClaimBatch", CLAIM).await;
    assert_eq!(claimed, Err(denied));
    let added = caller.call(&with_certificate, "Enqueue", ENQUEUE).await;
    assert_eq!(added, Err(denied));
}

#[tokio::test]
async fn callers_without_valid_credentials_learn_nothing() {
    let Some(program) = grpcurl() else { return };
    let files = Files::new();
    let token = format!("authorization: Bearer {}", files.add_token("loader"));
    let server = files.start(AUTH).await;
    let caller = Caller::new(program.clone(), &server, files.file("clients.crt"));

    let listed = caller.run(&["-H", &token], &["list"]).await;
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains(SERVICE),
        "{listed:?}"
    );
    let unknown = ["-H", "authorization: Bearer lb_unknown"];
    for options in [&unknown[..], &[]] {
        let listed = caller.run(options, &["list"]).await;
        assert!(
            !listed.status.success() && listed.stdout.is_empty(),
            "{listed:?}"
        );
        // It knows the message from the proto file, because reflection is refused.
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let known = [
            "-import-path",
            proto,
            "-proto",
            "leasebroker/v1/lease_broker.proto",
        ];
        let options = [options, &known].concat();
        let added = caller.call(&options, "Enqueue", ENQUEUE).await;
        assert_eq!(added, Err(tonic::Code::Unauthenticated as i32));
    }

    // It does not send the token to a broker that it does not know.
    std::fs::write(files.file("other.crt"), Authority::new().pem()).expect("the file is written");
    let other = Caller::new(program, &server, files.file("other.crt"));
    let listed = other.run(&["-H", &token], &["list"]).await;
    let errors = String::from_utf8_lossy(&listed.stderr);
    assert!(errors.contains("certificate"), "{errors}");
}
