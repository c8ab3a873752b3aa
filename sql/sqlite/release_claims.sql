-- Purpose: release every lease that one claim call got and that is still held. The caller of the claim did not get the lease ids.
-- Sections: for each claim `find_claim` returns its leases, and `release_claim` releases them, in the writer's transaction.
-- Parameters: ?4 lease token of the claim; ?5 now (ms since 1970).
-- Locks: the write lock of the file.
-- Indexes: token.
-- Why INDEXED BY: if the index is missing, the statement fails. Without the clause SQLite would scan the whole table instead.

-- :: find_claim
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}, {lease_owner}, {lease_state_time}, {lease_due_time}, {trace_parent}
FROM {table} INDEXED BY {token_index}
WHERE {lease_token} = ?4 AND {lease_state} = 1 AND {lease_due_time} > ?5

-- :: release_claim
UPDATE {table} INDEXED BY {token_index}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL,
    {lease_attempt} = {lease_attempt} - 1{mirror_ready}
WHERE {lease_token} = ?4 AND {lease_state} = 1 AND {lease_due_time} > ?5
