//! Settlements of rows that another program holds in an open transaction.

use std::time::Duration;

use lease_broker_proto::CompleteRequest;
use tonic::{Code, Request};

use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start};
use crate::sql_server::service::{Service, retry_while_unavailable};
use crate::support::client::{Client, completion, item};
use crate::support::timeout::with_timeout;

/// A leased item whose row another program holds.
struct HeldItem {
    service: Service,
    client: Client,
    holder: Program,
    lease_id: String,
    program: Program,
    _harness: MssqlHarness,
}

impl HeldItem {
    async fn start() -> Option<Self> {
        let (harness, program) = start().await?;
        let service = Service::start(&program.connection_string).await;
        let client = service.client().await;
        retry_while_unavailable(|| client.try_enqueue(vec![item("a")])).await;
        let mut leases =
            retry_while_unavailable(|| client.try_claim(client.claim_request(1))).await;
        let lease_id = leases.remove(0).lease_id;
        let holder = program.another().await;
        holder
            .run("BEGIN TRANSACTION; UPDATE work SET payload = payload")
            .await;
        Some(Self {
            service,
            client,
            holder,
            lease_id,
            program,
            _harness: harness,
        })
    }

    /// Ends the foreign transaction, and expects that the completion is applied when it is sent again.
    async fn assert_completes(self) {
        let again = || {
            self.client
                .try_complete(vec![completion(&self.lease_id, &[])])
        };
        let again = retry_while_unavailable(again).await;
        assert_eq!(again[0].outcome, 1, "{again:?}");
        let completed = "SELECT COUNT(*) FROM work WHERE lease_state = 3";
        assert_eq!(self.program.number(completed).await, 1);
        self.service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_waits_for_a_foreign_transaction() {
    let Some(held) = HeldItem::start().await else {
        return;
    };
    let completing = tokio::spawn({
        let (client, id) = (held.client.clone(), held.lease_id.clone());
        async move { client.try_complete(vec![completion(&id, &[])]).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!completing.is_finished(), "the row is held");
    held.holder.run("ROLLBACK TRANSACTION").await;
    let completed = with_timeout(completing).await.expect("no panic");
    if let Err(status) = completed {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    }
    held.assert_completes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_blocked_past_its_deadline_can_be_retried() {
    let Some(held) = HeldItem::start().await else {
        return;
    };
    let mut request = Request::new(CompleteRequest {
        queue: "work".to_owned(),
        completions: vec![completion(&held.lease_id, &[])],
        next: None,
    });
    // The broker answers shortly before the deadline.
    request.set_timeout(Duration::from_secs(3));
    let completed = with_timeout(held.client.rpc.clone().complete(request)).await;
    let status = completed.expect_err("the row is held");
    let documented = [Code::DeadlineExceeded, Code::Unavailable, Code::Cancelled];
    assert!(documented.contains(&status.code()), "{status:?}");
    held.holder.run("ROLLBACK TRANSACTION").await;
    held.assert_completes().await;
}

/// The worker's library sends the whole call again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completions_beside_a_locked_row_can_be_sent_again() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let service = Service::start(&program.connection_string).await;
    let client = service.client().await;
    let items = || vec![item("a"), item("b"), item("c")];
    let keys = retry_while_unavailable(|| client.try_enqueue(items())).await;
    let leases = retry_while_unavailable(|| client.try_claim(client.claim_request(3))).await;
    let holder = program.another().await;
    let hold = format!(
        "BEGIN TRANSACTION; UPDATE work SET payload = payload WHERE id = {}",
        keys[0]
    );
    holder.run(&hold).await;
    let completions = || {
        let leases = leases.iter();
        leases
            .map(|lease| completion(&lease.lease_id, &[]))
            .collect()
    };
    let status = with_timeout(client.try_complete(completions())).await;
    let status = status.expect_err("the row is held");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let completed = "SELECT COUNT(*) FROM work WHERE lease_state = 3";
    assert_eq!(program.number(completed).await, 2);
    holder.run("ROLLBACK TRANSACTION").await;
    let again = retry_while_unavailable(|| client.try_complete(completions())).await;
    let is_repeated: Vec<bool> = again.iter().map(|result| result.already_applied).collect();
    assert_eq!(is_repeated, [false, true, true], "{again:?}");
    assert!(again.iter().all(|result| result.outcome == 1), "{again:?}");
    service.stop().await;
}
