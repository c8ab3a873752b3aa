-- Adds one item. Runs once per item, inside the writer's transaction.
-- Parameters: ?1 the state (0 or 2), ?2 now (ms since 1970), ?3 the due time (ms or NULL), ?4 trace context, ?5 and on
--   the values of the columns that the item names.
-- Locks: the file's one write lock.

-- :: insert
INSERT INTO {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
VALUES (?1, ?2, ?3, ?4{named_values}{mirror_values})
RETURNING {key}
