//! Runs the READMEs of the worker libraries, from an empty folder beside a clone, on the table of `clients/README.md`. The page for
//! C# has no library: the commands on it that need no .NET are run.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::session::Session;
use super::store::Store;
use super::{read, section};
use crate::support::skipped::skipped;

/// Time limit for the worker to process the orders that the README adds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The orders with their totals and their states in the end. Ada's was processed before.
const ORDERS: &str = "Ada - 1 3, Grace 12.5 1 3, Edsger 12.5 1 3, Barbara 12.5 1 3, Tony 12.5 1 3";

/// Runs a README up to its part for developers of the library. Without `tools` it prints why it is skipped.
fn run(language: &str, tools: &[&str]) {
    let name = format!("clients/{language}/README.md");
    // The packages come from the network. `.ci/run` sets the variable.
    if std::env::var_os("LEASE_BROKER_TEST_CLIENTS").is_none() {
        return skipped(&format!("{name}: LEASE_BROKER_TEST_CLIENTS is not set"));
    }
    if let Some(missing) = tools.iter().find(|tool| !is_installed(tool)) {
        return skipped(&format!("{name}: {missing} is missing"));
    }
    let start = Instant::now();
    let mut reader = Session::start_in(Store::Sqlite, stable_folder(language));
    reader.show_clone();
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    if language == "rust" {
        // The dependencies are compiled once, in the versions of the repository.
        reader.set_variable("CARGO_TARGET_DIR", clone.join("target/ci/rust-client"));
        let lock = std::fs::copy(clone.join("Cargo.lock"), reader.path("Cargo.lock"));
        lock.expect("the versions are copied");
    }
    if language == "java" {
        let repository = clone.join("target/ci/java/repository");
        let given = std::env::var("MAVEN_OPTS").unwrap_or_default();
        let options = format!("{given} -Dmaven.repo.local={}", repository.display());
        reader.set_variable("MAVEN_OPTS", PathBuf::from(options));
    }
    reader.run(&section(
        "clients/README.md",
        "One example for all libraries",
    ));
    let page = read(&name);
    let (page, _) = page.split_once("\n## Development").expect("the heading");
    reader.run(page);
    let database = reader.path("orders.db");
    let deadline = Instant::now() + TIMEOUT;
    while orders(&database) != ORDERS {
        assert!(Instant::now() < deadline, "{}", orders(&database));
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = reader.stop_last_service();
    assert!(status.success(), "the worker ended with {status}");
    let seconds = start.elapsed().as_secs();
    eprintln!("{name}: {seconds} s from the first command to the last order");
}

fn is_installed(tool: &str) -> bool {
    let argument = if tool == "go" { "version" } else { "--version" };
    let output = Command::new(tool).arg(argument).output();
    output.is_ok_and(|output| output.status.success())
}

/// Makes a folder whose name is that of the last run, because cargo compiles a library at another path again. It is outside of
/// the repository, because cargo would add a project inside of it to the repository's workspace.
fn stable_folder(language: &str) -> tempfile::TempDir {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    let name = format!("lease-broker-readme-{language}-{:x}", hasher.finish());
    // A run that was killed leaves it.
    let _ = std::fs::remove_dir_all(std::env::temp_dir().join(&name));
    let folder = tempfile::Builder::new()
        .prefix(&name)
        .rand_bytes(0)
        .tempdir();
    folder.expect("a folder")
}

/// Returns customer, total, `Processed` and state of each order.
fn orders(database: &Path) -> String {
    let connection = rusqlite::Connection::open(database).expect("a database");
    connection
        .busy_timeout(Duration::from_secs(30))
        .expect("a timeout");
    let sql = "SELECT group_concat(Customer || ' ' || coalesce(Total, '-') || ' ' || Processed || ' ' || lease_state, ', ') \
               FROM (SELECT * FROM Orders ORDER BY Order_ID)";
    let row = connection.query_row(sql, [], |row| row.get(0));
    row.expect("the orders are read")
}

#[test]
fn page_of_csharp_shows_what_its_commands_print() {
    let mut reader = Session::start(Store::Sqlite);
    for (page, heading) in [
        ("clients/README.md", "One example for all libraries"),
        ("clients/csharp/README.md", "`lease-broker work`"),
    ] {
        reader.run(&section(page, heading));
    }
    let orders = orders(&reader.path("orders.db"));
    assert_eq!(
        orders,
        "Ada - 1 3, Grace - 1 3, Edsger - 1 3, Barbara - 0 4"
    );
}

#[test]
fn readme_of_python_works_as_copied() {
    run("python", &["python3"]);
}

#[test]
fn readme_of_node_works_as_copied() {
    run("node", &["node", "npm"]);
}

#[test]
fn readme_of_go_works_as_copied() {
    run("go", &["go"]);
}

#[test]
fn readme_of_java_works_as_copied() {
    run("java", &["java", "javac", "mvn"]);
}

#[test]
fn readme_of_rust_works_as_copied() {
    run("rust", &["cargo"]);
}
