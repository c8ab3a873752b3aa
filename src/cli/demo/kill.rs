//! Kills a worker that holds leases, so that the demo can show how other workers take over its rows.
//!
//! A running worker cannot be judged: it can complete its batch between the look at it and the kill. The kill would then
//! interrupt no work, and no row would be taken over. Therefore the worker is stopped with SIGSTOP first. It is killed
//! only if two conditions hold while it is stopped:
//! 1. Its journal ends with a claim. A worker records that it is about to complete a batch before it sends the request.
//!    So the completion of this batch was not sent. A failure of a row of the batch before can still be on its way,
//!    because the library sends completions and failures at the same time. The broker then applies it, or the lease of
//!    the row expires.
//! 2. The store says that the worker holds leases of this batch.
//!
//! Otherwise the worker continues, and the next one is tried. The leases of a killed worker can only expire.

use super::journal;
use super::service::DemoService;
use super::worker_process::WorkerProcess;
use super::workers::Workers;
use crate::cli::CommandError;

/// Kills one worker that holds leases and returns its name. Returns `None` if no worker holds leases at the moment.
pub(super) async fn kill_one_holding_leases(
    workers: &mut Workers,
    service: &DemoService,
) -> Result<Option<String>, CommandError> {
    for worker in workers.alive() {
        if kill_if_holding_leases(worker, service).await? {
            return Ok(Some(worker.name.clone()));
        }
    }
    Ok(None)
}

async fn kill_if_holding_leases(
    worker: &mut WorkerProcess,
    service: &DemoService,
) -> Result<bool, CommandError> {
    if !worker.pause().await? {
        return Ok(false);
    }
    let holds_leases = holds_leases(worker, service).await;
    if matches!(holds_leases, Ok(true)) {
        worker.kill().await?;
    } else {
        worker.resume()?;
    }
    holds_leases
}

