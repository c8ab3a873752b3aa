//! Outcomes of heartbeats and settlements: one per lease of a batch, and the outcome of a retried settlement.

use std::time::Duration;

use lease_broker::broker::LeaseCall;
use lease_broker_proto::column_value::Kind;
use lease_broker_proto::{
    ColumnValue, FollowUp, HeartbeatResult, ItemState, NewItem, Outcome, RefusalReason,
    SettleResult,
};
use lease_broker_store::QueueIndex;

use crate::support::client::{
    Client, assert_refused, completion, failure, item, key, lease_ids, payload,
};
use crate::support::database::{self, all_rows};
use crate::support::server::Server;

const TWO_QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text' }
[queues.next]
managed_columns = { payload = 'text not null' }
";

fn outcomes(results: &[SettleResult]) -> Vec<Outcome> {
    results.iter().map(SettleResult::outcome).collect()
}

/// Changes the last character of a lease id.
fn forge(id: &str) -> String {
    let mut id = id.to_owned();
    let last = id.pop().expect("a character");
    // In an id of this length the last character has unused bits. A and Q keep them zero, so the result is valid
    // base64.
    id.push(if last == 'A' { 'Q' } else { 'A' });
    id
}

#[tokio::test]
async fn outcomes_are_in_request_order() {
    use Outcome::{Applied, LeaseLost};

    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a", "b", "c", "d", "e", "f"]).await;
    let leases = client.claim(6).await;
    let held = lease_ids(&leases);
    let forged = forge(held[5]);
    client.complete(&[held[1]]).await;

    let requested = [held[3], "nonsense", held[0], held[1], &forged, ""];
    let heartbeats = client
        .try_heartbeat(&requested, None)
        .await
        .expect("no error");
    let actual: Vec<_> = heartbeats.iter().map(HeartbeatResult::outcome).collect();
    assert_eq!(
        actual,
        [Applied, LeaseLost, Applied, LeaseLost, LeaseLost, LeaseLost]
    );
    for heartbeat in &heartbeats {
        let applied = heartbeat.outcome() == Applied;
        assert_eq!(heartbeat.time_left.is_some(), applied, "{heartbeat:?}");
        assert_eq!(heartbeat.expire_time.is_some(), applied, "{heartbeat:?}");
    }

    let failures = [held[2], &forged, held[1]].map(|id| failure(id, "no"));
    let failed = client.try_fail(failures.into()).await.expect("failures");
    assert_eq!(outcomes(&failed), [Applied, LeaseLost, LeaseLost]);
    assert_eq!(failed[1].state(), ItemState::Unspecified);

    let released = client.release(&["x", held[3]]).await;
    assert_eq!(outcomes(&released), [LeaseLost, Applied]);

    let completed = client
        .complete(&[&forged, held[0], held[2], held[4], held[0]])
        .await;
    assert_eq!(
        outcomes(&completed),
        [LeaseLost, Applied, LeaseLost, Applied, Applied]
    );
}

#[tokio::test]
async fn lease_of_another_queue_is_lost() {
    let server = Server::with_config(TWO_QUEUES).await;
    let (client, other) = (
        server.client().await.for_queue("work"),
        server.client().await.for_queue("next"),
    );
    client.enqueue(&["a"]).await;
    other.enqueue(&["b"]).await;
    let lease = client.claim_one().await;
    other.claim_one().await;
    let before = all_rows(&server.database(), "next");
    let lost = other.complete(&[&lease.lease_id]).await;
    assert_eq!(outcomes(&lost), [Outcome::LeaseLost]);
    assert_eq!(all_rows(&server.database(), "next"), before);
}

