//! Dynamic data masking. A login that sees the mask of a key would claim rows that do not exist.

use lease_broker_store::mssql::MssqlSchema;
use lease_broker_store::schema::Schema as _;

use crate::harness::Harness as _;
use crate::harness::fixture::queue;
use crate::harness::program::{patient_settings, start_on_sql_server};
use crate::sql_server::statements::statement;

#[tokio::test]
async fn masked_key_is_refused_without_the_right_to_unmask() {
    let Some((harness, program)) = start_on_sql_server("masked columns").await else {
        return;
    };
    program.run(&statement("masked_key")).await;
    harness.apply(&queue("item")).await.expect("apply");
    // The harness logs in as an administrator, who sees all values.
    assert_eq!(harness.check(&queue("item")).await, Ok(Vec::new()));
    program.run(&statement("login_without_unmask")).await;
    let settings = patient_settings(&format!(
        "{};user id=lb_test_login;password=Tests-only-2022",
        program.connection_string
    ));
    let check = move || MssqlSchema::open(&settings)?.check(&queue("item"));
    let problems = tokio::task::spawn_blocking(check).await.expect("no panic");
    program.run(&statement("end_login_without_unmask")).await;
    let problems = problems.expect("check");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("is masked"), "{problems:?}");
}
