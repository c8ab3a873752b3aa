//! Dynamic data masking. A login that sees the mask of a key would claim rows that do not exist, and one that sees the mask of data
//! would send it to workers or archive it.

use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::mssql::MssqlSchema;
use lease_broker_store::schema::Schema as _;

use crate::harness::Harness as _;
use crate::harness::fixture::queue;
use crate::harness::program::{Program, patient_settings, start_on_sql_server};
use crate::sql_server::statements::statement;

/// Returns the problems that a login without UNMASK has with the queue.
async fn problems_without_unmask(program: &Program, queue: QueueSpec) -> Vec<String> {
    program.run(&statement("login_without_unmask")).await;
    let settings = patient_settings(&format!(
        "{};user id=lb_test_login;password=Tests-only-2022",
        program.connection_string
    ));
    let check = move || MssqlSchema::open(&settings)?.check(&queue);
    let problems = tokio::task::spawn_blocking(check).await.expect("no panic");
    program.run(&statement("end_login_without_unmask")).await;
    problems.expect("check")
}

#[tokio::test]
async fn masked_key_is_refused_without_the_right_to_unmask() {
    let Some((harness, program)) = start_on_sql_server("masked columns").await else {
        return;
    };
    program.run(&statement("masked_key")).await;
    harness.apply(&queue("item")).await.expect("apply");
    // The harness logs in as an administrator, who sees all values.
    assert_eq!(harness.check(&queue("item")).await, Ok(Vec::new()));
    let problems = problems_without_unmask(&program, queue("item")).await;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("is masked"), "{problems:?}");
}

#[tokio::test]
async fn masked_data_is_refused_if_it_leaves_the_row() {
    let Some((harness, program)) = start_on_sql_server("masked columns").await else {
        return;
    };
    program.run(&statement("masked_data")).await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("archive".to_owned());
    harness.apply(&spec).await.expect("apply");
    assert_eq!(harness.check(&spec).await, Ok(Vec::new()));
    let problems = problems_without_unmask(&program, spec.clone()).await;
    // The computed column shows a part of the masked one.
    let masked = |problem: &String| problem.contains("would archive its mask");
    assert_eq!(
        problems.iter().filter(|problem| masked(problem)).count(),
        2,
        "{problems:?}"
    );
    spec.on_complete = OnComplete::Keep;
    spec.columns = Some(vec!["id".to_owned()]);
    assert_eq!(
        problems_without_unmask(&program, spec).await,
        [""; 0],
        "nothing masked is read"
    );
}
