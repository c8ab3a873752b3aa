//! Cleanup process: drops the databases of a test run when the run has ended, even if a signal ended it.
//!
//! The process is this test binary, started once more. It reads the names of databases from standard input and drops
//! them when its input ends. The input ends when the test run, which holds the other end of the pipe, is gone.

use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use super::database::{self, Database};
use super::pooled_database::TABLE_DROPS;
use super::{SERVER, runtime};

/// Environment variable that makes the test binary act as the cleanup process.
const CLEANUP_PROCESS: &str = "LEASE_BROKER_TEST_CLEANUP";

/// Lets the cleanup process drop the database when the test run has ended.
pub(super) fn drop_after_run(database: &Database) {
    static PROCESS: OnceLock<Mutex<Child>> = OnceLock::new();

    let process = PROCESS.get_or_init(|| Mutex::new(start_process()));
    send_name(
        &mut process
            .lock()
            .expect("no test panics while it holds the lock"),
        database,
    );
}

fn send_name(process: &mut Child, database: &Database) {
    let input = process.stdin.as_mut().expect("a piped input");
    writeln!(input, "{}", database.name).expect("the cleanup process reads its input");
}

fn start_process() -> Child {
    let module = module_path!();
    let module = module.split_once("::").map_or(module, |(_, inner)| inner);
    Command::new(std::env::current_exe().expect("a test binary"))
        .args([
            "--exact",
            &format!("{module}::databases_are_dropped_when_their_run_has_ended"),
        ])
        .env(CLEANUP_PROCESS, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // A process group of its own. A terminal sends Ctrl-C to the group of the test run only.
        .process_group(0)
        .spawn()
        .expect("this test binary runs")
}

/// Runs in the cleanup process. Reads names until the input ends, then drops these databases and stale ones.
async fn drop_databases() {
    let server = std::env::var(SERVER).expect(SERVER);
    let lines = std::io::stdin().lock().lines();
    let mut names: Vec<String> = lines.map_while(Result::ok).collect();
    names.extend(database::stale_databases(&server).await.unwrap_or_default());
    for name in names {
        if let Err(error) = database::drop_database(&server, &name).await {
            eprintln!("cannot drop the test database {name}: {error}");
        }
    }
}

#[test]
fn databases_are_dropped_when_their_run_has_ended() {
    let runtime = runtime::new();
    if std::env::var_os(CLEANUP_PROCESS).is_some() {
        return runtime.block_on(Box::pin(drop_databases()));
    }
    if !crate::harness::can_run::<super::MssqlHarness>() {
        return;
    }
    let server = std::env::var(SERVER).expect(SERVER);
    let exists = |name: &str| runtime.block_on(Box::pin(database::exists(&server, name)));
    let database = runtime.block_on(Box::pin(Database::create(&server)));
    let _session = runtime.block_on(Box::pin(database.connect()));
    let mut process = start_process();
    send_name(&mut process, &database);
    assert!(exists(&database.name).expect("list of databases"));
    let lock = TABLE_DROPS.blocking_write();
    drop(process.stdin.take());
    assert!(process.wait().expect("the cleanup process ends").success());
    drop(lock);
    assert!(!exists(&database.name).expect("databases"));
}
