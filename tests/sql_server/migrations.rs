//! The broker's own tables: changed and unknown migrations, first starts at one moment.

use futures_util::future::join_all;
use lease_broker_model::lease_id::LeaseOwner;
use lease_broker_store::mssql::{MssqlSchema, MssqlStore};
use lease_broker_store::schema::Schema as _;
use lease_broker_store::{Facts as _, StoreError, Upkeep as _};
use uuid::Uuid;

use crate::harness::fixture::queue;
use crate::harness::mssql::read_catalog;
use crate::harness::program::{Program, start};

async fn open(program: &Program) -> Result<MssqlStore, StoreError> {
    read_catalog(MssqlStore::open(&program.settings(), &[])).await
}

/// Returns the text of the error with which a store refuses the database.
async fn refusal(program: &Program) -> String {
    match open(program).await {
        Err(StoreError::Misconfigured(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

/// Opens a store, which creates the tables, and adds a migration that this build does not know.
async fn add_unknown_migration(program: &Program, oldest_reader: &str) {
    drop(open(program).await.expect("a store"));
    let newer = format!(
        "INSERT lease_broker_migration (name, checksum, oldest_reader) VALUES ('9999_future', '', {oldest_reader})"
    );
    program.run(&newer).await;
}

#[tokio::test]
async fn unknown_migration_for_newer_versions_is_refused() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    add_unknown_migration(&program, "'99.0.0'").await;
    let text = refusal(&program).await;
    assert!(
        text.contains("9999_future") && text.contains("newer"),
        "{text}"
    );
}

#[tokio::test]
async fn unknown_migration_for_this_version_is_accepted() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    add_unknown_migration(&program, "'0.2.0'").await;
    let store = open(&program).await.expect("a store");
    assert_eq!(store.probe().await, Ok(()));
}

#[tokio::test]
async fn changed_migration_is_refused_until_tables_are_dropped() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    drop(open(&program).await.expect("a store"));
    let history = program
        .rows("SELECT name, oldest_reader FROM lease_broker_migration")
        .await;
    assert_eq!(history, [["0001_broker", "0.2.0"]]);
    let changed = "UPDATE lease_broker_migration SET checksum = 'abc'";
    program.run(changed).await;
    let text = refusal(&program).await;
    assert!(
        text.contains("0001_broker") && text.contains("another text"),
        "{text}"
    );
    let drop_tables = "DROP TABLE lease_broker_migration, lease_broker_state, lease_broker_secret, lease_broker_probe, \
        lease_broker_retention, lease_broker_request, lease_broker_request_key, lease_broker_suspect, \
        lease_broker_instance, lease_broker_queue, lease_broker_group, lease_broker_group_rate, \
        lease_broker_operation, lease_broker_epoch, lease_broker_generation";
    program.drop_tables(drop_tables).await;
    let store = open(&program).await.expect("a store");
    assert_eq!(store.probe().await, Ok(()));
    let secrets =
        "SELECT COUNT(*) FROM lease_broker_secret WHERE id = 0 AND DATALENGTH(secret) = 16";
    assert_eq!(program.number(secrets).await, 1);
}

#[tokio::test]
async fn first_starts_at_one_moment_agree_on_one_secret() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let token = async || {
        let store = open(&program).await.expect("a store");
        store
            .secret()
            .token_of_request("queue", &LeaseOwner::default(), "worker", Uuid::nil())
    };
    let tokens = join_all((0..4).map(|_| token())).await;
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
}

#[tokio::test]
async fn tables_in_two_schemas_are_warned_of() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    program.run("CREATE TABLE item (id int PRIMARY KEY)").await;
    drop(open(&program).await.expect("a store"));
    let warnings = async || {
        let read = |schema: &mut MssqlSchema| schema.warnings(&queue("item"));
        program.schema(read).await.expect("warnings")
    };
    assert_eq!(warnings().await, Vec::<String>::new());
    program.run("CREATE SCHEMA reports").await;
    let create = "CREATE TABLE reports.lease_broker_migration (name varchar(64))";
    program.run(create).await;
    let found = warnings().await;
    program
        .drop_tables("DROP TABLE reports.lease_broker_migration")
        .await;
    program.run("DROP SCHEMA reports").await;
    assert!(
        found.len() == 1 && found[0].contains("reports") && found[0].contains("DEFAULT_SCHEMA"),
        "{found:?}"
    );
}
