//! Files that commands leave or replace: backups that are written at the same time, and plans of a file that no program uses.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use lease_broker_store::schema::Schema as _;
use lease_broker_store::sqlite::{SqliteSchema, back_up, restore};
use rusqlite::Connection;

use crate::harness::fixture::{Fixture, queue};
use crate::harness::sqlite::SqliteHarness;

/// Returns the number of files in a folder.
fn count_files(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

#[tokio::test]
async fn one_of_two_backups_to_the_same_file_is_refused() {
    let fixture = Fixture::<SqliteHarness>::items(3).await;
    let source = fixture.harness.path();
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..20 {
        let target = folder.path().join(format!("{round}.db"));
        let barrier = Barrier::new(2);
        let copy = || {
            barrier.wait();
            back_up(&source, &target)
        };
        let results = thread::scope(|scope| {
            let copies = [scope.spawn(copy), scope.spawn(copy)];
            copies.map(|copy| copy.join().expect("a result"))
        });
        let refusals = results.iter().filter_map(|result| result.as_ref().err());
        let refusals: Vec<_> = refusals.map(ToString::to_string).collect();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert!(refusals[0].contains("exists already"), "{refusals:?}");
        assert_eq!(count_files(folder.path()), round + 1);
        // Only a backup has its time.
        let restored = restore(&folder.path().join("restored.db"), &target, &[]);
        assert!(restored.expect("a restore").backup_time.is_some());
        fs::remove_file(folder.path().join("restored.db")).expect("removed");
    }
}

#[test]
fn plan_leaves_no_file_beside_one_that_no_program_uses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("q.db");
    let connection = Connection::open(&path).expect("a database");
    let table = "PRAGMA journal_mode = wal; CREATE TABLE item (id INTEGER PRIMARY KEY)";
    connection.execute_batch(table).expect(table);
    drop(connection);
    assert_eq!(count_files(folder.path()), 1);
    let mut schema = SqliteSchema::open_to_read(&path).expect("a schema");
    assert!(!schema.plan(&queue("item")).expect("a plan").is_empty());
    assert_eq!(count_files(folder.path()), 1);
}
