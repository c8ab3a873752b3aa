-- Purpose: lease ready items to one claim call.
-- Sections: `find_retried_leases` runs first if the call has a request id. It returns the leases that an earlier try of the same
--   call got. If there are none, `pick_ready` returns the items to lease. Then `lease_row` changes each row. If the change can
--   reach data columns, `pick_ready` returns only keys and times, and `read_lease` reads each row back. If a counter of the row
--   is full, `lease_row` changes nothing and `set_full_aside` makes the item dead. In a queue with large items, `pick_ready`
--   returns only keys and times too, `read_size` runs before `lease_row`, and `set_aside` makes an item dead that is larger
--   than any item may be. All run in the writer's transaction. If the queue has suspects, sections of suspects.sql run too.
-- Parameters: ?1 to ?3 key values; ?4 lease token of the call; ?5 now (ms since 1970); ?6 expiry (ms since 1970); ?7 worker id;
--   ?8 maximum number of rows; ?9 error text; ?10 fence of the epoch (epoch.sql).
-- Locks: the write lock of the file. BEGIN IMMEDIATE takes it before the first statement.
-- Indexes: token (find_retried_leases), ready (pick_ready), key (lease_row, read_lease, read_size, set_aside).
-- Why `read_size` runs only in queues with large items: it would make claims of small items slower. The first claim that exceeds
--   its bytes is undone and runs again with `read_size`, and so do all later claims of the queue.
-- Why octet_length: it takes the size from the header of the row and does not read the value.
-- Why the counters have limits: SQLite turns the largest integer plus one into a floating-point number, and the API has 32 bits
--   for an attempt. Another program can have written any value, also a text. A number with a fraction is cut to an integer.
-- Why INDEXED BY: if an index is missing, the statement fails. Without the clause SQLite would scan the whole table instead.
-- Why `lease_row` has no RETURNING: SQLite would run the UPDATE as a statement that it may have to undo. This costs more than
--   `lease_row` and `read_lease` together.
-- Why `read_lease` checks state and token: a trigger can have ended the lease in the same statement, and no worker may get an ended lease.
--   In a table with triggers it runs once more at the end, because the lease of one row can end that of another, or change its expiry.
-- Why {item_columns} can be empty: a mirror column, a trigger or a generated column can change data when the row is leased
--   (`lease_effects.rs`). Otherwise one read of the row is enough.
-- Why several statements, unlike mssql/claim.sql: SQLite has no round trips to save, and only one connection writes at a time.
--   `lease_row` checks the state again all the same.

-- :: find_retried_leases
SELECT {key}, {lease_due_time}, {lease_fence}, {lease_attempt}, {trace_parent}{checkpoint_column}{data_columns}{run_number}
FROM {table} INDEXED BY {token_index}
WHERE {lease_token} = ?4 AND {lease_state} = 1 AND {lease_due_time} > ?5
ORDER BY {queue_order}

-- :: pick_ready
SELECT {key}, {lease_state_time}{item_columns}
FROM {table} INDEXED BY {ready_index}
WHERE {lease_state} = 0{key_not_null}{except_suspects}
{order_by}
LIMIT ?8

-- :: lease_row
UPDATE {table}
SET {lease_state} = 1, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_owner} = ?7, {lease_token} = ?4,
    {lease_fence} = CAST(max({lease_fence}, ?10) AS INTEGER) + 1, {lease_attempt} = CAST({lease_attempt} AS INTEGER) + 1{mirror_leased}
WHERE {key_match} AND {lease_state} = 0 AND {lease_fence} < 9223372036854775807 AND {lease_attempt} < 2147483647

-- :: set_full_aside
UPDATE {table}
SET {lease_state} = 4, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_error} = ?9{mirror_set_aside}
WHERE {key_match} AND {lease_state} = 0
    AND ({lease_fence} < 9223372036854775807 AND {lease_attempt} < 2147483647) IS NOT TRUE

-- :: read_lease
SELECT {key}, {lease_due_time}, {lease_fence}, {lease_attempt}, {trace_parent}{checkpoint_column}{data_columns}
FROM {table}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4

-- :: read_size
SELECT {data_bytes}
FROM {table}
WHERE {key_match}

-- :: set_aside
UPDATE {table}
SET {lease_state} = 4, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_error} = ?9{mirror_set_aside}
WHERE {key_match} AND {lease_state} = 0
