//! An item that kills its worker's process is among 40 others. It becomes dead, and no other item does.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command_line::workspace::Workspace;
use crate::support::database::query_value;
use crate::support::process::program;
use crate::support::skipped::skipped;
use crate::support::tools::python_with_grpc;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '2s'
min_lease_duration = '1s'
max_attempts = 3
";
const NEIGHBOURS: i64 = 40;
/// Enough for three attempts of the item, and for leases that have not expired yet.
const MAX_PROCESSES: usize = 12;

/// The handler ends its process, which is the parent of the shell.
const SHELL: &str = "sleep 0.2; grep -q poison && kill -9 $PPID; exit 0";

const PYTHON: &str = "
import os, signal, sys, time
sys.path.insert(0, sys.argv[2])
from lease_broker import Worker
worker = Worker(sys.argv[1], 'work', concurrency=8)
@worker.handler
def handle(item):
    time.sleep(0.2)
    if item.columns['payload'] == 'poison':
        os.kill(os.getpid(), signal.SIGKILL)
worker.run()
";

/// Kills its process when it is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts workers, one after the other when the one before has died, until no item is left.
fn finish(start: impl Fn(&Workspace) -> Command) {
    let mut workspace = Workspace::with(QUEUES);
    workspace.serve();
    let mut database = workspace.database();
    let change = database.transaction().expect("a transaction");
    for number in 1..=NEIGHBOURS + 1 {
        let payload = if number == 4 { "poison" } else { "harmless" };
        let insert = "INSERT INTO work (payload) VALUES (?1)";
        change.execute(insert, [payload]).expect("a row");
    }
    change.commit().expect("the rows");
    let left = || -> i64 {
        let left = "SELECT COUNT(*) FROM work WHERE lease_state NOT IN (3, 4)";
        query_value(&workspace.database(), left)
    };
    let until = Instant::now() + Duration::from_secs(180);
    for _ in 0..MAX_PROCESSES {
        let mut command = start(&workspace);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut worker = Worker(command.spawn().expect("the worker starts"));
        while left() > 0 && worker.0.try_wait().expect("a status").is_none() {
            assert!(Instant::now() < until, "{} items are left", left());
            std::thread::sleep(Duration::from_millis(50));
        }
        if left() == 0 {
            break;
        }
    }
    let count = |condition: &str| -> i64 {
        let sql = format!("SELECT COUNT(*) FROM work WHERE {condition}");
        query_value(&workspace.database(), &sql)
    };
    assert_eq!(
        count("payload = 'harmless' AND lease_state = 3"),
        NEIGHBOURS
    );
    let dead = "payload = 'poison' AND lease_state = 4 AND lease_attempt = 3";
    assert_eq!(count(dead), 1);
    // Each neighbour has lost at most the attempt in which it was worked on beside the poison.
    assert_eq!(count("payload = 'harmless' AND lease_attempt > 2"), 0);
}

fn address(workspace: &Workspace) -> String {
    workspace.process.as_ref().expect("a service").url()
}

#[test]
fn neighbours_of_poison_live_with_the_rust_library() {
    finish(|workspace| {
        let mut work = program();
        work.args(["work", "work", "--concurrency", "8", "--"]);
        work.args(["sh", "-c", SHELL]);
        work.env("LEASE_BROKER_ADDRESS", address(workspace));
        work.stderr(Stdio::null());
        work
    });
}

#[test]
fn neighbours_of_poison_live_with_the_python_library() {
    let Some(python) = python_with_grpc() else {
        skipped(
            "no Python with grpcio and googleapis-common-protos; name one in LEASE_BROKER_TEST_PYTHON",
        );
        return;
    };
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/src");
    finish(|workspace| {
        let mut work = Command::new(&python);
        let address = address(workspace);
        work.args(["-c", PYTHON, address.trim_start_matches("http://")]);
        work.arg(&library);
        work
    });
}
