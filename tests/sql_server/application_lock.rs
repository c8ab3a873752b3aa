//! Claims that wait for the application lock of their queue.

use std::time::Duration;

use lease_broker_model::queue::{ClaimStrategy, QueueSpec};
use lease_broker_value::Value;

use crate::harness::fixture::{Fixture, MINUTE, new_item, queue};
use crate::harness::program::start;

/// How long another session holds the lock. A claim waits up to 5 s.
const HELD: Duration = Duration::from_secs(2);

#[tokio::test]
async fn time_left_is_counted_from_after_the_wait() {
    let Some((harness, program)) = start().await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int NOT NULL PRIMARY KEY)")
        .await;
    let spec = QueueSpec {
        claim_strategy: ClaimStrategy::AppLock,
        ..queue("item")
    };
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    fixture.enqueue(new_item(&[("id", Value::Int(1))])).await;
    let holder = program.another().await;
    let lock = "BEGIN TRANSACTION;
        DECLARE @name nvarchar(255) = CONCAT(N'lease_broker_', OBJECT_ID(N'item'), N'_lease_state');
        EXEC sp_getapplock @Resource = @name, @LockMode = 'Exclusive', @LockTimeout = 0";
    holder.run(lock).await;
    let unlock = async {
        tokio::time::sleep(HELD).await;
        holder.run("COMMIT TRANSACTION").await;
    };
    let (items, ()) = tokio::join!(fixture.claim_for(1, MINUTE), unlock);
    let real = "SELECT DATEDIFF(millisecond, SYSUTCDATETIME(), lease_due_time) FROM item";
    let real = u64::try_from(program.number(real).await).expect("a lease that has not expired");
    let told = items[0].expiry.time_left;
    assert!(
        told <= Duration::from_millis(real) + HELD / 2,
        "told {told:?} of {real} ms"
    );
}
