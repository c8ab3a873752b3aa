//! Tests of `doctor`, and of what a broker says about a process that holds the lock of its file.

use std::io::Read as _;
use std::net::{self, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::Value as Json;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database::query_value;
use crate::support::http::get;
use crate::support::process::{BrokerProcess, CommandOutput};
use crate::support::signal;
use crate::support::skipped::skipped;
use crate::support::timeout::{TEST_TIMEOUT, wait_until_blocking};

/// The default address of the admin port can belong to a broker outside of this test.
const NO_ADMIN_PORT: &str = "[admin]\nlisten = '127.0.0.1:0'\n";

fn serving() -> Workspace {
    let mut workspace = Workspace::with(&format!("{QUEUES}{NO_ADMIN_PORT}"));
    workspace.serve();
    workspace
}

/// Starts a service, and writes `doctor.toml` with the address of its admin port, which is also returned.
fn serving_with_admin_port() -> (Workspace, net::SocketAddr) {
    let mut workspace = serving();
    let process = workspace.process.as_mut().expect("a service");
    let admin = process.admin_address();
    let settings = format!("{QUEUES}[admin]\nlisten = '{admin}'\n");
    workspace.write("doctor.toml", &settings);
    (workspace, admin)
}

/// Returns the findings, by check.
fn findings(doctor: &CommandOutput) -> Vec<Json> {
    let lines = doctor.out.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

fn finding(doctor: &CommandOutput, check: &str) -> Json {
    let found = findings(doctor).into_iter();
    let mut found = found.filter(|finding| finding["check"] == check);
    found
        .next()
        .unwrap_or_else(|| panic!("no {check}: {doctor:?}"))
}

#[test]
fn doctor_finds_no_problem_with_a_service_that_works() {
    let workspace = serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let doctor = workspace.store(&format!("doctor --json --address {url}"));
    assert_eq!(doctor.code, 0, "{doctor:?}");
    for check in [
        "write lock",
        "log (-wal)",
        "space left",
        "database",
        "clock",
        "table of work",
    ] {
        assert_ne!(finding(&doctor, check)["verdict"], "problem", "{doctor:?}");
    }
    for check in ["connection", "queue work", "queue outbox"] {
        assert_eq!(finding(&doctor, check)["verdict"], "ok", "{doctor:?}");
    }
    let brokers = findings(&doctor);
    let broker = brokers.iter().find(|finding| {
        let check = finding["check"].as_str().unwrap_or_default();
        check.starts_with("broker ")
    });
    assert_eq!(broker.expect("a broker")["verdict"], "ok", "{doctor:?}");
}

#[test]
fn doctor_reads_the_admin_port_of_the_service() {
    let (workspace, _) = serving_with_admin_port();
    let doctor = || workspace.run("doctor --side broker --json --store q.db --config doctor.toml");
    let port = finding(&doctor(), "admin port");
    assert_eq!(port["verdict"], "ok", "{port}");
    let detail = port["detail"].as_str().expect("text");
    assert!(detail.contains("the database is up"), "{detail}");
    let process = workspace.process.as_ref().expect("a service");
    process.signal("STOP");
    let stopped = finding(&doctor(), "admin port");
    process.signal("CONT");
    assert_eq!(stopped["verdict"], "problem", "{stopped}");
    let detail = stopped["detail"].as_str().expect("text");
    assert!(detail.contains("does not answer within"), "{detail}");
}

#[test]
fn doctor_tells_the_port_of_another_broker_from_its_own() {
    let (workspace, _) = serving_with_admin_port();
    let other = "doctor --side broker --json --store other.db --config doctor.toml";
    let port = finding(&workspace.run(other), "admin port");
    assert_eq!(port["verdict"], "warning", "{port}");
    let detail = port["detail"].as_str().expect("text");
    assert!(detail.contains("q.db;"), "{detail}");
}

#[test]
fn doctor_names_the_queue_whose_reaper_fails() {
    let (workspace, admin) = serving_with_admin_port();
    let database = workspace.database();
    database
        .execute_batch(
            "CREATE TRIGGER keep BEFORE UPDATE ON work
             WHEN OLD.payload = 'x' AND OLD.lease_state = 1 AND NEW.lease_state <> 1 BEGIN SELECT RAISE(ABORT, 'leases must not end'); END",
        )
        .expect("a trigger");
    for payload in ["x", "y"] {
        let added = workspace.call(&format!("enqueue work --set payload={payload}"));
        assert_eq!(added.code, 0, "{added:?}");
    }
    let claimed = workspace.call("claim work --limit 2 --lease 1s");
    assert_eq!(claimed.json().len(), 2, "{claimed:?}");
    let errors = || get(admin, "/readyz").json()["reaper_errors"].clone();
    wait_until_blocking("the reaper fails", || errors()["work"].is_string());
    let doctor = workspace.run("doctor --side broker --json --store q.db --config doctor.toml");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let reaper = finding(&doctor, "reaper of work");
    assert_eq!(reaper["verdict"], "problem", "{reaper}");
    let detail = reaper["detail"].as_str().expect("text");
    assert!(detail.contains("item 1: leases must not end"), "{detail}");
    // The other lease has ended.
    let state: i64 = query_value(
        &database,
        "SELECT lease_state FROM work WHERE payload = 'y'",
    );
    assert_eq!(state, 4);
    database
        .execute_batch("DROP TRIGGER keep")
        .expect("dropped");
    wait_until_blocking("the reaper recovers", || errors()["work"].is_null());
    let log = workspace.process.as_ref().expect("a service").log();
    assert_eq!(log.matches("due item stays").count(), 1, "{log}");
}

#[test]
fn doctor_names_what_a_worker_does_wrong() {
    let workspace = serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let worker = |more: &str| workspace.run(&format!("doctor --side worker --json {more}"));
    let unknown = worker(&format!("--queue nowhere --address {url}"));
    assert_eq!(unknown.code, 1);
    assert_eq!(finding(&unknown, "queue nowhere")["verdict"], "problem");
    let plain = worker(&format!(
        "--queue work --address {}",
        url.replace("http:", "https:")
    ));
    assert_eq!(plain.code, 1);
    let detail = finding(&plain, "connection")["detail"].to_string();
    assert!(detail.contains("plain text, not TLS"), "{detail}");
    let nobody = worker("--address http://127.0.0.1:9");
    let detail = finding(&nobody, "connection")["detail"].to_string();
    assert!(detail.contains("nothing listens"), "{detail}");
}

/// A program that has the write lock of a file and is stopped. It is killed when it is dropped.
struct StoppedHolder(Child);

impl StoppedHolder {
    fn start(workspace: &Workspace) -> Option<Self> {
        let script = "import sqlite3, sys
connection = sqlite3.connect('q.db', timeout=60, isolation_level=None)
connection.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.read()";
        let python = std::env::var_os("LEASE_BROKER_TEST_PYTHON");
        let python = python.unwrap_or_else(|| "python3".into());
        let started = Command::new(python)
            .args(["-c", script])
            .current_dir(workspace.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            skipped("Python is not installed");
            return None;
        };
        let mut line = [0; 6];
        let output = child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut line).expect("the lock is held");
        signal::send(&child, "STOP");
        Some(Self(child))
    }

    /// Returns the words by which the process is named.
    fn name(&self) -> String {
        format!("process {} ", self.0.id())
    }
}

impl Drop for StoppedHolder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn doctor_names_a_stopped_process_that_holds_the_lock() {
    let workspace = serving();
    let Some(holder) = StoppedHolder::start(&workspace) else {
        return;
    };
    let doctor = workspace.store("doctor --side broker --json");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let lock = finding(&doctor, "write lock");
    assert_eq!(lock["verdict"], "problem");
    let detail = lock["detail"].as_str().expect("text");
    assert!(detail.starts_with(&holder.name()), "{detail}");
    assert!(detail.contains("kill -CONT"), "{detail}");
    assert_eq!(finding(&doctor, "database")["verdict"], "ok");
}

#[test]
fn broker_names_the_stopped_holder_of_the_lock() {
    let mut workspace = serving();
    let admin = workspace
        .process
        .as_mut()
        .expect("a service")
        .admin_address();
    let Some(holder) = StoppedHolder::start(&workspace) else {
        return;
    };
    let refused = workspace.call("enqueue work --set payload=x --timeout 20s");
    assert_eq!(refused.code, 69, "{refused:?}");
    // Callers hear the kind of the outage. Processes of the host are for operators.
    assert!(!refused.err.contains(&holder.name()), "{refused:?}");
    wait_until_blocking("the broker is not ready", || {
        get(admin, "/readyz").status == 503
    });
    let store = &get(admin, "/readyz").json()["store"];
    let error = store["error"].as_str().expect("an error");
    assert!(error.contains(&holder.name()), "{error}");
    assert!(error.contains("which is stopped"), "{error}");
    let log = workspace.process.as_ref().expect("a service").log();
    assert!(log.contains(&holder.name()), "{log}");
    drop(holder);
    wait_until_blocking("the broker is ready", || {
        get(admin, "/readyz").status == 200
    });
}

#[test]
fn start_names_the_stopped_holder_of_the_lock() {
    let workspace = serving();
    let Some(holder) = StoppedHolder::start(&workspace) else {
        return;
    };
    let serve = "serve --store q.db --config queues.toml --listen 127.0.0.1:0";
    let refused = workspace.run(serve);
    assert_eq!(refused.code, 74, "{refused:?}");
    assert!(refused.err.contains(&holder.name()), "{refused:?}");
    assert!(refused.err.contains("which is stopped"), "{refused:?}");
}

#[test]
fn doctor_answers_while_the_file_is_locked_for_readers() {
    let workspace = Workspace::with(&format!("{QUEUES}{NO_ADMIN_PORT}"));
    assert_eq!(workspace.store("schema apply").code, 0);
    let other = workspace.database();
    other
        .execute_batch("PRAGMA journal_mode = delete; BEGIN EXCLUSIVE")
        .expect("locked");
    let doctor = workspace.store("doctor --side broker --json --timeout 1s");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert_eq!(finding(&doctor, "database")["verdict"], "problem");
    assert_eq!(finding(&doctor, "space left")["side"], "broker");
}

#[test]
fn doctor_answers_while_the_server_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let workspace = Workspace::with(&format!(
        "{NO_ADMIN_PORT}[store]
kind = 'mssql'
connection_string = 'server=tcp:127.0.0.1,{port};user=a;password=b;Encrypt=DANGER_PLAINTEXT'
[queues.work]
table = 'work'
"
    ));
    let doctor = workspace.run("doctor --side broker --config queues.toml --timeout 1s");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.out.contains("no answer within 1s"), "{doctor:?}");
    assert!(doctor.err.contains("1 problem found"), "{doctor:?}");
}

