//! Tests of `serve`: its announcement, its log, its settings, and how it stops.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::client::Client;
use crate::support::http::get;
use crate::support::ports::free_port;
use crate::support::process::{BrokerProcess, PROGRAM, program};
use crate::support::signal;
use crate::support::timeout::{wait_until_blocking, with_timeout};

#[test]
fn announced_commands_work() {
    let mut workspace = Workspace::serving();
    let process = workspace.process.as_mut().expect("a service");
    assert!(
        process.announcement.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        process.announcement
    );
    assert!(
        process.announcement.contains("work"),
        "{}",
        process.announcement
    );
    let lines = [process.next_line(), process.next_line()];
    let commands = lines.map(|line| {
        let (_, command) = line.split_once("lease-broker ").expect("a command");
        command.trim().to_owned()
    });
    for command in commands {
        let tried = workspace.run(&command);
        assert_eq!(tried.code, 0, "{command}: {tried:?}");
    }
}

#[test]
fn missing_file_is_not_created_for_a_table_of_another_program() {
    let workspace = Workspace::with("[queues.orders]\n");
    let file = workspace.path("elsewhere.db");
    for command in ["serve --listen 127.0.0.1:0", "schema apply"] {
        let refused = workspace.run(&format!(
            "{command} --config queues.toml --store elsewhere.db"
        ));
        assert_eq!(refused.code, 74, "{refused:?}");
        assert!(
            refused.err.contains(&file.display().to_string()),
            "{refused:?}"
        );
        assert!(!file.exists(), "{command}");
    }
    // The error of a file without the table names the file too.
    std::fs::write(&file, "").expect("a file");
    let refused = workspace.run("serve --config queues.toml --store elsewhere.db");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(
        refused.err.contains(&file.display().to_string()),
        "{refused:?}"
    );
}

#[test]
fn new_file_is_announced_once() {
    let mut workspace = Workspace::serving();
    let line = format!("new file: {}\n", workspace.path("q.db").display());
    let until_admin_port = |workspace: &mut Workspace| {
        let process = workspace.process.as_mut().expect("a service");
        let lines = std::iter::repeat_with(|| process.next_line());
        let lines = lines.take_while(|line| !line.starts_with("admin port"));
        lines.collect::<Vec<_>>()
    };
    assert!(until_admin_port(&mut workspace).contains(&line));
    workspace.process = None;
    workspace.serve();
    assert!(!until_admin_port(&mut workspace).contains(&line));
}

/// Serves a table of another program, and returns the commands that the service prints.
fn announced(table: &str) -> (Workspace, Vec<String>) {
    let mut workspace = Workspace::with("[queues.orders]\n");
    workspace.database().execute_batch(table).expect("a table");
    let applied = workspace.store("schema apply");
    assert_eq!(applied.code, 0, "{applied:?}");
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let mut commands = Vec::new();
    loop {
        let line = process.next_line();
        match line.split_once("lease-broker ") {
            Some((_, command)) => commands.push(command.trim().to_owned()),
            None => return (workspace, commands),
        }
    }
}

/// Runs an announced command as a user copies it.
fn run_in_shell(workspace: &Workspace, command: &str) -> std::process::Output {
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &format!("{PROGRAM} {command}")]);
    shell.env_clear().current_dir(workspace.folder.path());
    shell.output().expect("a shell")
}

#[test]
fn announced_item_is_accepted_by_tables_of_all_types() {
    for (table, columns) in [
        (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total NUMERIC)",
            "--set customer=hello",
        ),
        (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, total NUMERIC, note TEXT)",
            "--set total=1.50",
        ),
        (
            "CREATE TABLE orders (number INT PRIMARY KEY); INSERT INTO orders VALUES (7)",
            "--set number=8",
        ),
        (
            "CREATE TABLE orders (code TEXT PRIMARY KEY, price DECIMAL(5,2) NOT NULL, day DATE NOT NULL,
             paid BOOLEAN NOT NULL DEFAULT 0, checked INTEGER NOT NULL)",
            "--set code=hello --set price=1.50 --set day=2026-01-31 --set checked=1",
        ),
        (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, \"the customer's name\" TEXT NOT NULL) STRICT",
            "--set 'the customer'\\''s name=hello'",
        ),
    ] {
        let (workspace, commands) = announced(table);
        let [enqueue, claim] = &commands[..] else {
            panic!("{table}: {commands:?}");
        };
        assert!(enqueue.ends_with(columns), "{table}: {enqueue}");
        for command in [enqueue, claim] {
            let tried = run_in_shell(&workspace, command);
            assert!(tried.status.success(), "{table}: {command}: {tried:?}");
        }
    }
}

