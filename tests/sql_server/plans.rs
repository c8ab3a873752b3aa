//! The plans that SQL Server makes for the broker's statements, as part 1 of the administrators' checks shows them. A plan
//! neither reads the whole table, nor sorts ready rows before it has the first ones, nor reads ahead of the rows that it
//! takes, nor is made again when the states of many rows have changed.

use crate::sql_server::load::{Load, MANY};
use crate::sql_server::statements::check;

/// A row of the check: the beginning of the statement, the plan's generation, and the numbers that should be 0.
struct Plan {
    statement: String,
    generation: String,
    /// Prefetches, scans and lost seeks.
    faults: Vec<String>,
    sorted_rows: String,
}

async fn plans(load: &Load) -> Vec<Plan> {
    let rows = load.program.rows(&check(1, &load.database)).await;
    let plan = |mut row: Vec<String>| Plan {
        sorted_rows: row.remove(6),
        faults: row.split_off(3),
        generation: row.remove(1),
        statement: row.remove(0),
    };
    let mut plans: Vec<Plan> = rows.into_iter().map(plan).collect();
    plans.sort_by(|one, other| one.statement.cmp(&other.statement));
    plans
}

async fn check_plans(columns: &str) {
    let Some(load) = Box::pin(Load::start("plans in sys.dm_exec_query_stats", columns)).await
    else {
        return;
    };
    load.run(1).await;
    load.run(MANY).await;
    let before = plans(&load).await;
    for start in ["INSERT @picked", "INSERT @due", "UPDATE t", "SELECT"] {
        let mut found = before.iter();
        assert!(
            found.any(|plan| plan.statement.trim_start().starts_with(start)),
            "no plan of {start}"
        );
    }
    for plan in &before {
        let statement = plan.statement.trim_start();
        assert_eq!(plan.faults, ["0", "0", "0"], "{statement}");
        let picks = statement.starts_with("INSERT @picked") || statement.starts_with("INSERT @due");
        assert!(!picks || plan.sorted_rows == "0", "{statement}");
    }
    for _ in 0..4 {
        load.run(MANY).await;
    }
    let generations = |plans: &[Plan]| -> Vec<(String, String)> {
        let pairs = plans.iter();
        pairs
            .map(|plan| (plan.statement.clone(), plan.generation.clone()))
            .collect()
    };
    let after = plans(&load).await;
    assert_eq!(generations(&after), generations(&before));
    check_counters(&load).await;
}

/// Checks that no lock escalated to the table and that no statement waited for a page.
async fn check_counters(load: &Load) {
    let rows = load.program.rows(&check(3, &load.database)).await;
    assert!(rows.len() >= 4, "{rows:?}");
    for row in rows {
        assert_eq!(row[1..3], ["0", "0"], "escalations and page waits: {row:?}");
    }
}

#[tokio::test]
async fn plans_of_a_clustered_key_are_stable_seeks() {
    check_plans("id int NOT NULL PRIMARY KEY").await;
}

#[tokio::test]
async fn plans_of_a_nonclustered_key_are_stable_seeks() {
    let columns = "id int NOT NULL PRIMARY KEY NONCLUSTERED, made int NOT NULL DEFAULT 0 INDEX item_made CLUSTERED";
    check_plans(columns).await;
}

#[tokio::test]
async fn plans_of_a_heap_are_stable_seeks() {
    check_plans("id int NOT NULL PRIMARY KEY NONCLUSTERED").await;
}
