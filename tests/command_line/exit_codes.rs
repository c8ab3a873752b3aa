//! Exit codes and error messages of commands that fail.

use std::net::TcpListener;

use crate::command_line::workspace::{QUEUES, Workspace};
use crate::support::database::{self, WriteLock};
use crate::support::ports::free_port;
use crate::support::process::{CommandOutput, program};

/// Asserts the exit code, and that the error message contains all parts.
fn fails(printed: &CommandOutput, code: i32, named: &[&str]) {
    assert_eq!(printed.code, code, "{printed:?}");
    for part in named {
        assert!(printed.err.contains(part), "{part:?} is not in {printed:?}");
    }
    assert!(!printed.err.contains("panicked"), "{printed:?}");
}

#[test]
fn wrong_command_line_exits_64() {
    let workspace = Workspace::with(QUEUES);
    for wrong in [
        "",
        "nonsense",
        "serve --nonsense",
        "claim",
        "claim work --wait soon",
        "claim work --limit many",
        "enqueue work",
        "enqueue work --set payload=a --file x.csv",
        "enqueue work --file x.csv --batch 1001",
        "complete work",
        "list work --state gone",
        "list work --limit 0",
        "groups list work --limit 0",
        "cancel work --owner= --yes",
        "purge work --state dead --error= --yes",
        "completions tcsh",
    ] {
        fails(&workspace.run(wrong), 64, &["--help"]);
    }
    for address in ["http://", "ftp://127.0.0.1:1"] {
        let wrong = workspace.run(&format!("claim work --address {address}"));
        fails(&wrong, 64, &["--address"]);
    }
}

#[test]
fn unknown_setting_exits_64_with_its_line() {
    let workspace = Workspace::with(&format!("{QUEUES}\nleese = '5m'\n"));
    for command in [
        "serve",
        "stats",
        "list work",
        "redrive work",
        "schema check",
    ] {
        fails(&workspace.store(command), 64, &["queues.toml:9", "leese"]);
    }
}

#[test]
fn invalid_flag_value_exits_64() {
    let workspace = Workspace::with(QUEUES);
    let wrong = workspace.store("serve --listen nowhere");
    fails(&wrong, 64, &["--listen", "server.listen"]);
    let wrong = workspace.store("serve --listen 127.0.0.1:0 --log-level chatty=loud");
    fails(&wrong, 64, &["log.level"]);
}

#[test]
fn invalid_log_level_exits_64_from_every_command() {
    let workspace = Workspace::with(&format!("[log]\nlevel = 'x'\n{QUEUES}"));
    for command in ["serve", "schema plan", "stats"] {
        fails(&workspace.store(command), 64, &["log.level", "\"x\""]);
    }
}

#[test]
fn missing_configuration_file_exits_64() {
    let workspace = Workspace::with(QUEUES);
    let missing = workspace.run("stats --config missing.toml");
    fails(&missing, 64, &["missing.toml"]);
}

#[test]
fn missing_columns_exit_64_and_are_named() {
    let workspace = Workspace::with("[queues.orders]");
    workspace
        .database()
        .execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, lease_owner TEXT)")
        .expect("a table");
    let refused = workspace.store("serve --listen 127.0.0.1:0");
    fails(
        &refused,
        64,
        &[
            "orders",
            "lease_state",
            "lease_token",
            "schema plan",
            "schema apply",
        ],
    );
    // The error does not name a column that the table has.
    assert!(!refused.err.contains("column lease_owner"), "{refused:?}");
    fails(&workspace.store("schema check"), 64, &["schema apply"]);
}

#[test]
fn missing_table_exits_64() {
    let workspace = Workspace::with("[queues.orders]");
    // An empty file is a database without tables.
    workspace.write("q.db", "");
    let refused = workspace.store("serve --listen 127.0.0.1:0");
    fails(&refused, 64, &["orders", "does not exist"]);
}