#[test]
fn doctor_needs_a_valid_configuration() {
    let workspace = Workspace::with("[queues.work]\nmax_attempts = 'many'");
    let doctor = workspace.store("doctor");
    assert_eq!(doctor.code, 64, "{doctor:?}");
    assert!(doctor.err.contains("max_attempts"), "{doctor:?}");
}

#[test]
fn service_manager_hears_that_the_service_works() {
    let workspace = Workspace::with(QUEUES);
    let socket = workspace.path("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a time limit");
    let heard = || {
        let mut message = [0; 256];
        let length = manager.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length])
            .trim()
            .to_owned()
    };
    let environment = [
        ("NOTIFY_SOCKET", socket.to_str().expect("text")),
        ("WATCHDOG_USEC", "200000"),
    ];
    let (store, config) = (workspace.path("q.db"), workspace.path("queues.toml"));
    let process = BrokerProcess::with_environment(&store, &config, &environment);
    assert_eq!(heard(), "READY=1");
    for _ in 0..3 {
        assert_eq!(heard(), "WATCHDOG=1");
    }
    process.signal("TERM");
    while heard() != "STOPPING=1" {}
}

#[test]
fn service_manager_can_have_a_socket_without_a_file() {
    let workspace = Workspace::with(QUEUES);
    let name = format!("lease-broker-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    manager
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a time limit");
    let socket = format!("@{name}");
    let environment = [("NOTIFY_SOCKET", socket.as_str())];
    let (store, config) = (workspace.path("q.db"), workspace.path("queues.toml"));
    let _process = BrokerProcess::with_environment(&store, &config, &environment);
    let mut message = [0; 256];
    let length = manager.recv(&mut message).expect("a message");
    assert_eq!(message[..length].trim_ascii(), b"READY=1");
}

/// A file system whose device answers no write, and no read that needs one. It goes on when it is dropped.
struct HangingDisk<'a>(&'a Path);

