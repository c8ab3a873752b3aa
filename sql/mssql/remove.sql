-- Purpose: remove from a table the columns and indexes that adopt.sql added and recorded. `schema drop` prints the sections that a
--   table needs, in the order of this file, each as one batch.
-- Sections: `drop_index` drops an index; an adoption that replaces an index runs it too. `keep_fence` keeps the table's highest
--   fencing token, which `read_fence` reads; an adoption that finds tokens without states runs it too. `drop_default` drops the default constraint of a column, which has to go before the column. `drop_column` drops
--   a column. `drop_index` and `drop_column` delete the part's row of the record too. `held_leases` returns the number of leases
--   that are held, up to 1,000.
-- Parameters: none. Everything is in the text, so that a person can run it.
-- Locks: each ALTER TABLE and DROP INDEX takes Sch-M on the table for a moment. `keep_fence` reads all rows.
-- Indexes: none. `keep_fence` reads the whole table.
-- Why LOCK_TIMEOUT 10000: all other sessions queue behind a session that waits for Sch-M. After 10 s the batch gives up, so that
--   they continue.
-- Why XACT_ABORT: after an error, such as one by LOCK_TIMEOUT, the server would go on with the next statement of the batch, which
--   deletes the part's row of the record.
-- Why each section tests if its part exists: an interrupted removal can be run again. The server checks the names of the columns in a
--   batch before it runs the batch, so `keep_fence` reads the column by a statement of its own.
-- Why sys.columns and not COL_LENGTH: on Babelfish that is NULL for a column whose name has an apostrophe. The column would stay, and
--   its row of the record would go.
-- Why `keep_fence` comes after {lease_state} was dropped and before {lease_fence} is: no claim can give a higher token in between.

-- :: drop_index
SET XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT 10000;
DROP INDEX IF EXISTS {index} ON {indexed_table};
IF OBJECT_ID(N'lease_broker_added') IS NOT NULL
DELETE lease_broker_added WHERE table_name = {recorded_table} AND kind = 'index' AND name = {name}

-- :: keep_fence
SET QUOTED_IDENTIFIER, ANSI_NULLS ON;
DECLARE @recorded nvarchar(300) = {recorded_table}, @fence bigint;
IF EXISTS (SELECT * FROM sys.columns AS c WHERE c.object_id = OBJECT_ID({table_literal}) AND c.name = {column_literal})
EXECUTE sp_executesql {read_fence_literal}, N'@fence bigint OUTPUT', @fence = @fence OUTPUT;
IF NOT EXISTS (SELECT * FROM lease_broker_fence AS f WHERE f.table_name = @recorded)
INSERT lease_broker_fence (table_name, fence) VALUES (@recorded, 0);
UPDATE lease_broker_fence SET fence = @fence WHERE table_name = @recorded AND fence < @fence

-- :: read_fence
SELECT @fence = MAX(t.{column}) FROM {table} AS t

-- :: drop_default
SET QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT 10000;
ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {constraint}

-- :: drop_column
SET XACT_ABORT, QUOTED_IDENTIFIER, ANSI_NULLS ON; SET LOCK_TIMEOUT 10000;
BEGIN TRANSACTION;
IF EXISTS (SELECT * FROM sys.columns AS c WHERE c.object_id = OBJECT_ID({table_literal}) AND c.name = {column_literal})
ALTER TABLE {table} DROP COLUMN {column};
DELETE lease_broker_added WHERE table_name = {recorded_table} AND kind = 'column' AND name = {name};
COMMIT TRANSACTION

-- :: held_leases
SELECT COUNT(*) FROM (SELECT TOP (1000) 1 AS one FROM {table} AS t
    WHERE t.{lease_state} = 1 AND t.{lease_due_time} > SYSUTCDATETIME()) AS d
