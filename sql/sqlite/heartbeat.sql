-- Purpose: extend one lease, if the caller still holds it.
-- Sections: `extend` runs once per lease. It changes no row if the lease was lost. `read_lost` then returns the state of the row, and
--   the reason if the lease was cancelled. `find_held` returns the expiry if the lease is held all the same: then the table has ignored
--   the change. It also runs after a settlement (settle.sql) that has changed no row, and in a table with triggers at the end, for each
--   extended lease. All run in the writer's transaction.
-- Parameters: ?1 to ?3 key values; ?4 lease token; ?5 now (ms since 1970); ?6 new expiry (ms since 1970); ?7 fencing token; ?8 the checkpoint, if the renewal
--   has one (BLOB, or NULL to remove the stored one). {written_checkpoint} is empty otherwise.
-- Locks: the write lock of the file.
-- Indexes: key.
-- Why `find_held`: a trigger with RAISE(IGNORE) leaves the row as it is, without an error. The lease must not count as lost.
--   Another trigger can change the due time in the same statement, also that of another row. The answer must not promise more time than the
--   row has, because two workers would hold the item then. RETURNING does not see the changes of a trigger.
-- Why a row with the fence, an owner and no token: only cancel.sql leaves it so. The next claim changes the fence.

-- :: extend
UPDATE {table}
SET {lease_due_time} = ?6{written_checkpoint}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: read_lost
SELECT {lease_state},
    CASE WHEN {lease_fence} = ?7 AND {lease_token} IS NULL AND {lease_owner} IS NOT NULL THEN {lease_error} END
FROM {table}
WHERE {key_match}

-- :: find_held
SELECT {lease_due_time}
FROM {table}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5
