//! TLS, tokens and roles on the command line: how a service refuses to start, and the flags of its callers.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::certificates::Authority;
use crate::support::database::query_value;
use crate::support::process::{BrokerProcess, CommandOutput, PROGRAM, program, run};
use crate::support::timeout::wait_until_blocking;

/// The section of a service with TLS and two tokens.
const SECURITY: &str = "
[server]
handshake_timeout = '1m'
[server.tls]
certificate = 'tls.crt'
key = 'tls.key'
[auth]
tokens_file = 'tokens'
[[auth.identities]]
name = 'all'
token = 'all'
roles = { admin = ['*'] }
[[auth.identities]]
name = 'loader'
token = 'loader'
roles = { producer = ['outbox'] }
[[auth.identities]]
name = 'forgotten'
token = 'nowhere'
";

/// Creates a folder with certificates and tokens, and starts a service.
fn serving() -> Workspace {
    let mut workspace = Workspace::with("");
    let folder = workspace.folder.path().display();
    let settings = SECURITY.replace("= 't", &format!("= '{folder}/t"));
    workspace.write("queues.toml", &format!("{settings}{QUEUES}"));
    let authority = Authority::new();
    workspace.write("ca.crt", &authority.pem());
    let own = authority.sign(&["broker.example"]);
    own.write(workspace.folder.path(), "tls");
    for name in ["all", "loader"] {
        let made = workspace.run(&format!("token new {name} --tokens-file tokens"));
        assert_eq!(made.code, 0, "{made:?}");
        workspace.write(&format!("{name}.token"), &made.out);
    }
    workspace.serve();
    workspace
}

/// Runs a command that calls the service over TLS with a token.
fn call(workspace: &Workspace, token: &str, arguments: &str) -> CommandOutput {
    let process = workspace.process.as_ref().expect("a service");
    let (before, after) = arguments.split_once(" -- ").unwrap_or((arguments, ""));
    let flags = format!(
        "{before} --address https://{} --ca ca.crt --server-name broker.example --token-file {token}.token",
        process.address
    );
    workspace.run(&if after.is_empty() {
        flags
    } else {
        format!("{flags} -- {after}")
    })
}

#[track_caller]
fn fails(printed: &CommandOutput, code: i32, parts: &[&str]) {
    assert_eq!(printed.code, code, "{printed:?}");
    for part in parts {
        assert!(printed.err.contains(part), "{part:?} is not in {printed:?}");
    }
}

#[test]
fn address_of_other_hosts_needs_tls_and_auth() {
    for (settings, parts) in [
        (
            "",
            &[
                "server.listen",
                "[server.tls]",
                "server.plain_text = \"anywhere\"",
            ][..],
        ),
        (
            "server.plain_text = 'anywhere'",
            &["server.listen", "[auth]", "anonymous = [\"admin\"]"],
        ),
    ] {
        let workspace = Workspace::with(&format!("{settings}\n{QUEUES}"));
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let started = workspace.store(&format!("serve --listen {address}"));
            fails(&started, 64, parts);
            fails(&started, 64, &["flag --listen"]);
        }
    }
}

#[test]
fn example_for_containers_states_its_access() {
    let settings = include_str!("../../deploy/compose.toml");
    let workspace = Workspace::with(settings);
    let checked = workspace.run("auth check --config queues.toml --anonymous --output json");
    assert_eq!(checked.json()[0]["roles"], json!(["admin"]), "{checked:?}");
}

#[test]
fn bad_files_of_tls_exit_64_with_setting_and_file() {
    let authority = Authority::new();
    let [own, other] = [0, 1].map(|_| authority.sign(&["localhost"]));
    let bad_file = |name: &str, content: Option<&str>| {
        let workspace = Workspace::with("");
        let folder = workspace.folder.path();
        own.write(folder, "tls");
        workspace.write("clients.crt", &authority.pem());
        match content {
            Some(content) => workspace.write(name, content),
            None => std::fs::remove_file(workspace.path(name)).expect("removed"),
        }
        let path = folder.display();
        workspace.write(
            "queues.toml",
            &format!(
                "[server.tls]\ncertificate = '{path}/tls.crt'\nkey = '{path}/tls.key'\n\
                 client_authorities = '{path}/clients.crt'\n{QUEUES}"
            ),
        );
        workspace.store("serve --listen 127.0.0.1:0")
    };
    for (file, setting) in [
        ("tls.crt", "server.tls.certificate"),
        ("tls.key", "server.tls.key"),
        ("clients.crt", "server.tls.client_authorities"),
    ] {
        fails(&bad_file(file, None), 64, &[setting, file, "No such file"]);
        fails(
            &bad_file(file, Some("nonsense")),
            64,
            &[setting, file, "PEM"],
        );
    }
    let another_key = bad_file("tls.key", Some(&other.key));
    fails(&another_key, 64, &["server.tls.key", "another key"]);
}

