-- Purpose: remove from a table the columns and indexes that adopt.sql added and recorded. `schema drop` prints the sections that a
--   table needs, in the order of this file, as one transaction.
-- Sections: `drop_index` drops an index; an adoption that replaces an index runs it too. `keep_fence` keeps the table's highest
--   fencing token; an adoption that finds tokens without states runs it too. `drop_column` drops a column. Both `drop_…` then delete
--   the part's row of the record.
--   `held_leases` returns the number of leases that are held, up to 1,000.
-- Parameters: `held_leases`: ?1 now (ms since 1970).
--   `drop_…` and `keep_fence` have none: everything is in the text, so that a person can run it.
-- Locks: the write lock of the file, once for all sections.
-- Indexes: none. `keep_fence` reads the whole table.
-- Why `drop_index` comes before `drop_column`: SQLite does not drop a column that an index uses.
-- Why one transaction: without its column {lease_state}, a table does not show which items are completed. SQLite also refuses to drop
--   a column while a view or a trigger of the file does not compile, or uses the column.
-- Why the record is deleted last, and only if the part is gone: the sqlite3 program goes on after an error, and commits.

-- :: drop_index
DROP INDEX {index};
DELETE FROM lease_broker_added WHERE table_name = {recorded_table} AND kind = 'index' AND name = {name}
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.type = 'index' AND s.name = {name} COLLATE NOCASE)

-- :: keep_fence
INSERT INTO lease_broker_fence (table_name, fence)
SELECT {recorded_table}, COALESCE(max({lease_fence}), 0) FROM {table} WHERE true
ON CONFLICT (table_name) DO UPDATE SET fence = max(fence, excluded.fence)

-- :: drop_column
ALTER TABLE {table} DROP COLUMN {column};
DELETE FROM lease_broker_added WHERE table_name = {recorded_table} AND kind = 'column' AND name = {name}
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo({recorded_table}) AS c WHERE c.name = {name} COLLATE NOCASE)

-- :: held_leases
SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {lease_state} = 1 AND {lease_due_time} > ?1 LIMIT 1000)
