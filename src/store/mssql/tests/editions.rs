//! Adoption on an edition that writes every row when it adds a NOT NULL column with a default, such as Standard.
//!
//! The test runs on any server: it only pretends to be on that edition, and every edition accepts the same statements.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Mirror, MirrorValue};
use lease_broker_value::Value;
use uuid::Uuid;

use super::super::Settings;
use super::super::adopt::{apply, plan, unfit};
use super::super::connection::Connection;
use super::super::restrictions::Purpose;
use super::test_server;
use crate::schema::Progress;
use crate::test_queue::spec;

#[tokio::test]
async fn backfill_fills_nullable_columns_in_chunks() {
    let Some(server) = test_server() else {
        return;
    };
    let settings = Settings::new(server);
    let server = settings.server().expect("a connection string");
    let mut connection = Box::pin(Connection::open(&server, &settings))
        .await
        .expect("a server");
    let actual_server = connection.server_info.clone();
    connection.server_info.edition = 2;
    connection.server_info.babelfish = false;
    let table = format!("editions_{}", Uuid::new_v4().simple());
    // More rows than one chunk, with a composite key whose first part repeats.
    let create = format!(
        "CREATE TABLE {table} (a int NOT NULL, b int NOT NULL, done int NOT NULL, PRIMARY KEY (a, b));
        WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 99)
        INSERT {table} (a, b, done) SELECT x.i, y.i, CASE WHEN y.i < 10 THEN 1 ELSE 0 END FROM n AS x CROSS JOIN n AS y"
    );
    connection.batch(&create).await.expect("a table");
    let mut spec = spec(&table);
    spec.mirror = vec![Mirror {
        state: State::Completed,
        column: "done".to_owned(),
        value: MirrorValue::Literal(Value::Int(1)),
    }];
    let steps = plan(&mut connection, &spec).await.expect("plan");
    assert!(
        steps.iter().any(|step| step.sql.contains("smallint NULL")),
        "{steps:?}"
    );
    // A session ends in the middle of the back-fill. The next one goes on there.
    let backfill = steps.iter().position(|step| step.until_no_rows);
    let backfill = backfill.expect("a back-fill");
    for step in &steps[..backfill] {
        let done = apply(&mut connection, step, &mut |_| ()).await;
        done.expect(&step.sql);
    }
    connection.batch(&steps[backfill].sql).await.expect("rows");
    let mut connection = Box::pin(Connection::open(&server, &settings))
        .await
        .expect("a server");
    let mut visited = 0;
    let count = &mut |done: Progress| visited = done.visited;
    let done = apply(&mut connection, &steps[backfill], count).await;
    done.expect("the rest");
    assert_eq!(visited, 8_000);
    for step in &steps[backfill + 1..] {
        let done = apply(&mut connection, step, &mut |_| ()).await;
        done.expect(&step.sql);
    }
    // How existing indexes are found depends on the server that created them.
    connection.server_info.babelfish = actual_server.babelfish;
    let left = plan(&mut connection, &spec).await.expect("plan again");
    assert_eq!(left, []);
    let unfit = unfit(&mut connection, &spec, Purpose::Lease)
        .await
        .expect("a check");
    assert_eq!(unfit.problems, Vec::<String>::new());
    let count = format!(
        "SELECT COUNT(*) FROM {table} WHERE lease_state = CASE WHEN done = 1 THEN 3 ELSE 0 END AND lease_fence = 0 \
         AND lease_attempt = 0 AND lease_state_time IS NOT NULL"
    );
    let rows = connection.batch(&count).await.expect("count");
    assert_eq!(rows[0][0].get::<i32, _>(0), Some(10_000));
    connection
        .batch(&format!("DROP TABLE {table}"))
        .await
        .expect("drop");
}
