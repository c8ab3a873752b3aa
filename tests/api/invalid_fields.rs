//! Invalid fields: the call fails with `INVALID_FIELD`, the error names the path of the field, and no row changes. A
//! completion with an invalid follow-up is refused alone.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_broker_proto::column_value::Kind;
use lease_broker_proto::{
    ClaimBatchRequest, ColumnValue, EnqueueRequest, FailRequest, Failure, HeartbeatRequest,
    NewItem, Outcome, RefusalReason, Release, ReleaseRequest,
};
use prost_types::Timestamp;
use tonic::{Code, Status};

use crate::support::api_error::assert_field_error;
use crate::support::client::{
    Client, assert_refused, completion, failure, item, item_with, renewal, text,
};
use crate::support::database::all_rows;
use crate::support::server::Server;

const QUEUES: &str = "
[queues.work]
managed_columns = { payload = 'text', number = 'integer', unique_name = 'text unique' }
[queues.other]
managed_columns = { payload = 'text not null' }
";

#[expect(clippy::unnecessary_wraps, reason = "the message fields are optional")]
fn duration(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}

/// A server with one leased and one ready item.
struct Fixture {
    server: Server,
    client: Client,
    lease_id: String,
}

impl Fixture {
    async fn start() -> Self {
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

    /// Asserts that a call fails, that the error names `field`, and that no row changes.
    async fn rejects<T: std::fmt::Debug>(
        &self,
        call: impl Future<Output = Result<T, Status>>,
        field: &str,
    ) {
        let all_tables = || {
            let database = self.server.database();
            [all_rows(&database, "work"), all_rows(&database, "other")]
        };
        let before = all_tables();
        assert_field_error(call.await, Code::InvalidArgument, "INVALID_FIELD", field);
        assert_eq!(all_tables(), before, "{field}");
    }

    /// Asserts that a claim is rejected after `make_invalid` has changed it.
    async fn rejects_claim(&self, make_invalid: impl FnOnce(&mut ClaimBatchRequest), field: &str) {
        let mut request = self.client.claim_request(1);
        make_invalid(&mut request);
        self.rejects(self.client.try_claim(request), field).await;
    }

    /// Asserts that an item is rejected by Enqueue and refused as a follow-up. `field` is the path within the item.
    async fn rejects_item(&self, wrong: NewItem, field: &str) {
        let client = &self.client;
        let item_path = |list: &str| format!("{list}{field}");
        let items = vec![item("fine"), wrong.clone()];
        self.rejects(client.try_enqueue(items), &item_path("items[1]"))
            .await;
        self.refuses_follow_up("work", Some(wrong), &item_path("item"))
            .await;
    }

    /// Asserts that a completion with this follow-up is refused, that the problem names `field`, and that no row changes.
    /// `field` is the path within the follow-up.
    async fn refuses_follow_up(&self, queue: &str, wrong: Option<NewItem>, field: &str) {
        let mut done = completion(&self.lease_id, &[("other", "fine"), (queue, "x")]);
        done.follow_ups[1].item = wrong;
        let all_tables = || {
            let database = self.server.database();
            [all_rows(&database, "work"), all_rows(&database, "other")]
        };
        let before = all_tables();
        let results = self.client.try_complete(vec![done]).await;
        let result = results.expect("no error").remove(0);
        assert_eq!(result.outcome(), Outcome::Refused);
        let refusal = result.refusal.expect("a refusal");
        assert_eq!(
            refusal.field,
            format!("follow_ups[1].{field}"),
            "{refusal:?}"
        );
        assert_eq!(all_tables(), before, "{field}");
    }
}

#[tokio::test]
async fn invalid_claim_field_is_named() {
    let fixture = Fixture::start().await;
    fixture
        .rejects_claim(|r| r.worker_id = String::new(), "worker_id")
        .await;
    fixture
        .rejects_claim(|r| r.worker_id = "a\0b".to_owned(), "worker_id")
        .await;
    for count in [0, -1, i32::MIN] {
        fixture
            .rejects_claim(|r| r.max_items = count, "max_items")
            .await;
    }
    for run in [-1, i32::MIN] {
        fixture.rejects_claim(|r| r.max_run = run, "max_run").await;
    }
    let wrong = [
        duration(-1, 0),
        duration(0, -1),
        duration(1, 1_000_000_000),
        duration(i64::MIN, 0),
    ];
    for wrong in wrong {
        fixture
            .rejects_claim(|r| r.lease_duration = wrong, "lease_duration")
            .await;
        fixture
            .rejects_claim(|r| r.wait_timeout = wrong, "wait_timeout")
            .await;
    }
    for short in [duration(0, 0), duration(0, 999_999_999)] {
        fixture
            .rejects_claim(|r| r.lease_duration = short, "lease_duration")
            .await;
    }
    for id in ["x", "12345678-1234-1234-1234-12345678901", " "] {
        fixture
            .rejects_claim(|r| r.request_id = id.to_owned(), "request_id")
            .await;
    }
}

#[tokio::test]
async fn invalid_heartbeat_duration_is_named() {
    let fixture = Fixture::start().await;
    for wrong in [
        duration(-1, 0),
        duration(0, -1),
        duration(0, 1),
        duration(0, i32::MAX),
    ] {
        let request = HeartbeatRequest {
            queue: "work".to_owned(),
            renewals: vec![renewal(&fixture.lease_id)],
            lease_duration: wrong,
        };
        let mut rpc = fixture.client.rpc.clone();
        fixture
            .rejects(rpc.heartbeat(request), "lease_duration")
            .await;
    }
}

#[tokio::test]
async fn invalid_retry_delay_is_named() {
    let fixture = Fixture::start().await;
    for wrong in [duration(-1, 0), duration(0, -5), duration(0, 1_000_000_000)] {
        let mut second = failure(&fixture.lease_id, "no");
        second.retry_delay = wrong;
        let request = FailRequest {
            queue: "work".to_owned(),
            failures: vec![failure(&fixture.lease_id, "no"), second],
            next: None,
        };
        let response = fixture.client.rpc.clone().fail(request).await;
        let results = response.expect("no error").into_inner().results;
        let (refusal, reason) = (results[1].refusal.as_ref(), RefusalReason::InvalidField);
        assert_refused(results[1].outcome(), refusal, reason, "retry_delay");
    }
}

#[tokio::test]
async fn retry_delay_of_a_dead_letter_is_ignored() {
    let fixture = Fixture::start().await;
    let failure = Failure {
        retry_delay: duration(-1, 0),
        dead_letter: true,
        ..failure(&fixture.lease_id, "no")
    };
    let request = FailRequest {
        queue: "work".to_owned(),
        failures: vec![failure],
        next: None,
    };
    let response = fixture.client.rpc.clone().fail(request).await;
    let results = response.expect("no error").into_inner().results;
    assert_eq!(results[0].outcome(), Outcome::Applied);
}

#[tokio::test]
async fn invalid_release_delay_is_named() {
    let fixture = Fixture::start().await;
    for wrong in [duration(-1, 0), duration(0, -5), duration(0, 1_000_000_000)] {
        let release = |delay| Release {
            lease_id: fixture.lease_id.clone(),
            delay,
            checkpoint: None,
        };
        let request = ReleaseRequest {
            queue: "work".to_owned(),
            releases: vec![release(None), release(wrong)],
        };
        let response = fixture.client.rpc.clone().release(request).await;
        let results = response.expect("no error").into_inner().results;
        let (refusal, reason) = (results[1].refusal.as_ref(), RefusalReason::InvalidField);
        assert_refused(results[1].outcome(), refusal, reason, "delay");
    }
}

#[tokio::test]
async fn invalid_request_id_of_release_is_named() {
    let fixture = Fixture::start().await;
    let good = "0d3adb33-f000-4000-8000-000000000001".to_owned();
    let ids = [good, "x".to_owned()];
    let release = fixture.client.try_release_requests(&ids);
    fixture.rejects(release, "request_ids[1]").await;
    for worker in ["", "a\0b"] {
        let client = fixture.client.as_worker(worker);
        fixture
            .rejects(client.try_release_requests(&ids[..1]), "worker_id")
            .await;
    }
}

#[tokio::test]
async fn invalid_item_column_is_named() {
    let fixture = Fixture::start().await;
    let kind = |kind| ColumnValue { kind: Some(kind) };
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
        fixture.rejects_item(item_with(column, value), &field).await;
    }
    for wrong in [duration(-1, 0), duration(0, -1), duration(0, 1_000_000_000)] {
        let late = NewItem {
            delay: wrong,
            ..item("late")
        };
        fixture.rejects_item(late, ".delay").await;
    }
}

