//! Settlements of rows that another program holds in an open transaction.

use std::time::Duration;

use lease_broker_proto::{
    CompleteRequest, HeartbeatResult, NextClaim, Outcome, Refusal, RefusalReason, SettleResult,
};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_row_refuses_its_own_entries_for_now() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let service = Service::start(&program.connection_string).await;
    let client = service.client().await;
    let items = || vec![item("a"), item("b"), item("c"), item("d")];
    let keys = retry_while_unavailable(|| client.try_enqueue(items())).await;
    let leases = retry_while_unavailable(|| client.try_claim(client.claim_request(3))).await;
    let holder = program.another().await;
    let hold = format!(
        "BEGIN TRANSACTION; UPDATE work SET payload = payload WHERE id = {}",
        keys[0]
    );
    holder.run(&hold).await;
    let expected = [Outcome::Refused, Outcome::Applied, Outcome::Applied];
    let assert_locked = |refusal: Option<&Refusal>| {
        let refusal = refusal.expect("a refused entry has a refusal");
        assert_eq!(refusal.reason(), RefusalReason::Locked, "{refusal:?}");
        assert_eq!(refusal.field, "");
    };

    let ids: Vec<&str> = leases.iter().map(|lease| &*lease.lease_id).collect();
    let extended = with_timeout(client.try_heartbeat(&ids, None)).await;
    let extended = extended.expect("two are extended");
    let outcomes: Vec<_> = extended.iter().map(HeartbeatResult::outcome).collect();
    assert_eq!(outcomes, expected, "{extended:?}");
    assert_locked(extended[0].refusal.as_ref());

    let request = CompleteRequest {
        queue: "work".to_owned(),
        completions: ids.iter().map(|id| completion(id, &[])).collect(),
        next: Some(NextClaim {
            worker_id: "worker".to_owned(),
            max_items: 1,
            ..NextClaim::default()
        }),
    };
    let completed = with_timeout(client.rpc.clone().complete(request)).await;
    let response = completed.expect("two are applied").into_inner();
    let outcomes: Vec<_> = response.results.iter().map(SettleResult::outcome).collect();
    assert_eq!(outcomes, expected, "{response:?}");
    assert_locked(response.results[0].refusal.as_ref());
    let next = response.next.expect("the claim is answered");
    assert_eq!(next.leases.len(), 1, "{next:?}");
    let completed = "SELECT COUNT(*) FROM work WHERE lease_state = 3";
    assert_eq!(program.number(completed).await, 2);

    holder.run("ROLLBACK TRANSACTION").await;
    let again = || client.try_complete(vec![completion(ids[0], &[])]);
    let again = retry_while_unavailable(again).await;
    assert_eq!(again[0].outcome(), Outcome::Applied, "{again:?}");
    assert!(!again[0].already_applied);
    service.stop().await;
}
