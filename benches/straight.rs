//! Benchmark of the broker against workers that use the database directly: equal workers on equal tables, one item at
//! a time.
//!
//! Runs on SQLite, and on the T-SQL server of the connection string in `LEASE_BROKER_TEST_MSSQL`. The runs alternate,
//! so that disturbances of the machine affect all of them.
//!
//! `cargo bench --bench straight`

#[path = "straight/arguments.rs"]
mod arguments;
#[path = "straight/child_broker.rs"]
mod child_broker;
#[path = "straight/cpu_time.rs"]
mod cpu_time;
#[path = "straight/database.rs"]
mod database;
#[path = "straight/design.rs"]
mod design;
#[path = "straight/grpc_worker.rs"]
mod grpc_worker;
#[path = "straight/report.rs"]
mod report;
#[path = "straight/rounds.rs"]
mod rounds;
#[path = "straight/run_window.rs"]
mod run_window;
#[path = "straight/sqlite.rs"]
mod sqlite;
#[path = "straight/tsql.rs"]
mod tsql;

use clap::Parser as _;

use arguments::{Arguments, Kind};

/// The environment variable with the T-SQL server's ADO.NET connection string.
const SERVER: &str = "LEASE_BROKER_TEST_MSSQL";

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let mut results = Vec::new();
    if arguments.wants(Kind::Sqlite) {
        let mut file = sqlite::File::new();
        results.extend(rounds::all(&arguments, &mut file).await);
    }
    let server = std::env::var(SERVER).ok().filter(|name| !name.is_empty());
    match server {
        Some(server) if arguments.wants(Kind::Mssql) => {
            let mut database = tsql::Server::connect(&server, arguments.max_workers()).await;
            results.extend(rounds::all(&arguments, &mut database).await);
            database.close().await;
        }
        None if arguments.wants(Kind::Mssql) => {
            eprintln!("skipped: T-SQL server: {SERVER} is not set");
        }
        _ => {}
    }
    report::print(&results);
    if let Some(file) = &arguments.json {
        report::write(&results, file);
    }
}
