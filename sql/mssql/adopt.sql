-- Purpose: turn a table into a queue. `schema plan` prints the sections that a table needs, in the order of this file, each as one
--   batch. remove.sql is the way back.
-- Sections: `create` creates the table of a managed queue. `create_record` creates the tables in which the broker records the
--   columns and indexes that it adds. `record` is one row of it, a part of each later section except for a managed table;
--   `recorded_table` is the name of the table there. `forget_table` deletes the rows of an earlier table of the same name and raises
--   the first fencing token.
--   `read_record` returns the rows of a table, and one with its highest fencing token that remove.sql kept. `strange_states`
--   returns the number of rows whose state is not a number from 0 to 4, in a column that the table had before. `find_null_key` returns a
--   row if the table has rows with NULL in a column of the key. `add_column` adds the column
--   that one of the sections from `lease_state` to `lease_checkpoint` defines, the last one only for a queue with checkpoints. `backfill_needed` returns 1 if a row needs the backfill. `backfill` visits the next 2,000 rows in key order,
--   gives rows whose mirror columns show a final state that state, fills soft-lock columns that are NULL, and returns the
--   numbers of rows visited and changed; it runs again until it visits no row. `create_index` creates an index.
--   `set_policy` gives the row of the queue the rules of its groups. Claims of brokers with other rules get no lease from then on.
--   It ends the pauses of the old groups, and forgets how much of their rates is used up.
--   `create_archive` creates the table that completed items move to, and `archive_index` the index by which retention finds its
--   old rows.
-- Parameters: none. Everything is in the text, so that a person can run it. {nullable} is NOT NULL or NULL, see below.
-- Locks: each ALTER TABLE takes Sch-M on the table for a moment. `backfill` takes X on at most 2,000 rows.
--   CREATE INDEX with ONLINE = ON takes Sch-M for a moment at its start and at its end; without ONLINE it holds S on the table
--   until the index is ready.
-- Indexes: those that this file creates (index_role.rs describes them). `backfill` seeks by the key.
-- Why sections that add something first test if it exists: an interrupted plan can be run again. On Babelfish the test does not
--   recognise an existing index, because Babelfish stores indexes under other names; there only the plan leaves it out.
-- Why LOCK_TIMEOUT 10000 for columns: all other sessions queue behind a session that waits for Sch-M. After 10 s the batch
--   gives up, so that they continue. Why LOCK_TIMEOUT -1 for indexes: an index that took long to build must not be lost because
--   of a wait at its end.
-- Why an index is recorded before it is created, without a transaction: a row without an index does no harm, and an online build
--   in a transaction would keep its locks to the end.
-- Why an index in another order is built under another name, and `replace_index` drops the old one only then: claims go on with the
--   old one meanwhile, and it is still there if the build fails. Statements of brokers that run name the index in hints, so the
--   new one then takes its name. Babelfish cannot rename an index, and ignores the hints: there the new name stays.
-- Why {first_fence}: if the table was a queue before, its rows continue with the highest fencing token that remove.sql kept.
--   Otherwise systems that compare tokens would refuse the new workers and accept the old ones. If the table has replaced an
--   earlier one, the tokens of that one are unknown, and the first token is that of a new epoch (epoch.rs).
-- Why {nullable}: Enterprise, Developer, Azure SQL and Babelfish store the default for existing rows once, in the metadata, so
--   the column is added as NOT NULL. Other editions would write every row while they lock the table. There the column is added as
--   NULL, and `backfill` gives existing rows their values.
-- Why {filegroup}: without it, an index of a partitioned table is partitioned like the table. A search in another order than
--   that of the partitions would then read, lock and sort the rows of all partitions. So the ready, due and dead index of such a
--   table are in one piece, on the database's default filegroup. ALTER TABLE … SWITCH is not possible while they exist. The token
--   index is partitioned, because a search for one token seeks once per partition and sorts nothing. Babelfish accepts the clause
--   and partitions the index all the same.
-- Why each constraint has a name: the server would make one up, another in each database, and tools that compare schemas would
--   report a difference.
-- Why the state is a smallint: Babelfish cannot add a tinyint with a default to a table that has rows.
-- Why the index of an archive that is an empty heap is clustered: a deletion from a heap does not free its pages. A heap with rows
--   would have to be written anew, so it gets another index.
-- Why SET QUOTED_IDENTIFIER, ANSI_NULLS ON: a filtered index needs them, a name with a bracket is in quotation marks, and tools such as
--   sqlcmd set them off.
-- Why `backfill` keeps its position in lease_broker_position: the next run continues after the last key visited, also in another
--   session after an interruption. A statement that searched for rows to change would read the rows before them again at each
--   run. {walk} is a hash of the table and the conditions, so that another back-fill starts at the first row. The table is dropped
--   with its last row.

