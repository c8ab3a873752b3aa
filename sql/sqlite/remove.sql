-- Purpose: remove from a table the columns and indexes that adopt.sql added and recorded. `schema drop` prints the sections that a
--   table needs, in the order of this file.
-- Sections: `drop_index` drops an index; an adoption that replaces an index runs it too. `keep_fence` keeps the table's highest
--   fencing token. `drop_column` drops a column. Both `drop_…` delete the part's row of the record, in the same transaction.
--   `held_leases` returns the number of leases that are held, up to 1,000. `live_brokers` returns address, version and the time
--   since the last sign of life (ms) of each broker that runs.
-- Parameters: `held_leases`: ?1 now (ms since 1970). `live_brokers`: ?1 now; ?2 time (ms since 1970): brokers seen later run.
--   `drop_…` and `keep_fence` have none: everything is in the text, so that a person can run it.
-- Locks: the write lock of the file, once per step.
-- Indexes: none. `keep_fence` reads the whole table.
-- Why `drop_index` comes before `drop_column`: SQLite does not drop a column that an index uses.
-- Why `keep_fence` comes after {lease_state} was dropped and before {lease_fence} is: no claim can give a higher token in between.

-- :: drop_index
DELETE FROM lease_broker_added WHERE table_name = {recorded_table} AND kind = 'index' AND name = {name};
DROP INDEX {index}

-- :: keep_fence
INSERT INTO lease_broker_fence (table_name, fence)
SELECT {recorded_table}, COALESCE(max({lease_fence}), 0) FROM {table} WHERE true
ON CONFLICT (table_name) DO UPDATE SET fence = max(fence, excluded.fence)

-- :: drop_column
DELETE FROM lease_broker_added WHERE table_name = {recorded_table} AND kind = 'column' AND name = {name};
ALTER TABLE {table} DROP COLUMN {column}

-- :: held_leases
SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {lease_state} = 1 AND {lease_due_time} > ?1 LIMIT 1000)

-- :: live_brokers
SELECT address, version, ?1 - seen_time FROM lease_broker_instance WHERE seen_time > ?2 AND NOT draining
