-- Purpose: add one item to the table and return its key.
-- Sections: `insert` runs once per item, in the writer's transaction. A completion's follow-up items use it too.
-- Parameters: ?1 state (0 ready, 2 delayed); ?2 now (ms since 1970); ?3 due time (ms since 1970; NULL if ready); ?4 trace
--   context; ?5 and following: the values of the columns that the item sets.
-- Locks: the write lock of the file.
-- Why {returning_key} is empty if the key is the rowid: the connection knows the rowid of the row that it inserted last.
--   RETURNING would make SQLite build a table for the result of each row, which takes longer than the rest of the insert.

-- :: insert
INSERT INTO {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
VALUES (?1, ?2, ?3, ?4{item_values}{mirror_values})
{returning_key}
