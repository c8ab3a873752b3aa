//! Stores that only read: the rights that they need, and the locks of other programs that they find.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_broker::broker::{CountLimits, Operator};
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::mssql::MssqlReader;
use lease_broker_store::{
    Browse as _, ForeignLock, Instance, ItemFacts, ItemFilter, ItemSearch, QueueIndex,
    SearchPosition,
};
use uuid::Uuid;

use crate::harness::fixture::{Fixture, queue};
use crate::harness::mssql::read_catalog;
use crate::harness::program::{Program, patient_settings, start, start_on_sql_server};
use crate::sql_server::statements::statement;
use crate::support::timeout::{wait_until, with_timeout};

const QUEUE: QueueIndex = QueueIndex(0);
const PASSWORD: &str = "Only-reads-1";
const TABLE: &str = "CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50));
    INSERT item (id) VALUES (1), (2), (3)";

/// Returns the search for the ready items whose keys follow `last`.
fn ready_after(last: Option<Key>) -> ItemSearch {
    ItemSearch {
        state: State::Ready,
        filter: ItemFilter::default(),
        not_since: None,
        after: last.map(|key| SearchPosition { time: None, key }),
        newest_first: false,
        limit: 9,
        max_examined: 9,
    }
}

async fn facts(reader: &MssqlReader, key: &str) -> ItemFacts {
    let key = reader.parse_key(QUEUE, key).expect("a key");
    reader.item_facts(QUEUE, key).await.expect("facts")
}

#[tokio::test]
async fn select_on_the_table_is_enough_to_look() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program.run(TABLE).await;
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("item_Archive".to_owned());
    let fixture = Box::pin(Fixture::adopt(harness, vec![spec])).await;
    let instance = Instance {
        id: Uuid::new_v4(),
        version: "0.2.0".to_owned(),
        address: "broker:50051".to_owned(),
        draining: false,
        settings: BTreeMap::new(),
        activity: BTreeMap::new(),
    };
    let instance = Arc::new(instance);
    let login = format!("lb_test_{}", Uuid::new_v4().simple());
    program
        .run(&format!(
            "CREATE LOGIN {login} WITH PASSWORD = N'{PASSWORD}'"
        ))
        .await;
    program
        .run(&format!("CREATE USER {login} FOR LOGIN {login}"))
        .await;
    program
        .run(&format!("GRANT SELECT ON dbo.item TO {login}"))
        .await;
    // The lock that a broker takes to prepare the database.
    let migrating = program.another().await;
    migrating
        .run("EXEC sp_getapplock @Resource = N'lease_broker_migration', @LockMode = 'Exclusive', @LockOwner = 'Session'")
        .await;
    let connection_string = format!(
        "{};user id={login};password={PASSWORD}",
        program.connection_string
    );
    let limited = Program::connect(&connection_string).await;
    for refused in [
        "UPDATE item SET payload = N'x'",
        "SELECT * FROM lease_broker_secret",
    ] {
        let outcome = limited.try_run(refused).await;
        assert!(outcome.is_err(), "the login may run {refused}");
    }
    drop(limited);
    let settings = patient_settings(&connection_string);
    let reader = read_catalog(MssqlReader::open(&settings, &fixture.queues)).await;
    let reader = reader.expect("a reader");
    let stats = reader.stats(QUEUE).await.expect("stats");
    assert_eq!(stats.count_of(State::Ready), 3);
    let listed = reader.list(QUEUE, State::Ready, 2).await.expect("a list");
    let last = listed.last().map(|item| item.key.clone());
    let page = reader.find_items(QUEUE, ready_after(last)).await;
    let page = page.expect("a page");
    assert_eq!(page.items.len(), 1);
    let unknown = facts(&reader, "2").await;
    assert!(
        unknown.row.is_some() && unknown.lock.is_none(),
        "{unknown:?}"
    );
    assert_eq!(unknown.brokers, None);
    // On Babelfish, this lock is one for all databases.
    drop(migrating);
    program
        .run(&format!(
            "GRANT SELECT ON dbo.lease_broker_instance TO {login}"
        ))
        .await;
    // A broker counts as running for 15 s. On a busy machine this question can take longer.
    with_timeout(async {
        loop {
            let announced = fixture.store.announce(instance.clone()).await;
            announced.expect("announced");
            let brokers = facts(&reader, "2").await.brokers;
            if brokers.map(|brokers| brokers.len()) == Some(1) {
                break;
            }
        }
    })
    .await;
    drop(reader);
    // Babelfish drops no user that has rights.
    for table in ["item", "lease_broker_instance"] {
        program
            .run(&format!("REVOKE SELECT ON dbo.{table} FROM {login}"))
            .await;
    }
    let drop_login = format!(
        "IF DATABASE_PRINCIPAL_ID(N'{login}') IS NOT NULL DROP USER {login}; DROP LOGIN {login}"
    );
    // Fails as long as the server has not closed the sessions of the login.
    for _ in 0..100 {
        if program.try_run(&drop_login).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the login {login} cannot be dropped");
}

#[tokio::test]
async fn queue_whose_table_is_locked_does_not_hide_the_others() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program.run(TABLE).await;
    program.run(&TABLE.replace("item", "locked")).await;
    let queues = vec![queue("item"), queue("locked")];
    let fixture = Box::pin(Fixture::adopt(harness, queues)).await;
    let holder = program.another().await;
    holder
        .run("BEGIN TRANSACTION; ALTER TABLE locked ADD later int")
        .await;
    let operator = Operator::new(fixture.store.clone(), &fixture.queues, 1);
    let listed = with_timeout(operator.list_queues(&[], Some(CountLimits::CALL), |_| true)).await;
    let [item, locked] = &listed.expect("the state of both")[..] else {
        panic!("two queues");
    };
    let stats = item.stats.expect("counts");
    assert_eq!(stats.count_of(State::Ready), 3);
    let problem = locked.stats.expect_err("a lock");
    assert!(problem.contains("not counted in time"), "{problem}");
    holder.run("ROLLBACK TRANSACTION").await;
    // A busy server can be too slow for the first count.
    wait_until("both tables are counted", async || {
        let listed = operator
            .list_queues(&[], Some(CountLimits::CALL), |_| true)
            .await;
        let listed = listed.expect("the state of both");
        listed.iter().all(|queue| queue.stats.is_ok())
    })
    .await;
}

#[tokio::test]
async fn session_that_holds_a_row_is_named() {
    let lacks = "row locks of readers, and sys.dm_exec_requests";
    let Some((harness, program)) = Box::pin(start_on_sql_server(lacks)).await else {
        return;
    };
    program.run(TABLE).await;
    let fixture = Box::pin(Fixture::adopt(harness, vec![queue("item")])).await;
    let reader = read_catalog(MssqlReader::open(&program.settings(), &fixture.queues)).await;
    let reader = reader.expect("a reader");
    for held in [
        "hold_first_row",
        "hold_first_row_as_reader",
        "hold_first_page",
    ] {
        let holder = program.another().await;
        let session = holder.number("SELECT @@SPID").await;
        holder.run(&statement(held)).await;
        let locked = facts(&reader, "1").await;
        let Some(ForeignLock::Row(Some(named))) = &locked.lock else {
            panic!("{held}: {locked:?}");
        };
        assert_eq!(named.id, session, "{held}");
        assert!(
            named.login.is_some() && named.since_request.is_some(),
            "{named:?}"
        );
        holder.run("ROLLBACK TRANSACTION").await;
        assert_eq!(facts(&reader, "1").await.lock, None, "{held}");
    }
}
