//! A broker that has only the rights that `sql/mssql/permissions.sql` grants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_store::mssql::MssqlStore;
use lease_broker_store::schema::Schema as _;
use lease_broker_store::{ArchiveCutoff, Instance, PurgeStep, RetentionTurn, Upkeep as _};
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::Harness as _;
use crate::harness::errors::misconfigured;
use crate::harness::fixture::{Broker, new_item, queue};
use crate::harness::mssql::read_catalog;
use crate::harness::program::{Program, patient_settings, start};
use crate::support::timeout::wait_until;

const SCRIPT: &str = include_str!("../../sql/mssql/permissions.sql");
const PASSWORD: &str = "Least-rights-1";

/// Runs the script with changed names, as a database administrator does. Babelfish has no VIEW DEFINITION.
async fn grant(program: &Program, login: &str) {
    let script = SCRIPT
        .replace("<a long random password>", PASSWORD)
        .replace("lease_broker_service", login)
        .replace("Rainfall_Events", "item")
        .replace("-- GRANT DELETE", "GRANT DELETE");
    for batch in script.split("\nGO") {
        let is_run = |line: &&str| !(program.babelfish && line.contains("GRANT VIEW DEFINITION"));
        let lines: Vec<&str> = batch.lines().filter(is_run).collect();
        program.run(&lines.join("\n")).await;
    }
}

/// Checks that the records of a queue and a table, which the login does not see, are not taken for missing ones. `service`: its
/// sessions.
async fn say_what_is_not_seen(service: &Program, spec: &QueueSpec) {
    let spec = spec.clone();
    let (removal, problems) = service
        .schema(move |schema| {
            let removal = schema.plan_removal(&spec);
            (removal.map(|_| ()), schema.check(&queue("hidden")))
        })
        .await;
    let removal = misconfigured(removal);
    assert!(removal.contains("has no right on them"), "{removal}");
    let problems = problems.expect("a check");
    assert!(problems[0].contains("has no right on it"), "{problems:?}");
}

#[tokio::test]
async fn least_rights_suffice_and_protect_the_secret() {
    let Some((harness, program)) = start().await else {
        return;
    };
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("item_Archive".to_owned());
    spec.keep_for.archive = Some(Duration::from_secs(86_400));
    let table = "CREATE TABLE item (id int NOT NULL PRIMARY KEY); INSERT item (id) VALUES (1), (2)";
    program.run(table).await;
    harness.apply(&spec).await.expect("apply");
    drop(
        harness
            .open(std::slice::from_ref(&spec))
            .await
            .expect("open"),
    );

    let login = format!("lb_test_{}", Uuid::new_v4().simple());
    grant(&program, &login).await;
    // The script can be run again.
    grant(&program, &login).await;

    let connection_string = format!(
        "{};user id={login};password={PASSWORD}",
        program.connection_string
    );
    let service = Program::connect(&connection_string).await;
    for refused in [
        "UPDATE lease_broker_secret SET secret = 0x00",
        "DELETE lease_broker_secret",
        "UPDATE lease_broker_migration SET oldest_reader = '0.0.1'",
        "DROP TABLE lease_broker_probe",
    ] {
        let outcome = service.try_run(refused).await;
        assert!(outcome.is_err(), "the login may run {refused}");
    }
    program
        .run("CREATE TABLE hidden (id int PRIMARY KEY)")
        .await;
    say_what_is_not_seen(&service, &spec).await;
    let settings = patient_settings(&connection_string);
    let store = read_catalog(MssqlStore::open(&settings, &[spec]))
        .await
        .expect("a store");
    assert_eq!(store.probe().await, Ok(()));
    let broker = Broker::new(Arc::new(store));
    let items = broker.claim(2).await;
    let completed = broker.complete(&items[0].lease).await;
    assert_eq!(completed, Some(State::Completed));
    let turn =
        broker
            .store
            .take_retention_turn(broker.queue, Uuid::new_v4(), Duration::from_secs(1));
    assert_eq!(turn.await, Ok(RetentionTurn::Taken));
    let purged = broker
        .store
        .purge_archive(broker.queue, ArchiveCutoff::Time(i64::MAX), 500);
    assert_eq!(purged.await, Ok(1));
    let step = PurgeStep {
        after: None,
        completed: Some(Duration::ZERO),
        dead: Some(Duration::ZERO),
        latest: None,
        limit: 500,
        delete: true,
    };
    let new = vec![new_item(&[("id", Value::Int(9))])];
    for _ in 0..2 {
        let added = broker.enqueue_once(Uuid::from_u128(1), new.clone()).await;
        added.expect("enqueue with a request id");
    }
    assert_eq!(broker.store.forget_requests(500).await, Ok(0));
    let instance = Instance {
        id: Uuid::new_v4(),
        version: "0.2.0".to_owned(),
        address: "broker:50051".to_owned(),
        draining: false,
        settings: BTreeMap::new(),
        activity: BTreeMap::new(),
    };
    let announced = broker.store.announce(Arc::new(instance)).await;
    assert_eq!(announced, Ok(Vec::new()));
    let purged = broker.store.purge(broker.queue, step).await;
    assert_eq!(purged.expect("purge").old, 0);
    drop((service, broker));
    let archived = "SELECT COUNT(*) FROM item_Archive";
    assert_eq!(program.number(archived).await, 0);
    let drop_login = format!(
        "IF DATABASE_PRINCIPAL_ID(N'{login}') IS NOT NULL DROP USER {login}; DROP LOGIN {login}"
    );
    wait_until(
        "the server has closed the sessions of the login",
        async || program.try_run(&drop_login).await.is_ok(),
    )
    .await;
}
