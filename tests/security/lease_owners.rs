//! Leases belong to the identity that claimed them.

use std::time::Duration;

use lease_broker_proto::{
    ClaimBatchRequest, EnqueueRequest, EnqueueResult, Lease, Outcome, RefusalReason,
};
use uuid::Uuid;

use crate::security::fixture::Files;
use crate::support::client::{Client, completion, failure, item, lease_ids};

const IDENTITIES: &str = "
[[auth.identities]]
name = 'one'
formerly = ['uno']
spiffe = 'spiffe://test/one'
roles = { admin = ['work'] }
[[auth.identities]]
name = 'two'
spiffe = 'spiffe://test/two'
roles = { admin = ['work'] }
";

/// Sends a lease id in every call that takes one. Returns the outcomes.
async fn outcomes(client: &Client, id: &str) -> Vec<Outcome> {
    let renewed = client.try_heartbeat(&[id], None).await.expect("answered");
    let failed = client.try_fail(vec![failure(id, "no")]).await;
    let released = client.try_release(&[id], None).await.expect("answered");
    let completed = client.try_complete(vec![completion(id, &[])]).await;
    let mut outcomes = vec![renewed[0].outcome()];
    for settled in [
        failed.expect("answered"),
        released,
        completed.expect("answered"),
    ] {
        outcomes.push(settled[0].outcome());
    }
    outcomes
}

fn with_request_id(client: &Client, id: Uuid) -> ClaimBatchRequest {
    ClaimBatchRequest {
        request_id: id.to_string(),
        ..client.claim_request(1)
    }
}

async fn enqueue_once(client: &Client, id: Uuid) -> EnqueueResult {
    let request = EnqueueRequest {
        queue: client.queue.clone(),
        items: vec![item("a")],
        request_id: id.to_string(),
    };
    let enqueued = client.rpc.clone().enqueue(request).await;
    enqueued.expect("enqueued").into_inner().results.remove(0)
}

fn ids(leases: &[Lease]) -> Vec<&str> {
    lease_ids(leases)
}