#[test]
fn item_that_a_table_may_refuse_is_not_announced() {
    for rule in [
        "picture BLOB NOT NULL",
        "code TEXT NOT NULL CHECK (code GLOB 'a*')",
        "parent INTEGER NOT NULL REFERENCES orders (id)",
        "one INT UNIQUE, two INT UNIQUE",
        "note TEXT); CREATE TRIGGER refuse BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no'); END; --",
    ] {
        let table = format!("CREATE TABLE orders (id INTEGER PRIMARY KEY, {rule})");
        let (_, commands) = announced(&table);
        let [claim] = &commands[..] else {
            panic!("{table}: {commands:?}");
        };
        assert!(claim.starts_with("claim orders"), "{claim}");
    }
}

#[test]
fn managed_table_with_a_number_announces_a_number() {
    let mut workspace =
        Workspace::with("[queues.work]\nmanaged_columns = { order_id = 'integer not null' }\n");
    workspace.serve();
    let process = workspace.process.as_mut().expect("a service");
    let line = process.next_line();
    let (_, command) = line.split_once("lease-broker ").expect("a command");
    assert!(command.contains("--set order_id=1"), "{command}");
    let tried = workspace.run(command.trim());
    assert_eq!(tried.code, 0, "{tried:?}");
}

#[test]
fn listen_accepts_localhost_and_explains_other_names() {
    let workspace = Workspace::with(QUEUES);
    let process = BrokerProcess::listening(
        "localhost:0",
        &workspace.path("q.db"),
        &workspace.path("queues.toml"),
    );
    assert!(process.address.ip().is_loopback(), "{}", process.address);
    drop(process);
    let refused = workspace.store("serve --listen broker.example:50051");
    assert_eq!(refused.code, 64, "{refused:?}");
    for part in ["--listen", "broker.example:50051", "0.0.0.0:50051"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
}

fn assert_drains_on(signal: &str) {
    let mut workspace = Workspace::serving();
    workspace.lease();
    let process = workspace.process.as_mut().expect("a service");
    process.signal(signal);
    let status = process.wait();
    assert_eq!(status.code(), Some(0), "{}", process.log());
    assert!(process.log().contains("draining"), "{}", process.log());
}

#[test]
fn sigterm_drains_and_exits_0() {
    assert_drains_on("TERM");
}

#[test]
fn sigint_drains_and_exits_0() {
    assert_drains_on("INT");
}

#[test]
fn log_ends_with_operation_counts() {
    let mut workspace = Workspace::serving();
    let id = workspace.lease();
    workspace.call(&format!("complete work {id}"));
    let process = workspace.process.as_mut().expect("a service");
    process.signal("TERM");
    process.wait();
    let log = process.log();
    let event = log.lines().find(|line| line.contains("operation_counts"));
    let event = event.unwrap_or_else(|| panic!("no such line in {log}"));
    for counts in ["claim", "settle", "enqueue"] {
        for count in ["calls=1", "statements=1", "items=1"] {
            let count = format!("{counts}_{count}");
            assert!(event.contains(&count), "{count}: {event}");
        }
    }
    assert!(event.contains("heartbeat_calls=0"), "{event}");
}

#[tokio::test]
async fn sigterm_answers_waiting_claims() {
    let mut workspace = Workspace::serving();
    let process = workspace.process.as_mut().expect("a service");
    let client = Client::new(process.channel(), "work");
    let waiting = tokio::spawn({
        let (client, request) = (
            client.clone(),
            client.waiting_claim_request(1, Duration::from_secs(60)),
        );
        async move { client.try_claim(request).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(client.claim(1).await, []);
    process.signal("TERM");
    let leases = with_timeout(waiting).await.expect("a task");
    assert_eq!(leases.expect("an empty answer"), []);
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
}

#[test]
fn second_signal_ends_the_drain() {
    let workspace = Workspace::with(&format!("[server]\ndrain_delay = '60s'\n{QUEUES}"));
    let mut process = BrokerProcess::serve(&workspace.path("q.db"), &workspace.path("queues.toml"));
    process.signal("TERM");
    wait_until_blocking("it drains", || process.log().contains("draining"));
    assert!(process.is_running());
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(1), "{}", process.log());
}

/// Starts a service that cannot open its database yet.
fn starting(workspace: &Workspace) -> Child {
    let mut command = program();
    command.args([
        "serve",
        "--config",
        "queues.toml",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.current_dir(workspace.folder.path());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Sends SIGTERM, and expects that the service ends as it was told.
fn assert_ends(starting: Child) {
    signal::send(&starting, "TERM");
    let output = starting.wait_with_output().expect("it ends");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(log.contains("ended while it started"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn signal_ends_a_start_that_waits_for_a_server() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let string = format!("server=127.0.0.1,{port};user id=a;password=b");
    let workspace = Workspace::with(&format!(
        "[store]\nkind = 'mssql'\nconnection_string = '{string};TrustServerCertificate=true'
[admin]\nlisten = ''\n[queues.work]\ntable = 'dbo.Work'\n"
    ));
    let child = starting(&workspace);
    // The server accepts, and never answers.
    let _connection = server.accept().expect("a connection");
    assert_ends(child);
}

#[test]
fn signal_ends_a_start_that_waits_for_a_lock() {
    let admin = free_port();
    let workspace = Workspace::with(&format!(
        "[store]\npath = 'q.db'\n[admin]\nlisten = '{admin}'\n{QUEUES}"
    ));
    let other = workspace.database();
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    let child = starting(&workspace);
    // The admin port opens before the database.
    wait_until_blocking("it starts", || TcpStream::connect(admin).is_ok());
    assert_ends(child);
}

#[test]
fn store_is_down_in_the_metrics_until_it_is_open() {
    let admin = free_port();
    let workspace = Workspace::with(&format!(
        "[store]\npath = 'q.db'\n[admin]\nlisten = '{admin}'\n{QUEUES}"
    ));
    let other = workspace.database();
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    let child = starting(&workspace);
    wait_until_blocking("it starts", || TcpStream::connect(admin).is_ok());
    let metrics = get(admin, "/metrics").body;
    other.execute_batch("ROLLBACK").expect("it is free");
    wait_until_blocking("it serves", || get(admin, "/readyz").status == 200);
    let serving = get(admin, "/metrics").body;
    signal::send(&child, "TERM");
    child.wait_with_output().expect("it ends");
    let down = metrics
        .lines()
        .any(|line| line == "lease_broker_store_up 0");
    assert!(down, "{metrics}");
    assert!(serving.contains("\nlease_broker_store_up 1\n"), "{serving}");
}

#[test]
fn lease_survives_a_restart() {
    let mut workspace = Workspace::serving();
    let id = workspace.lease();
    workspace
        .process
        .as_mut()
        .expect("a service")
        .signal("TERM");
    workspace.process.as_mut().expect("a service").wait();
    workspace.serve();
    let done = workspace.call(&format!("complete work {id}")).json();
    assert_eq!(done[0]["outcome"], "applied");
}

#[test]
fn log_format_can_be_json() {
    let workspace = Workspace::with(&format!("[log]\nformat = 'json'\n{QUEUES}"));
    let mut process = BrokerProcess::start(
        &workspace.path("q.db"),
        &workspace.path("queues.toml"),
        &["--log-level", "info"],
    );
    process.signal("TERM");
    process.wait();
    let log = process.log();
    assert!(!log.is_empty());
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(
            line["message"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
}
