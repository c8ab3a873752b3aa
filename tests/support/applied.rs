//! Calls during a fault. Each answer says whether its call was applied, and the table shows whether that is true.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_broker_proto::{EnqueueRequest, Lease, Outcome};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::client::{Client, completion, item, key};

/// The number of tasks that add items.
const PRODUCERS: usize = 24;

/// The answers that callers got. An added item is named by its payload, a completed one by its key.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) applied: BTreeSet<String>,
    pub(crate) not_applied: BTreeSet<String>,
    pub(crate) unknown: BTreeSet<String>,
}

impl Told {
    fn add<T>(&mut self, name: String, answer: &Result<T, Status>) {
        let told = match answer {
            Ok(_) => &mut self.applied,
            Err(status) if is_not_applied(status) => &mut self.not_applied,
            Err(_) => &mut self.unknown,
        };
        assert!(told.insert(name));
    }

    /// Asserts that exactly these are in the table: every one that was applied, none that was not, and any of the others.
    pub(crate) fn assert_true(&self, kind: &str, found: &[String]) {
        let (applied, not, unknown) = (&self.applied, &self.not_applied, &self.unknown);
        eprintln!(
            "{kind}: {} applied, {} not applied, {} unknown, {} found",
            applied.len(),
            not.len(),
            unknown.len(),
            found.len()
        );
        let rows: BTreeSet<String> = found.iter().cloned().collect();
        assert_eq!(
            rows.len(),
            found.len(),
            "{kind}: something was applied twice"
        );
        let lost: Vec<_> = applied.difference(&rows).collect();
        assert!(lost.is_empty(), "{kind}: applied and not found: {lost:?}");
        let late: Vec<_> = not.intersection(&rows).collect();
        assert!(late.is_empty(), "{kind}: not applied and found: {late:?}");
        assert!(
            rows.iter()
                .all(|row| applied.contains(row) || unknown.contains(row))
        );
    }
}

/// Returns whether an error says that its call was not applied. An error that the service has not made says nothing.
pub(crate) fn is_not_applied(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.metadata.get("applied").map(String::as_str) == Some("no"))
}

/// Callers that add items, one after the other, and that complete leases.
pub(crate) struct Callers {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    enqueued: Arc<Mutex<Told>>,
    completed: Arc<Mutex<Told>>,
    refused: Arc<AtomicUsize>,
}

impl Callers {
    /// Starts callers. Half of the calls have short deadlines. No call is repeated.
    pub(crate) fn start(client: &Client, leases: Vec<Lease>) -> Self {
        let mut callers = Self {
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
            enqueued: Arc::default(),
            completed: Arc::default(),
            refused: Arc::default(),
        };
        for producer in 0..PRODUCERS {
            let (client, stop) = (client.clone(), callers.stop.clone());
            let (told, refused) = (callers.enqueued.clone(), callers.refused.clone());
            callers.tasks.spawn(async move {
                for number in 0.. {
                    let payload = format!("{producer}/{number}");
                    let mut request = Request::new(EnqueueRequest {
                        queue: client.queue.clone(),
                        items: vec![item(&payload)],
                        request_id: String::new(),
                    });
                    if number % 2 == 0 {
                        request.set_timeout(Duration::from_millis(50 + 40 * number % 1_000));
                    }
                    let answer = client.rpc.clone().enqueue(request).await;
                    if let Err(status) = &answer {
                        assert_advice(status);
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    told.lock().expect("no panic").add(payload, &answer);
                    if stop.is_cancelled() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        for (number, lease) in leases.into_iter().enumerate() {
            let (client, told) = (client.clone(), callers.completed.clone());
            callers.tasks.spawn(async move {
                tokio::time::sleep(Duration::from_millis(20 * number as u64)).await;
                let done = vec![completion(&lease.lease_id, &[])];
                let answer = client.try_complete(done).await;
                let is_applied = |outcome| outcome == Outcome::Applied;
                assert!(
                    answer
                        .iter()
                        .flatten()
                        .all(|result| is_applied(result.outcome()))
                );
                told.lock()
                    .expect("no panic")
                    .add(key(&lease).to_owned(), &answer);
            });
        }
        callers
    }

    /// Returns the number of refused calls that add items.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether a call was told that it may have been applied.
    pub(crate) fn has_unknown(&self) -> bool {
        !self.enqueued.lock().expect("no panic").unknown.is_empty()
    }

    /// Waits for the last calls. Returns the answers about added items, and those about completed ones.
    pub(crate) async fn stop(mut self) -> (Told, Told) {
        self.stop.cancel();
        while let Some(task) = self.tasks.join_next().await {
            task.expect("no panic");
        }
        let take = |told: &Mutex<Told>| std::mem::take(&mut *told.lock().expect("no panic"));
        (take(&self.enqueued), take(&self.completed))
    }
}

/// Asserts that no retry policy repeats an Enqueue without a request id that may have been applied.
fn assert_advice(status: &Status) {
    let Some(info) = status.get_details_error_info() else {
        // The connection is gone, or the client has stopped waiting.
        let expected = [
            Code::Unavailable,
            Code::Cancelled,
            Code::Unknown,
            Code::Internal,
        ];
        assert!(expected.contains(&status.code()), "{status:?}");
        return;
    };
    let applied = info.metadata.get("applied").expect("each error says it");
    let pushback = status.metadata().get("grpc-retry-pushback-ms");
    let pushback = pushback.expect("each error has it").to_str().expect("text");
    match &**applied {
        "no" => {}
        "unknown" => assert_eq!(pushback, "-1", "{status:?}"),
        other => panic!("{other:?}: {status:?}"),
    }
}
