-- Makes one lease last until a new expiry, if it is still held. Runs once per lease, inside the writer's transaction.
-- Parameters: ?1 to ?3 the key's values, ?4 token, ?5 now (ms since 1970), ?6 the new expiry (ms), ?7 fence.
-- Locks: the file's one write lock. Index: the key's.

-- :: extend
UPDATE {table}
SET {lease_due_time} = ?6
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5
