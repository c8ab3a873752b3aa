//! `PauseQueue` and `ResumeQueue`: no lease after the answer, at any broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lease_broker_proto::{
    HeldBack, ListQueuesRequest, PauseMode, PauseQueueRequest, QueuePause, ResumeQueueRequest,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::api::waiting_claims::{NO_POLLS, WAIT};
use crate::support::api_error::{assert_api_error, assert_field_error};
use crate::support::client::{Client, item};
use crate::support::database::query_value;
use crate::support::server::{QUEUE, Server};
use crate::support::timeout::{wait_until, with_timeout};

/// The longest pause with an end.
const MAX_PAUSE: Duration = Duration::from_secs(366 * 86_400);

fn request(mode: PauseMode) -> PauseQueueRequest {
    PauseQueueRequest {
        queue: "work".to_owned(),
        mode: mode.into(),
        reason: "the supplier is down".to_owned(),
        until: None,
    }
}

async fn pause(client: &Client, request: PauseQueueRequest) -> Result<QueuePause, Status> {
    let paused = client.admin.clone().pause_queue(request).await?;
    Ok(paused.into_inner().pause.expect("a pause"))
}

async fn resume(client: &Client) -> Option<QueuePause> {
    let request = ResumeQueueRequest {
        queue: "work".to_owned(),
        reason: String::new(),
    };
    let resumed = client.admin.clone().resume_queue(request).await;
    resumed.expect("resumed").into_inner().ended
}

async fn claim(client: &Client) -> (usize, HeldBack) {
    let claimed = client
        .rpc
        .clone()
        .claim_batch(client.claim_request(1))
        .await;
    let claimed = claimed.expect("a claim").into_inner();
    (claimed.leases.len(), claimed.held_back())
}

#[tokio::test]
async fn paused_queue_gives_no_lease_at_any_broker() {
    let server = Server::start().await;
    let other = server.another().await;
    let (client, other) = (server.client().await, other.client().await);
    client.enqueue(&["a", "b"]).await;
    let held = client.claim_one().await;
    let paused = pause(&client, request(PauseMode::Unspecified)).await;
    let paused = paused.expect("paused");
    assert_eq!(paused.mode(), PauseMode::Claims);
    assert_eq!(paused.reason, "the supplier is down");
    for client in [&client, &other] {
        assert_eq!(claim(client).await, (0, HeldBack::Paused));
    }
    // Work that is under way goes on.
    let renewed = client.try_heartbeat(&[&held.lease_id], None).await;
    assert!(renewed.expect("a heartbeat")[0].expire_time.is_some());
    client.complete(&[&held.lease_id]).await;
    client.enqueue(&["c"]).await;
    let queues = other
        .admin
        .clone()
        .list_queues(ListQueuesRequest::default())
        .await;
    let queues = queues.expect("listed").into_inner().queues;
    assert_eq!(queues[0].pause, Some(paused.clone()));
    assert_eq!(resume(&other).await, Some(paused));
    assert_eq!(claim(&client).await.0, 1);
    assert_eq!(resume(&client).await, None);
}

#[tokio::test]
async fn resumed_queue_wakes_a_waiting_claim() {
    let server = Server::with_config(&format!("{NO_POLLS}{QUEUE}")).await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    pause(&client, request(PauseMode::Claims))
        .await
        .expect("paused");
    let waiting = client.waiting_claim_request(1, WAIT);
    let next = tokio::spawn({
        let client = client.clone();
        async move { client.try_claim(waiting).await }
    });
    client.wait_until_received().await;
    resume(&client).await;
    let leases = with_timeout(next).await.expect("a task").expect("a claim");
    assert_eq!(leases.len(), 1);
}

#[tokio::test]
async fn queue_that_is_paused_for_new_items_refuses_them() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    pause(&client, request(PauseMode::Enqueue))
        .await
        .expect("paused");
    let refused = client.try_enqueue(vec![item("b")]).await;
    let info = refused
        .as_ref()
        .expect_err("paused")
        .get_details_error_info();
    assert_eq!(info.expect("the reason").metadata["queue"], "work");
    assert_api_error(refused, Code::FailedPrecondition, "QUEUE_PAUSED", false);
    assert_eq!(claim(&client).await.0, 1);
    pause(&client, request(PauseMode::Both))
        .await
        .expect("paused");
    assert_eq!(claim(&client).await, (0, HeldBack::Paused));
    resume(&client).await;
    client.enqueue(&["c"]).await;
}

