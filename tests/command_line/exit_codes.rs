//! What goes wrong, the exit code that says so, and what the message names.

use std::net::TcpListener;

use crate::support::database::{self, Locked};
use crate::support::process::Printed;
use crate::workspace::{QUEUES, Workspace};

/// Asserts the exit code, and that the message names all of these.
fn fails(printed: &Printed, code: i32, named: &[&str]) {
    assert_eq!(printed.code, code, "{printed:?}");
    for part in named {
        assert!(printed.err.contains(part), "{part:?} is not in {printed:?}");
    }
    assert!(!printed.err.contains("panicked"), "{printed:?}");
}

#[test]
fn a_wrong_command_line_exits_64() {
    let workspace = Workspace::with(QUEUES);
    for wrong in [
        "",
        "nonsense",
        "serve --nonsense",
        "claim",
        "claim work --wait soon",
        "claim work --max many",
        "enqueue work",
        "enqueue work --set payload=a --file x.csv",
        "enqueue work --file x.csv --batch 1001",
        "complete work",
        "list work --state gone",
        "completions tcsh",
    ] {
        fails(&workspace.run(wrong), 64, &["--help"]);
    }
    fails(
        &workspace.run("claim work --address http://"),
        64,
        &["--address"],
    );
}

#[test]
fn an_unknown_key_of_the_configuration_exits_64_and_says_where_it_stands() {
    let workspace = Workspace::with(&format!("{QUEUES}\nleese = '5m'\n"));
    for command in [
        "serve",
        "stats",
        "list work",
        "redrive work",
        "schema check",
    ] {
        fails(&workspace.store(command), 64, &["queues.toml:8", "leese"]);
    }
}

#[test]
fn a_bad_value_of_a_flag_exits_64() {
    let workspace = Workspace::with(QUEUES);
    let wrong = workspace.store("serve --listen nowhere");
    fails(&wrong, 64, &["--listen", "server.listen"]);
    let wrong = workspace.store("serve --listen 127.0.0.1:0 --log-level chatty=loud");
    fails(&wrong, 64, &["log.level"]);
}

#[test]
fn a_missing_configuration_file_exits_64_and_is_named() {
    let workspace = Workspace::with(QUEUES);
    let missing = workspace.run("stats --config missing.toml");
    fails(&missing, 64, &["missing.toml"]);
}

#[test]
fn a_table_that_lacks_its_columns_exits_64_and_names_them_and_the_command_that_mends_it() {
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
    // One that the table has is not missing.
    assert!(!refused.err.contains("column lease_owner"), "{refused:?}");
    fails(&workspace.store("schema check"), 64, &["schema apply"]);
}

#[test]
fn a_table_that_is_not_there_exits_64() {
    let workspace = Workspace::with("[queues.orders]");
    fails(
        &workspace.store("serve --listen 127.0.0.1:0"),
        64,
        &["orders", "does not exist"],
    );
}

#[test]
fn an_unknown_queue_exits_64_where_the_configuration_decides_it() {
    let workspace = Workspace::serving();
    for command in [
        "list nowhere",
        "redrive nowhere",
        "schema plan nowhere",
        "schema check nowhere",
    ] {
        fails(&workspace.store(command), 64, &["nowhere"]);
    }
    // The service refuses it like any other call.
    fails(
        &workspace.call("claim nowhere"),
        1,
        &["nowhere", "QUEUE_NOT_FOUND"],
    );
}

#[test]
fn a_file_that_is_no_database_exits_74() {
    let workspace = Workspace::with(QUEUES);
    workspace.write("q.db", &"this is no database at all\n".repeat(100));
    for command in ["serve --listen 127.0.0.1:0", "stats", "schema plan"] {
        fails(
            &workspace.store(command),
            74,
            &["q.db", "no SQLite database"],
        );
    }
}

#[test]
fn a_damaged_database_exits_74() {
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
fn a_folder_in_the_files_place_exits_74() {
    let workspace = Workspace::with(QUEUES);
    std::fs::create_dir(workspace.path("q.db")).expect("a folder");
    for command in ["serve --listen 127.0.0.1:0", "stats"] {
        fails(&workspace.store(command), 74, &["q.db"]);
    }
    let nowhere = workspace.run("serve --config queues.toml --store no/such/folder/q.db");
    fails(&nowhere, 74, &["no/such/folder/q.db"]);
}

#[test]
fn a_file_that_is_not_there_exits_74_where_it_is_only_read() {
    let workspace = Workspace::with(QUEUES);
    for command in ["stats", "list work", "redrive work"] {
        fails(&workspace.store(command), 74, &["q.db"]);
        assert!(!workspace.path("q.db").exists(), "{command} makes no file");
    }
}

#[test]
fn a_port_in_use_exits_74() {
    let workspace = Workspace::with(QUEUES);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let refused = workspace.store(&format!("serve --listen {address}"));
    fails(&refused, 74, &[&address.to_string(), "--listen"]);
}

#[test]
fn no_service_exits_69_and_says_how_to_start_one() {
    let workspace = Workspace::with(QUEUES);
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    for command in [
        "claim work",
        "enqueue work --set payload=x",
        "heartbeat work x",
        "complete work x",
        "fail work x",
        "release work x",
    ] {
        let failed = workspace.run(&format!("{command} --address {address}"));
        fails(&failed, 69, &[&address.to_string(), "lease-broker serve"]);
    }
}

#[test]
fn a_service_that_does_not_answer_in_time_exits_69() {
    let workspace = Workspace::serving();
    let _lock = Locked::hold(&workspace.path("q.db"));
    fails(
        &workspace.call("claim work --timeout 300ms"),
        69,
        &["--timeout"],
    );
}

#[test]
fn what_the_service_refuses_exits_1_with_the_reason() {
    let workspace = Workspace::serving();
    fails(
        &workspace.call("claim work --max 0"),
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
    let rows: i64 = database::value(&workspace.database(), "SELECT count(*) FROM work");
    assert_eq!(rows, 0);
}

#[test]
fn a_sql_server_that_can_not_be_reached_is_named_and_its_password_is_not() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let server = format!("server={},{}", address.ip(), address.port());
    let workspace = Workspace::with(&format!(
        "[store]\nkind = 'mssql'\nconnection_string_file = 'secret'\n{QUEUES}"
    ));
    for (secret, code, named) in [
        (
            format!("{server};user=me;password=Sw0rdfish"),
            74,
            address.to_string(),
        ),
        (
            format!("{server};pasword=Sw0rdfish"),
            64,
            "pasword".to_owned(),
        ),
    ] {
        workspace.write("secret", &secret);
        for command in ["serve", "stats", "schema plan"] {
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