#[tokio::test]
async fn expired_lease_is_lost_to_the_next_worker() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let mut request = client.claim_request(1);
    request.lease_duration = Some(crate::support::client::duration(Duration::from_secs(1)));
    let lost = client.try_claim(request).await.expect("a claim").remove(0);
    let second = client.as_worker("second");
    let request = second.waiting_claim_request(1, Duration::from_secs(30));
    let lease = second.try_claim(request).await.expect("a claim").remove(0);
    assert_eq!((lease.attempt, lease.fencing_token), (2, 2));
    let id = &*lost.lease_id;
    let heartbeats = client.try_heartbeat(&[id], None).await.expect("no error");
    assert_eq!(heartbeats[0].outcome(), Outcome::LeaseLost);
    assert_eq!(
        outcomes(&client.complete(&[id]).await),
        [Outcome::LeaseLost]
    );
    assert_eq!(client.fail(id, "late").await.outcome(), Outcome::LeaseLost);
    assert_eq!(outcomes(&client.release(&[id]).await), [Outcome::LeaseLost]);
    let done = second.complete(&[&lease.lease_id]).await;
    assert_eq!(outcomes(&done), [Outcome::Applied]);
}

/// Adds an item, claims it and returns the id of its lease.
async fn enqueue_and_claim(client: &Client) -> String {
    client.enqueue(&["x"]).await;
    client.claim_one().await.lease_id
}

#[tokio::test]
async fn retried_settlement_changes_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    let database = server.database();

    let id = enqueue_and_claim(&client).await;
    let first = client.complete(&[&id]).await;
    assert_repeated(&client.complete(&[&id]).await, &first);
    let before = all_rows(&database, "work");
    assert_eq!(outcomes(&client.complete(&[&id]).await), [Outcome::Applied]);
    assert_eq!(all_rows(&database, "work"), before);

    let id = enqueue_and_claim(&client).await;
    let hour = Some(crate::support::client::duration(Duration::from_secs(3_600)));
    let mut failed = failure(&id, "first");
    failed.retry_delay = hour;
    let first = client
        .try_fail(vec![failed.clone()])
        .await
        .expect("no error");
    let before = all_rows(&database, "work");
    failed.error_message = "second".to_owned();
    let again = client.try_fail(vec![failed]).await.expect("no error");
    assert_repeated(&again, &first);
    assert_eq!(all_rows(&database, "work"), before);

    let id = enqueue_and_claim(&client).await;
    let first = client.release(&[&id]).await;
    let before = all_rows(&database, "work");
    assert_repeated(&client.release(&[&id]).await, &first);
    assert_eq!(all_rows(&database, "work"), before);
}

/// Asserts that the second answer equals the first one, and adds that an earlier call was applied.
fn assert_repeated(second: &[SettleResult], first: &[SettleResult]) {
    assert!(!first[0].already_applied && second[0].already_applied);
    let first = SettleResult {
        already_applied: true,
        ..first[0].clone()
    };
    assert_eq!(second, [first]);
}

#[tokio::test]
async fn second_different_settlement_is_lost() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = enqueue_and_claim(&client).await;
    client.complete(&[&id]).await;
    let before = all_rows(&server.database(), "work");
    assert_eq!(client.fail(&id, "no").await.outcome(), Outcome::LeaseLost);
    assert_eq!(
        outcomes(&client.release(&[&id]).await),
        [Outcome::LeaseLost]
    );
    assert_eq!(all_rows(&server.database(), "work"), before);
}

#[tokio::test]
async fn retry_after_the_next_claim_is_lost() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = enqueue_and_claim(&client).await;
    client.release(&[&id]).await;
    client.claim_one().await;
    assert_eq!(
        outcomes(&client.release(&[&id]).await),
        [Outcome::LeaseLost]
    );
    assert_eq!(
        outcomes(&client.complete(&[&id]).await),
        [Outcome::LeaseLost]
    );
}

#[tokio::test]
async fn retried_completion_of_a_deleted_row_is_gone() {
    let server = Server::with_config(
        "[queues.work]
        managed_columns = { payload = 'text' }
        on_complete = 'delete'",
    )
    .await;
    let client = server.client().await;
    let id = enqueue_and_claim(&client).await;
    assert_eq!(outcomes(&client.complete(&[&id]).await), [Outcome::Applied]);
    let retried = client.complete(&[&id]).await;
    assert_eq!(outcomes(&retried), [Outcome::Gone]);
    assert_eq!(retried[0].state(), ItemState::Unspecified);
    assert_eq!(client.fail(&id, "no").await.outcome(), Outcome::LeaseLost);
    assert_eq!(
        outcomes(&client.release(&[&id]).await),
        [Outcome::LeaseLost]
    );
    let heartbeats = client.try_heartbeat(&[&id], None).await.expect("no error");
    assert_eq!(heartbeats[0].outcome(), Outcome::LeaseLost);
}

