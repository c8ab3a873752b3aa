//! Two broker processes on one table, behind one proxy. One of them is killed.

use std::time::Duration;

use lease_broker_proto::{ClaimBatchRequest, Lease};

use crate::harness::program::start;
use crate::harness::proxy::{Direction, Proxy};
use crate::sql_server::broker_process::BrokerProcess;
use crate::sql_server::service::retry_while_unavailable;
use crate::support::client::{Client, completion, duration, item, key};
use crate::support::timeout::{wait_until, with_timeout};

const CONFIG: &str = "
[store]
kind = 'mssql'
command_timeout = '60s'
[reaper]
max_interval = '200ms'
[queues.work]
managed_columns = { payload = 'nvarchar(50)' }
lease_duration = '10m'
max_attempts = 0
[queues.outbox]
managed_columns = { payload = 'nvarchar(50)' }
";

/// Claims with a request id, so that the claim can be sent again.
async fn claim(client: &Client, mut request: ClaimBatchRequest) -> Vec<Lease> {
    request.request_id = uuid::Uuid::new_v4().to_string();
    retry_while_unavailable(|| client.try_claim(request.clone())).await
}

async fn complete(client: &Client, leases: &[Lease]) {
    let completions = || {
        leases
            .iter()
            .map(|lease| completion(&lease.lease_id, &[]))
            .collect()
    };
    let results = retry_while_unavailable(|| client.try_complete(completions())).await;
    assert!(
        results.iter().all(|result| result.outcome == 1),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_settles_leases_of_a_killed_broker() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let proxy = Proxy::before(&program.connection_string).await;
    // Started one after the other. Otherwise both would create the tables.
    let mut first = BrokerProcess::serve(proxy.connection_string(), CONFIG).await;
    let second = BrokerProcess::serve(proxy.connection_string(), CONFIG).await;
    let (one, other) = (first.client("one"), second.client("other"));
    let items: Vec<_> = (0..20).map(|at| item(&format!("{at}"))).collect();
    retry_while_unavailable(|| one.try_enqueue(items.clone())).await;
    let held = claim(&one, one.claim_request(5)).await;
    let mut short = one.claim_request(5);
    short.lease_duration = Some(duration(Duration::from_secs(2)));
    let lost = claim(&one, short).await;

    // The broker is killed after the server committed a completion, and before the reply arrives.
    proxy.stall(Direction::ToClient, true);
    let dying = held[0].lease_id.clone();
    let unanswered = tokio::spawn({
        let (one, dying) = (one.clone(), dying.clone());
        async move {
            one.try_complete(vec![completion(&dying, &[("outbox", "after")])])
                .await
        }
    });
    wait_until("the completion is committed", async || {
        program
            .number("SELECT COUNT(*) FROM work WHERE lease_state = 3")
            .await
            == 1
    })
    .await;
    first.kill();
    proxy.restore();
    let outcome = with_timeout(unanswered).await.expect("no panic");
    outcome.expect_err("the broker is dead");

    // The other broker answers the repeated completion, and settles the leases of the killed broker.
    let again = || other.try_complete(vec![completion(&dying, &[("outbox", "after")])]);
    let again = retry_while_unavailable(again).await;
    assert_eq!(again[0].outcome, 1, "the repeated completion is recognised");
    complete(&other, &held[1..]).await;
    let mut left = Vec::new();
    while left.len() < 15 {
        let leases = claim(
            &other,
            other.waiting_claim_request(15, Duration::from_secs(60)),
        )
        .await;
        assert!(
            !leases.is_empty(),
            "the killed broker's leases never expire"
        );
        complete(&other, &leases).await;
        left.extend(leases);
    }
    let taken_over = left
        .iter()
        .filter(|lease| lost.iter().any(|lost| key(lost) == key(lease)));
    assert_eq!(taken_over.count(), lost.len());
    let done = "SELECT COUNT(*) FROM work WHERE lease_state = 3";
    assert_eq!(program.number(done).await, 20);
    let followed = "SELECT COUNT(*) FROM outbox";
    assert_eq!(program.number(followed).await, 1);
}
