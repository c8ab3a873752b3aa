//! Lease ids: those of a later version, keys that are too long for an id, and the duration that an id contains.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lease_broker_proto::{
    CompleteRequest, HeartbeatResult, Lease, NextClaim, Outcome, SettleResult,
};
use lease_broker_store::Upkeep as _;
use lease_broker_store::sqlite::{SqliteStore, system_clock};
use tonic::Code;

use crate::support::api_error::{assert_api_error, assert_field_error};
use crate::support::client::{completion, failure, item_with, key, lease_ids, text};
use crate::support::database::{all_rows, query_value};
use crate::support::server::{NEWER_LEASE_ID, Server};
use crate::support::timeout::{wait_until, with_timeout};

/// Changes the version of a lease id, its first byte, from 1 to 5.
fn with_later_version(id: &str) -> String {
    format!("B{}", &id[1..])
}

#[tokio::test]
async fn lease_id_of_no_version_is_lost_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let long = "A".repeat(10_000);
    let ids = [NEWER_LEASE_ID, &lease.lease_id, &long];
    let expected = [Outcome::LeaseLost, Outcome::Applied, Outcome::LeaseLost];
    let renewed = client.try_heartbeat(&ids, None).await.expect("no error");
    let outcomes: Vec<_> = renewed.iter().map(HeartbeatResult::outcome).collect();
    assert_eq!(outcomes, expected);
    let completed = client.complete(&ids).await;
    let outcomes: Vec<_> = completed.iter().map(SettleResult::outcome).collect();
    assert_eq!(outcomes, expected);
}

#[tokio::test]
async fn newer_lease_id_fails_the_call_while_a_newer_broker_runs() {
    let first = Server::start().await;
    let server = first.another_beside_newer_version().await;
    let client = server.client().await;
    client.enqueue(&["a", "b", "c"]).await;
    let leases = client.claim(2).await;
    let held = lease_ids(&leases);
    let newer = with_later_version(held[1]);
    let ids = [held[0], &newer];
    let before = all_rows(&server.database(), "work");
    let too_new = |outcome| assert_api_error(outcome, Code::Unavailable, "LEASE_ID_TOO_NEW", true);

    too_new(client.try_heartbeat(&ids, None).await.map(drop));
    too_new(client.try_release(&ids, None).await.map(drop));
    let failures = ids.map(|id| failure(id, "no")).into();
    too_new(client.try_fail(failures).await.map(drop));
    let completions: Vec<_> = ids.iter().map(|id| completion(id, &[])).collect();
    too_new(client.try_complete(completions.clone()).await.map(drop));
    let with_next = CompleteRequest {
        queue: client.queue.clone(),
        completions,
        next: Some(NextClaim {
            worker_id: "worker".to_owned(),
            max_items: 1,
            ..NextClaim::default()
        }),
    };
    too_new(client.rpc.clone().complete(with_next).await.map(drop));

    assert_eq!(all_rows(&server.database(), "work"), before);
    let results = client.complete(&held).await;
    assert!(
        results
            .iter()
            .all(|result| result.outcome() == Outcome::Applied)
    );
}

const DOCUMENTS: &str = "[queues.documents]";
const DOCUMENTS_TABLE: &str = "CREATE TABLE documents (name text PRIMARY KEY NOT NULL)";

