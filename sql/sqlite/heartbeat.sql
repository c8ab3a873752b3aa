-- Purpose: extend one lease, if the caller still holds it.
-- Sections: `extend` runs once per lease, in the writer's transaction. It changes no row if the lease was lost.
-- Parameters: ?1 to ?3 key values; ?4 lease token; ?5 now (ms since 1970); ?6 new expiry (ms since 1970); ?7 fencing token.
-- Locks: the write lock of the file.
-- Indexes: key.

-- :: extend
UPDATE {table}
SET {lease_due_time} = ?6
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5
