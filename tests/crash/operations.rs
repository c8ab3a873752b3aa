//! Brokers that run a redrive of many items are killed at random moments. Each item is redriven once.

use std::time::Duration;

use lease_broker_proto::admin_service_client::AdminServiceClient;
use lease_broker_proto::start_operation_request::Action;
use lease_broker_proto::{
    GetOperationRequest, Operation, OperationState, Redrive, StartOperationRequest,
};
use rand::RngExt as _;
use uuid::Uuid;

use super::{Site, seeded_random};
use crate::support::database;
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until;

/// Reads a number from the environment.
fn setting(name: &str, default: u32) -> u32 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

async fn read(broker: &BrokerProcess, id: &str) -> Operation {
    let request = GetOperationRequest {
        operation_id: id.to_owned(),
    };
    let read = AdminServiceClient::new(broker.channel())
        .get_operation(request)
        .await;
    read.expect("read").into_inner().operation.expect("one")
}

/// `LEASE_BROKER_TEST_ITEMS` and `LEASE_BROKER_TEST_KILLS` make the run larger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redrive_of_killed_brokers_changes_each_item_once() {
    let (items, kills) = (
        setting("LEASE_BROKER_TEST_ITEMS", 5_000),
        setting("LEASE_BROKER_TEST_KILLS", 2),
    );
    let mut random = seeded_random();
    let site = Site::new();
    let mut brokers = [site.serve(), site.serve()];
    let file = database::open(&site.file());
    file.execute_batch(
        "CREATE TABLE redriven (id INTEGER);
         CREATE TRIGGER note AFTER UPDATE OF lease_state ON work WHEN old.lease_state = 4 AND new.lease_state = 0
         BEGIN INSERT INTO redriven (id) VALUES (new.id); END",
    )
    .expect("a trigger");
    let mut killed = 0;
    let mut redrives = 0;
    while killed < kills {
        redrives += 1;
        file.execute_batch(&format!(
            "DELETE FROM redriven; DELETE FROM work;
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {items})
             INSERT INTO work (id, payload, lease_state, lease_state_time) SELECT i, 'x', 4, 1000 + i / 7 FROM n"
        ))
        .expect("dead items");
        let request = StartOperationRequest {
            queue: "work".to_owned(),
            action: Some(Action::Redrive(Redrive::default())),
            request_id: Uuid::new_v4().to_string(),
            ..StartOperationRequest::default()
        };
        let id = request.request_id.clone();
        let started = AdminServiceClient::new(brokers[0].channel())
            .start_operation(request)
            .await;
        started.expect("started");
        loop {
            let operation = read(&brokers[0], &id).await;
            if operation.state() == OperationState::Done {
                break;
            }
            if operation.broker_id.is_empty() || killed == kills {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            // The moment of the kill is random on purpose.
            let delay = random.random_range(0..300);
            tokio::time::sleep(Duration::from_millis(delay)).await;
            // Which of the two runs it is not known from outside. The other one answers the next question.
            let victim = random.random_range(0..2);
            brokers[victim].kill();
            brokers[victim] = site.serve();
            killed += 1;
        }
        wait_until("the trigger's rows are there", async || {
            database::query_value::<u32>(&file, "SELECT count(*) FROM redriven") >= items
        })
        .await;
        let counts = "SELECT count(*) || ' ' || count(DISTINCT id) FROM redriven";
        let counts: String = database::query_value(&file, counts);
        assert_eq!(counts, format!("{items} {items}"), "after {killed} kills");
        let operation = read(&brokers[0], &id).await;
        assert_eq!(operation.changed, i64::from(items));
    }
    eprintln!("{redrives} redrives of {items} items, {killed} kills: each item was redriven once");
}
