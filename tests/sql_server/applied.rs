//! An error says whether its call was applied, also if the connection to the server breaks in the middle of a statement, or the
//! server stops.

use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::harness::program::{patient_settings, start};
use crate::harness::proxy::{Direction, Proxy};
use crate::sql_server::network_faults::inject_faults;
use crate::sql_server::random_load::seed;
use crate::sql_server::service::{Service, retry_while_unavailable};
use crate::support::applied::Callers;
use crate::support::client::{duration, item};
use crate::support::timeout::wait_until;

#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_are_not_applied_over_a_broken_network() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let seed = seed();
    let proxy = Proxy::before(&program.connection_string).await;
    let service = Service::with_settings(patient_settings(proxy.connection_string())).await;
    let client = service.client().await;
    let held: Vec<_> = (0..100)
        .map(|number| item(&format!("held {number}")))
        .collect();
    client.try_enqueue(held).await.expect("added");
    let mut claim = client.claim_request(100);
    claim.lease_duration = Some(duration(Duration::from_secs(3_600)));
    let leases = client.try_claim(claim).await.expect("claimed");
    let callers = Callers::start(&client, leases);
    inject_faults(&proxy, StdRng::seed_from_u64(seed)).await;
    // A server that stops: it answers nothing, and then the connections break.
    proxy.stall(Direction::ToServer, true);
    let refused = callers.refused();
    wait_until(
        "calls are refused while the server does not answer",
        async || callers.refused() > refused + 1_000 && callers.has_unknown(),
    )
    .await;
    proxy.cut_and_restore();
    retry_while_unavailable(|| client.try_enqueue(vec![item("last")])).await;
    let (enqueued, completed) = callers.stop().await;
    service.stop().await;
    // A batch that was under way when its connection broke ends before its locks are free.
    program
        .run("UPDATE work SET payload = payload WHERE payload = N'last'")
        .await;
    let added = "SELECT payload FROM work WHERE payload NOT LIKE N'held %' AND payload <> N'last'";
    enqueued.assert_true("enqueued", &program.texts(added).await);
    assert!(enqueued.not_applied.len() > 500 && !enqueued.applied.is_empty());
    let done = "SELECT CONVERT(nvarchar(20), id) FROM work WHERE lease_state = 3";
    completed.assert_true("completed", &program.texts(done).await);
}