-- :: create
SET QUOTED_IDENTIFIER, ANSI_NULLS ON;
IF OBJECT_ID({table_literal}) IS NULL
CREATE TABLE {table} (
    {definitions},
    {lease_state} smallint NOT NULL CONSTRAINT {lease_state_default} DEFAULT 0,
    {lease_state_time} datetime2(3) NOT NULL CONSTRAINT {lease_state_time_default} DEFAULT SYSUTCDATETIME(),
    {lease_due_time} datetime2(3) NULL,
    {lease_owner} nvarchar(128) NULL,
    {lease_token} uniqueidentifier NULL,
    {lease_fence} bigint NOT NULL CONSTRAINT {lease_fence_default} DEFAULT 0,
    {lease_attempt} int NOT NULL CONSTRAINT {lease_attempt_default} DEFAULT 0,
    {lease_error} nvarchar(1024) NULL,
    {trace_parent} varchar(55) NULL{checkpoint_definition}{primary_key}
)

-- :: create_record
IF OBJECT_ID(N'lease_broker_added') IS NULL
CREATE TABLE lease_broker_added (
    table_name nvarchar(300) NOT NULL,
    kind varchar(8) NOT NULL CONSTRAINT CK_lease_broker_added_kind CHECK (kind IN ('column', 'index')),
    name nvarchar(128) NOT NULL,
    CONSTRAINT PK_lease_broker_added PRIMARY KEY (table_name, kind, name)
);
IF OBJECT_ID(N'lease_broker_fence') IS NULL
CREATE TABLE lease_broker_fence (
    table_name nvarchar(300) NOT NULL CONSTRAINT PK_lease_broker_fence PRIMARY KEY,
    fence bigint NOT NULL
)

-- :: record
DECLARE @recorded nvarchar(300) = {recorded_table};
IF NOT EXISTS (SELECT * FROM lease_broker_added AS a WHERE a.table_name = @recorded AND a.kind = {kind} AND a.name = {name})
INSERT lease_broker_added (table_name, kind, name) VALUES (@recorded, {kind}, {name});

-- :: recorded_table
CONCAT(OBJECT_SCHEMA_NAME(OBJECT_ID({object_literal})), N'.', OBJECT_NAME(OBJECT_ID({object_literal})))

-- :: forget_table
DECLARE @recorded nvarchar(300) = {recorded_table};
DELETE lease_broker_added WHERE table_name = @recorded AND kind = 'column' AND name IN ({names});
IF NOT EXISTS (SELECT * FROM lease_broker_fence AS f WHERE f.table_name = @recorded)
INSERT lease_broker_fence (table_name, fence) VALUES (@recorded, 0);
UPDATE lease_broker_fence SET fence = {first_fence} WHERE table_name = @recorded AND fence < {first_fence}

-- :: read_record
SELECT CAST(a.kind AS nvarchar(8)) AS lb_kind, a.name AS lb_name, CAST(NULL AS bigint) AS lb_fence
FROM lease_broker_added AS a WHERE a.table_name = {recorded_table}
UNION ALL SELECT NULL, NULL, f.fence FROM lease_broker_fence AS f WHERE f.table_name = {recorded_table}

-- :: strange_states
SELECT COUNT(*) FROM {table} AS t WHERE t.{lease_state} NOT IN (0, 1, 2, 3, 4)

-- :: find_null_key
SELECT TOP (1) 1 AS lb_n FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK) WHERE {key_is_null}

-- :: add_column
SET XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
BEGIN
BEGIN TRANSACTION;
ALTER TABLE {table} ADD {definition};
{record}COMMIT TRANSACTION;
END

-- :: lease_state
{lease_state} smallint {nullable} CONSTRAINT {lease_state_default} DEFAULT 0

-- :: lease_state_time
{lease_state_time} datetime2(3) {nullable} CONSTRAINT {lease_state_time_default} DEFAULT SYSUTCDATETIME()

-- :: lease_due_time
{lease_due_time} datetime2(3) NULL

-- :: lease_owner
{lease_owner} nvarchar(128) NULL

-- :: lease_token
{lease_token} uniqueidentifier NULL

-- :: lease_fence
{lease_fence} bigint {nullable} CONSTRAINT {lease_fence_default} DEFAULT {first_fence}

-- :: lease_attempt
{lease_attempt} int {nullable} CONSTRAINT {lease_attempt_default} DEFAULT 0

-- :: lease_error
{lease_error} nvarchar(1024) NULL

