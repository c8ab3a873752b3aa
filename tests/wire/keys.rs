//! Keys that a call names.

use lease_broker::broker::Broker;

use crate::harness::fixture::queue;
use crate::support::timeout::with_timeout;
use crate::wire::fixture::Fixture;
use crate::wire::lost_logins::broker_config;

/// SQL Server ignores NUL in a comparison, so it would find the row of another key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_with_nul_is_refused() {
    let fixture = Fixture::start().await;
    let broker = Broker::start(fixture.store.clone(), &[queue("items")], broker_config());
    let found = with_timeout(broker.operator().get_item("items", "1\0")).await;
    let refused = found.map(drop).expect_err("refused").to_string();
    assert!(
        refused.contains("key") && refused.contains("must not contain NUL"),
        "{refused}"
    );
}
