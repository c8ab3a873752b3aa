//! Through the broker or straight on the database: the same workers on the same table, one item at a time, in turns. On
//! SQLite, and on the T-SQL server that `LEASE_BROKER_TEST_MSSQL` names.
//!
//! `cargo bench --bench straight`

#[path = "straight/arguments.rs"]
mod arguments;
#[path = "straight/broker.rs"]
mod broker;
#[path = "straight/course.rs"]
mod course;
#[path = "straight/database.rs"]
mod database;
#[path = "straight/design.rs"]
mod design;
#[path = "straight/over_grpc.rs"]
mod over_grpc;
#[path = "straight/processor_time.rs"]
mod processor_time;
#[path = "straight/report.rs"]
mod report;
#[path = "straight/rounds.rs"]
mod rounds;
#[path = "straight/sqlite.rs"]
mod sqlite;
#[path = "straight/tsql.rs"]
mod tsql;

use clap::Parser as _;

use arguments::{Arguments, Kind};

/// Names the T-SQL server, by an ADO.NET connection string.
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
            let mut database = tsql::Server::connect(&server, arguments.most_workers()).await;
            results.extend(rounds::all(&arguments, &mut database).await);
            database.close().await;
        }
        None if arguments.wants(Kind::Mssql) => {
            eprintln!("skipped: {SERVER} names no T-SQL server");
        }
        _ => {}
    }
    report::print(&results);
    if let Some(file) = &arguments.json {
        report::write(&results, file);
    }
}
