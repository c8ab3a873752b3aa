-- What turns a table into a queue; `schema plan` prints the sections that a table lacks, in this order.
-- A column added by ALTER TABLE can't default to the time of the insert, so lease_state_time is 0 (not known) for rows
-- that other programs insert into an adopted table. Times are milliseconds since 1970-01-01T00:00:00Z.

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
    {trace_parent} TEXT{primary_key}
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
