//! Settlements of rows that another program holds in an open transaction.

use lease_broker_proto::{
    CompleteRequest, HeartbeatResult, NextClaim, Outcome, Refusal, RefusalReason, SettleResult,
};

use crate::harness::program::start;
use crate::sql_server::service::{Service, retry_while_unavailable};
use crate::support::client::{completion, item};
use crate::support::timeout::with_timeout;

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

    // So it is without the others.
    let alone = || client.try_complete(vec![completion(ids[0], &[])]);
    let alone = retry_while_unavailable(alone).await;
    assert_eq!(alone[0].outcome(), Outcome::Refused, "{alone:?}");
    assert_locked(alone[0].refusal.as_ref());

    holder.run("ROLLBACK TRANSACTION").await;
    let again = || client.try_complete(vec![completion(ids[0], &[])]);
    let again = retry_while_unavailable(again).await;
    assert_eq!(again[0].outcome(), Outcome::Applied, "{again:?}");
    assert!(!again[0].already_applied);
    service.stop().await;
}
