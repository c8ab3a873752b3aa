-- Ends one lease: one of `complete`, `delete`, `fail` and `release`. Runs once per lease, inside the writer's transaction.
-- Parameters: ?1 to ?3 the key's values, ?4 token, ?5 now (ms since 1970), ?6 the new due time (ms or NULL), ?7 fence,
--   ?8 the new state, ?9 the error.
-- Locks: the file's one write lock. Index: the key's.
-- The token and the fence stay on the row, so that the same settlement sent again is known (`settled`): a completion
--   leaves no attempts or the state 3, a failure leaves the attempts, a release leaves no owner.

-- :: complete
UPDATE {table}
SET {lease_state} = ?8, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_error} = NULL,
    {lease_attempt} = CASE ?8 WHEN 3 THEN {lease_attempt} ELSE 0 END{mirror_complete}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: delete
DELETE FROM {table}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: archive
INSERT INTO {archive} ({archive_columns})
SELECT {archive_columns} FROM {table} WHERE {key_match}

-- :: archived
DELETE FROM {table} WHERE {key_match}

-- :: fail
UPDATE {table}
SET {lease_state} = ?8, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_error} = ?9{mirror_fail}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: release
UPDATE {table}
SET {lease_state} = ?8, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_owner} = NULL,
    {lease_attempt} = {lease_attempt} - 1{mirror_release}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: settled
SELECT {lease_state}, {lease_attempt}, {lease_owner} IS NULL
FROM {table}
WHERE {key_match} AND {lease_state} <> 1 AND {lease_token} = ?4 AND {lease_fence} = ?7
