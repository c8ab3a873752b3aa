//! Two broker processes on one table, behind one proxy. One of them is killed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use lease_broker::grpc::proto::{ClaimBatchRequest, Lease};
use tonic::transport::{Channel, Endpoint};

use crate::program::start;
use crate::proxy::{Direction, Proxy};
use crate::service::retry_while_unavailable;
use crate::support::client::{Client, completion, duration, item, key};
use crate::support::process::program;
use crate::support::timeout::{wait_until, with_timeout};

const CONFIG: &str = "
[store]
kind = 'mssql'
[reaper]
max_sleep = '200ms'
[queues.work]
managed = { payload = 'nvarchar(50)' }
max_attempts = 0
[queues.outbox]
managed = { payload = 'nvarchar(50)' }
";

/// `lease-broker serve`, killed when it is dropped.
struct Process {
    child: Child,
    address: SocketAddr,
    /// Kept open. If it were closed, the process could no longer print.
    _output: BufReader<ChildStdout>,
}

impl Process {
    fn serve(connection_string: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("queues.toml");
        std::fs::write(&config, CONFIG).expect("a file");
        let mut child = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .env("LEASE_BROKER_STORE__CONNECTION_STRING", connection_string)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut announced = String::new();
        output.read_line(&mut announced).expect("a line");
        let address = announced
            .split_once("listens on ")
            .and_then(|(_, rest)| rest.split_once(','))
            .and_then(|(address, _)| address.parse().ok());
        Self {
            address: address.unwrap_or_else(|| panic!("no address: {announced}")),
            child,
            _output: output,
        }
    }

    fn client(&self, worker: &str) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let channel: Channel = endpoint.expect("an address").connect_lazy();
        Client::new(channel, "work").as_worker(worker)
    }

    /// Kills the process with SIGKILL, so that it cannot clean up.
    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    let mut first = Process::serve(proxy.connection_string());
    let second = Process::serve(proxy.connection_string());
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
            other.waiting_claim_request(15, Duration::from_secs(10)),
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