impl<'a> HangingDisk<'a> {
    /// `None`: this machine does not permit it.
    fn freeze(folder: &'a Path) -> Option<Self> {
        succeeds(Command::new("fsfreeze").arg("-f").arg(folder)).then_some(Self(folder))
    }
}

impl Drop for HangingDisk<'_> {
    fn drop(&mut self) {
        assert!(succeeds(Command::new("fsfreeze").arg("-u").arg(self.0)));
    }
}

/// A file system in a file. It is unmounted when it is dropped.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    /// `None`: this machine does not permit it.
    fn mount(image: &Path, folder: &'a Path) -> Option<Self> {
        std::fs::create_dir(folder).expect("a folder");
        let file = std::fs::File::create(image).expect("a file");
        file.set_len(64 << 20).expect("an empty image");
        let mounted = succeeds(Command::new("mkfs.ext4").arg("-q").arg(image))
            && succeeds(
                Command::new("mount")
                    .args(["-o", "loop"])
                    .args([image, folder]),
            );
        mounted.then_some(Self(folder))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        succeeds(Command::new("umount").arg("--lazy").arg(self.0));
    }
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[test]
fn doctor_ends_while_the_device_hangs() {
    let mut workspace = Workspace::with(&format!("{QUEUES}{NO_ADMIN_PORT}"));
    let folder = workspace.path("disk");
    let Some(_disk) = Disk::mount(&workspace.path("image"), &folder) else {
        return skipped("the test may not mount a file system");
    };
    let file = folder.join("q.db");
    let process = BrokerProcess::serve(&file, &workspace.path("queues.toml"));
    workspace.process = Some(process);
    assert_eq!(workspace.call("enqueue work --set payload=x").code, 0);
    let Some(hanging) = HangingDisk::freeze(&folder) else {
        return skipped("the test may not freeze a file system");
    };
    let (ended, end) = mpsc::channel();
    let command = format!(
        "doctor --side broker --json --timeout 1s --config queues.toml --store {}",
        file.display()
    );
    let doctor = thread::scope(|scope| {
        scope.spawn(|| ended.send(workspace.run(&command)));
        let doctor = end.recv_timeout(TEST_TIMEOUT);
        drop(hanging);
        doctor
    });
    let doctor = doctor.expect("the command ends");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let database = finding(&doctor, "database");
    assert_eq!(database["detail"], "no answer within 1s", "{doctor:?}");
    assert_eq!(finding(&doctor, "database file")["verdict"], "ok");
}

