//! Adoption of an existing table, finished by workers in Rust and Python.
//!
//! A Python program creates the table and processes part of it. The broker adopts the table, and the workers complete
//! the rest. The Python worker is the one that `docs/recipes.md` shows.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lease_broker_proto::column_value::Kind;
use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{
    ClaimBatchRequest, ColumnValue, CompleteRequest, Completion, FollowUp, Lease, NewItem,
};

use crate::support::skipped::skipped;
use crate::support::tools::{generate_python_client, python_with_grpc, run};

const EVENTS: usize = 2_000;
const PROCESSED: usize = 500;

const CREATE_TABLE: &str = "
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute('''CREATE TABLE Rainfall_Events (
    Event_ID INTEGER PRIMARY KEY, Rainfall_ID bigint NOT NULL, Processed bit NOT NULL DEFAULT 0)''')
connection.executemany('INSERT INTO Rainfall_Events (Rainfall_ID, Processed) VALUES (?, ?)',
    [(n % 97, n % 4 == 0) for n in range(2000)])
connection.commit()
";

const CONFIGURATION: &str = r#"
[store]
path = "rainfall.db"
[server]
listen = "127.0.0.1:0"
[queues.rainfall]
table = "Rainfall_Events"
mirror = { ready = { Processed = 0 }, completed = { Processed = 1 } }
[queues.results]
managed_columns = { event_id = "integer not null", result = "text" }
"#;

#[tokio::test]
async fn rust_and_python_finish_an_adopted_table() {
    let Some(python) = python_with_grpc() else {
        skipped("no Python with grpcio and grpcio-tools; name one in LEASE_BROKER_TEST_PYTHON");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder is created");
    let database = folder.path().join("rainfall.db");
    run(Command::new(&python)
        .args(["-c", CREATE_TABLE])
        .arg(&database));
    std::fs::write(folder.path().join("queues.toml"), CONFIGURATION).expect("the file is written");
    let broker = |command: &[&str]| {
        let mut broker = Command::new(env!("CARGO_BIN_EXE_lease-broker"));
        broker.args(command).args(["--config", "queues.toml"]);
        broker.current_dir(folder.path());
        broker
    };
    run(&mut broker(&["schema", "apply", "rainfall"]));
    assert_eq!(
        count(&database, "Rainfall_Events WHERE lease_state = 3"),
        PROCESSED
    );

    let mut service = KilledOnDrop(
        broker(&["serve"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the broker starts"),
    );
    let address = listen_address(&mut service.0);
    generate_worker(&python, folder.path());
    let python_workers: Vec<KilledOnDrop> = ["python-1", "python-2"]
        .map(|name| {
            let mut worker = Command::new(&python);
            worker
                .arg("worker.py")
                .args([&address, name])
                .current_dir(folder.path());
            KilledOnDrop(
                worker
                    .stdout(Stdio::piped())
                    .spawn()
                    .expect("the worker starts"),
            )
        })
        .into();
    // Python starts slowly. The Rust worker waits until the Python workers have completed an item, so that each gets a
    // share.
    let deadline = Instant::now() + Duration::from_secs(60);
    while count(&database, "Rainfall_Events WHERE lease_state = 3") == PROCESSED {
        assert!(
            Instant::now() < deadline,
            "the Python workers completed no item within 60 seconds"
        );
        tokio::task::yield_now().await;
    }
    let rust = work(&address).await;
    let mut by_python = 0;
    for mut worker in python_workers {
        let output = BufReader::new(worker.0.stdout.take().expect("standard output is piped"));
        let last = output
            .lines()
            .last()
            .expect("the worker prints a line")
            .expect("the line is UTF-8");
        assert!(worker.0.wait().expect("the worker ends").success());
        by_python += last
            .rsplit_once(' ')
            .expect("the line ends with a count")
            .1
            .parse::<usize>()
            .expect("the count is a number");
    }
    eprintln!("completed by Python {by_python}, by Rust {rust}");
    assert!(by_python > 0 && rust > 0);
    assert_eq!(by_python + rust, EVENTS - PROCESSED);
    assert_eq!(
        count(
            &database,
            "Rainfall_Events WHERE lease_state = 3 AND Processed = 1"
        ),
        EVENTS
    );
    assert_eq!(count(&database, "results"), EVENTS - PROCESSED);
    assert_eq!(
        count(&database, "(SELECT DISTINCT event_id FROM results)"),
        EVENTS - PROCESSED
    );
}

/// Claims and completes items until none is ready. Returns the number of completed items.
async fn work(address: &str) -> usize {
    let client = LeaseServiceClient::connect(format!("http://{address}")).await;
    let mut client = client.expect("the broker accepts the connection");
    let mut completed = 0;
    loop {
        let claim = ClaimBatchRequest {
            queue: "rainfall".to_owned(),
            worker_id: "rust".to_owned(),
            max_items: 10,
            ..ClaimBatchRequest::default()
        };
        let leases = client
            .claim_batch(claim)
            .await
            .expect("the claim succeeds")
            .into_inner()
            .leases;
        if leases.is_empty() {
            return completed;
        }
        let request = CompleteRequest {
            queue: "rainfall".to_owned(),
            completions: leases.into_iter().map(completion).collect(),
            next: None,
        };
        completed += client
            .complete(request)
            .await
            .expect("the completion succeeds")
            .into_inner()
            .results
            .len();
    }
}

/// Builds a completion that adds the result of the item to the queue `results`.
fn completion(lease: Lease) -> Completion {
    let item = lease.item.expect("the lease has an item");
    let columns = [
        ("event_id", item.columns["Event_ID"].clone()),
        (
            "result",
            ColumnValue {
                kind: Some(Kind::StringValue("rust".to_owned())),
            },
        ),
    ];
    let item = NewItem {
        columns: columns
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        ..NewItem::default()
    };
    Completion {
        columns: [].into(),
        lease_id: lease.lease_id,
        follow_ups: vec![FollowUp {
            queue: "results".to_owned(),
            item: Some(item),
        }],
    }
}

/// Generates the Python client and saves the Python worker, both as `docs/recipes.md` describes.
fn generate_worker(python: &Path, folder: &Path) {
    generate_python_client(python, folder);
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recipes.md");
    let recipes = std::fs::read_to_string(recipes).expect("docs/recipes.md is readable");
    let (_, after) = recipes
        .split_once("```python\n")
        .expect("the recipes have a Python worker");
    let (worker, _) = after.split_once("```").expect("the code block ends");
    std::fs::write(folder.join("worker.py"), worker).expect("the file is written");
}

/// Reads the address from the first line that the broker prints.
fn listen_address(service: &mut Child) -> String {
    let mut line = String::new();
    let output = service.stdout.take().expect("standard output is piped");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("the broker prints a line");
    let (_, after) = line
        .split_once("listens on ")
        .expect("the line has an address");
    after
        .split(',')
        .next()
        .expect("the address ends")
        .to_owned()
}

/// Counts the rows of `source`: a table, a subquery, or a table with a condition.
fn count(database: &Path, source: &str) -> usize {
    let connection = rusqlite::Connection::open(database).expect("the database opens");
    connection
        .busy_timeout(Duration::from_secs(60))
        .expect("the timeout is set");
    let count: i64 = connection
        .query_row(&format!("SELECT count(*) FROM {source}"), [], |row| {
            row.get(0)
        })
        .expect("the query runs");
    usize::try_from(count).expect("the count is positive")
}

/// A child process that is killed when it is dropped, so that it does not outlive the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