#[test]
fn schema_commands_are_named_only_where_they_help() {
    let reserved = "CREATE TABLE rows (id); CREATE VIEW orders AS SELECT id FROM rows";
    let without_key = "CREATE TABLE orders (text)";
    for sql in ["", reserved, without_key] {
        let workspace = Workspace::with("[queues.orders]");
        workspace.database().execute_batch(sql).expect(sql);
        for command in ["serve --listen 127.0.0.1:0", "stats"] {
            let refused = workspace.store(command);
            fails(&refused, 64, &["orders"]);
            assert!(!refused.err.contains("schema"), "{sql}: {refused:?}");
        }
    }
}

#[test]
fn unknown_queue_exits_64() {
    let workspace = Workspace::serving();
    for command in [
        "list nowhere",
        "why nowhere 1",
        "redrive nowhere",
        "schema plan nowhere",
        "schema check nowhere",
    ] {
        fails(&workspace.store(command), 64, &["nowhere"]);
    }
    for (command, parts) in [
        ("list", &["name a queue", "outbox, work"][..]),
        ("list nowhere", &["\"nowhere\"", "outbox, work"]),
        (
            "purge wrok --state dead --before 1d --yes",
            &["did you mean work?"],
        ),
    ] {
        fails(&workspace.store(command), 64, parts);
    }
    for command in ["claim nowhere", "enqueue nowhere --set payload=a"] {
        fails(
            &workspace.call(command),
            64,
            &["nowhere", "QUEUE_NOT_FOUND"],
        );
    }
}

#[test]
fn file_of_another_format_exits_74() {
    let workspace = Workspace::with(QUEUES);
    std::fs::create_dir(workspace.path("folder")).expect("a folder");
    for command in [
        "stats --store folder",
        "restore folder --config queues.toml --store q.db",
    ] {
        fails(&workspace.run(command), 74, &["folder", "is a folder"]);
    }
    workspace.write("q.db", &"this is no database at all\n".repeat(100));
    for command in ["serve --listen 127.0.0.1:0", "stats", "schema plan"] {
        fails(
            &workspace.store(command),
            74,
            &["q.db", "not an SQLite database"],
        );
    }
}

#[test]
fn damaged_database_exits_74() {
    let workspace = Workspace::with(QUEUES);
    let database = workspace.database();
    let fill = "CREATE TABLE t (x); INSERT INTO t SELECT randomblob(1000) FROM json_each('[1,2,3,4,5,6,7,8,9]')";
    database.execute_batch(fill).expect("a table");
    drop(database);
    let mut bytes = std::fs::read(workspace.path("q.db")).expect("bytes");
    let end = bytes.len().min(4_096);
    bytes[100..end].fill(0x5a);
    std::fs::write(workspace.path("q.db"), bytes).expect("written");
    fails(
        &workspace.store("serve --listen 127.0.0.1:0"),
        74,
        &["damaged"],
    );
}

#[test]
fn folder_instead_of_file_exits_74() {
    let workspace = Workspace::with(QUEUES);
    std::fs::create_dir(workspace.path("q.db")).expect("a folder");
    for command in ["serve --listen 127.0.0.1:0", "stats"] {
        fails(&workspace.store(command), 74, &["q.db"]);
    }
    let nowhere = workspace.run("serve --config queues.toml --store no/such/folder/q.db");
    fails(&nowhere, 74, &["no/such/folder/q.db"]);
}

#[test]
fn reading_missing_file_exits_74() {
    let workspace = Workspace::with(QUEUES);
    for command in ["stats", "list work", "why work 1", "redrive work"] {
        fails(&workspace.store(command), 74, &["q.db"]);
        assert!(!workspace.path("q.db").exists(), "{command} makes no file");
    }
}

#[test]
fn port_in_use_exits_74() {
    let workspace = Workspace::with(QUEUES);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let refused = workspace.store(&format!("serve --listen {address}"));
    fails(&refused, 74, &[&address.to_string(), "--listen"]);
}

