//! Names of groups that the collation of their column compares in another way than that of the database.

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;

use crate::harness::fixture::{Fixture, HOUR, queue};
use crate::harness::program::start;

#[tokio::test]
async fn rate_holds_for_a_collation_with_case_rules_of_its_own() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program
        .run("CREATE TABLE item (id int IDENTITY(1, 1) PRIMARY KEY, tenant nvarchar(20) COLLATE Turkish_CI_AS)")
        .await;
    program
        .run("INSERT item (tenant) VALUES (N'istanbul'), (N'istanbul'), (N'ankara'), (N'ankara')")
        .await;
    let rate = Rate {
        items: 1,
        per: HOUR,
        burst: 1,
    };
    let spec = QueueSpec {
        groups: Some(Groups {
            column: "tenant".to_owned(),
            order: GroupOrder::Parallel {
                max_leases: None,
                bursts: false,
            },
            rate: Some(rate),
        }),
        ..queue("item")
    };
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    assert_eq!(fixture.claim(9).await.len(), 2);
    assert_eq!(fixture.claim(9).await.len(), 0);
}