/// Checks the two conditions on a paused worker.
async fn holds_leases(worker: &WorkerProcess, service: &DemoService) -> Result<bool, CommandError> {
    let entries = journal::read(&worker.journal)?;
    let batch = journal::claimed_last(&entries);
    if batch.is_empty() {
        return Ok(false);
    }
    let leased = service.leased_keys().await?;
    let held = leased.get(&worker.name);
    Ok(held.is_some_and(|held| batch.iter().any(|entry| held.contains(&entry.key))))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::process::Command;
    use tonic::transport::Channel;

    use super::super::args::Demo;
    use super::super::journal::{Action, Journal};
    use super::super::worker::Role;
    use super::*;
    use lease_broker_proto as proto;
    use lease_broker_proto::lease_service_client::LeaseServiceClient;

    /// A real broker, and a worker that the test controls step by step. The test sends the calls of the worker and writes
    /// its journal. The process of the worker is `cat`, which answers as long as it is not stopped.
    struct Scenario {
        folder: TempDir,
        service: DemoService,
        client: LeaseServiceClient<Channel>,
        journal: Journal,
        worker: WorkerProcess,
    }

    impl Scenario {
        async fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let demo = Demo {
                events: 10,
                workers: 2,
                batch: 5,
                lease: Duration::from_secs(60),
                kill: 1,
                language: Vec::new(),
                keep: false,
                database: None,
            };
            let service = DemoService::start(&demo, &folder).await.expect("a broker");
            let url = format!("http://{}", service.address());
            let path = folder.path().join("worker-1.jsonl");
            let child = Command::new("cat")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .expect("cat starts");
            Self {
                client: LeaseServiceClient::connect(url)
                    .await
                    .expect("a connection"),
                journal: Journal::open(&path).expect("a journal"),
                worker: WorkerProcess {
                    name: "worker-1".to_owned(),
                    role: Role::Process,
                    journal: path,
                    child,
                    killed: false,
                },
                folder,
                service,
            }
        }

        async fn claim(&mut self) -> Vec<proto::Lease> {
            let request = proto::ClaimBatchRequest {
                queue: "rainfall".to_owned(),
                worker_id: "worker-1".to_owned(),
                max_items: 5,
                ..proto::ClaimBatchRequest::default()
            };
            let reply = self.client.claim_batch(request).await.expect("leases");
            let leases = reply.into_inner().leases;
            assert_eq!(leases.len(), 5);
            self.record(Action::Claimed, &leases);
            leases
        }

        async fn complete(&mut self, leases: &[proto::Lease]) {
            let completions = leases.iter().map(|lease| proto::Completion {
                lease_id: lease.lease_id.clone(),
                ..proto::Completion::default()
            });
            let request = proto::CompleteRequest {
                queue: "rainfall".to_owned(),
                completions: completions.collect(),
                next: None,
            };
            let reply = self.client.complete(request).await.expect("results");
            for result in reply.into_inner().results {
                assert_eq!(result.outcome(), proto::Outcome::Applied);
            }
        }

        fn record(&mut self, action: Action, leases: &[proto::Lease]) {
            let keys = leases.iter().map(|lease| {
                let item = lease.item.as_ref().expect("an item");
                item.key.clone()
            });
            self.journal.write(action, keys).expect("written");
        }

        async fn try_to_kill(&mut self) -> bool {
            let tried = kill_if_holding_leases(&mut self.worker, &self.service).await;
            let killed = tried.expect("an answer");
            assert_eq!(self.worker.killed, killed);
            killed
        }

        /// Sends the process a byte and waits until it comes back, which a stopped process cannot do.
        async fn assert_running(&mut self) {
            let child = &mut self.worker.child;
            let (input, output) = (&mut child.stdin, &mut child.stdout);
            let input = input.as_mut().expect("the input");
            input.write_all(b"x").await.expect("written");
            let reply = output.as_mut().expect("the output").read_u8();
            let reply = tokio::time::timeout(Duration::from_secs(60), reply).await;
            assert_eq!(reply.expect("it runs").expect("a byte"), b'x');
        }

        async fn end(self) {
            drop(self.client);
            self.service.stop().await;
            drop(self.folder);
        }
    }

    #[tokio::test]
    async fn worker_that_just_completed_is_not_killed() {
        let mut scenario = Scenario::new().await;
        // The journal shows a claimed batch. The broker applies its completion before the demo could kill.
        let leases = scenario.claim().await;
        scenario.complete(&leases).await;
        assert!(!scenario.try_to_kill().await);
        scenario.assert_running().await;
        scenario.end().await;
    }

    #[tokio::test]
    async fn worker_whose_completion_is_in_flight_is_not_killed() {
        let mut scenario = Scenario::new().await;
        // The store still has the leases, but the broker is about to receive their completion.
        let leases = scenario.claim().await;
        scenario.record(Action::Completing, &leases);
        assert!(!scenario.try_to_kill().await);
        scenario.assert_running().await;
        scenario.end().await;
    }

    #[tokio::test]
    async fn worker_before_its_first_claim_is_not_killed() {
        let mut scenario = Scenario::new().await;
        assert!(!scenario.try_to_kill().await);
        scenario.assert_running().await;
        scenario.end().await;
    }

    #[tokio::test]
    async fn worker_holding_leases_is_killed() {
        let mut scenario = Scenario::new().await;
        let leases = scenario.claim().await;
        scenario.record(Action::Completing, &leases);
        scenario.complete(&leases).await;
        scenario.record(Action::Completed, &leases);
        scenario.claim().await;
        assert!(scenario.try_to_kill().await);
        assert!(
            scenario.worker.child.id().is_none(),
            "the process has exited"
        );
        scenario.end().await;
    }

    #[tokio::test]
    async fn worker_that_has_exited_is_not_killed() {
        let mut scenario = Scenario::new().await;
        scenario.claim().await;
        drop(scenario.worker.child.stdin.take());
        drop(scenario.worker.child.stdout.take());
        scenario.worker.child.wait().await.expect("cat exits");
        assert!(!scenario.try_to_kill().await);
        scenario.end().await;
    }
}
