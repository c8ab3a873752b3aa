//! The broker's own tables: upgrade of a database of version 0.1.0, unknown migrations, first starts at one moment.

use futures_util::future::join_all;
use lease_broker::key::hex;
use lease_broker::lease_id::LeaseOwner;
use lease_broker::store::mssql::MssqlStore;
use lease_broker::store::{Facts as _, StoreError, Upkeep as _};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::program::{Program, start};

/// The migration that version 0.1.0 knew. It never changes.
const FIRST_MIGRATION: &str = include_str!("../../sql/mssql/migrations/0001_broker.sql");
const FIRST_CHECKSUM: &str = "f9dfb288c39955b77b16dc56d2c2240187ea57abcf0ed8526e325adad0284b66";

async fn open(program: &Program) -> Result<MssqlStore, StoreError> {
    MssqlStore::open(&program.settings(), &[]).await
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
    match open(&program).await {
        Err(StoreError::Misconfigured(text)) => {
            assert!(
                text.contains("9999_future") && text.contains("newer"),
                "{text}"
            );
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("not refused"),
    }
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
async fn database_of_version_0_1_0_keeps_its_secret() {
    let Some((_harness, program)) = start().await else {
        return;
    };
    let checksum = hex(&Sha256::digest(FIRST_MIGRATION.as_bytes()));
    assert_eq!(checksum, FIRST_CHECKSUM);
    let history = "CREATE TABLE lease_broker_migration (name varchar(64) NOT NULL PRIMARY KEY,
        checksum varchar(64) NOT NULL, apply_time datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME())";
    program.run(history).await;
    for batch in FIRST_MIGRATION.split("\nGO\n") {
        program.run(batch).await;
    }
    let record = format!(
        "INSERT lease_broker_migration (name, checksum) VALUES ('0001_broker', '{checksum}')"
    );
    program.run(&record).await;
    for _ in 0..2 {
        drop(open(&program).await.expect("a store"));
        let same = "SELECT COUNT(*) FROM lease_broker_secret AS s INNER JOIN lease_broker_meta AS m
            ON m.name = 'secret' AND m.value = s.secret WHERE s.id = 0 AND DATALENGTH(s.secret) = 16";
        assert_eq!(program.number(same).await, 1);
        let history = "SELECT name, oldest_reader FROM lease_broker_migration ORDER BY name";
        let history = program.rows(history).await;
        assert_eq!(history[0], ["0001_broker", "NULL"]);
        assert_eq!(history[1], ["0002_secret", "0.2.0"]);
    }
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
