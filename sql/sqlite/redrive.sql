-- Purpose: make dead items ready again, with all their attempts, those that died first, up to a limit.
-- Sections: `pick_dead` returns the keys; `redrive` changes one row each.
-- Parameters: ?1 to ?3 key values; ?4 maximum number of rows; ?5 now (ms since 1970).
-- Locks: the write lock of the file.
-- Indexes: dead (pick_dead), key (redrive).
-- Why {redriven_checkpoint}: it is empty, or removes the checkpoint if the operator asks for that.
-- Why `redrive` clears the token: a late settlement of the last lease must find no row.

-- :: pick_dead
SELECT {key}
FROM {table} INDEXED BY {dead_index}
WHERE {lease_state} = 4{key_not_null}
ORDER BY {lease_state_time}
LIMIT ?4

-- :: redrive
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_attempt} = 0{redriven_checkpoint}{mirror_redrive}
WHERE {key_match} AND {lease_state} = 4
