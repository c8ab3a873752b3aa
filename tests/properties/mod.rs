//! Properties of the API under random input: no call panics or answers INTERNAL, and no call changes another worker's
//! lease.

use std::sync::LazyLock;
use std::time::Duration;

use lease_broker_proto::column_value::Kind;
use lease_broker_proto::{
    CancelLeasesRequest, Cancellation, ColumnValue, Completion, Failure, FollowUp,
    HeartbeatRequest, HeartbeatResult, Lease, NewItem, Outcome, Release, ReleaseClaimsRequest,
    ReleaseRequest, Renewal, SettleResult,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use rusqlite::types::Value as Sql;
use tokio::runtime::Runtime;
use tonic::{Code, Status};

use crate::support::api_error::ApiError;
use crate::support::client::{Client, duration, lease_ids};
use crate::support::database::all_rows;
use crate::support::server::Server;
use crate::support::timeout::with_timeout;

const QUEUES: &str = "
[queues.held]
lease_duration = '12h'
[queues.free]
max_attempts = 0
writable = ['t', 'i', 'd', 'b', 'raw', 'at', 'n']
[queues.pairs]
max_attempts = 0
[queues.written]
writable = ['t', 'i', 'd', 'b', 'raw', 'at', 'n']
[queues.marked]
max_attempts = 0
checkpoint = { max_bytes = 16 }
";

const TABLES: &str = "
CREATE TABLE held (id INTEGER PRIMARY KEY AUTOINCREMENT, payload text);
CREATE TABLE free (id INTEGER PRIMARY KEY AUTOINCREMENT, t text, i integer, d double, b boolean, raw blob, at datetime,
    n decimal(9,2));
CREATE TABLE written (id INTEGER PRIMARY KEY AUTOINCREMENT, t text, i integer NOT NULL DEFAULT 0, d double, b boolean,
    raw blob, at datetime, n decimal(9,2));
CREATE TABLE pairs (a text NOT NULL, i blob NOT NULL, payload text, PRIMARY KEY (a, i));
CREATE TABLE marked (id INTEGER PRIMARY KEY AUTOINCREMENT, payload text);
INSERT INTO marked DEFAULT VALUES;
";

/// One server for all cases. A worker holds four leases in the queue `held` and makes no calls.
struct Fixture {
    runtime: Runtime,
    server: Server,
    client: Client,
    /// Ids of the held leases.
    held: Vec<String>,
    /// The rows of `held` as they must stay.
    before: Vec<Vec<Sql>>,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("the runtime starts");
    let (server, client, held) = runtime.block_on(async {
        let server = Server::with_tables(QUEUES, TABLES).await;
        let client = server.client().await.for_queue("held");
        client.enqueue(&["a", "b", "c", "d"]).await;
        let held = client.as_worker("quiet").claim(4).await;
        let held = lease_ids(&held).into_iter().map(str::to_owned).collect();
        (server, client, held)
    });
    Fixture {
        before: all_rows(&server.database(), "held"),
        runtime,
        server,
        client,
        held,
    }
});

