-- Purpose: end expired leases and make delayed items ready whose due time has come, those due longest first, up to a limit.
--   Then return the next due time.
-- Sections: `find_due` returns the rows. For each, `expire` ends a lease or `promote` makes a delayed item ready, in a savepoint. If a
--   constraint or a trigger refuses rows, `find_due` runs again for those behind them. `next_due`
--   returns the earliest due time that is left, rounded up, or no row. `remember` and `forget` of suspects.sql run too, if leases have expired.
-- Parameters: ?1 to ?3 key values; ?4 maximum number of rows; ?5 now (ms since 1970); ?6 new state (0 ready, 4 dead);
--   ?7 error text; ?8 fencing token; ?9 1 to give the attempt back, otherwise 0. In `next_due`, ?5 is the time after which the due time is:
--   now if rows were refused, otherwise the smallest number.
-- Locks: the write lock of the file.
-- Indexes: due (find_due, next_due), key (expire, promote).
-- Why `expire` clears the token: a late settlement by the worker that lost the lease must find no row.
-- Why `next_due` has an upper bound: another program can have written a text, which is greater than all numbers and never due.
-- Why `promote` keeps the token: if a settlement delayed the item, the same settlement sent again must still be recognized.

-- :: find_due
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}, {lease_owner}, {lease_state_time}, {lease_due_time}, {trace_parent},
    {lease_state}
FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_due_time} <= ?5
ORDER BY {lease_due_time}
LIMIT ?4

-- :: expire
UPDATE {table}
SET {lease_state} = ?6, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_error} = ?7, {lease_attempt} = {lease_attempt} - ?9{mirror_expire}
WHERE {key_match} AND {lease_state} = 1 AND {lease_fence} = ?8

-- :: promote
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL{mirror_promote}
WHERE {key_match} AND {lease_state} = 2 AND {lease_fence} = ?8

-- :: next_due
SELECT CAST({lease_due_time} AS INTEGER) + ({lease_due_time} > CAST({lease_due_time} AS INTEGER))
FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_due_time} > ?5 AND {lease_due_time} < 9223372036854775807
ORDER BY {lease_due_time}
LIMIT 1
