-- Purpose: release every lease that one claim call got and that is still held. The caller of the claim did not get the lease ids.
-- Sections: for each claim `find_claim` returns its leases, and `release_claim` releases each, in the writer's transaction.
-- Parameters: ?1 to ?3 key values; ?4 lease token of the claim; ?5 now (ms since 1970).
-- Locks: the write lock of the file.
-- Indexes: token (find_claim), key (release_claim).
-- Why one statement for each lease: a constraint or a trigger can refuse the change of a row. The others are released all the same.
-- Why INDEXED BY: if the index is missing, the statement fails. Without the clause SQLite would scan the whole table instead.

-- :: find_claim
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}, {lease_owner}, {lease_state_time}, {lease_due_time}, {trace_parent}
FROM {table} INDEXED BY {token_index}
WHERE {lease_token} = ?4 AND {lease_state} = 1 AND {lease_due_time} > ?5

-- :: release_claim
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL,
    {lease_attempt} = {lease_attempt} - 1{mirror_ready}
WHERE {key_match} AND {lease_state} = 1