#[tokio::test]
async fn lease_of_another_identity_is_lost_in_every_call() {
    let files = Files::new();
    let server = files.start(IDENTITIES).await;
    let one = files.client(&server, "spiffe://test/one").await;
    let two = files.client(&server, "spiffe://test/two").await;
    one.enqueue(&["a"]).await;
    let lease = one.claim_one().await;
    let lost = vec![Outcome::LeaseLost; 4];
    assert_eq!(outcomes(&two, &lease.lease_id).await, lost);
    let completed = one.complete(&[&lease.lease_id]).await;
    assert_eq!(completed[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn request_id_of_another_identity_gets_no_leases() {
    let files = Files::new();
    let server = files.start(IDENTITIES).await;
    let one = files.client(&server, "spiffe://test/one").await;
    let two = files.client(&server, "spiffe://test/two").await;
    one.enqueue(&["a", "b"]).await;
    let id = Uuid::new_v4();
    let claim = async |client: &Client| {
        let claimed = client.try_claim(with_request_id(client, id)).await;
        claimed.expect("claimed")
    };
    let first = claim(&one).await;
    assert_eq!(ids(&claim(&one).await), ids(&first), "the same claim again");
    let other = claim(&two).await;
    let keys = [&first, &other].map(|leases| leases[0].item.as_ref().map(|item| &item.key));
    assert_ne!(keys[0], keys[1]);
    // A release by request id reaches only the caller's own leases.
    let request_ids = [id.to_string()];
    let released = two.try_release_requests(&request_ids).await;
    assert_eq!(released.expect("released"), 1);
    let minute = Some(Duration::from_secs(60));
    let renewed = one.try_heartbeat(&ids(&first), minute).await;
    let renewed = renewed.expect("renewed");
    assert_eq!(renewed[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn request_id_of_another_producer_gets_no_keys() {
    let files = Files::new();
    // Also when the identities share their leases.
    let auth = format!("lease_scope = 'queue'\n{IDENTITIES}");
    let server = files.start(&auth).await;
    let one = files.client(&server, "spiffe://test/one").await;
    let two = files.client(&server, "spiffe://test/two").await;
    let id = Uuid::new_v4();
    let first = enqueue_once(&one, id).await;
    let other = enqueue_once(&two, id).await;
    assert!(!other.already_added);
    assert_ne!(first.key, other.key);
    enqueue_once(&two, id).await;
    let again = enqueue_once(&one, id).await;
    assert!(again.already_added);
    assert_eq!(first.key, again.key);
}

#[tokio::test]
async fn scope_queue_lets_another_identity_settle() {
    let files = Files::new();
    let auth = format!("lease_scope = 'queue'\n{IDENTITIES}");
    let server = files.start(&auth).await;
    let one = files.client(&server, "spiffe://test/one").await;
    let two = files.client(&server, "spiffe://test/two").await;
    one.enqueue(&["a"]).await;
    let lease = one.claim_one().await;
    let completed = two.complete(&[&lease.lease_id]).await;
    assert_eq!(completed[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn leases_survive_a_new_scope_and_a_new_name() {
    let files = Files::new();
    let before = IDENTITIES.replace("formerly = ['uno']\n", "");
    let before = before.replace("name = 'one'", "name = 'uno'");
    let server = files.start(&before).await;
    let one = files.client(&server, "spiffe://test/one").await;
    one.enqueue(&["a", "b"]).await;
    let leases = one.claim(2).await;
    // A second broker on the same database, with other settings.
    let auth = format!("lease_scope = 'queue'\n{IDENTITIES}");
    let config = files.settings(&auth);
    let after = server.another_with_config(&config).await;
    let one = files.client(&after, "spiffe://test/one").await;
    let two = files.client(&after, "spiffe://test/two").await;
    let refused = two.complete(&ids(&leases)).await;
    assert_eq!(refused[0].outcome(), Outcome::LeaseLost);
    for result in one.complete(&ids(&leases)).await {
        assert_eq!(result.outcome(), Outcome::Applied);
    }
}

#[tokio::test]
async fn request_ids_survive_a_new_name() {
    let files = Files::new();
    let before = IDENTITIES.replace("formerly = ['uno']\n", "");
    let before = before.replace("name = 'one'", "name = 'uno'");
    let server = files.start(&before).await;
    let one = files.client(&server, "spiffe://test/one").await;
    let id = Uuid::new_v4();
    let first = enqueue_once(&one, id).await;
    let leases = one.try_claim(with_request_id(&one, id)).await;
    let leases = leases.expect("claimed");
    for formerly in ["['uno']", "['uno', 'one']"] {
        let renamed = IDENTITIES.replace("['uno']", formerly);
        let renamed = renamed.replace("name = 'one'", &format!("name = 'one-{}'", formerly.len()));
        let after = server.another_with_config(&files.settings(&renamed)).await;
        let one = files.client(&after, "spiffe://test/one").await;
        let again = enqueue_once(&one, id).await;
        assert!(again.already_added);
        assert_eq!(again.key, first.key);
        let claimed = one.try_claim(with_request_id(&one, id)).await;
        let claimed = claimed.expect("claimed");
        assert_eq!(claimed[0].fencing_token, leases[0].fencing_token);
        assert_eq!(claimed[0].item, leases[0].item);
    }
    let released = one.try_release_requests(&[id.to_string()]).await;
    assert_eq!(released.expect("released"), 1);
}

#[tokio::test]
async fn follow_up_needs_a_role_on_its_queue() {
    let files = Files::new();
    let server = files.start(IDENTITIES).await;
    let one = files.client(&server, "spiffe://test/one").await;
    one.enqueue(&["a", "b", "c"]).await;
    let leases = one.claim(3).await;
    let completions = [("work", "hidden"), ("work", "nowhere"), ("work", "work")];
    let completions = leases
        .iter()
        .zip(completions)
        .map(|(lease, (first, last))| {
            completion(&lease.lease_id, &[(first, "next"), (last, "next")])
        });
    let results = one.try_complete(completions.collect()).await;
    let results = results.expect("the mistake of an entry fails no other entry");
    // The answer is the same for a queue that exists, up to its name.
    for (result, queue) in results.iter().zip(["hidden", "nowhere"]) {
        assert_eq!(result.outcome(), Outcome::Refused);
        let refusal = result.refusal.clone().expect("a reason");
        assert_eq!(refusal.reason(), RefusalReason::QueueNotFound);
        assert_eq!(refusal.field, "follow_ups[1].queue");
        let expected = format!("there is no queue {queue:?} to which the caller may add items");
        assert_eq!(refusal.message, expected);
    }
    assert_eq!(results[2].outcome(), Outcome::Applied);
    // The refused ones are still leased, and none of their follow-ups was added.
    assert_eq!(one.claim(10).await.len(), 2);
    let completed = one.complete(&lease_ids(&leases[..2])).await;
    for result in completed {
        assert_eq!(result.outcome(), Outcome::Applied);
    }
}
