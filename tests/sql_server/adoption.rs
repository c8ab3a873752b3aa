//! Adoption of a table by the scripts of `schema plan`, backfill of many rows, suggestions, and removal.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{MirrorValue, OnComplete, QueueSpec};
use lease_broker_store::schema::{Progress, Schema as _};
use lease_broker_value::Value;

use crate::harness::Harness as _;
use crate::harness::fixture::{Fixture, by, keys, mirror, queue};
use crate::harness::program::{Program, start, start_on_sql_server};

const ORDERS: &str = "CREATE TABLE orders (id int IDENTITY(1, 1) PRIMARY KEY, customer nvarchar(40) NOT NULL,
        urgency int NULL, processed bit NOT NULL DEFAULT 0, label AS (urgency * 2));
    INSERT orders (customer, urgency, processed) VALUES (N'ann', 1, 0), (N'bob', 2, 1), (N'cem', 3, 0)";

fn spec() -> QueueSpec {
    let mut spec = queue("orders");
    spec.order = by(&["-urgency"]);
    spec.on_complete = OnComplete::Archive("done".to_owned());
    spec.mirror = vec![mirror(
        State::Completed,
        "processed",
        MirrorValue::Literal(Value::Bool(true)),
    )];
    spec
}

/// Returns the columns of the table with their types, the number of indexes, and all rows.
async fn table_state(program: &Program) -> Vec<Vec<Vec<String>>> {
    let columns = "SELECT c.name, t.name, CONVERT(int, c.max_length), CONVERT(int, c.precision), CONVERT(int, c.scale),
            CONVERT(int, c.is_nullable), CONVERT(int, c.is_identity), CONVERT(int, c.is_computed), c.collation_name
        FROM sys.columns AS c INNER JOIN sys.types AS t ON t.user_type_id = c.user_type_id
        WHERE c.object_id = OBJECT_ID(N'orders') ORDER BY c.name";
    let indexes =
        "SELECT COUNT(*) FROM sys.indexes WHERE object_id = OBJECT_ID(N'orders') AND index_id > 0";
    let rows = "SELECT id, customer, urgency, processed, label FROM orders ORDER BY id";
    let mut all = Vec::new();
    for sql in [columns, indexes, rows] {
        all.push(program.rows(sql).await);
    }
    all
}

/// Runs the scripts of `schema plan` as sqlcmd does: one batch after the other, with `QUOTED_IDENTIFIER` off.
async fn run_by_hand(program: &Program, scripts: &[String], again: bool) {
    program.run("SET QUOTED_IDENTIFIER OFF").await;
    for script in scripts {
        for batch in script
            .split("\nGO")
            .filter(|batch| !batch.trim().is_empty())
        {
            // Babelfish stores indexes under other names, so the batch does not find the index that it created.
            if again && program.babelfish && batch.contains("CREATE INDEX") {
                continue;
            }
            let repeats = batch.contains("run this batch again until it answers 0");
            while repeats && program.number(batch).await != 0 {}
            if !repeats {
                program.run(batch).await;
            }
        }
    }
}

#[tokio::test]
async fn plan_run_by_hand_is_complete_and_repeatable() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(ORDERS).await;
    let scripts = program
        .schema(|schema| {
            let steps = schema.plan(&spec()).expect("plan");
            steps
                .iter()
                .map(|step| schema.script(step))
                .collect::<Vec<_>>()
        })
        .await;
    assert!(
        scripts.iter().all(|script| script.ends_with("\nGO")),
        "{scripts:#?}"
    );
    let person = program.another().await;
    run_by_hand(&person, &scripts, false).await;
    run_by_hand(&person, &scripts, true).await;
    assert_eq!(harness.check(&spec()).await, Ok(Vec::new()));
    assert_eq!(harness.plan(&spec()).await, Ok(Vec::new()));
    let fixture = Fixture::adopt(harness, vec![spec()]).await;
    assert_eq!(fixture.counts().await, [2, 0, 0, 1, 0]);
    let items = fixture.claim(9).await;
    assert_eq!(keys(&items), ["3", "1"]);
}

