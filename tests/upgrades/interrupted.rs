//! Schema changes that are killed half way, and migrations of a newer version beside running and restarted brokers.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use lease_broker_proto::Outcome;
use rand::RngExt as _;
use rusqlite::Connection;

use crate::support::client::{Client, key};
use crate::support::database::{open, query_value};
use crate::support::process::{BrokerProcess, CommandOutput, program, run};
use crate::support::timeout::wait_until_blocking;

const ADOPTED: &str = "
[queues.orders]
[queues.orders.mirror]
ready = { processed = 0 }
completed = { processed = 1 }
";
const MANAGED: &str = "
[queues.orders]
managed_columns = { payload = 'text' }
";
/// Rows of an adopted table that are completed already. They are marked in batches of 10,000.
const COMPLETED_ROWS: i64 = 300_000;
const OPEN_ROWS: i64 = 100;

struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new(queues: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("queues.toml"), queues).expect("a file");
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self) -> PathBuf {
        self.path().join("q.db")
    }

    fn database(&self) -> Connection {
        open(&self.file())
    }

    /// Starts a command of the program.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = program();
        command.args(arguments).args(STORE).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).spawn().expect("it starts")
    }

    /// Runs a command of the program to its end.
    fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(self.path(), &[arguments, &STORE].concat())
    }

    fn serve(&self) -> BrokerProcess {
        BrokerProcess::serve(&self.file(), &self.path().join("queues.toml"))
    }
}

const STORE: [&str; 4] = ["--store", "q.db", "--config", "queues.toml"];
const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

fn kill(mut process: Child) {
    process.kill().expect("the process runs");
    process.wait().expect("the process ends");
}

fn client(broker: &BrokerProcess) -> Client {
    Client::new(broker.channel(), "orders")
}

#[tokio::test]
async fn killed_schema_apply_is_finished_by_the_next_one() {
    let site = Site::new(ADOPTED);
    let database = site.database();
    let fill = format!(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, processed INTEGER NOT NULL);
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {})
        INSERT INTO orders SELECT n, n <= {COMPLETED_ROWS} FROM n",
        COMPLETED_ROWS + OPEN_ROWS
    );
    database.execute_batch(&fill).expect(&fill);
    let marked = || {
        let sql = "SELECT count(*) FROM orders WHERE lease_state = 3";
        // The column does not exist at first.
        let count = database.query_row(sql, [], |row| row.get(0));
        count.unwrap_or(0_i64)
    };
    let apply = site.start(&["schema", "apply"]);
    wait_until_blocking("the first rows are marked", || marked() > 0);
    kill(apply);
    let before = marked();
    assert!(before < COMPLETED_ROWS, "the command was killed half way");
    let refused = site.run(&SERVE);
    assert_eq!(refused.code, 64, "{refused:?}");
    let applied = site.run(&["schema", "apply"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let check = site.run(&["schema", "check"]);
    assert_eq!(check.code, 0, "{check:?}");
    assert_eq!(marked(), COMPLETED_ROWS);
    let integrity: String = query_value(&database, "PRAGMA integrity_check");
    assert_eq!(integrity, "ok");
    let broker = site.serve();
    let lease = client(&broker).claim_one().await;
    assert_eq!(key(&lease), (COMPLETED_ROWS + 1).to_string());
}

#[tokio::test]
async fn killed_first_start_is_finished_by_the_next_one() {
    for _ in 0..10 {
        let site = Site::new(MANAGED);
        let broker = site.start(&SERVE);
        let time = Duration::from_millis(rand::rng().random_range(0..200));
        eprintln!("killed after {time:?}");
        tokio::time::sleep(time).await;
        kill(broker);
        let broker = site.serve();
        client(&broker).enqueue(&["a"]).await;
        client(&broker).claim_one().await;
    }
}

#[tokio::test]
async fn newer_migration_stops_restarts_of_brokers_that_are_too_old() {
    let site = Site::new(MANAGED);
    let broker = site.serve();
    client(&broker).enqueue(&["a", "b"]).await;
    let lease = client(&broker).claim_one().await;
    // As `schema apply` of a newer version does.
    let newer = "INSERT INTO lease_broker_migration (name, checksum, oldest_reader) VALUES ('9999_future', '', '99.0.0')";
    site.database().execute_batch(newer).expect(newer);
    let results = client(&broker).complete(&[&lease.lease_id]).await;
    assert_eq!(results[0].outcome(), Outcome::Applied);
    drop(broker);
    let refused = site.run(&SERVE);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("9999_future"), "{refused:?}");
    let own = format!(
        "UPDATE lease_broker_migration SET oldest_reader = '{}' WHERE name = '9999_future'",
        env!("CARGO_PKG_VERSION")
    );
    site.database().execute_batch(&own).expect(&own);
    let broker = site.serve();
    client(&broker).claim_one().await;
}
