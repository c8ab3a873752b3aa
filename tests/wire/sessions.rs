//! The state of a session before its next statement. It has the SET options that the broker needs, and no transaction is
//! left over from an error.

use lease_broker_store::StoreError;

use crate::harness::fixture::{by, queue};
use crate::wire::answers::{OPERATION, held};
use crate::wire::fixture::{Fixture, LONG_LIMITS, Limits, PLAIN, SHORT, open_queues, responder};
use crate::wire::responder::log::Event;
use crate::wire::responder::request::Request;
use crate::wire::responder::script::{Gate, Reply};
use crate::wire::responder::tokens::Tokens;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_sets_filtered_index_options_once() {
    const OPTIONS: &[&str] = &[
        "set",
        "quoted_identifier",
        "arithabort",
        "on",
        // The broker retries a deadlock victim; other programs may not.
        "deadlock_priority low",
        // On Azure SQL Database DB_ID() is not the id in sys.databases.
        "sys.databases",
        "d.name = db_name()",
    ];

    let fixture = Fixture::start().await;
    let replies = vec![Reply::Answer(held(1)), Reply::Answer(held(1))];
    fixture.server.on(OPERATION, replies);
    fixture.heartbeat(1).await.expect("extended");
    fixture.heartbeat(1).await.expect("extended");
    // One connection for the start, one for the operations and one for the probe.
    assert_eq!(fixture.server.requests(OPTIONS).len(), 3);
    let all = fixture.server.requests(&[]);
    let index = |fragments| all.iter().position(|logged| logged.request.has(fragments));
    assert!(index(OPTIONS) < index(OPERATION));
}