impl Fixture {
    /// Makes a call. It must succeed or fail with a status that blames the request, and must not change a held row.
    /// Returns `None` if the call failed.
    fn call<T>(
        &self,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<Option<T>, TestCaseError> {
        let outcome = self.runtime.block_on(with_timeout(call));
        // Other cases may have added rows after the held ones.
        let mut after = all_rows(&self.server.database(), "held");
        after.truncate(self.before.len());
        prop_assert_eq!(&after, &self.before);
        match outcome {
            Ok(answer) => Ok(Some(answer)),
            Err(status) => {
                let ApiError { code, reason, .. } = ApiError::from_status(&status);
                let expected = [Code::InvalidArgument, Code::NotFound];
                // A lease id whose first byte is a later version fails the call.
                let too_new = code == Code::Unavailable && reason == "LEASE_ID_TOO_NEW";
                prop_assert!(expected.contains(&code) || too_new, "{status:?}");
                Ok(None)
            }
        }
    }

    /// Makes a call about leases that are not held. It must fail as in `call`, or answer `LEASE_LOST` for each lease.
    fn call_loses_all(
        &self,
        call: impl Future<Output = Result<Vec<Outcome>, Status>>,
    ) -> TestCaseResult {
        let outcomes = self.call(call)?.unwrap_or_default();
        let lost = outcomes
            .iter()
            .all(|outcome| *outcome == Outcome::LeaseLost);
        prop_assert!(lost, "{outcomes:?}");
        Ok(())
    }

    /// Sends lease ids that are not held with each of the four calls that take lease ids, and asserts that all are
    /// lost.
    fn assert_all_lost(&self, queue: &str, lease_ids: &[String]) -> TestCaseResult {
        let client = self.client.for_queue(queue);
        let ids: Vec<&str> = lease_ids.iter().map(String::as_str).collect();
        self.call_loses_all(async {
            let results = client.try_heartbeat(&ids, None).await?;
            Ok(results.iter().map(HeartbeatResult::outcome).collect())
        })?;
        self.call_loses_all(async {
            let results = client.try_release(&ids, None).await?;
            Ok(results.iter().map(SettleResult::outcome).collect())
        })?;
        self.call_loses_all(async {
            let failures = ids
                .iter()
                .map(|id| crate::support::client::failure(id, "mine"));
            let results = client.try_fail(failures.collect()).await?;
            Ok(results.iter().map(SettleResult::outcome).collect())
        })?;
        self.call_loses_all(async {
            let done = ids
                .iter()
                .map(|id| crate::support::client::completion(id, &[]));
            let results = client.try_complete(done.collect()).await?;
            Ok(results.iter().map(SettleResult::outcome).collect())
        })
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => any::<String>(),
        2 => "[a-z_]{0,12}",
        1 => Just("held".to_owned()),
        1 => "['\";\\\\ -]{1,6}",
        1 => "\\PC{200,3000}",
    ]
}

fn queue() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("free".to_owned()), 1 => Just("pairs".to_owned()), 2 => text()]
}

fn column() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "t", "i", "d", "b", "raw", "at", "n", "id", "a", "payload",
    ]);
    let soft_lock =
        prop::sample::select(vec!["lease_state", "lease_token", "LEASE_OWNER", "rowid"]);
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => soft_lock.prop_map(str::to_owned), 1 => text()]
}

/// Columns that a settlement writes. A name of more than 512 bytes would refuse the whole call.
fn written_columns(
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = std::collections::BTreeMap<String, ColumnValue>> {
    let column = column().prop_filter("a short name", |name| name.len() <= 512);
    prop::collection::btree_map(column, value(), count)
}

fn value() -> impl Strategy<Value = ColumnValue> {
    let kind = prop_oneof![
        any::<bool>().prop_map(Kind::BoolValue),
        any::<i32>().prop_map(Kind::NullValue),
        any::<i64>().prop_map(Kind::Int64Value),
        any::<f64>().prop_map(Kind::DoubleValue),
        text().prop_map(Kind::StringValue),
        any::<Vec<u8>>().prop_map(Kind::BytesValue),
        "[-+]?[0-9]{0,20}[.]?[0-9]{0,20}".prop_map(Kind::DecimalValue),
        text().prop_map(Kind::DecimalValue),
        (any::<i64>(), any::<i32>()).prop_map(|(seconds, nanos)| {
            Kind::TimestampValue(prost_types::Timestamp { seconds, nanos })
        }),
        (-100_000_000_000..300_000_000_000_i64, 0..1_000_000_000).prop_map(|(seconds, nanos)| {
            Kind::TimestampValue(prost_types::Timestamp { seconds, nanos })
        }),
    ];
    prop::option::of(kind).prop_map(|kind| ColumnValue { kind })
}

fn any_duration() -> impl Strategy<Value = Option<prost_types::Duration>> {
    let any = (any::<i64>(), any::<i32>());
    let likely = (-2..100_000_i64, -2..1_000_000_000);
    let either = prop_oneof![any.boxed(), likely.boxed()];
    prop::option::of(either.prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }))
}