#[tokio::test]
async fn enqueue_refuses_a_key_too_long_for_a_lease_id() {
    let server = Server::with_tables(DOCUMENTS, DOCUMENTS_TABLE).await;
    let client = server.client().await;
    let document = |bytes: usize| vec![item_with("name", text(&"x".repeat(bytes)))];
    assert_field_error(
        client.try_enqueue(document(4_000)).await,
        Code::InvalidArgument,
        "INVALID_FIELD",
        "items[0].columns[\"name\"]",
    );
    let longest = 2_977;
    client.try_enqueue(document(longest)).await.expect("added");
    let lease = client.claim_one().await;
    assert_eq!(key(&lease).len(), longest);
    assert!(lease.lease_id.len() <= 4_096);
    let results = client.complete(&[&lease.lease_id]).await;
    assert_eq!(results[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn row_with_a_key_too_long_for_a_lease_id_becomes_dead() {
    let mut server = Server::with_tables(DOCUMENTS, DOCUMENTS_TABLE).await;
    let client = server.client().await;
    let insert = "INSERT INTO documents (name) VALUES (printf('%.*c', 4000, 'x')), ('y')";
    server.database().execute_batch(insert).expect("inserted");
    let leases = client.claim(2).await;
    assert_eq!(leases.len(), 1);
    assert_eq!(key(&leases[0]), "y");
    // The other item becomes dead in the background. A broker that drains waits for it.
    assert!(server.drain().await);
    let error: String = query_value(
        &server.database(),
        "SELECT lease_error FROM documents WHERE lease_state = 4",
    );
    assert!(error.starts_with("the key takes 4003 bytes"), "{error}");
}

#[tokio::test]
async fn heartbeat_without_a_duration_extends_by_the_claimed_one() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b"]).await;
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let mut leases = Vec::new();
    for duration in [minutes(5), minutes(50)] {
        let mut request = client.claim_request(1);
        request.lease_duration = Some(crate::support::client::duration(duration));
        leases.extend(client.try_claim(request).await.expect("claimed"));
    }
    let ids = lease_ids(&leases);
    let results = client.try_heartbeat(&ids, None).await.expect("extended");
    let time_left = |index: usize| {
        let time_left = results[index].time_left.expect("held");
        Duration::try_from(time_left).expect("positive")
    };
    assert!(time_left(0) > minutes(4) && time_left(0) <= minutes(5));
    assert!(time_left(1) > minutes(49) && time_left(1) <= minutes(50));
    let again = client.try_heartbeat(&ids, Some(minutes(7))).await;
    for result in again.expect("extended") {
        let time_left = Duration::try_from(result.time_left.expect("held")).expect("positive");
        assert!(time_left > minutes(6) && time_left <= minutes(7));
    }
}

#[tokio::test]
async fn rotated_secret_loses_no_lease_of_two_brokers() {
    let old = Server::start().await;
    let before = old.client().await;
    before.enqueue(&["a", "b", "c", "d"]).await;
    let signed_before = before.claim(2).await;
    rotate(&old, Duration::from_secs(3_600)).await;
    // The secret is so old that brokers use it. The first one has not read it.
    let database = old.database();
    let age = "UPDATE lease_broker_secret SET made_time = made_time - 90000 WHERE id = 1";
    assert_eq!(database.execute(age, []), Ok(1));
    let new = old.another().await;
    let after = new.client().await;
    let signed_after = after.claim(2).await;
    assert_eq!(secret_numbers(&signed_before), [0, 0]);
    assert_eq!(secret_numbers(&signed_after), [1, 1]);

    // The first broker asks for a retry, and reads the secret meanwhile.
    let ids = lease_ids(&signed_after);
    let refused = before.try_heartbeat(&ids, None).await.map(drop);
    assert_api_error(refused, Code::Unavailable, "LEASE_ID_TOO_NEW", true);
    wait_until("the broker knows the secret", async || {
        before.try_heartbeat(&ids, None).await.is_ok()
    })
    .await;
    for result in before.complete(&ids).await {
        assert_eq!(result.outcome(), Outcome::Applied);
    }
    for result in after.complete(&lease_ids(&signed_before)).await {
        assert_eq!(result.outcome(), Outcome::Applied);
    }
}

#[tokio::test]
async fn rotation_without_delay_loses_every_lease() {
    let old = Server::start().await;
    let before = old.client().await;
    before.enqueue(&["a"]).await;
    let leases = before.claim(1).await;
    rotate(&old, Duration::ZERO).await;
    let after = old.another().await.client().await;
    // The number could be that of a secret which the broker has not read, so it asks once for a retry.
    let lost = with_timeout(async {
        loop {
            match after.try_heartbeat(&lease_ids(&leases), None).await {
                Ok(results) => return results[0].outcome(),
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
            }
        }
    });
    assert_eq!(lost.await, Outcome::LeaseLost);
}

#[tokio::test]
async fn lease_beside_ids_of_many_unknown_secrets_is_completed() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let bytes = URL_SAFE_NO_PAD.decode(&lease.lease_id).expect("base64url");
    let of_secret = |number: u8| {
        let mut id = bytes.clone();
        id[1] = number;
        URL_SAFE_NO_PAD.encode(id)
    };
    let unknown: Vec<String> = (100..112).map(of_secret).collect();
    let mut ids: Vec<&str> = unknown.iter().map(String::as_str).collect();
    ids.push(&lease.lease_id);
    let completions = || ids.iter().map(|id| completion(id, &[])).collect();
    let results = with_timeout(async {
        loop {
            match client.try_complete(completions()).await {
                Ok(results) => return results,
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
            }
        }
    });
    let results = results.await;
    assert_eq!(results[0].outcome(), Outcome::LeaseLost);
    assert_eq!(results[12].outcome(), Outcome::Applied);
}

/// Adds a secret to the file of a broker, as the command `secret rotate` does.
async fn rotate(server: &Server, accept_old_for: Duration) {
    let store = SqliteStore::open(&server.file(), &[], system_clock()).expect("the file");
    store.rotate_secrets(accept_old_for).await.expect("rotated");
}

/// Returns the numbers of the secrets that have signed the ids: their second bytes.
fn secret_numbers(leases: &[Lease]) -> Vec<u8> {
    let number = |id: &str| {
        let id = URL_SAFE_NO_PAD.decode(id).expect("base64url");
        id[1]
    };
    lease_ids(leases).into_iter().map(number).collect()
}
