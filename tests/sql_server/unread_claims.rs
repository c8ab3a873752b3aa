//! Items that a claim leases and then cannot read. It has committed by then, so the broker releases them.

use lease_broker_model::item_state::State;
use lease_broker_store::Applied;

use crate::harness::fixture::{Fixture, call, keys, queue};
use crate::harness::program::{start, start_on_sql_server};

#[tokio::test]
async fn claims_after_a_column_was_dropped_lease_nothing() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int PRIMARY KEY, note nvarchar(50), payload nvarchar(50))")
        .await;
    program
        .run("INSERT item (id) VALUES (1), (2), (3), (4)")
        .await;
    let fixture = Box::pin(Fixture::adopt(harness, vec![queue("item")])).await;
    assert_eq!(keys(&fixture.claim(1).await), ["1"]);
    program.run("ALTER TABLE item DROP COLUMN note").await;
    for _ in 0..3 {
        let calls = vec![call("x", 2)];
        let claimed = fixture.store.claim(fixture.queue, calls.into(), usize::MAX);
        let error = claimed.await.expect_err("a column is missing");
        assert_eq!(error.applied(), Applied::No, "{error}");
        assert_eq!(fixture.counts().await[State::Leased as usize], 1);
    }
    let used = "SELECT COUNT(*) FROM item WHERE id > 1 AND lease_attempt > 0";
    assert_eq!(program.number(used).await, 0);
}

#[tokio::test]
async fn row_whose_computed_column_fails_is_left_out() {
    let Some((harness, program)) =
        start_on_sql_server("computed columns that are not stored").await
    else {
        return;
    };
    program
        .run("CREATE TABLE item (id int PRIMARY KEY, payload nvarchar(50), amount AS CAST(payload AS int), share AS 60 / id)")
        .await;
    program
        .run("INSERT item (id, payload) VALUES (-1, '1'), (0, '2'), (1, '3'), (2, 'bad'), (3, '5')")
        .await;
    let fixture = Box::pin(Fixture::adopt(harness, vec![queue("item")])).await;
    let mut leased = Vec::new();
    for _ in 0..3 {
        leased.extend(keys(&fixture.claim(9).await));
    }
    assert_eq!(leased, ["-1", "1", "3"]);
    assert_eq!(fixture.counts().await[State::Leased as usize], 3);
}
