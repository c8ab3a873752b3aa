-- What turns a table into a queue, and back; `schema plan` prints the sections that a table lacks, in this order. Each is a
-- batch of its own; those that add do nothing where they have been run before (Babelfish stores indexes under names of its own, so there
-- an index is not recognised by its batch, only by the plan).
-- Columns: {nullable} is NOT NULL where the server stores the default of old rows once, in its metadata (Enterprise,
--   Developer, Azure SQL; Babelfish); elsewhere NULL, as the statement would write every row under a lock on the table:
--   there `backfill` gives old rows their values. The state is a smallint, as Babelfish can't add a tinyint with a default
--   to a table that has rows.
-- The SET lines are for tools that have these options off, as sqlcmd has: a filtered index needs them on.
-- Locks: Sch-M on the table for a moment, for which a batch waits no longer than LOCK_TIMEOUT (10 s), as all others wait
--   behind it; an index that was long in the making waits for as long as it takes. `backfill` X on at most 4000 rows; an index with ONLINE = ON Sch-M for a moment at its start and end, one without
--   it S on the table while it is made.

-- :: create
IF OBJECT_ID({table_literal}) IS NULL
CREATE TABLE {table} (
    {definitions},
    {lease_state} smallint NOT NULL DEFAULT 0,
    {lease_state_time} datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    {lease_due_time} datetime2(3) NULL,
    {lease_owner} nvarchar(128) NULL,
    {lease_token} uniqueidentifier NULL,
    {lease_fence} bigint NOT NULL DEFAULT 0,
    {lease_attempt} int NOT NULL DEFAULT 0,
    {lease_error} nvarchar(1024) NULL,
    {trace_parent} varchar(55) NULL{primary_key}
)

-- :: lease_state
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_state} smallint {nullable} DEFAULT 0

-- :: lease_state_time
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_state_time} datetime2(3) {nullable} DEFAULT SYSUTCDATETIME()

-- :: lease_due_time
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_due_time} datetime2(3) NULL

-- :: lease_owner
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_owner} nvarchar(128) NULL

-- :: lease_token
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_token} uniqueidentifier NULL

-- :: lease_fence
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_fence} bigint {nullable} DEFAULT 0

-- :: lease_attempt
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_attempt} int {nullable} DEFAULT 0

-- :: lease_error
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {lease_error} nvarchar(1024) NULL

-- :: trace_parent
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NULL
ALTER TABLE {table} ADD {trace_parent} varchar(55) NULL

-- :: backfill_needed
SELECT COUNT(*) FROM (SELECT TOP (1) 1 AS one FROM {table} AS t WHERE {wants_backfill}) AS d

-- :: backfill
SET NOCOUNT, XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS ON;
IF OBJECT_ID(N'tempdb..#lb_position') IS NULL CREATE TABLE #lb_position ({key_declarations});
DECLARE @changed int, @visited int, {key_variables};
DECLARE @next TABLE ({key_declarations}, PRIMARY KEY ({key_names}));
DELETE @next;
SELECT {key_into_variables} FROM #lb_position AS p;
IF @k1 IS NULL
    INSERT @next ({key_names})
    SELECT TOP (4000) {t_key_columns} FROM {table} AS t WHERE 1 = 1{key_not_null} ORDER BY {t_key_columns};
ELSE
    INSERT @next ({key_names})
    SELECT TOP (4000) {t_key_columns} FROM {table} AS t WHERE {after_position}{key_not_null} ORDER BY {t_key_columns};
SET @visited = (SELECT COUNT(*) FROM @next);
BEGIN TRANSACTION;
UPDATE t
SET {lease_state} = CASE WHEN t.{lease_state} > 0 THEN t.{lease_state}{backfill_states} ELSE 0 END,
    {lease_state_time} = COALESCE(t.{lease_state_time}, '2000-01-01'),
    {lease_fence} = COALESCE(t.{lease_fence}, 0), {lease_attempt} = COALESCE(t.{lease_attempt}, 0)
FROM @next AS d INNER JOIN {table} AS t ON {join_due_on_key}
WHERE {wants_backfill}
OPTION (FORCE ORDER, LOOP JOIN);
SET @changed = @@ROWCOUNT;
DELETE #lb_position;
INSERT #lb_position ({key_names}) SELECT TOP (1) {d_key_columns} FROM @next AS d ORDER BY {key_descending};
COMMIT TRANSACTION;
IF @visited = 0 DROP TABLE #lb_position;
SELECT @visited, @changed;

-- :: ready_index
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT -1;
IF INDEXPROPERTY(OBJECT_ID({table_literal}), {index_literal}, 'IndexID') IS NULL
CREATE INDEX {ready_index} ON {table} ({ready_columns}){ready_filter}{online}

-- :: due_index
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT -1;
IF INDEXPROPERTY(OBJECT_ID({table_literal}), {index_literal}, 'IndexID') IS NULL
CREATE INDEX {due_index} ON {table} ({due_columns}){due_filter}{online}

-- :: token_index
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT -1;
IF INDEXPROPERTY(OBJECT_ID({table_literal}), {index_literal}, 'IndexID') IS NULL
CREATE INDEX {token_index} ON {table} ({token_columns}){token_filter}{online}

-- :: dead_index
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT -1;
IF INDEXPROPERTY(OBJECT_ID({table_literal}), {index_literal}, 'IndexID') IS NULL
CREATE INDEX {dead_index} ON {table} ({dead_columns}){dead_filter}{online}

-- :: drop_index
SET LOCK_TIMEOUT 10000;
DROP INDEX {index} ON {table}

-- :: drop_default
SET LOCK_TIMEOUT 10000;
ALTER TABLE {table} DROP CONSTRAINT {constraint}

-- :: drop_column
SET LOCK_TIMEOUT 10000;
IF COL_LENGTH({table_literal}, {column_literal}) IS NOT NULL
ALTER TABLE {table} DROP COLUMN {column}

-- :: create_archive
IF OBJECT_ID({archive_literal}) IS NULL
CREATE TABLE {archive} ({archive_definitions})
