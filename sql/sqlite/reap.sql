-- Ends expired leases and makes delayed items ready, the longest due first, up to a limit.
-- Parameters: ?1 to ?3 the key's values, ?4 the most rows, ?5 now (ms since 1970), ?6 the new state, ?7 the error,
--   ?8 fence.
-- Locks: the file's one write lock. Indexes: due (due, next), the key's (expire, promote).
-- Expiry clears the token, so that the late worker's settlement finds nothing; promotion keeps it, so that a failure
-- or release sent again is still known.

-- :: due
SELECT {key}, {lease_state}, {lease_attempt}, {lease_fence}, {lease_token}, {lease_owner}
FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_due_time} <= ?5
ORDER BY {lease_due_time}
LIMIT ?4

-- :: expire
UPDATE {table}
SET {lease_state} = ?6, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_error} = ?7{mirror_expire}
WHERE {key_match} AND {lease_state} = 1 AND {lease_fence} = ?8

-- :: promote
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL{mirror_promote}
WHERE {key_match} AND {lease_state} = 2 AND {lease_fence} = ?8

-- :: next
SELECT {lease_due_time}
FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_due_time} > -9223372036854775808
ORDER BY {lease_due_time}
LIMIT 1
