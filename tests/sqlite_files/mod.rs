//! Tests of the embedded store: damaged, foreign and read-only files, full disks, migrations, schema plans, large tables,
//! and several programs on one file.

mod changed_rows;
mod concurrent_programs;
mod damaged_files;
mod deferred_foreign_keys;
mod deleted_files;
mod disk_errors;
mod failing_rows;
mod file_copies;
mod foreign_values;
mod generations;
mod large_tables;
mod migrations;
mod readers;
mod refused_claims;
mod refused_ends;
mod refused_settlements;
mod schema_plan;
mod small_disk;
mod tables;
mod without_rowid;