#[tokio::test]
async fn follow_ups_are_added_once() {
    let server = Server::with_config(TWO_QUEUES).await;
    let client = server.client().await.for_queue("work");
    let id = enqueue_and_claim(&client).await;
    let done = completion(&id, &[("next", "one"), ("next", "two"), ("work", "three")]);
    for _ in 0..3 {
        let results = client
            .try_complete(vec![done.clone()])
            .await
            .expect("no error");
        assert_eq!(outcomes(&results), [Outcome::Applied]);
    }
    let next = client.for_queue("next").claim(10).await;
    let seen: Vec<_> = next.iter().map(payload).collect();
    assert_eq!(seen, ["one", "two"]);
    assert_eq!(payload(&client.claim_one().await), "three");
}

#[tokio::test]
async fn lost_lease_adds_no_follow_up() {
    let server = Server::with_config(TWO_QUEUES).await;
    let client = server.client().await.for_queue("work");
    let id = enqueue_and_claim(&client).await;
    client.release(&[&id]).await;
    let done = vec![
        completion(&id, &[("next", "one")]),
        completion("", &[("next", "two")]),
    ];
    let results = client.try_complete(done).await.expect("no error");
    assert_eq!(outcomes(&results), [Outcome::LeaseLost, Outcome::LeaseLost]);
    assert_eq!(client.for_queue("next").claim(10).await, []);
}

#[tokio::test]
async fn invalid_follow_up_refuses_its_own_completion() {
    let server = Server::with_config(TWO_QUEUES).await;
    let client = server.client().await.for_queue("work");
    let ids = [
        enqueue_and_claim(&client).await,
        enqueue_and_claim(&client).await,
    ];
    let mut invalid = completion(&ids[1], &[("next", "fine"), ("next", "x")]);
    invalid.follow_ups[1].item = Some(crate::support::client::item_with(
        "payload",
        lease_broker_proto::ColumnValue { kind: None },
    ));
    let both = vec![completion(&ids[0], &[("next", "good")]), invalid];
    let results = client.try_complete(both).await.expect("no error");
    assert_eq!(outcomes(&results), [Outcome::Applied, Outcome::Refused]);
    assert_eq!(results[0].refusal, None);
    assert_eq!(results[1].state(), ItemState::Unspecified);
    let field = "follow_ups[1].item.columns[\"payload\"]";
    let reason = RefusalReason::InvalidField;
    assert_refused(
        results[1].outcome(),
        results[1].refusal.as_ref(),
        reason,
        field,
    );
    assert_eq!(all_rows(&server.database(), "next").len(), 1);
    let corrected = client.complete(&[&ids[1]]).await;
    assert_eq!(outcomes(&corrected), [Outcome::Applied]);
}

#[tokio::test]
async fn malformed_follow_up_is_refused_and_named() {
    let server = Server::with_config(TWO_QUEUES).await;
    let client = server.client().await.for_queue("work");
    let id = enqueue_and_claim(&client).await;
    let item = |change: &dyn Fn(&mut NewItem)| {
        let mut item = item("x");
        change(&mut item);
        Some(item)
    };
    let delay = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let time = ColumnValue {
        kind: Some(Kind::TimestampValue(prost_types::Timestamp {
            seconds: 0,
            nanos: -1,
        })),
    };
    for (queue, item, field) in [
        ("nowhere", item(&|_| ()), "follow_ups[0].queue"),
        (
            "next",
            item(&|item| item.delay = delay(-1)),
            "follow_ups[0].item.delay",
        ),
        (
            "next",
            item(&|item| item.delay = delay(400 * 86_400)),
            "follow_ups[0].item.delay",
        ),
        (
            "next",
            item(&|item| drop(item.columns.insert("payload".to_owned(), time.clone()))),
            "follow_ups[0].item.columns[\"payload\"]",
        ),
        (
            "next",
            item(&|item| drop(item.columns.insert("lease_state".to_owned(), time.clone()))),
            "follow_ups[0].item.columns[\"lease_state\"]",
        ),
    ] {
        let follow_up = FollowUp {
            queue: queue.to_owned(),
            item,
        };
        let mut done = completion(&id, &[]);
        done.follow_ups = vec![follow_up];
        let results = client.try_complete(vec![done]).await.expect("no error");
        assert_eq!(outcomes(&results), [Outcome::Refused]);
        let refusal = results[0].refusal.as_ref().expect("a refusal");
        assert_eq!(refusal.field, field, "{refusal:?}");
    }
    assert_eq!(outcomes(&client.complete(&[&id]).await), [Outcome::Applied]);
}

