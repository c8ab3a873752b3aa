//! The embedded store's file: damaged, full, read-only, made by another build, opened by several at once; and its plans.

#[path = "sqlite_files/broken.rs"]
mod broken;
#[path = "sqlite_files/depth.rs"]
mod depth;
#[path = "sqlite_files/full.rs"]
mod full;
#[path = "harness/harness.rs"]
mod harness;
#[path = "sqlite_files/migrations.rs"]
mod migrations;
#[path = "sqlite_files/mount.rs"]
mod mount;
#[path = "sqlite_files/plans.rs"]
mod plans;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "sqlite_files/tables.rs"]
mod tables;
#[path = "sqlite_files/together.rs"]
mod together;
#[path = "sqlite_files/without_rowid.rs"]
mod without_rowid;
