//! Rows that a trigger or a constraint of the table does not let a claim lease. Only these rows stay as they are.

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::ClaimCall;

use crate::harness::errors::rejected;
use crate::harness::fixture::{Fixture, MINUTE, SECOND, call, keys, queue};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start};

/// A trigger, and a constraint, that refuse the lease of a row whose payload is `bad`.
const REFUSE: [&str; 2] = [
    "CREATE TRIGGER refuse ON item AFTER UPDATE AS
        IF EXISTS (SELECT 1 FROM inserted WHERE payload = 'bad' AND lease_state = 1) THROW 50001, N'bad stays', 1",
    "ALTER TABLE item ADD CONSTRAINT refuse CHECK (NOT (payload = 'bad' AND lease_state = 1))",
];

/// Creates a queue with these rows, values of `customer` and `payload`, whose bad rows refuse their leases by the statement.
async fn refusing(
    order: Option<GroupOrder>,
    rows: &[(&str, &str)],
    refuse: &str,
) -> Option<(Fixture<MssqlHarness>, Program)> {
    let (harness, program) = Box::pin(start()).await?;
    program
        .run("CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, customer nvarchar(50), payload nvarchar(50))")
        .await;
    for (customer, payload) in rows {
        let insert = format!("INSERT item (customer, payload) VALUES ('{customer}', '{payload}')");
        program.run(&insert).await;
    }
    let spec = QueueSpec {
        groups: order.map(|order| Groups {
            column: "customer".to_owned(),
            order,
            rate: None,
        }),
        ..queue("item")
    };
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    program.run(refuse).await;
    Some((fixture, program))
}

#[tokio::test]
async fn claim_gets_the_items_beside_those_that_are_refused() {
    for refuse in REFUSE {
        let payloads = ["good", "bad", "good", "bad", "good", "good"];
        let rows = payloads.map(|payload| ("a", payload));
        let Some((fixture, program)) = Box::pin(refusing(None, &rows, refuse)).await else {
            return;
        };
        let mut leased = Vec::new();
        for _ in 0..3 {
            let calls = vec![call("x", 3), call("y", 1)];
            let claimed = fixture.results(calls).await;
            leased.extend(claimed.iter().flat_map(|claimed| keys(&claimed.items)));
        }
        leased.sort_unstable();
        assert_eq!(leased, ["1", "3", "5", "6"], "{refuse}");
        let refused = fixture
            .store
            .claim(fixture.queue, vec![call("x", 3)].into(), usize::MAX);
        let rejection = rejected(refused.await);
        let text = &rejection.problem.text;
        assert!(text.starts_with("item 2 cannot be leased: "), "{text}");
        program
            .run("INSERT item (customer, payload) VALUES ('a', 'new')")
            .await;
        assert_eq!(keys(&fixture.claim(9).await), ["7"], "{refuse}");
    }
}

#[tokio::test]
async fn refused_item_holds_back_its_ordered_group_only() {
    const STRICT: GroupOrder = GroupOrder::Strict {
        halts: false,
        run: 1,
    };
    const PARALLEL: GroupOrder = GroupOrder::Parallel {
        max_leases: None,
        bursts: false,
    };
    let rows = [("a", "bad"), ("a", "good"), ("b", "good"), ("b", "good")];
    for (order, expected) in [(STRICT, &["3"][..]), (PARALLEL, &["2", "3", "4"])] {
        let Some((fixture, _program)) = Box::pin(refusing(Some(order), &rows, REFUSE[0])).await
        else {
            return;
        };
        let mut leased = Vec::new();
        for _ in 0..3 {
            let claimed = fixture.results(vec![call("x", 9), call("y", 9)]).await;
            leased.extend(claimed.iter().flat_map(|claimed| keys(&claimed.items)));
        }
        leased.sort_unstable();
        assert_eq!(leased, expected, "{order:?}");
    }
}

#[tokio::test]
async fn suspect_that_is_refused_stops_nobody() {
    let rows = [("a", "good"), ("b", "good"), ("c", "good")];
    let Some((fixture, program)) = Box::pin(refusing(None, &rows, REFUSE[0])).await else {
        return;
    };
    assert_eq!(keys(&fixture.claim_for(1, SECOND).await), ["1"]);
    fixture.advance(MINUTE).await;
    assert_eq!(fixture.reap(9).await.expired.len(), 1);
    program
        .run("UPDATE item SET payload = 'bad' WHERE id = 1")
        .await;
    let mut leased = Vec::new();
    for worker in ["x", "y"] {
        let claimed = fixture.results(vec![call(worker, 1)]).await;
        leased.extend(keys(&claimed[0].items));
    }
    assert_eq!(leased, ["2", "3"]);
}

#[tokio::test]
async fn claim_that_is_sent_again_gets_the_leases_beside_a_refused_item() {
    let rows = [("a", "good"), ("b", "bad"), ("c", "good"), ("d", "good")];
    let Some((fixture, _program)) = Box::pin(refusing(None, &rows, REFUSE[0])).await else {
        return;
    };
    let same = ClaimCall {
        has_request_id: true,
        ..call("x", 4)
    };
    let first = fixture.results(vec![same.clone()]).await.remove(0);
    let again = fixture.results(vec![same]).await.remove(0);
    assert!(!first.items.is_empty());
    assert_eq!(keys(&again.items), keys(&first.items));
    assert!(again.is_repeated);
}