/// A SET inside `sp_executesql` ends with it (Microsoft's documentation of SET statements).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_the_session_are_set_by_a_plain_batch() {
    let fixture = Fixture::start().await;
    let options = fixture
        .server
        .requests(&["deadlock_priority low", "set lock_timeout"]);
    assert!(!options.is_empty());
    for logged in options {
        assert!(!logged.request.is_call, "{logged:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_batch_asks_for_messages_in_english() {
    let fixture = Fixture::start().await;
    let all = fixture.server.requests(&[]);
    for connection in 0..=1 {
        let mut of_connection = all.iter().filter(|logged| logged.connection == connection);
        let first = of_connection.next().expect("a batch").request.clone();
        assert!(first.has(&["set language us_english;"]), "{first:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_batches_share_one_text_for_all_handles() {
    let fixture = Fixture::with(Limits {
        connections: 1,
        ..LONG_LIMITS
    })
    .await;
    let answer = |handle: Option<i32>, rows: i32| {
        let tokens = Tokens::new();
        let tokens = handle.map_or(tokens.clone(), |handle| tokens.handle(handle));
        Reply::Answer(tokens.then(&held(rows)))
    };
    fixture.server.on(OPERATION, vec![answer(Some(17), 1)]);
    fixture.heartbeat(1).await.expect("prepared");
    fixture
        .server
        .on(&["sp_execute @p"], vec![answer(None, 1), answer(None, 2)]);
    fixture.heartbeat(1).await.expect("extended");
    fixture.heartbeat(2).await.expect("extended");
    let executed = fixture.server.requests(&["exec sp_execute @p"]);
    assert_eq!(executed.len(), 2, "{executed:?}");
    for logged in executed {
        let Request {
            text, parameters, ..
        } = logged.request;
        assert_eq!(
            text,
            "EXEC sp_execute @P7, @P1, @P2, @P3, @P4, @P5, @P6;\nSELECT @@TRANCOUNT AS lb_committed;"
        );
        assert_eq!(parameters.last().map(String::as_str), Some("17"));
    }
}

/// Returns the connection of the `nth` operation, and the first request after an operation on it.
fn after(fixture: &Fixture, nth: usize) -> (usize, Option<Request>) {
    let connection = fixture.server.requests(OPERATION)[nth].connection;
    let entries = fixture.server.log().entries().into_iter();
    let mut requests = entries.filter_map(|entry| match entry.event {
        Event::Request(request) if entry.connection == connection => Some(request),
        _ => None,
    });
    requests.find(|request| request.has(OPERATION));
    (connection, requests.next())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_left_by_an_error_is_ended() {
    for number in [1205, 8134] {
        let fixture = Fixture::with(Limits {
            connections: 1,
            ..LONG_LIMITS
        })
        .await;
        let failed = Tokens::new().error(number, "It went wrong.");
        let replies = vec![Reply::Answer(failed), Reply::Answer(held(1))];
        fixture.server.on(OPERATION, replies);
        if fixture.heartbeat(1).await.is_err() {
            fixture.heartbeat(1).await.expect("extended");
        }
        let (connection, next) = after(&fixture, 0);
        if fixture.server.requests(OPERATION)[1].connection == connection {
            let next = next.expect("a statement");
            assert!(next.has(&["@@trancount", "rollback"]), "{next:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_that_cannot_be_reset_is_replaced() {
    let fixture = Fixture::start().await;
    let failed = Tokens::new().error(8134, "Divide by zero error encountered.");
    // The second batch is the same, and the third is without leases.
    let refused = || Reply::Answer(failed.clone());
    let replies = vec![refused(), refused(), refused(), Reply::Answer(held(1))];
    fixture.server.on(OPERATION, replies);
    fixture
        .server
        .always(&["@@trancount", "rollback"], Reply::Answer(failed));
    fixture.heartbeat(1).await.expect_err("no heartbeat");
    fixture.heartbeat(1).await.expect("extended");
    let requests = fixture.server.requests(OPERATION);
    assert_ne!(requests[0].connection, requests[1].connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_change_that_the_server_refuses_is_misconfigured() {
    let server = responder().await;
    let mut spec = queue("items");
    spec.order = by(&["payload"]);
    spec.managed_columns = Some(Vec::new());
    let failed = Tokens::new().error_of_class(16, 9_999, "unheard of");
    server.always(&["create index"], Reply::Answer(failed));
    let opened = open_queues(server.address, LONG_LIMITS, PLAIN, &[spec]).await;
    let error = opened.map(drop).expect_err("the index cannot be made");
    assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_change_has_a_connection_of_its_own() {
    let server = responder().await;
    let mut spec = queue("items");
    // This order needs another index, so the broker creates it. The tables of the scripted server never change, so the
    // broker does not find the index afterwards and refuses the queue.
    spec.order = by(&["payload"]);
    spec.managed_columns = Some(Vec::new());
    let opened = open_queues(server.address, LONG_LIMITS, PLAIN, &[spec]).await;
    opened.map(drop).expect_err("the index is still missing");
    let requests = server.requests(&["lock_timeout"]);
    let created = requests
        .iter()
        .rposition(|logged| logged.request.has(&["create index", "lock_timeout -1"]));
    let created = requests[created.expect("a statement creates the index")].connection;
    let of_connection = server.requests(&[]).into_iter();
    let of_connection = of_connection.filter(|logged| logged.connection == created);
    let operations: Vec<_> = of_connection
        .filter(|logged| !logged.request.has(&["index"]) && !logged.request.has(&["set language"]))
        .collect();
    assert!(
        operations.is_empty(),
        "later statements would wait for locks forever: {operations:?}"
    );
}

/// An index over millions of rows takes longer than any operation may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn index_of_a_start_is_not_bound_by_the_time_of_operations() {
    let server = responder().await;
    let mut spec = queue("items");
    spec.order = by(&["payload"]);
    spec.managed_columns = Some(Vec::new());
    let gate = Gate::closed();
    let built = Reply::After(gate.clone(), Tokens::new());
    server.on(&["create index"], vec![built]);
    let limits = Limits {
        command: SHORT,
        ..LONG_LIMITS
    };
    let queues = [spec];
    let opening = open_queues(server.address, limits, PLAIN, &queues);
    let building = async {
        server.wait_for_requests(&["create index"], 1).await;
        let created = server.requests(&["create index"]);
        assert!(created[0].request.has(&["items_lease_ready_new"]));
        let dropped = server.requests(&["drop index"]);
        assert_eq!(dropped.len(), 0, "the old index is gone");
        tokio::time::sleep(2 * SHORT).await;
        gate.open();
    };
    let (opened, ()) = tokio::join!(opening, building);
    // The tables of the scripted server never change, so the broker does not find the index.
    let error = opened.map(drop).expect_err("the index is missing");
    assert!(error.to_string().contains("items_lease_ready"), "{error}");
    let replaced = server.requests(&["drop index", "sp_rename"]);
    assert_eq!(replaced.len(), 1, "{replaced:?}");
}