-- :: trace_parent
{trace_parent} varchar(55) NULL

-- :: lease_checkpoint
{lease_checkpoint} varbinary(max) NULL

-- :: backfill_needed
SELECT COUNT(*) FROM (SELECT TOP (1) 1 AS one FROM {table} AS t WHERE {wants_backfill}) AS d

-- :: backfill
SET NOCOUNT, XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS ON;
IF OBJECT_ID(N'lease_broker_position') IS NULL
CREATE TABLE lease_broker_position (
    walk char(64) NOT NULL CONSTRAINT PK_lease_broker_position PRIMARY KEY,
    k1 sql_variant NOT NULL, k2 sql_variant NULL, k3 sql_variant NULL
);
DECLARE @changed int, @visited int, {key_variables};
DECLARE @next TABLE ({key_declarations}, PRIMARY KEY NONCLUSTERED ({key_names}));
DELETE @next;
SELECT {position_into_variables} FROM lease_broker_position AS p WHERE p.walk = {walk};
IF @k1 IS NULL
    INSERT @next ({key_names})
    SELECT TOP (2000) {t_key_columns} FROM {table} AS t WHERE 1 = 1{key_not_null} ORDER BY {t_key_columns};
ELSE
    INSERT @next ({key_names})
    SELECT TOP (2000) {t_key_columns} FROM {table} AS t WHERE {after_position}{key_not_null} ORDER BY {t_key_columns};
SET @visited = (SELECT COUNT(*) FROM @next);
BEGIN TRANSACTION;
UPDATE t
SET {lease_state} = CASE WHEN t.{lease_state} > 0 THEN t.{lease_state}{backfill_states} ELSE 0 END,
    {lease_state_time} = COALESCE(t.{lease_state_time}, '2000-01-01'),
    {lease_fence} = COALESCE(t.{lease_fence}, {first_fence}), {lease_attempt} = COALESCE(t.{lease_attempt}, 0)
FROM @next AS d INNER JOIN {table} AS t ON {join_due_on_key}
WHERE {wants_backfill}
OPTION (FORCE ORDER, LOOP JOIN);
SET @changed = @@ROWCOUNT;
DELETE lease_broker_position WHERE walk = {walk};
INSERT lease_broker_position (walk, {key_numbers}) SELECT TOP (1) {walk}, {d_key_columns} FROM @next AS d ORDER BY {key_descending};
COMMIT TRANSACTION;
IF @visited = 0 AND NOT EXISTS (SELECT 1 FROM lease_broker_position)
DROP TABLE lease_broker_position;
SELECT @visited, @changed;

-- :: create_index
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT -1;
IF INDEXPROPERTY(OBJECT_ID({table_literal}), {index_literal}, 'IndexID') IS NULL
BEGIN
{record}CREATE INDEX {index} ON {table} ({index_columns}){index_filter}{online}{filegroup};
END

-- :: replace_index
SET XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT 10000;
BEGIN TRANSACTION;
DROP INDEX {old_index} ON {table};
EXEC sp_rename {new_index_literal}, {old_name}, N'INDEX';
IF OBJECT_ID(N'lease_broker_added') IS NOT NULL
DELETE lease_broker_added WHERE table_name = {recorded_table} AND kind = 'index' AND name = {name};
COMMIT TRANSACTION

-- :: set_policy
SET XACT_ABORT ON;
BEGIN TRANSACTION;
UPDATE lease_broker_queue
SET policy = {policy}, turn = NULL, round_start = NULL, round_wrapped = 0, group_max_leases = NULL,
    group_rate_items = NULL, group_rate_micros = NULL, group_rate_burst = NULL, paused_groups = 0
WHERE queue = {queue_literal};
DELETE FROM lease_broker_group WHERE queue = {queue_literal};
DELETE FROM lease_broker_group_rate WHERE queue = {queue_literal};
COMMIT TRANSACTION

-- :: create_archive
SET QUOTED_IDENTIFIER, ANSI_NULLS ON;
IF OBJECT_ID({archive_literal}) IS NULL
CREATE TABLE {archive} ({archive_definitions})

-- :: archive_index
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT -1;
IF INDEXPROPERTY(OBJECT_ID({archive_literal}), {index_literal}, 'IndexID') IS NULL
BEGIN
{record}IF EXISTS (SELECT 1 FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID({archive_literal}) AND i.index_id = 0)
    AND NOT EXISTS (SELECT 1 FROM {archive})
CREATE CLUSTERED INDEX {archive_index} ON {archive} ({lease_state_time});
ELSE
CREATE INDEX {archive_index} ON {archive} ({lease_state_time}){online};
END
