//! Drops the databases of a test run when it has ended, however it ended: a process of its own, this test binary once
//! more, that reads their names and waits until nobody holds the other end of its input.

use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use super::database::{self, Database};
use super::{SERVER, runtime};

/// Set for the process that is the janitor.
const ON_DUTY: &str = "LEASE_BROKER_TEST_JANITOR";

/// Has the database dropped when this process is gone.
pub(super) fn entrust(database: &Database) {
    static JANITOR: OnceLock<Mutex<Child>> = OnceLock::new();

    let janitor = JANITOR.get_or_init(|| Mutex::new(hire()));
    tell(
        &mut janitor.lock().expect("nobody panics while it is held"),
        database,
    );
}

fn tell(janitor: &mut Child, database: &Database) {
    let input = janitor.stdin.as_mut().expect("a piped input");
    writeln!(input, "{}", database.name).expect("the janitor listens");
}

fn hire() -> Child {
    let here = module_path!();
    let here = here.split_once("::").map_or(here, |(_, inner)| inner);
    Command::new(std::env::current_exe().expect("a test binary"))
        .args([
            "--exact",
            &format!("{here}::databases_are_dropped_when_their_run_has_ended"),
        ])
        .env(ON_DUTY, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // Out of reach of what a terminal sends to a run that is interrupted.
        .process_group(0)
        .spawn()
        .expect("this test binary runs")
}

/// What the janitor does: nothing until its input ends.
async fn clean_up() {
    let server = std::env::var(SERVER).expect(SERVER);
    let lines = std::io::stdin().lock().lines();
    let mut names: Vec<String> = lines.map_while(Result::ok).collect();
    names.extend(database::forgotten(&server).await.unwrap_or_default());
    for name in names {
        if let Err(error) = database::drop_database(&server, &name).await {
            eprintln!("the database {name} is left behind: {error}");
        }
    }
}

#[test]
fn databases_are_dropped_when_their_run_has_ended() {
    let runtime = runtime::new();
    if std::env::var_os(ON_DUTY).is_some() {
        return runtime.block_on(Box::pin(clean_up()));
    }
    if !crate::harness::can_run::<super::MssqlHarness>() {
        return;
    }
    let server = std::env::var(SERVER).expect(SERVER);
    let exists = |name: &str| runtime.block_on(Box::pin(database::exists(&server, name)));
    let database = runtime.block_on(Box::pin(Database::create(&server)));
    let _session = runtime.block_on(Box::pin(database.connect()));
    let mut janitor = hire();
    tell(&mut janitor, &database);
    assert!(exists(&database.name).expect("databases"));
    drop(janitor.stdin.take());
    assert!(janitor.wait().expect("the janitor ends").success());
    assert!(!exists(&database.name).expect("databases"));
}