#[tokio::test]
async fn table_with_one_mirror_state_is_archived_completely() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(ORDERS).await;
    let fixture = Fixture::adopt(harness, vec![spec()]).await;
    let items = fixture.claim(9).await;
    fixture.complete(&items[0].lease).await;
    let done = program
        .rows("SELECT customer, processed, lease_owner FROM done")
        .await;
    assert_eq!(done, [["cem", "1", "worker"]]);
}

#[tokio::test]
async fn taken_names_of_constraints_are_avoided() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let tables =
        "CREATE TABLE DF_item_lease_fence (id int); CREATE TABLE item (id int PRIMARY KEY)";
    program.run(tables).await;
    let plan = program.schema(|schema| {
        let steps = schema.plan(&queue("item")).expect("plan");
        for step in &steps {
            schema.apply(step, &mut |_| {}).expect(&step.sql);
        }
        steps
    });
    let plan: String = plan.await.into_iter().map(|step| step.sql).collect();
    assert!(plan.contains("[DF_item_lease_attempt]"), "{plan}");
    let id = program.number("SELECT OBJECT_ID(N'item')").await;
    let name = format!("[DF_item_{id}_lease_fence]");
    assert!(plan.contains(&name), "{name}: {plan}");
}

#[tokio::test]
async fn step_that_gets_no_lock_says_so() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    program.run("CREATE TABLE item (id int PRIMARY KEY)").await;
    program
        .run("BEGIN TRANSACTION; INSERT item (id) VALUES (1)")
        .await;
    let refused = program.schema(|schema| {
        let mut step = schema.plan(&queue("item")).expect("plan").remove(1);
        step.sql = step.sql.replace("LOCK_TIMEOUT 10000", "LOCK_TIMEOUT 100");
        schema.apply(&step, &mut |_| {})
    });
    let refused = refused.await.expect_err("a lock is held").to_string();
    program.run("ROLLBACK TRANSACTION").await;
    for part in ["add the soft-lock column", "another session held a lock"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn large_backfill_runs_in_chunks_and_reports_progress() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    program.run(ORDERS).await;
    let fill = "WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 99)
        INSERT orders (customer, processed) SELECT N'x', 1 FROM n AS x CROSS JOIN n AS y";
    program.run(fill).await;
    let progress = program
        .schema(|schema| {
            let mut progress = Vec::new();
            for step in schema.plan(&spec()).expect("plan") {
                let mut report = |done: Progress| progress.push(done.changed);
                schema.apply(&step, &mut report).expect(&step.sql);
            }
            progress
        })
        .await;
    assert!(progress.is_sorted(), "{progress:?}");
    assert!(
        progress.len() > 2,
        "the backfill ran in one chunk: {progress:?}"
    );
    let states =
        "SELECT lease_state, COUNT(*) FROM orders GROUP BY lease_state ORDER BY lease_state";
    assert_eq!(program.rows(states).await, [["0", "2"], ["3", "10001"]]);
    let unset = "SELECT COUNT(*) FROM orders WHERE lease_state_time IS NULL OR lease_fence IS NULL OR lease_attempt IS NULL";
    assert_eq!(program.number(unset).await, 0);
    // The progress counts each changed row: the completed rows, or all rows if the new columns were NULL at first.
    let counted = progress.last().copied();
    assert!(matches!(counted, Some(10_001 | 10_003)), "{progress:?}");
}