fn new_item() -> impl Strategy<Value = NewItem> {
    let columns = prop::collection::btree_map(column(), value(), 0..4);
    let trace_parent = prop_oneof![
        Just(String::new()),
        ".*",
        "00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]"
    ];
    (columns, any_duration(), trace_parent).prop_map(|(columns, delay, trace_parent)| NewItem {
        columns,
        delay,
        trace_parent,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_as_a_lease_id_is_lost(
        queue in prop_oneof![Just("held".to_owned()), queue()],
        lease_ids in prop::collection::vec(text(), 1..4),
    ) {
        FIXTURE.assert_all_lost(&queue, &lease_ids)?;
    }

    #[test]
    fn altered_lease_id_is_lost(
        which in any::<prop::sample::Index>(),
        position in any::<prop::sample::Index>(),
        inserted in "[A-Za-z0-9_=-]|\\PC|",
        edit in 0..3,
    ) {
        let id = which.get(&FIXTURE.held);
        let position = position.index(id.len());
        let mut changed = id.clone();
        match edit {
            0 => changed.replace_range(position..=position, &inserted),
            1 => changed.insert_str(position, &inserted),
            _ => changed.push_str(&inserted),
        }
        prop_assume!(changed != *id);
        FIXTURE.assert_all_lost("held", &[changed])?;
    }

    #[test]
    fn lease_id_is_lost_in_other_queues(
        which in any::<prop::sample::Index>(),
        queue in queue().prop_filter("another queue", |queue| queue != "held"),
    ) {
        FIXTURE.assert_all_lost(&queue, &[which.get(&FIXTURE.held).clone()])?;
    }

    #[test]
    fn any_claim_succeeds_or_is_rejected(
        queue in prop_oneof![Just("held".to_owned()), queue()],
        worker in text(),
        max_items in prop_oneof![any::<i32>(), 0..5],
        lease in any_duration(),
        request_id in prop_oneof![text(), "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"],
        max_bytes in prop_oneof![any::<i32>(), 0..200_000_i32],
    ) {
        let mut request = FIXTURE.client.for_queue(&queue).as_worker(&worker).claim_request(max_items);
        request.max_bytes = max_bytes;
        request.lease_duration = lease;
        request.request_id = request_id;
        FIXTURE.call(FIXTURE.client.try_claim(request))?;
    }

    #[test]
    fn any_items_are_added_whole_or_rejected(
        queue in queue(),
        items in prop::collection::vec(new_item(), 0..4),
        trace in text(),
    ) {
        let database = FIXTURE.server.database();
        let row_count = || ["free", "pairs", "held"].map(|table| all_rows(&database, table).len()).iter().sum::<usize>();
        let before = row_count();
        let client = FIXTURE.client.for_queue(&queue);
        let wanted = items.len();
        let mut request = tonic::Request::new(lease_broker_proto::EnqueueRequest { queue, items, request_id: String::new() });
        if let Ok(trace) = trace.parse() {
            request.metadata_mut().insert("traceparent", trace);
        }
        let mut rpc = client.rpc.clone();
        let added = FIXTURE.call(rpc.enqueue(request))?;
        let added = added.map_or(0, |response| response.into_inner().results.len());
        prop_assert!(added == wanted || added == 0);
        prop_assert_eq!(row_count(), before + added);
    }

    #[test]
    fn any_added_item_can_be_leased_and_failed(
        worker in text().prop_filter("a worker", |worker| {
            (1..=128).contains(&worker.chars().count()) && !worker.contains('\0')
        }),
        queue in prop::sample::select(vec!["free", "pairs"]),
        error in text(),
        dead_letter in any::<bool>(),
        columns in written_columns(0..3),
    ) {
        let client = FIXTURE.client.for_queue(queue).as_worker(&worker);
        let leases = FIXTURE.call(client.try_claim(client.claim_request(3)))?.expect("the claim succeeds");
        let failures = leases.iter().map(|lease| Failure {
            lease_id: lease.lease_id.clone(),
            error_message: error.clone(),
            retry_delay: Some(duration(Duration::ZERO)),
            dead_letter,
            columns: columns.clone(),
            checkpoint: None,
        });
        let results = FIXTURE.call(client.try_fail(failures.collect()))?.expect("the failures are recorded");
        for result in results {
            let refused = !columns.is_empty() && result.outcome() == Outcome::Refused;
            prop_assert!(refused || result.outcome() == Outcome::Applied, "{:?}", result);
            prop_assert_eq!(refused, result.refusal.is_some());
        }
    }

    #[test]
    fn refused_columns_leave_their_row_leased(columns in written_columns(1..4)) {
        let client = FIXTURE.client.for_queue("written");
        FIXTURE.call(client.try_enqueue(vec![NewItem::default()]))?.expect("the item is added");
        let leases = FIXTURE.call(client.try_claim(client.claim_request(9)))?.expect("the claim succeeds");
        let [lease] = &leases[..] else { panic!("{leases:?}") };
        let rows = || all_rows(&FIXTURE.server.database(), "written");
        let before = rows();
        let mut done = crate::support::client::completion(&lease.lease_id, &[]);
        done.columns = columns;
        let results = FIXTURE.call(client.try_complete(vec![done]))?.expect("a result");
        if results[0].outcome() == Outcome::Refused {
            let field = results[0].refusal.as_ref().map(|refusal| &*refusal.field);
            prop_assert!(field.is_some_and(|field| field.starts_with("columns[")), "{:?}", results);
            prop_assert_eq!(rows(), before);
            let done = vec![crate::support::client::completion(&lease.lease_id, &[])];
            let results = FIXTURE.call(client.try_complete(done))?.expect("a result");
            prop_assert_eq!(results[0].outcome(), Outcome::Applied);
        } else {
            prop_assert_eq!(results[0].outcome(), Outcome::Applied);
        }
    }

    #[test]
    fn any_checkpoint_is_stored_or_refused(
        checkpoint in prop::collection::vec(any::<u8>(), 0..24),
        by_release in any::<bool>(),
    ) {
        let client = FIXTURE.client.for_queue("marked").as_worker("marker");
        let claim = || FIXTURE.call(client.try_claim(client.claim_request(1)));
        let lease = claim()?.expect("the claim succeeds").remove(0);
        let Lease { lease_id, checkpoint: before, .. } = lease;
        let given = Some(checkpoint.clone());
        let mut rpc = client.rpc.clone();
        let queue = client.queue.clone();
        let (stored, was_released) = if by_release {
            let releases = vec![Release { lease_id: lease_id.clone(), delay: None, checkpoint: given }];
            let request = ReleaseRequest { queue, releases };
            let response = FIXTURE.call(rpc.release(request))?.expect("no error").into_inner();
            let stored = response.results[0].outcome() == Outcome::Applied;
            (stored, stored)
        } else {
            let renewals = vec![Renewal { lease_id: lease_id.clone(), checkpoint: given }];
            let request = HeartbeatRequest { queue, renewals, lease_duration: None };
            let response = FIXTURE.call(rpc.heartbeat(request))?.expect("no error").into_inner();
            (response.results[0].outcome() == Outcome::Applied, false)
        };
        prop_assert_eq!(stored, checkpoint.len() <= 16);
        if !was_released {
            FIXTURE.call(client.try_release(&[&lease_id], None))?;
        }
        let expected = if stored { Some(checkpoint).filter(|given| !given.is_empty()) } else { before };
        let again = claim()?.expect("the claim succeeds").remove(0);
        FIXTURE.call(client.try_release(&[&again.lease_id], None))?;
        prop_assert_eq!(again.checkpoint, expected);
    }

    #[test]
    fn any_cancellation_succeeds_or_is_rejected(
        queue in queue().prop_filter("another queue", |queue| queue != "held"),
        keys in prop::collection::vec(
            (prop_oneof![text(), "[0-9]{1,2}", "\\[\"[a-z]\",\"[0-9a-f]{0,4}\"\\]"], prop_oneof![any::<i64>(), 0..3_i64]), 0..4),
        delay in any_duration(),
        dead_letter in any::<bool>(),
        reason in text(),
    ) {
        let wanted = keys.len();
        let cancellations = keys.into_iter().map(|(key, fencing_token)| Cancellation { key, fencing_token });
        let cancellations = cancellations.collect();
        let request = CancelLeasesRequest { queue, cancellations, delay, dead_letter, reason };
        let results = FIXTURE.call(FIXTURE.client.admin.clone().cancel_leases(request))?;
        let results = results.map_or(wanted, |response| response.into_inner().results.len());
        prop_assert_eq!(results, wanted);
    }

    #[test]
    fn any_release_by_request_id_succeeds_or_is_rejected(
        queue in prop_oneof![Just("held".to_owned()), queue()],
        worker_id in prop_oneof![Just("quiet".to_owned()), text()],
        request_ids in prop::collection::vec(
            prop_oneof![text(), "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"], 0..4),
    ) {
        let request = ReleaseClaimsRequest { queue, worker_id, request_ids };
        let released = FIXTURE.call(FIXTURE.client.rpc.clone().release_claims(request))?;
        let released = released.map_or(0, |response| response.into_inner().released);
        prop_assert_eq!(released, 0);
    }

    #[test]
    fn lost_lease_with_any_follow_up_stays_lost(
        lease_id in text(),
        queue in queue(),
        item in prop::option::of(new_item()),
        columns in prop::collection::btree_map(column(), value(), 0..3),
    ) {
        let follow_ups = vec![FollowUp { queue, item }];
        let done = vec![Completion { lease_id, follow_ups, columns }];
        FIXTURE.call_loses_all(async {
            let results = FIXTURE.client.try_complete(done).await?;
            Ok(results.iter().map(SettleResult::outcome).collect())
        })?;
    }
}
