//! Tests of the embedded store: damaged, foreign and read-only files, full disks, migrations, schema plans, large tables,
//! and several programs on one file.

#[path = "sqlite_files/changed_rows.rs"]
mod changed_rows;
#[path = "sqlite_files/concurrent_programs.rs"]
mod concurrent_programs;
#[path = "sqlite_files/damaged_files.rs"]
mod damaged_files;
#[path = "sqlite_files/deleted_files.rs"]
mod deleted_files;
#[path = "sqlite_files/disk_errors.rs"]
mod disk_errors;
#[path = "harness/harness.rs"]
mod harness;
#[path = "sqlite_files/large_tables.rs"]
mod large_tables;
#[path = "sqlite_files/migrations.rs"]
mod migrations;
#[path = "sqlite_files/readers.rs"]
mod readers;
#[path = "sqlite_files/refused_settlements.rs"]
mod refused_settlements;
#[path = "sqlite_files/schema_plan.rs"]
mod schema_plan;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "sqlite_files/small_disk.rs"]
mod small_disk;
#[path = "sqlite_files/tables.rs"]
mod tables;
#[path = "sqlite_files/without_rowid.rs"]
mod without_rowid;