#[tokio::test]
async fn pause_with_an_end_ends_by_itself() {
    let server = Server::start().await;
    let client = server.client().await;
    client.enqueue(&["a"]).await;
    let until = std::time::SystemTime::now() + Duration::from_secs(2);
    let ending = PauseQueueRequest {
        until: Some(until.into()),
        ..request(PauseMode::Claims)
    };
    pause(&client, ending).await.expect("paused");
    let waiting = client.waiting_claim_request(1, WAIT);
    let leases = with_timeout(client.try_claim(waiting)).await;
    assert_eq!(leases.expect("a claim").len(), 1);
    assert!(std::time::SystemTime::now() >= until - Duration::from_millis(1));
    let past = PauseQueueRequest {
        until: Some(until.into()),
        ..request(PauseMode::Claims)
    };
    let refused = pause(&client, past).await;
    assert_field_error(refused, Code::InvalidArgument, "INVALID_FIELD", "until");
    let late = PauseQueueRequest {
        until: Some((until + 2 * MAX_PAUSE).into()),
        ..request(PauseMode::Claims)
    };
    let refused = pause(&client, late).await.expect_err("too late");
    let metadata = refused.get_details_error_info().expect("info").metadata;
    assert!(metadata["max"].ends_with('Z'), "no time: {metadata:?}");
    assert_field_error::<()>(
        Err(refused),
        Code::InvalidArgument,
        "LIMIT_EXCEEDED",
        "until",
    );
}

/// The number of pauses of [`no_lease_begins_after_the_answer_to_a_pause`], from `LEASE_BROKER_TEST_PAUSES`.
fn pauses() -> u32 {
    let set = std::env::var("LEASE_BROKER_TEST_PAUSES").ok();
    set.map_or(20, |text| text.parse().expect("a number of pauses"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_begins_after_the_answer_to_a_pause() {
    let first = Server::start().await;
    let (second, third) = (first.another().await, first.another().await);
    let servers = [&first, &second, &third];
    let clients = [
        first.client().await,
        second.client().await,
        third.client().await,
    ];
    for _ in 0..4 {
        clients[0].enqueue(&["x"; 500]).await;
    }
    // The number of the pause that was answered last, and 0 while the queue is not paused.
    let paused = Arc::new(AtomicU64::new(0));
    let (stop, violations, leased) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicU64::new(0)),
    );
    // The last pause within which each worker began and ended a claim.
    let seen: Arc<[AtomicU64]> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let workers = (0..64).map(|number| {
        let client = clients[number % 3].as_worker(&format!("worker-{number}"));
        let seen = seen.clone();
        let (paused, stop) = (paused.clone(), stop.clone());
        let (violations, leased) = (violations.clone(), leased.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let before = paused.load(Ordering::SeqCst);
                let request = client.waiting_claim_request(1, Duration::from_millis(50));
                let claimed = client.try_claim(request).await.expect("a claim");
                let after = paused.load(Ordering::SeqCst);
                // The call began and ended within one pause.
                if before != 0 && before == after && !claimed.is_empty() {
                    violations.fetch_add(1, Ordering::SeqCst);
                }
                if before == after {
                    seen[number].store(before, Ordering::SeqCst);
                }
                leased.fetch_add(claimed.len() as u64, Ordering::SeqCst);
                for lease in claimed {
                    client.release(&[&lease.lease_id]).await;
                }
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let database = servers[0].database();
    for number in 1..=pauses() {
        let before = leased.load(Ordering::SeqCst);
        let answer = pause(&clients[number as usize % 3], request(PauseMode::Claims)).await;
        let answer = answer.expect("paused");
        paused.store(u64::from(number), Ordering::SeqCst);
        wait_until("each worker has claimed within the pause", async || {
            let is_here = |seen: &AtomicU64| seen.load(Ordering::SeqCst) == u64::from(number);
            seen.iter().all(is_here)
        })
        .await;
        let time = answer.pause_time.expect("a time");
        let millis = time.seconds * 1_000 + i64::from(time.nanos / 1_000_000);
        let sql = format!(
            "SELECT count(*) FROM work WHERE lease_state = 1 AND lease_state_time > {millis}"
        );
        assert_eq!(query_value::<i64>(&database, &sql), 0, "pause {number}");
        paused.store(0, Ordering::SeqCst);
        resume(&clients[0]).await;
        while leased.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        with_timeout(worker).await.expect("a worker");
    }
    assert_eq!(violations.load(Ordering::SeqCst), 0);
    eprintln!(
        "{} pauses, {} leases, 0 violations",
        pauses(),
        leased.load(Ordering::SeqCst)
    );
}
