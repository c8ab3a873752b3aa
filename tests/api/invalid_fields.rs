//! Every field that can be wrong is refused by its path, and nothing is changed.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker::grpc::proto::value::Kind;
use lease_broker::grpc::proto::{
    ClaimBatchRequest, EnqueueRequest, FailRequest, HeartbeatRequest, NewItem, ReleaseRequest,
    Value,
};
use prost_types::Timestamp;
use tonic::{Code, Status};

use crate::support::api_error::assert_field_error;
use crate::support::client::{Client, completion, failure, item, item_with, text};
use crate::support::database::all_rows;
use crate::support::server::Server;

const QUEUES: &str = "
[queues.work]
managed = { payload = 'text', number = 'integer', unique_name = 'text unique' }
[queues.other]
managed = { payload = 'text not null' }
";

#[expect(clippy::unnecessary_wraps, reason = "as the fields have it")]
fn duration(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}

/// A server with one leased and one ready item, and all that must stay as it is.
struct Scene {
    server: Server,
    client: Client,
    lease_id: String,
}

impl Scene {
    async fn set() -> Self {
        let server = Server::with_config(QUEUES).await;
        let client = server.client().await.for_queue("work");
        client.enqueue(&["leased", "ready"]).await;
        let lease_id = client.claim_one().await.lease_id;
        Self {
            server,
            client,
            lease_id,
        }
    }

    /// Asserts that a call is refused for a field and changes nothing.
    async fn refuses<T: std::fmt::Debug>(
        &self,
        call: impl Future<Output = Result<T, Status>>,
        field: &str,
    ) {
        let all = || {
            let database = self.server.database();
            [all_rows(&database, "work"), all_rows(&database, "other")]
        };
        let before = all();
        assert_field_error(call.await, Code::InvalidArgument, "INVALID_FIELD", field);
        assert_eq!(all(), before, "{field}");
    }

    async fn refuses_claim(&self, wrong: impl FnOnce(&mut ClaimBatchRequest), field: &str) {
        let mut request = self.client.claim_request(1);
        wrong(&mut request);
        self.refuses(self.client.try_claim(request), field).await;
    }

    async fn refuses_item(&self, wrong: NewItem, field: &str) {
        let client = &self.client;
        let field_of = |list: &str| format!("{list}{field}");
        let items = vec![item("fine"), wrong.clone()];
        self.refuses(client.try_enqueue(items), &field_of("items[1]"))
            .await;
        // The same as a follow-up, of a lease that is held and of one that is not.
        for lease_id in [&*self.lease_id, "nonsense"] {
            let mut wrong_one = completion(lease_id, &[("work", "fine"), ("work", "x")]);
            wrong_one.follow_ups[1].item = Some(wrong.clone());
            let all = vec![completion(&self.lease_id, &[]), wrong_one];
            let place = field_of("completions[1].follow_ups[1].item");
            self.refuses(client.try_complete(all), &place).await;
        }
    }
}

#[tokio::test]
async fn claim_field_is_named() {
    let scene = Scene::set().await;
    scene
        .refuses_claim(|r| r.worker_id = String::new(), "worker_id")
        .await;
    scene
        .refuses_claim(|r| r.worker_id = "a\0b".to_owned(), "worker_id")
        .await;
    for count in [0, -1, i32::MIN] {
        scene
            .refuses_claim(|r| r.max_items = count, "max_items")
            .await;
    }
    let wrong = [
        duration(-1, 0),
        duration(0, -1),
        duration(1, 1_000_000_000),
        duration(i64::MIN, 0),
    ];
    for wrong in wrong {
        scene
            .refuses_claim(|r| r.lease_duration = wrong, "lease_duration")
            .await;
        scene
            .refuses_claim(|r| r.wait_timeout = wrong, "wait_timeout")
            .await;
    }
    for short in [duration(0, 0), duration(0, 999_999_999)] {
        scene
            .refuses_claim(|r| r.lease_duration = short, "lease_duration")
            .await;
    }
    for id in ["x", "12345678-1234-1234-1234-12345678901", " "] {
        scene
            .refuses_claim(|r| r.request_id = id.to_owned(), "request_id")
            .await;
    }
}

#[tokio::test]
async fn heartbeat_duration_is_named() {
    let scene = Scene::set().await;
    for wrong in [
        duration(-1, 0),
        duration(0, -1),
        duration(0, 1),
        duration(0, i32::MAX),
    ] {
        let request = HeartbeatRequest {
            queue: "work".to_owned(),
            lease_ids: vec![scene.lease_id.clone()],
            lease_duration: wrong,
        };
        let mut rpc = scene.client.rpc.clone();
        scene
            .refuses(rpc.heartbeat(request), "lease_duration")
            .await;
    }
}

