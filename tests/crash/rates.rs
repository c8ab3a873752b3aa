//! The rate of a queue whose brokers are killed. It stands in the database, so no kill gives more items out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lease_broker_proto::ClaimBatchRequest;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::Site;
use crate::support::client::{Client, item};
use crate::support::database;
use crate::support::timeout::wait_until;

const BURST: usize = 200;
/// No further item is allowed while the test runs.
const QUEUE: &str = "
[queues.work]
managed_columns = { payload = 'text' }
lease_duration = '1h'
rate = { items = 1, per = '24h', burst = 200 }
";

/// Claims one item after the other until there is none, or until the broker is killed.
async fn claim_all(channel: Channel, given: Arc<AtomicUsize>) {
    let client = Client::new(channel, "work");
    let request = || ClaimBatchRequest {
        request_id: uuid::Uuid::new_v4().to_string(),
        ..client.claim_request(1)
    };
    while let Ok(leases) = client.try_claim(request()).await
        && !leases.is_empty()
    {
        given.fetch_add(leases.len(), Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_brokers_keep_a_rate_while_two_are_killed() {
    let site = Site::with(QUEUE);
    let mut brokers = [site.serve(), site.serve(), site.serve(), site.serve()];
    let client = Client::new(brokers[0].channel(), "work");
    let items = vec![item("x"); BURST + 50];
    client.try_enqueue(items).await.expect("added");
    let given = Arc::<AtomicUsize>::default();
    let mut workers = JoinSet::new();
    for broker in &brokers {
        workers.spawn(claim_all(broker.channel(), given.clone()));
    }
    wait_until("the workers get items", async || {
        given.load(Ordering::Relaxed) >= 20
    })
    .await;
    for broker in &mut brokers[..2] {
        broker.kill();
        *broker = site.serve();
        workers.spawn(claim_all(broker.channel(), given.clone()));
    }
    workers.join_all().await;
    let database = database::open(&site.file());
    let leased = "SELECT count(*) FROM work WHERE lease_state = 1";
    let leased: i64 = database::query_value(&database, leased);
    assert_eq!(usize::try_from(leased), Ok(BURST));
    // A lease whose answer a kill has lost counts too.
    assert!(given.load(Ordering::Relaxed) <= BURST);
}
