-- Makes dead items ready, with all their attempts before them. The token goes too: a settlement of the lease that they
-- died by must find nothing.
-- Parameters: ?1 to ?3 the key's values, ?4 the most rows, ?5 now (ms since 1970).
-- Locks: the file's one write lock. Indexes: dead (pick), the key's (redrive).

-- :: pick
SELECT {key}
FROM {table} INDEXED BY {dead_index}
WHERE {lease_state} = 4{key_present}
ORDER BY {lease_state_time}
LIMIT ?4

-- :: redrive
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_attempt} = 0{mirror_redrive}
WHERE {key_match} AND {lease_state} = 4