#[test]
fn commands_use_tls_and_tokens() {
    let workspace = serving();
    let added = call(&workspace, "all", "enqueue work --set payload=x");
    assert_eq!(added.code, 0, "{added:?}");
    let claimed = call(&workspace, "all", "claim work --output json").json();
    let id = claimed[0]["lease_id"].as_str().expect("an id").to_owned();
    let completed = call(&workspace, "all", &format!("complete work {id}"));
    assert_eq!(completed.code, 0, "{completed:?}");
    let healthy = call(&workspace, "all", "health");
    assert_eq!(healthy.code, 0, "{healthy:?}");

    let denied = call(&workspace, "loader", "claim work");
    fails(&denied, 1, &["(ROLE_MISSING)"]);
    let denied = call(&workspace, "loader", "enqueue work --set payload=x");
    fails(&denied, 1, &["(ROLE_MISSING)"]);
    workspace.write("wrong.token", "lb_wrong");
    fails(
        &call(&workspace, "wrong", "claim work"),
        1,
        &["(CREDENTIALS_INVALID)"],
    );
    fails(
        &call(&workspace, "missing", "claim work"),
        64,
        &["--token-file missing.token"],
    );

    let address = workspace.process.as_ref().expect("a service").address;
    let untrusted = format!("claim work --address https://{address} --server-name broker.example");
    fails(&workspace.run(&untrusted), 69, &["not trusted", "--ca"]);
    let other_name = format!("claim work --address https://{address} --ca ca.crt");
    fails(
        &workspace.run(&other_name),
        69,
        &["broker.example", "--server-name"],
    );
    for command in [
        "claim work",
        "enqueue work --set payload=x",
        "health",
        "work work",
    ] {
        let program = if command == "work work" {
            "-- true"
        } else {
            ""
        };
        let plain = workspace.run(&format!("{command} --address http://{address} {program}"));
        fails(&plain, 69, &["the port speaks TLS", "write https://"]);
    }
    let plain = format!("claim work --address http://{address} --ca ca.crt");
    fails(&workspace.run(&plain), 64, &["--ca needs TLS"]);
    let process = workspace.process.as_ref().expect("a service");
    for event in ["auth.denied", "auth.invalid", "tls.failed"] {
        wait_until_blocking(event, || process.log().contains(event));
    }
    let log = process.log();
    assert!(!log.contains("lb_wrong"), "{log}");
}

#[test]
fn doctor_tells_a_wrong_token_from_a_missing_role() {
    let workspace = serving();
    workspace.write("wrong.token", "lb_wrong");
    let doctor = |token: &str| {
        let command = "doctor --side worker --queue work --output csv";
        call(&workspace, token, command)
    };
    assert_eq!(doctor("all").code, 0, "{:?}", doctor("all"));
    for (token, reason) in [("loader", "ROLE_MISSING"), ("wrong", "CREDENTIALS_INVALID")] {
        let found = doctor(token);
        assert_eq!(found.code, 1, "{found:?}");
        let queue = found.out.lines().find(|line| line.contains("queue work"));
        let queue = queue.expect("a line of the queue");
        assert!(
            queue.contains("problem") && queue.contains(reason),
            "{queue}"
        );
    }
}

#[test]
fn worker_and_bench_use_tls_and_tokens() {
    let workspace = serving();
    let added = call(&workspace, "all", "enqueue outbox --set payload=x");
    assert_eq!(added.code, 0, "{added:?}");
    let worked = call(&workspace, "all", "work outbox --until-empty -- true");
    assert_eq!(worked.code, 0, "{worked:?}");
    // The command calls the service with the credentials of the worker, also from another folder.
    let added = call(&workspace, "all", "enqueue outbox --set payload=x");
    assert_eq!(added.code, 0, "{added:?}");
    let nested = format!(
        "work outbox --until-empty -- /usr/bin/env -C / {PROGRAM} enqueue work --set payload=nested"
    );
    let worked = call(&workspace, "all", &nested);
    assert_eq!(worked.code, 0, "{worked:?}");
    let nested: i64 = query_value(
        &workspace.database(),
        "SELECT count(*) FROM work WHERE payload = 'nested'",
    );
    assert_eq!(nested, 1);
    let refused = call(&workspace, "loader", "work outbox --until-empty -- true");
    fails(&refused, 1, &["ROLE_MISSING"]);
    let process = workspace.process.as_ref().expect("a service");
    let measured = std::process::Command::new(format!("{PROGRAM}-bench"))
        .args(["--queue", "work", "--items", "50", "--workers", "4"])
        .args(["--address", &format!("https://{}", process.address)])
        .args(["--ca", "ca.crt", "--server-name", "broker.example"])
        .args(["--token-file", "all.token"])
        .current_dir(workspace.folder.path())
        .output()
        .expect("build the program first: cargo build");
    assert!(measured.status.success(), "{measured:?}");
}

