//! This version and an earlier one on the same database.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use lease_broker_proto::{EnqueueRequest, Lease, Outcome};

use crate::harness::mssql::MssqlHarness;
use crate::harness::program;
use crate::support::client::{Client, added_keys, completion, failure, item, key, lease_ids};
use crate::support::earlier_program::earlier_program;
use crate::support::process::{BrokerProcess, PROGRAM};

/// A database, and the programs of the earlier version and of this one.
struct Versions {
    earlier: PathBuf,
    own: PathBuf,
    /// The settings of a broker on the database.
    settings: String,
    folder: tempfile::TempDir,
    _harness: Option<MssqlHarness>,
}

impl Versions {
    /// Without the earlier version it prints a line.
    fn on_sqlite() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("q.db");
        Some(Self {
            earlier: earlier_program()?,
            own: PROGRAM.into(),
            settings: settings(&format!("store.path = '{}'", store.display()), "text"),
            folder,
            _harness: None,
        })
    }

    /// Without the earlier version or a server it prints a line.
    async fn on_sql_server() -> Option<Self> {
        let earlier = earlier_program()?;
        let (harness, database) = program::start().await?;
        let connection_string = database.connection_string;
        let store =
            format!("store.kind = 'mssql'\nstore.connection_string = '{connection_string}'");
        Some(Self {
            earlier,
            own: PROGRAM.into(),
            settings: settings(&store, "nvarchar(50)"),
            folder: tempfile::tempdir().expect("a folder"),
            _harness: Some(harness),
        })
    }

    /// Starts a broker. Its configuration and its log have this name.
    fn start(&self, program: &Path, name: &str) -> BrokerProcess {
        let config = self.folder.path().join(name).with_extension("toml");
        std::fs::write(&config, &self.settings).expect("a file");
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        BrokerProcess::of_build(program, any_port, &config)
    }
}

fn settings(store: &str, text_type: &str) -> String {
    format!(
        "{store}
[queues.work]
managed_columns = {{ payload = '{text_type}' }}
lease_duration = '10min'
[queues.outbox]
managed_columns = {{ payload = '{text_type}' }}
"
    )
}

fn client(broker: &BrokerProcess, queue: &str) -> Client {
    Client::new(broker.channel(), queue)
}

fn keys(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(key).collect()
}

/// Enqueues and claims at one broker, sends both calls again to the other one, and settles there.
async fn assert_exchange(one: &BrokerProcess, other: &BrokerProcess) {
    let follow_ups = client(one, "outbox");
    let (one, other) = (client(one, "work"), client(other, "work"));
    let request = EnqueueRequest {
        queue: "work".to_owned(),
        items: ["a", "b", "c"].map(item).into(),
        request_id: uuid::Uuid::new_v4().to_string(),
    };
    let added = async |client: &Client| {
        let response = client.rpc.clone().enqueue(request.clone()).await;
        added_keys(response.expect("the items are added").into_inner())
    };
    assert_eq!(added(&one).await, added(&other).await);
    let mut claim = one.claim_request(3);
    claim.request_id = uuid::Uuid::new_v4().to_string();
    let leases = one.try_claim(claim.clone()).await.expect("claimed");
    let again = other.try_claim(claim).await.expect("claimed again");
    assert_eq!(leases.len(), 3);
    assert_eq!(keys(&leases), keys(&again));
    let ids = lease_ids(&leases);
    let held = other.try_heartbeat(&ids, None).await.expect("extended");
    for result in held {
        assert_eq!(result.outcome(), Outcome::Applied);
    }
    let follow_up = [("outbox", "next")];
    let completed = other.try_complete(vec![completion(ids[0], &follow_up)]);
    let failed = other.try_fail(vec![failure(ids[1], "no luck")]);
    let released = other.try_release(&ids[2..], None);
    for results in [completed.await, failed.await, released.await] {
        let results = results.expect("settled");
        assert_eq!(results[0].outcome(), Outcome::Applied);
    }
    assert_eq!(follow_ups.claim(9).await.len(), 1);
}

async fn assert_leases_are_settled_at_the_other(versions: &Versions) {
    // The earlier version creates the database.
    let earlier = versions.start(&versions.earlier, "earlier");
    let own = versions.start(&versions.own, "own");
    assert_exchange(&earlier, &own).await;
    for lease in client(&own, "work").claim(9).await {
        client(&own, "work").complete(&[&lease.lease_id]).await;
    }
    assert_exchange(&own, &earlier).await;
}

#[tokio::test]
async fn leases_are_settled_at_the_other_version_on_sqlite() {
    if let Some(versions) = Versions::on_sqlite() {
        assert_leases_are_settled_at_the_other(&versions).await;
    }
}

#[tokio::test]
async fn leases_are_settled_at_the_other_version_on_sql_server() {
    if let Some(versions) = Versions::on_sql_server().await {
        assert_leases_are_settled_at_the_other(&versions).await;
    }
}

/// The earlier version runs, stops and starts again after this one has migrated the database. Then this version comes back.
async fn assert_either_restarts(versions: &Versions) {
    let first = versions.start(&versions.earlier, "earlier");
    client(&first, "work").enqueue(&["a", "b"]).await;
    let lease = client(&first, "work").claim_one().await;
    let upgraded = versions.start(&versions.own, "own");
    drop(first);
    let process = versions.start(&versions.earlier, "restarted");
    let restarted = client(&process, "work");
    let results = restarted.complete(&[&lease.lease_id]).await;
    assert_eq!(results[0].outcome(), Outcome::Applied);
    drop(upgraded);
    let lease = restarted.claim_one().await;
    let again = versions.start(&versions.own, "again");
    let results = client(&again, "work").complete(&[&lease.lease_id]).await;
    assert_eq!(results[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn earlier_version_restarts_after_an_upgrade_of_sqlite() {
    if let Some(versions) = Versions::on_sqlite() {
        assert_either_restarts(&versions).await;
    }
}

#[tokio::test]
async fn earlier_version_restarts_after_an_upgrade_of_sql_server() {
    if let Some(versions) = Versions::on_sql_server().await {
        assert_either_restarts(&versions).await;
    }
}
