-- Purpose: keep the trace of a lease in its row, so that the item's next lease continues it.
-- Sections: `note_trace` stores a trace context. `find_expired_untraced` and `find_leased_untraced` return leases whose rows have
--   none: expired ones, and that of one row. The broker makes their contexts, which depend on its secret.
-- Parameters: ?1 to ?3 key values; ?4 lease token (note_trace), or maximum number of rows (find_expired_untraced); ?5 now (ms since
--   1970); ?6 trace context; ?7 fencing token.
-- Locks: the write lock of the file (note_trace); none (the others, which only read).
-- Indexes: the key (note_trace, find_leased_untraced), due (find_expired_untraced).
-- Why before the lease ends, and not with it: most leases need no note. The statement that ends a lease stays as it is for them.
-- Why also for expired leases: the reaper has not ended them, so no worker can have the item again.
-- Why IS NULL: a text that a producer has stored stays, even if it is no valid trace context.

-- :: note_trace
UPDATE {table}
SET {trace_parent} = ?6
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {trace_parent} IS NULL

-- :: find_expired_untraced
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}
FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_due_time} <= ?5 AND {lease_state} = 1 AND {trace_parent} IS NULL
ORDER BY {lease_due_time}
LIMIT ?4

-- :: find_leased_untraced
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}
FROM {table}
WHERE {key_match} AND {lease_state} = 1 AND {trace_parent} IS NULL