#[tokio::test]
async fn dropping_restores_the_table() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program.run(ORDERS).await;
    let before = table_state(&program).await;
    harness.apply(&spec()).await.expect("apply");
    assert_ne!(table_state(&program).await, before);
    let left = program
        .schema(|schema| {
            for step in schema.plan_removal(&spec()).expect("plan").steps {
                schema.apply(&step, &mut |_| ()).expect(&step.sql);
            }
            schema.plan_removal(&spec()).expect("plan").steps
        })
        .await;
    assert_eq!(left, []);
    assert_eq!(table_state(&program).await, before);
    // The table can be adopted again. Removal keeps the archive.
    assert_eq!(program.number("SELECT COUNT(*) FROM done").await, 0);
    harness.apply(&spec()).await.expect("apply again");
    assert_eq!(harness.check(&spec()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn adopt_command_makes_a_queue_and_its_undo_file_works() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    program.run(ORDERS).await;
    program
        .run("ALTER TABLE orders ADD lease_owner nvarchar(20) NULL")
        .await;
    let before = table_state(&program).await;
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("db.secret");
    std::fs::write(&secret, &program.connection_string).expect("a file");
    let adopted = std::process::Command::new(env!("CARGO_BIN_EXE_lease-broker"))
        .current_dir(folder.path())
        .args([
            "adopt",
            "--connection-string-file",
            "db.secret",
            "--table",
            "orders",
            "--yes",
        ])
        .output()
        .expect("the program runs");
    assert!(adopted.status.success(), "{adopted:?}");
    let read = |name| std::fs::read_to_string(folder.path().join(name)).expect(name);
    let (toml, undo) = (read("orders.toml"), read("orders.undo.sql"));
    let secret = std::fs::canonicalize(secret).expect("a path");
    for line in [
        &*format!("connection_string_file = \"{}\"", secret.display()),
        "completed = { processed = 1 }",
        "lease_owner = \"lb_lease_owner\"",
        "writable = [\"urgency\"]",
    ] {
        assert!(toml.contains(line), "{toml}");
    }
    let completed = "SELECT COUNT(*) FROM orders WHERE lease_state = 3";
    assert_eq!(program.number(completed).await, 1);
    let scripts: Vec<String> = vec![undo];
    for _ in 0..2 {
        run_by_hand(&program, &scripts, false).await;
        assert_eq!(table_state(&program).await, before);
    }
}

#[tokio::test]
async fn name_with_a_dot_is_listed_as_adopt_takes_it() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    program
        .run("CREATE TABLE [dot.ted name] (id int PRIMARY KEY)")
        .await;
    let (tables, survey) = program
        .schema(|schema| {
            let tables = schema.tables().expect("tables");
            let survey = schema.survey("[dot.ted name]");
            (tables, survey.expect("a survey"))
        })
        .await;
    assert_eq!(tables, ["[dot.ted name]"]);
    assert!(survey.is_some());
}

#[tokio::test]
async fn suggestions_name_improvements_with_their_sql() {
    let Some((harness, program)) = start_on_sql_server("LOCK_ESCALATION").await else {
        return;
    };
    program.run(ORDERS).await;
    harness.apply(&spec()).await.expect("apply");
    let suggestions = || program.schema(|schema| schema.suggestions(&spec()).expect("suggestions"));
    let before = suggestions().await;
    let has_escalation = |suggestions: &[String]| {
        suggestions
            .iter()
            .any(|text| text.contains("LOCK_ESCALATION"))
    };
    assert!(has_escalation(&before), "{before:?}");
    program
        .run("ALTER TABLE orders SET (LOCK_ESCALATION = DISABLE)")
        .await;
    assert!(!has_escalation(&suggestions().await));
}

#[tokio::test]
async fn blocking_readers_are_suggested_only_without_row_versions() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    program.run(ORDERS).await;
    let on = "SELECT CONVERT(int, is_read_committed_snapshot_on) FROM sys.databases WHERE name = DB_NAME()";
    let on = program.number(on).await == 1;
    let suggestions = program
        .schema(|schema| schema.suggestions(&spec()).expect("suggestions"))
        .await;
    let is_suggested = suggestions
        .iter()
        .any(|text| text.contains("READ_COMMITTED_SNAPSHOT ON"));
    assert_eq!(is_suggested, !on, "{suggestions:?}");
}
