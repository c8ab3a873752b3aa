-- Purpose: turn a table into a queue, and remove what that added. `schema plan` prints the sections that a table needs, in the
--   order of this file; `schema drop` prints `drop_index` and `drop_column`.
-- Sections: `create` creates the table of a managed queue. The sections from `lease_state` to `lease_checkpoint` each add one
--   soft-lock column, the last one only for a queue with checkpoints. `backfill_needed` returns 1 if the mirror columns of a row show a final state that the row does not have;
--   `backfill` then gives such rows that state, and runs again until it changes no row. The sections `…_index` each create one
--   index. `create_archive` creates the table that completed items move to, and `archive_index` the index by which
--   retention finds its old rows.
-- Parameters: none. Everything is in the text, so that a person can run it.
-- Locks: the write lock of the file, once per statement. `backfill` changes at most 10,000 rows per statement, so other writers
--   get their turn.
-- Indexes: those that this file creates (index_role.rs describes them).
-- Why `lease_state_time` is 0 in an adopted table for rows that other programs insert: ALTER TABLE cannot add a column whose
--   default is the time of the insert. 0 means unknown. Times are in ms since 1970-01-01T00:00:00Z.
-- Why `drop_index` comes before `drop_column`: SQLite does not drop a column that an index uses.

-- :: create
CREATE TABLE {table} (
    {definitions},
    {lease_state} INTEGER NOT NULL DEFAULT 0,
    {lease_state_time} INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    {lease_due_time} INTEGER,
    {lease_owner} TEXT,
    {lease_token} BLOB,
    {lease_fence} INTEGER NOT NULL DEFAULT 0,
    {lease_attempt} INTEGER NOT NULL DEFAULT 0,
    {lease_error} TEXT,
    {trace_parent} TEXT{checkpoint_definition}{primary_key}
)

-- :: lease_state
ALTER TABLE {table} ADD COLUMN {lease_state} INTEGER NOT NULL DEFAULT 0

-- :: lease_state_time
ALTER TABLE {table} ADD COLUMN {lease_state_time} INTEGER NOT NULL DEFAULT 0

-- :: lease_due_time
ALTER TABLE {table} ADD COLUMN {lease_due_time} INTEGER

-- :: lease_owner
ALTER TABLE {table} ADD COLUMN {lease_owner} TEXT

-- :: lease_token
ALTER TABLE {table} ADD COLUMN {lease_token} BLOB

-- :: lease_fence
ALTER TABLE {table} ADD COLUMN {lease_fence} INTEGER NOT NULL DEFAULT 0

-- :: lease_attempt
ALTER TABLE {table} ADD COLUMN {lease_attempt} INTEGER NOT NULL DEFAULT 0

-- :: lease_error
ALTER TABLE {table} ADD COLUMN {lease_error} TEXT

-- :: trace_parent
ALTER TABLE {table} ADD COLUMN {trace_parent} TEXT

-- :: lease_checkpoint
ALTER TABLE {table} ADD COLUMN {lease_checkpoint} BLOB

-- :: backfill
UPDATE {table}
SET {lease_state} = {backfill_state}
WHERE ({key}) IN (
    SELECT {key} FROM {table}
    WHERE {lease_state} = 0 AND {lease_fence} = 0 AND {backfill_match}{key_not_null}
    LIMIT 10000)

-- :: backfill_needed
SELECT EXISTS (SELECT 1 FROM {table} WHERE {backfill_if_present}{backfill_match}{key_not_null})

-- :: drop_column
ALTER TABLE {table} DROP COLUMN {column}

-- :: drop_index
DROP INDEX {index}

-- :: ready_index
CREATE INDEX {ready_index} ON {table} ({ready_columns}){ready_filter}

-- :: due_index
CREATE INDEX {due_index} ON {table} ({due_columns}){due_filter}

-- :: token_index
CREATE INDEX {token_index} ON {table} ({token_columns}){token_filter}

-- :: dead_index
CREATE INDEX {dead_index} ON {table} ({dead_columns}){dead_filter}

-- :: create_archive
CREATE TABLE {archive} ({archive_definitions})

-- :: archive_index
CREATE INDEX {archive_index} ON {archive} ({lease_state_time})
