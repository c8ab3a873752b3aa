//! Events of SQL Server during a load, as parts 4 to 6 of the administrators' checks collect them.

use crate::sql_server::load::{Load, MANY};
use crate::sql_server::statements::{check, statement};
use crate::support::timeout::wait_until;

#[tokio::test]
async fn load_recompiles_escalates_and_spills_nothing() {
    let columns = "id int NOT NULL PRIMARY KEY";
    let Some(load) = Box::pin(Load::start("extended events", columns)).await else {
        return;
    };
    load.run(1).await;
    load.run(MANY).await;
    load.program.run(&statement("end_earlier_events")).await;
    load.program.run(&check(4, &load.database)).await;
    for _ in 0..5 {
        load.run(MANY).await;
        load.run(1).await;
    }
    // The server delivers events in their order, some time after they occurred. This one comes last.
    load.program.run(&statement("mark_end_of_events")).await;
    let events = check(5, &load.database);
    let has_end = async || {
        let names = load.program.texts(&events).await;
        names.iter().any(|name| name == "user_event")
    };
    wait_until("the server delivers all events", has_end).await;
    let counts = load.program.rows(&events).await;
    load.program.run(&check(6, &load.database)).await;
    for row in &counts {
        let name = &row[0];
        // Deadlocks are allowed, because the broker runs their victims again.
        assert!(
            ["user_event", "xml_deadlock_report"].contains(&&**name),
            "{counts:?}"
        );
    }
    eprintln!("events: {counts:?}");
}
