-- Purpose: turn a table into a queue. `schema plan` prints the sections that a table needs, in the order of this file. remove.sql is
--   the way back.
-- Sections: `create` creates the table of a managed queue. `create_record` creates the tables in which the broker records the
--   columns and indexes that it adds. `record` is one row of it: it stands before the change of each later section, in the same
--   transaction, except for a managed table. `forget_table` deletes the rows of an earlier table of the same name and raises the first fencing token. `add_column`
--   adds the column that one of the sections from `lease_state` to `lease_checkpoint` defines, the last one only for a queue with
--   checkpoints. `backfill_needed` returns 1 if the mirror columns of a row show a final state that the row does not have;
--   `backfill` then gives such rows that state, and runs again until it changes no row. It is for a person. The service walks through
--   the table: `backfill_first` and `backfill_next` find the rows, `backfill_row` changes one, and `backfill_left` returns a row if a trigger
--   has ignored that. `create_index` creates an
--   index. `create_archive` creates the table that completed items move to, and `archive_index` the index by which
--   retention finds its old rows. `read_record` and `read_fence` return the record of a table. `strange_states` returns the number
--   of rows whose state is not a number from 0 to 4, in a column that the table had before.
--   `set_policy` gives the row of the queue the rules of its groups. Claims of brokers with other rules get no lease from then on.
--   It ends the pauses of the old groups, and forgets how much of their rates is used up.
-- Parameters: `read_record`, `read_fence`: ?1 name of the table. `backfill_next`, `backfill_row`, `backfill_left`: ?1 to ?3 key values. Others have none: everything is in the text, so that a person can run it.
-- Locks: the write lock of the file, once per step. `backfill` changes at most 10,000 rows per statement, and the service at most
--   2,000 rows per transaction, so other writers get their turn. None to find rows.
-- Indexes: those that this file creates (index_role.rs describes them).
-- Why the service does not run `backfill`: each statement reads the table from its start, under the write lock, and while other
--   programs complete rows it would not end.
-- Why `lease_state_time` is 0 in an adopted table for rows that other programs insert: ALTER TABLE cannot add a column whose
--   default is the time of the insert. 0 means unknown. Times are in ms since 1970-01-01T00:00:00Z.
-- Why {first_fence}: if the table was a queue before, its rows continue with the highest fencing token that remove.sql kept.
--   Otherwise systems that compare tokens would refuse the new workers and accept the old ones. If the table has replaced an
--   earlier one, the tokens of that one are unknown, and the first token is that of a new epoch (epoch.rs).

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

-- :: create_record
CREATE TABLE IF NOT EXISTS lease_broker_added (
    table_name TEXT NOT NULL COLLATE NOCASE,
    kind TEXT NOT NULL CHECK (kind IN ('column', 'index')),
    name TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (table_name, kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease_broker_fence (
    table_name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
    fence INTEGER NOT NULL
) WITHOUT ROWID

-- :: record
INSERT OR IGNORE INTO lease_broker_added (table_name, kind, name) VALUES ({recorded_table}, {kind}, {name});

-- :: forget_table
DELETE FROM lease_broker_added WHERE table_name = {recorded_table} AND kind = 'column' AND name IN ({names});
INSERT INTO lease_broker_fence (table_name, fence) VALUES ({recorded_table}, {first_fence})
ON CONFLICT (table_name) DO UPDATE SET fence = max(fence, excluded.fence)

-- :: read_record
SELECT kind, name FROM lease_broker_added WHERE table_name = ?1

-- :: read_fence
SELECT fence FROM lease_broker_fence WHERE table_name = ?1

-- :: strange_states
SELECT count(*) FROM {table} WHERE ({lease_state} IN (0, 1, 2, 3, 4)) IS NOT TRUE

-- :: add_column
{record}ALTER TABLE {table} ADD COLUMN {definition}

-- :: lease_state
{lease_state} INTEGER NOT NULL DEFAULT 0

-- :: lease_state_time
{lease_state_time} INTEGER NOT NULL DEFAULT 0

-- :: lease_due_time
{lease_due_time} INTEGER

-- :: lease_owner
{lease_owner} TEXT

-- :: lease_token
{lease_token} BLOB

-- :: lease_fence
{lease_fence} INTEGER NOT NULL DEFAULT {first_fence}

-- :: lease_attempt
{lease_attempt} INTEGER NOT NULL DEFAULT 0

-- :: lease_error
{lease_error} TEXT

-- :: trace_parent
{trace_parent} TEXT

-- :: lease_checkpoint
{lease_checkpoint} BLOB

-- :: backfill
UPDATE {table}
SET {lease_state} = {backfill_state}
WHERE ({key}) IN (
    SELECT {key} FROM {table}
    WHERE {lease_state} = 0 AND {lease_fence} <= {first_fence} AND {backfill_match}{key_not_null}
    LIMIT 10000)

-- :: backfill_first
SELECT {key} FROM {table}
WHERE {lease_state} = 0 AND {lease_fence} <= {first_fence} AND {backfill_match}{key_not_null}
ORDER BY {key}
LIMIT 2000

-- :: backfill_next
SELECT {key} FROM {table}
WHERE ({key}) > ({key_parameters}) AND {lease_state} = 0 AND {lease_fence} <= {first_fence} AND {backfill_match}{key_not_null}
ORDER BY {key}
LIMIT 2000

-- :: backfill_row
UPDATE {table}
SET {lease_state} = {backfill_state}
WHERE {key_match} AND {lease_state} = 0 AND {lease_fence} <= {first_fence} AND {backfill_match}

-- :: backfill_left
SELECT 1 FROM {table}
WHERE {key_match} AND {lease_state} = 0 AND {lease_fence} <= {first_fence} AND {backfill_match}

-- :: backfill_needed
SELECT EXISTS (SELECT 1 FROM {table} WHERE {backfill_if_present}{backfill_match}{key_not_null})

-- :: create_index
{record}CREATE INDEX {index} ON {table} ({index_columns}){index_filter}

-- :: set_policy
UPDATE lease_broker_queue
SET policy = {policy}, turn = NULL, round_start = NULL, round_wrapped = 0, group_max_leases = NULL,
    group_rate_items = NULL, group_rate_micros = NULL, group_rate_burst = NULL, paused_groups = 0
WHERE queue = {queue_literal};
DELETE FROM lease_broker_group WHERE queue = {queue_literal};
DELETE FROM lease_broker_group_rate WHERE queue = {queue_literal}

-- :: create_archive
CREATE TABLE {archive} ({archive_definitions})

-- :: archive_index
{record}CREATE INDEX {archive_index} ON {archive} ({lease_state_time})
