//! A small load generator: how many items a second workers claim and complete over gRPC, on a service of its own with a
//! temporary store and durable commits, beside the same server's empty call.
//!
//! `cargo bench --bench throughput`
#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lease_broker::grpc::proto::lease_broker_service_client::LeaseBrokerServiceClient;
use lease_broker::grpc::proto::{
    ClaimBatchRequest, CompleteRequest, Completion, EnqueueRequest, NewItem, Value, value::Kind,
};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Client = LeaseBrokerServiceClient<Channel>;

/// Workers, connections that they share, items a claim, items in all.
const RUNS: [(usize, usize, i32, usize); 4] = [
    (8, 4, 100, 400_000),
    (8, 4, 10, 100_000),
    (64, 4, 1, 60_000),
    (1, 1, 1, 4_000),
];

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    for (workers, connections, batch, items) in RUNS {
        let server = Server::start()?;
        let channels = server.connect(connections).await?;
        fill(&channels[0], items).await?;
        let noop = noop(&channels, workers).await?;
        let start = Instant::now();
        let work = (0..workers).map(|at| {
            let channel = channels[at % channels.len()].clone();
            tokio::spawn(work(Client::new(channel), format!("worker-{at}"), batch))
        });
        let mut done = 0;
        for worker in work.collect::<Vec<_>>() {
            done += worker.await??;
        }
        let rate = per_second(done, start.elapsed());
        assert_eq!(done, items, "every item is completed once");
        println!(
            "{workers:3} workers, {connections} connections, claim {batch} + complete {batch}: {rate:8.0} items/s; \
             empty call {noop:.0}/s; of its ceiling {:.0} %",
            // An item costs two calls a batch.
            100.0 * rate / f64::from(batch) * 2.0 / noop
        );
    }
    Ok(())
}

async fn fill(channel: &Channel, items: usize) -> Result<()> {
    let mut client = Client::new(channel.clone());
    let payload = Value {
        kind: Some(Kind::StringValue("x".repeat(100))),
    };
    let item = NewItem {
        columns: [("payload".to_owned(), payload)].into(),
        delay: None,
    };
    for _ in 0..items / 1_000 {
        let items = vec![item.clone(); 1_000];
        let queue = "default".to_owned();
        client.enqueue(EnqueueRequest { queue, items }).await?;
    }
    Ok(())
}

/// Claims and completes until nothing is left.
async fn work(mut client: Client, worker_id: String, max_items: i32) -> Result<usize> {
    let mut done = 0;
    loop {
        let claim = ClaimBatchRequest {
            queue: "default".to_owned(),
            worker_id: worker_id.clone(),
            max_items,
            ..ClaimBatchRequest::default()
        };
        let leases = client.claim_batch(claim).await?.into_inner().leases;
        if leases.is_empty() {
            return Ok(done);
        }
        done += leases.len();
        let completion = |lease: lease_broker::grpc::proto::Lease| Completion {
            lease_id: lease.lease_id,
            follow_ups: Vec::new(),
        };
        let complete = CompleteRequest {
            queue: "default".to_owned(),
            completions: leases.into_iter().map(completion).collect(),
        };
        client.complete(complete).await?;
    }
}

/// Measures the server's empty call with as many callers.
async fn noop(channels: &[Channel], workers: usize) -> Result<f64> {
    const FOR: Duration = Duration::from_secs(2);

    let start = Instant::now();
    let callers = (0..workers).map(|at| {
        let mut client = HealthClient::new(channels[at % channels.len()].clone());
        tokio::spawn(async move {
            let mut calls = 0;
            while start.elapsed() < FOR {
                client.check(HealthCheckRequest::default()).await?;
                calls += 1;
            }
            Ok::<usize, tonic::Status>(calls)
        })
    });
    let mut calls = 0;
    for caller in callers.collect::<Vec<_>>() {
        calls += caller.await??;
    }
    Ok(per_second(calls, start.elapsed()))
}

#[expect(clippy::cast_precision_loss)]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// A service on a temporary store.
struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut process = Command::new(env!("CARGO_BIN_EXE_lease-broker"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(folder.path().join("bench.db"))
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line
            .split_once("listens on ")
            .and_then(|(_, rest)| rest.split_once(','));
        let (address, _) = address.ok_or("no address")?;
        Ok(Self {
            process,
            address: format!("http://{address}"),
            _folder: folder,
        })
    }

    async fn connect(&self, connections: usize) -> Result<Vec<Channel>> {
        let mut channels = Vec::new();
        for _ in 0..connections {
            let endpoint = Channel::from_shared(self.address.clone())?;
            channels.push(endpoint.connect().await?);
        }
        Ok(channels)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