#[tokio::test]
async fn constraint_violation_names_its_column() {
    let fixture = Fixture::start().await;
    let named = |name: &str| item_with("unique_name", text(name));
    let twice = vec![named("x"), named("x")];
    let field = "items[1].columns[\"unique_name\"]";
    let refused = fixture.client.try_enqueue(twice).await;
    assert_field_error(refused, Code::AlreadyExists, "ALREADY_EXISTS", field);
    let missing = vec![NewItem {
        columns: BTreeMap::new(),
        ..NewItem::default()
    }];
    let other = fixture.client.for_queue("other");
    let field = "items[0].columns[\"payload\"]";
    fixture.rejects(other.try_enqueue(missing), field).await;
}

#[tokio::test]
async fn unknown_follow_up_queue_is_named() {
    let fixture = Fixture::start().await;
    for queue in ["nowhere", "", "WORK"] {
        fixture
            .refuses_follow_up(queue, Some(item("x")), "queue")
            .await;
    }
    fixture.refuses_follow_up("work", None, "item").await;
}

#[tokio::test]
async fn rejected_call_fails_alone() {
    let server = Server::with_config(QUEUES).await;
    let client = server.client().await.for_queue("work");
    let calls = (0..50).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let column = if n % 5 == 0 { "nothing" } else { "payload" };
            let request = EnqueueRequest {
                queue: "work".to_owned(),
                items: vec![item("fine"), item_with(column, text("x"))],
                request_id: String::new(),
            };
            (n, client.rpc.clone().enqueue(request).await)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, outcome) = call.await.expect("a task");
        assert_eq!(outcome.is_err(), n % 5 == 0, "{n}: {outcome:?}");
    }
    assert_eq!(all_rows(&server.database(), "work").len(), 80);
    // The longest delay that is allowed is not an invalid field.
    let year = Duration::from_secs(366 * 86_400);
    let late = NewItem {
        delay: Some(crate::support::client::duration(year)),
        ..item("late")
    };
    client.try_enqueue(vec![late]).await.expect("added");
}
