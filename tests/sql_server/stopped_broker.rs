//! A broker process that is stopped while it reads the leases of a claim. It holds no locks on rows meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use crate::harness::program::start;
use crate::harness::proxy::Proxy;
use crate::sql_server::broker_process::BrokerProcess;
use crate::sql_server::service::retry_while_unavailable;
use crate::support::client::{completion, duration, key};
use crate::support::timeout::{wait_until, with_timeout};

const CONFIG: &str = "
[server]
max_message_bytes = 33554432
[store]
kind = 'mssql'
command_timeout = '60s'
[queues.work]
managed_columns = { payload = 'nvarchar(4000)' }
";

/// Adds 1,100 rows of 8 KB.
const ROWS: &str = "INSERT work (payload)
    SELECT TOP (1100) REPLICATE(N'x', 4000)
    FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11)) AS a (n)
        CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b (n)
        CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS c (n)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_broker_does_not_block_other_claims() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let proxy = Proxy::before(&program.connection_string).await;
    // Started one after the other. Otherwise both would create the tables.
    let stopped = BrokerProcess::serve(proxy.connection_string(), CONFIG).await;
    let running = BrokerProcess::serve(&program.connection_string, CONFIG).await;
    let (one, other) = (stopped.client("one"), running.client("other"));
    program.run(ROWS).await;
    // The first claim of a session takes long on some servers.
    for client in [&one, &other] {
        let leases = retry_while_unavailable(|| client.try_claim(client.claim_request(1))).await;
        assert_eq!(leases.len(), 1);
    }

    proxy.stall_after(1_000_000);
    let mut request = one.claim_request(1_000);
    request.lease_duration = Some(duration(Duration::from_secs(600)));
    request.max_bytes = 64 << 20;
    let claim = tokio::spawn(async move { one.try_claim(request).await });
    wait_until("the broker has read some of its leases", async || {
        proxy.held() > 0
    })
    .await;
    stopped.signal("STOP");

    let leases = with_timeout(other.try_claim(other.claim_request(50))).await;
    let leases = leases.expect("the stopped broker holds no lock");
    assert_eq!(leases.len(), 50);
    let completions = leases
        .iter()
        .map(|lease| completion(&lease.lease_id, &[]))
        .collect();
    let results = with_timeout(other.try_complete(completions)).await;
    let results = results.expect("the stopped broker holds no lock");
    assert!(
        results.iter().all(|result| result.outcome == 1),
        "{results:?}"
    );

    stopped.signal("CONT");
    proxy.restore();
    let claimed = with_timeout(claim).await.expect("no panic");
    let claimed = claimed.expect("the stopped broker reads on");
    assert_eq!(claimed.len(), 1_000);
    let others: HashSet<&str> = leases.iter().map(key).collect();
    assert!(claimed.iter().all(|lease| !others.contains(key(lease))));
    let claims = "SELECT COUNT(*) FROM work WHERE lease_fence > 1";
    assert_eq!(program.number(claims).await, 0);
}
