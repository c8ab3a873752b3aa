//! The locks of a claim on SQL Server. A trigger on the table remembers them inside the claim's transaction.

use crate::sql_server::load::{Load, MANY};
use crate::sql_server::statements::statement;

/// Lock modes of pages and of the table that let other claims pass.
const PASSABLE: [&str; 4] = ["IS", "IU", "IX", "Sch-S"];

async fn check_locks(columns: &str) {
    let Some(mut load) = Box::pin(Load::start("locks in sys.dm_tran_locks", columns)).await else {
        return;
    };
    load.program.run(&statement("locks_seen")).await;
    load.program.run(&statement("watch_locks")).await;
    // A store renders its statements for the triggers that the table has when it opens.
    let broker = load.fixture.another().await;
    for wanted in [10, MANY] {
        let items = broker.claim(wanted).await;
        assert_eq!(items.len(), wanted);
        check_locks_of(&mut load, wanted).await;
    }
}

/// Checks the locks of a claim of `wanted` items: as many row locks in each index, and no lock of a page or of the table that
/// stops others.
async fn check_locks_of(load: &mut Load, wanted: usize) {
    let seen = "SELECT index_name, resource_type, SUM(locks), MIN(request_mode), MAX(request_mode) FROM locks_seen
        GROUP BY index_name, resource_type ORDER BY index_name, resource_type";
    let rows = load.program.rows(seen).await;
    load.program.run("DELETE locks_seen").await;
    let mut in_ready_index = 0;
    for row in &rows {
        let [index, resource, locks, modes @ ..] = &row[..] else {
            panic!("{rows:?}");
        };
        match &**resource {
            "KEY" | "RID" => {
                let locks: usize = locks.parse().expect("a number");
                assert!(locks <= wanted, "more than {wanted} locks: {rows:?}");
                if index == "item_lease_ready" {
                    in_ready_index = locks;
                }
            }
            // With optimized locking, one lock of the transaction replaces the X locks of its rows.
            "XACT" => {}
            _ => assert!(
                modes.iter().all(|mode| PASSABLE.contains(&&**mode)),
                "a lock that stops others: {rows:?}"
            ),
        }
    }
    assert_eq!(in_ready_index, wanted, "{rows:?}");
}

#[tokio::test]
async fn claim_locks_the_rows_that_it_takes_and_no_page() {
    check_locks("id int NOT NULL PRIMARY KEY").await;
}

#[tokio::test]
async fn claim_on_a_heap_locks_the_rows_that_it_takes() {
    check_locks("id int NOT NULL PRIMARY KEY NONCLUSTERED").await;
}