#[test]
fn work_connects_with_certificates_that_were_replaced() {
    let mut workspace = serving();
    let process = workspace.process.as_ref().expect("a service");
    let listen = process.address.to_string();
    let mut worker = program()
        .args(["work", "outbox", "--address", &format!("https://{listen}")])
        .args(["--ca", "ca.crt", "--server-name", "broker.example"])
        .args(["--token-file", "all.token", "--", "/bin/true"])
        .current_dir(workspace.folder.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let complete_one = |workspace: &Workspace, items: i64| {
        let added = call(workspace, "all", "enqueue outbox --set payload=x");
        assert_eq!(added.code, 0, "{added:?}");
        let completed = "SELECT count(*) FROM outbox WHERE lease_state = 3";
        wait_until_blocking("the item is completed", || {
            query_value::<i64>(&workspace.database(), completed) == items
        });
    };
    complete_one(&workspace, 1);
    let authority = Authority::new();
    workspace.write("ca.crt", &authority.pem());
    let own = authority.sign(&["broker.example"]);
    own.write(workspace.folder.path(), "tls");
    workspace.process.as_mut().expect("a service").kill();
    let paths = [workspace.path("q.db"), workspace.path("queues.toml")];
    workspace.process = Some(BrokerProcess::listening(&listen, &paths[0], &paths[1]));
    complete_one(&workspace, 2);
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
}

#[test]
fn certificate_of_an_authority_is_explained_on_both_sides() {
    let workspace = serving();
    let own = Authority::for_itself("localhost");
    own.write(workspace.folder.path(), "tls");
    workspace.write("ca.crt", &own.certificate);
    let mut workspace = workspace;
    workspace.serve();
    let process = workspace.process.as_ref().expect("a service");
    let warning = "because it is one of an authority (CA:TRUE)";
    assert!(process.log().contains(warning), "{}", process.log());
    let port = process.address.port();
    let refused = workspace.run(&format!(
        "stats --address https://localhost:{port} --ca ca.crt --token-file all.token"
    ));
    let texts = ["one of an authority (CA:TRUE)", "CA:FALSE"];
    fails(&refused, 69, &texts);
    let doctor = workspace.store("doctor --side broker");
    assert!(doctor.out.contains(warning), "{doctor:?}");
}

#[test]
fn other_host_is_called_in_plain_text_only_if_allowed() {
    let workspace = Workspace::serving();
    workspace.write("any.token", "lb_any");
    let port = workspace.process.as_ref().expect("a service").address;
    // The address of every interface reaches this host, and is not one of loopback.
    let other = format!("http://0.0.0.0:{}", port.port());
    let listed = format!("http://{port},http://broker-2.example:50051");
    for command in [
        "enqueue outbox --set payload=x",
        "claim outbox",
        "health",
        "work outbox --until-empty -- true",
    ] {
        let (command, program) = command.split_once(" -- ").unwrap_or((command, ""));
        let rest = if program.is_empty() { "" } else { "--" };
        let call = |flags: &str| workspace.run(&format!("{command} {flags} {rest} {program}"));
        for address in [&*other, &*listed, "broker-2.example:50051"] {
            for token in ["", "--token-file any.token"] {
                let refused = call(&format!("--address {address} {token}"));
                fails(&refused, 64, &["https://", "--plaintext"]);
            }
        }
        let allowed = call(&format!("--address {other} --plaintext"));
        assert_eq!(allowed.code, 0, "{allowed:?}");
    }
    // `work` passes the permission on to its commands.
    let added = workspace.call("enqueue outbox --set payload=x");
    assert_eq!(added.code, 0, "{added:?}");
    let worked = workspace.run(&format!(
        "work outbox --until-empty --address {other} --plaintext -- {PROGRAM} enqueue work --set payload=nested"
    ));
    assert_eq!(worked.code, 0, "{worked:?}");
    let nested: i64 = query_value(&workspace.database(), "SELECT count(*) FROM work");
    assert_eq!(nested, 1);
}

#[test]
fn new_token_is_printed_once_and_stored_as_a_hash() {
    let workspace = Workspace::with("");
    let both = workspace.run("token new loader");
    assert_eq!(both.code, 0, "{both:?}");
    let (token, line) = both.out.split_once('\n').expect("two lines");
    assert!(
        token.contains(" lb_") && line.contains(" loader:"),
        "{both:?}"
    );

    workspace.write("tokens", "# without an end of line");
    let first = workspace.run("token new loader --tokens-file tokens --valid-for 1day");
    let second = workspace.run("token new other --tokens-file new-file");
    assert_eq!((first.code, second.code), (0, 0), "{first:?} {second:?}");
    let stored = std::fs::read_to_string(workspace.path("tokens")).expect("a file");
    assert_eq!(stored.lines().count(), 2, "{stored}");
    assert!(!stored.contains(first.out.trim()), "{stored}");
    let mode = std::fs::metadata(workspace.path("new-file")).expect("a file");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    fails(&workspace.run("token new a:b"), 64, &["the name"]);
    let spaced = run(&workspace.path("."), &["token", "new", "a "]);
    fails(&spaced, 64, &["a space at an end"]);
}

#[test]
fn identity_without_a_token_in_the_file_is_logged_at_the_start() {
    let workspace = serving();
    let log = workspace.process.as_ref().expect("a service").log();
    let warnings = log.lines().filter(|line| line.contains("has no token for"));
    let warnings: Vec<_> = warnings.collect();
    assert!(
        matches!(warnings[..], [line] if line.contains("forgotten")),
        "{log}"
    );
}

#[test]
fn auth_check_shows_the_roles_on_each_queue() {
    let workspace = serving();
    let check = |caller: &str| {
        workspace.run(&format!(
            "auth check --config queues.toml --output json {caller}"
        ))
    };
    for caller in ["--token-name loader", "--token-file loader.token"] {
        let rows = check(caller).json();
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(rows[0]["identity"], "loader", "{rows:?}");
        let of = |queue: &str| {
            rows.iter()
                .find(|row| row["queue"] == queue)
                .expect("a row")
        };
        assert_eq!(of("outbox")["rpcs"], json!(["Wake", "Enqueue"]), "{rows:?}");
        assert_eq!(of("work")["roles"], json!([]), "{rows:?}");
    }
    let rows = check("--token-name all --queue elsewhere").json();
    assert_eq!(rows[0]["roles"], json!(["admin"]), "{rows:?}");
    fails(&check("--anonymous"), 1, &["auth.anonymous has no role"]);
    fails(&check("--token-name nobody"), 1, &["no identity"]);
    fails(&check("--spiffe spiffe://a/b"), 1, &["no identity fits"]);
    fails(&check("--spiffe spiffe://a/b/"), 1, &["malformed"]);
    fails(&check(""), 64, &["--spiffe"]);
}

#[test]
fn rotated_secret_is_printed_by_its_number() {
    let workspace = Workspace::serving();
    let first = workspace.store("secret rotate");
    assert_eq!(first.code, 0, "{first:?}");
    assert!(
        first.out.contains("secret 1 added") && first.out.contains("12h"),
        "{first:?}"
    );
    let second = workspace.store("secret rotate --now");
    assert!(second.out.contains("secret 2 added"), "{second:?}");
    fails(
        &workspace.store("secret rotate --accept-old-for 10s"),
        64,
        &["must be 2m to 365days"],
    );
    fails(
        &workspace.store("secret rotate --accept-old-for 1h --now"),
        64,
        &["cannot be used"],
    );
}

#[test]
fn revoked_token_leaves_the_file_and_the_others_stay() {
    let workspace = serving();
    let tokens = || std::fs::read_to_string(workspace.path("tokens")).expect("a file");
    let leaked = workspace.run("token new loader --tokens-file tokens");
    workspace.write("leaked.token", &leaked.out);
    let revoke = |token: &str| workspace.run(&format!("auth revoke --config queues.toml {token}"));
    let one = revoke("--token-file leaked.token");
    assert!(one.out.starts_with("tokens revoked: 1;"), "{one:?}");
    assert_eq!(tokens().lines().count(), 2, "{}", tokens());
    let mode = std::fs::metadata(workspace.path("tokens")).expect("a file");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    fails(
        &revoke("--token-file leaked.token"),
        1,
        &["has no such token"],
    );
    assert_eq!(call(&workspace, "loader", "health").code, 0);
    assert_eq!(revoke("--token-name loader").code, 0);
    assert!(tokens().starts_with("all:"), "{}", tokens());
    fails(&revoke(""), 64, &["--token-name"]);
}