#[tokio::test]
async fn retry_delay_is_named() {
    let scene = Scene::set().await;
    for wrong in [duration(-1, 0), duration(0, -5), duration(0, 1_000_000_000)] {
        let mut second = failure(&scene.lease_id, "no");
        second.retry_delay = wrong;
        let request = FailRequest {
            queue: "work".to_owned(),
            failures: vec![failure(&scene.lease_id, "no"), second],
        };
        let mut rpc = scene.client.rpc.clone();
        scene
            .refuses(rpc.fail(request), "failures[1].retry_delay")
            .await;
    }
}

#[tokio::test]
async fn release_delay_is_named() {
    let scene = Scene::set().await;
    for wrong in [duration(-1, 0), duration(0, -5), duration(0, 1_000_000_000)] {
        let request = ReleaseRequest {
            queue: "work".to_owned(),
            lease_ids: vec![scene.lease_id.clone()],
            delay: wrong,
        };
        let mut rpc = scene.client.rpc.clone();
        scene.refuses(rpc.release(request), "delay").await;
    }
}

#[tokio::test]
async fn item_column_is_named() {
    let scene = Scene::set().await;
    let kind = |kind| Value { kind: Some(kind) };
    let timestamp = |seconds, nanos| kind(Kind::TimestampValue(Timestamp { seconds, nanos }));
    let wrong = [
        ("nothing", text("x")),
        ("lease_state", kind(Kind::Int64Value(3))),
        ("trace_parent", text("x")),
        ("payload\" = 1; --", text("x")),
        ("", text("x")),
        ("payload", timestamp(0, -1)),
        ("payload", timestamp(0, 1_000_000_000)),
        ("payload", timestamp(i64::MAX, 0)),
        ("payload", timestamp(-62_135_596_801, 0)),
        ("payload", kind(Kind::DoubleValue(f64::NAN))),
        ("payload", kind(Kind::DecimalValue("1e5".to_owned()))),
        ("payload", kind(Kind::DecimalValue(String::new()))),
        ("number", timestamp(0, 0)),
        (
            "number",
            kind(Kind::DecimalValue("1234567890123456".to_owned())),
        ),
    ];
    for (column, value) in wrong {
        let field = format!(".columns[{column:?}]");
        scene.refuses_item(item_with(column, value), &field).await;
    }
    for wrong in [duration(-1, 0), duration(0, -1), duration(0, 1_000_000_000)] {
        let late = NewItem {
            delay: wrong,
            ..item("late")
        };
        scene.refuses_item(late, ".delay").await;
    }
}

#[tokio::test]
async fn constraint_violation_names_its_column() {
    let scene = Scene::set().await;
    let named = |name: &str| item_with("unique_name", text(name));
    let twice = vec![named("x"), named("x")];
    let field = "items[1].columns[\"unique_name\"]";
    scene.refuses(scene.client.try_enqueue(twice), field).await;
    let missing = vec![NewItem {
        columns: BTreeMap::new(),
        delay: None,
    }];
    let other = scene.client.for_queue("other");
    let field = "items[0].columns[\"payload\"]";
    scene.refuses(other.try_enqueue(missing), field).await;
}

#[tokio::test]
async fn unknown_follow_up_queue_is_named() {
    let scene = Scene::set().await;
    for queue in ["nowhere", "", "WORK"] {
        let all = vec![
            completion(&scene.lease_id, &[]),
            completion(&scene.lease_id, &[("other", "fine"), (queue, "x")]),
        ];
        let field = "completions[1].follow_ups[1].queue";
        scene.refuses(scene.client.try_complete(all), field).await;
    }
}

#[tokio::test]
async fn concurrent_valid_calls_succeed() {
    let server = Server::with_config(QUEUES).await;
    let client = server.client().await.for_queue("work");
    let calls = (0..50).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let column = if n % 5 == 0 { "nothing" } else { "payload" };
            let request = EnqueueRequest {
                queue: "work".to_owned(),
                items: vec![item("fine"), item_with(column, text("x"))],
            };
            (n, client.rpc.clone().enqueue(request).await)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, outcome) = call.await.expect("a call");
        assert_eq!(outcome.is_err(), n % 5 == 0, "{n}: {outcome:?}");
    }
    assert_eq!(all_rows(&server.database(), "work").len(), 80);
    // The longest wait that a queue's retry may have is not a wrong field either.
    let year = Duration::from_secs(366 * 86_400);
    let late = NewItem {
        delay: Some(crate::support::client::duration(year)),
        ..item("late")
    };
    client.try_enqueue(vec![late]).await.expect("added");
}