#[tokio::test]
async fn refused_completion_spares_concurrent_calls() {
    let server = Server::with_config(TWO_QUEUES).await;
    let client = server.client().await.for_queue("work");
    let payloads: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    let payloads: Vec<&str> = payloads.iter().map(|payload| &**payload).collect();
    client.enqueue(&payloads).await;
    let database = server.database();
    let choosy = "CREATE TRIGGER choosy AFTER INSERT ON next WHEN new.payload = 'bad' BEGIN
        SELECT RAISE(ABORT, 'no bad items here');
    END";
    database.execute_batch(choosy).expect("a trigger");
    let calls = client.claim(60).await.into_iter().enumerate();
    let calls = calls.map(|(number, lease)| {
        let client = client.clone();
        let payload = if number % 10 == 3 { "bad" } else { "good" };
        tokio::spawn(async move {
            let done = completion(&lease.lease_id, &[("next", payload)]);
            let results = client.try_complete(vec![done]).await.expect("no error");
            (payload, results[0].clone())
        })
    });
    for call in futures_util::future::join_all(calls).await {
        let (payload, result) = call.expect("a call");
        if payload == "good" {
            assert_eq!(result.outcome(), Outcome::Applied);
        } else {
            let refusal = result.refusal.as_ref();
            let reason = RefusalReason::Trigger;
            assert_refused(result.outcome(), refusal, reason, "follow_ups[0].item");
            let text = "table \"next\": no bad items here";
            assert_eq!(refusal.expect("a refusal").message, text);
        }
    }
    assert_eq!(all_rows(&database, "next").len(), 54);
}

#[tokio::test]
async fn concurrent_workers_never_share_an_item() {
    let server = Server::start().await;
    let client = server.client().await;
    let payloads: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    client
        .enqueue(&payloads.iter().map(|p| &**p).collect::<Vec<_>>())
        .await;
    let workers = (0..20).map(|n| {
        let worker = client.as_worker(&format!("w{n}"));
        tokio::spawn(async move {
            let mut done = Vec::new();
            loop {
                let leases = worker.claim(3).await;
                if leases.is_empty() {
                    return done;
                }
                let results = worker.complete(&lease_ids(&leases)).await;
                assert!(results.iter().all(|r| r.outcome() == Outcome::Applied));
                done.extend(leases.iter().map(|lease| key(lease).to_owned()));
            }
        })
    });
    let mut done = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        done.extend(worker.await.expect("a worker"));
    }
    done.sort();
    let total = done.len();
    done.dedup();
    assert_eq!((total, done.len()), (200, 200));
    let fences: i64 =
        database::query_value(&server.database(), "SELECT max(lease_fence) FROM work");
    assert_eq!(fences, 1);
}

#[tokio::test]
async fn refused_heartbeats_and_releases_are_counted_as_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let trigger = "CREATE TRIGGER stays BEFORE UPDATE ON work BEGIN SELECT RAISE(ABORT, 'no'); END";
    server.database().execute_batch(trigger).expect(trigger);
    let extended = client.try_heartbeat(&[&lease.lease_id], None).await;
    assert_eq!(extended.expect("a result")[0].outcome(), Outcome::Refused);
    let released = client.release(&[&lease.lease_id]).await;
    assert_eq!(released[0].outcome(), Outcome::Refused);
    let counters = server.broker().queue_counters(QueueIndex(0));
    for call in [LeaseCall::Heartbeat, LeaseCall::Release] {
        let [lost, refused] = [&counters.lost, &counters.refused].map(|by| by[call as usize].get());
        assert_eq!((lost, refused), (0, 1), "{call:?}");
    }
}