#[test]
fn doctor_names_a_missing_file_with_its_folder() {
    let workspace = Workspace::with(&format!("{QUEUES}{NO_ADMIN_PORT}"));
    let doctor = workspace.store("doctor --side broker --json");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let file = finding(&doctor, "database file");
    let detail = file["detail"].as_str().expect("text");
    let path = workspace.path("q.db").display().to_string();
    assert!(
        detail.starts_with(&format!("{path} does not exist; start the service")),
        "{detail}"
    );
    let checks = findings(&doctor);
    assert!(
        checks.iter().all(|finding| finding["check"] != "database"),
        "{doctor:?}"
    );
}

#[test]
fn doctor_calls_the_address_of_the_configuration() {
    let workspace = serving();
    let address = workspace.process.as_ref().expect("a service").address;
    workspace.write(
        "here.toml",
        &format!("{QUEUES}{NO_ADMIN_PORT}[server]\nlisten = '{address}'\n"),
    );
    let doctor = workspace.run("doctor --json --store q.db --config here.toml");
    assert_eq!(doctor.code, 0, "{doctor:?}");
    assert_eq!(
        finding(&doctor, "connection")["verdict"],
        "ok",
        "{doctor:?}"
    );
}

#[test]
fn doctor_waits_once_for_a_stopped_service() {
    let workspace = serving();
    let process = workspace.process.as_ref().expect("a service");
    process.signal("STOP");
    let doctor = workspace.store(&format!(
        "doctor --json --timeout 1s --address {}",
        process.url()
    ));
    process.signal("CONT");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert_eq!(
        finding(&doctor, "connection")["verdict"],
        "problem",
        "{doctor:?}"
    );
    let checks = findings(&doctor);
    assert!(
        checks
            .iter()
            .all(|finding| finding["check"] != "queue work"),
        "{doctor:?}"
    );
}