#[test]
fn missing_service_exits_69_with_a_hint() {
    let workspace = Workspace::with(QUEUES);
    let address = free_port();
    for command in [
        "claim work",
        "enqueue work --set payload=x",
        "heartbeat work LEASE",
        "complete work LEASE",
        "fail work LEASE",
        "release work LEASE",
        "stats",
        "pause work",
        "redrive work",
    ] {
        let command = command.replace("LEASE", &"A".repeat(64));
        let failed = workspace.run(&format!("{command} --address {address} --timeout 300ms"));
        let nothing = format!("nothing listens on {address}");
        fails(&failed, 69, &[&nothing, "lease-broker serve"]);
    }
    // It asks for the present state, so it does not wait for a service.
    let failed = workspace.run(&format!("health --address {address} --timeout 1h"));
    fails(&failed, 69, &["nothing listens"]);
}

#[test]
fn service_timeout_exits_69() {
    let workspace = Workspace::serving();
    let _lock = WriteLock::acquire(&workspace.path("q.db"));
    fails(
        &workspace.call("claim work --timeout 300ms"),
        69,
        &["--timeout"],
    );
}

#[test]
fn refused_call_exits_1_with_the_reason() {
    let workspace = Workspace::serving();
    fails(
        &workspace.call("claim work --limit 0"),
        1,
        &["max_items", "INVALID_FIELD"],
    );
    fails(
        &workspace.call("claim work --lease 13h"),
        1,
        &["lease_duration", "LIMIT_EXCEEDED"],
    );
    fails(
        &workspace.call("enqueue work --set nothing=x"),
        1,
        &["nothing", "payload"],
    );
    let rows: i64 = database::query_value(&workspace.database(), "SELECT count(*) FROM work");
    assert_eq!(rows, 0);
}

#[test]
fn sql_server_errors_do_not_show_the_password() {
    let address = free_port();
    let server = format!("server={},{}", address.ip(), address.port());
    let workspace = Workspace::with(&format!(
        "[store]\nkind = 'mssql'\nconnection_string_file = 'secret'\n{QUEUES}"
    ));
    // The service waits for its server.
    let commands = ["stats", "schema plan", "serve"];
    for (secret, code, named, commands) in [
        (
            format!("{server};user=me;password=Sw0rdfish"),
            74,
            address.to_string(),
            &commands[..2],
        ),
        (
            format!("{server};pasword=Sw0rdfish"),
            64,
            "pasword".to_owned(),
            &commands,
        ),
    ] {
        workspace.write("secret", &secret);
        for command in commands {
            let printed = workspace.run(&format!("{command} --config queues.toml"));
            fails(&printed, code, &[&named]);
            assert!(!printed.err.contains("Sw0rdfish"), "{printed:?}");
        }
    }
    std::fs::remove_file(workspace.path("secret")).expect("the file");
    let printed = workspace.run("serve --config queues.toml");
    fails(&printed, 64, &["store.connection_string_file", "secret"]);
    let printed = workspace.run("stats --config queues.toml --store q.db");
    fails(&printed, 64, &["--store", "mssql"]);
}

#[test]
fn output_that_cannot_be_written_exits_74() {
    let workspace = Workspace::serving();
    workspace.call("enqueue work --set payload=a");
    for command in ["stats", "list work", "list work --state ready --output csv"] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut program = program();
        program.current_dir(workspace.folder.path());
        program.args(command.split(' '));
        program.args(["--config", "queues.toml", "--store", "q.db"]);
        let printed = program.stdout(full.expect("/dev/full")).output();
        let printed = printed.expect("the program runs");
        let errors = String::from_utf8_lossy(&printed.stderr);
        assert_eq!(printed.status.code(), Some(74), "{errors}");
        assert!(errors.contains("the output is incomplete"), "{errors}");
    }
}

#[test]
fn worker_of_an_unknown_queue_exits_64() {
    let workspace = Workspace::serving();
    let url = workspace.process.as_ref().expect("a service").url();
    let worker = workspace.run(&format!("work wrok --address {url} -- true"));
    fails(&worker, 64, &["wrok"]);
}
