-- Purpose: take the lease on one row away from its worker.
-- Sections: `read_item` returns the state and the attempts of the row. If the row is leased, `cancel` follows. Both run in the
--   writer's transaction.
-- Parameters: ?1 to ?3 key values; ?4 new due time (ms since 1970, or NULL); ?5 now (ms since 1970); ?6 new state (0 ready,
--   2 delayed, 4 dead); ?7 reason.
-- Locks: the write lock of the file.
-- Indexes: key.
-- Why `cancel` keeps the owner, unlike `expire` in reap.sql: a row without a token that has an owner was cancelled. A heartbeat
--   of the cancelled lease then returns the reason (heartbeat.sql).
-- Why `cancel` clears the token: a late settlement by the worker must find no row.

-- :: read_item
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}, {lease_owner}, {lease_state_time}, {lease_due_time}, {trace_parent},
    {lease_state}
FROM {table}
WHERE {key_match}

-- :: cancel
UPDATE {table}
SET {lease_state} = ?6, {lease_state_time} = ?5, {lease_due_time} = ?4, {lease_token} = NULL, {lease_error} = ?7{mirror_expire}
WHERE {key_match} AND {lease_state} = 1
