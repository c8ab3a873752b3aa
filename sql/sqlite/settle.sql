-- Purpose: end one lease: complete, fail or release its item.
-- Sections: `find_owner` runs first if the span of the lease is recorded, to show the worker. One of `complete`, `delete`, `fail` and `release` then runs, and changes no row if the lease was lost. If a queue
--   archives its completed items, `copy_to_archive` and `delete_archived` follow `complete`. If one of them changes no row, because a
--   trigger or ON CONFLICT IGNORE ignores it, the settlement is refused and undone. If no row was changed by the first statement,
--   `find_earlier_settlement` reads the row. It returns 1 and the row's state if the lease has ended, 0 or NULL if the row has
--   another lease, and no row if there is none with this key. All run in the writer's transaction.
-- Parameters: ?1 to ?3 key values; ?4 lease token; ?5 now (ms since 1970); ?6 new due time (ms since 1970, or NULL);
--   ?7 fencing token; ?8 new state; ?9 error text. From ?10: the values of the columns in {written_columns}, which a
--   completion or a failure writes into the row, and then the checkpoint of a failure or a release. Without them the placeholder
--   is empty.
-- Locks: the write lock of the file.
-- Indexes: key.
-- Why token and fence stay on the row: the same settlement sent again must be recognized. The row tells which kind of
--   settlement ended the lease: a completion leaves state 3 or sets the attempts to 0, a failure leaves at least one attempt
--   and the owner, a release clears the owner.
-- Why `find_owner` and no RETURNING: only recorded leases need the worker, and a release has removed it from the row.
-- Why {clear_trace}: an item of a recurring queue is completed again and again. Each run gets a trace of its own.

-- :: find_owner
SELECT {lease_owner} FROM {table} WHERE {key_match}

-- :: complete
UPDATE {table}
SET {lease_state} = ?8, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_error} = NULL,
    {lease_attempt} = CASE ?8 WHEN 3 THEN {lease_attempt} ELSE 0 END{clear_checkpoint}{clear_trace}{written_columns}{mirror_complete}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: delete
DELETE FROM {table}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: copy_to_archive
INSERT INTO {archive} ({archive_columns})
SELECT {archive_columns} FROM {table} WHERE {key_match}

-- :: delete_archived
DELETE FROM {table} WHERE {key_match}

-- :: fail
UPDATE {table}
SET {lease_state} = ?8, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_error} = ?9{written_columns}{mirror_fail}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: release
UPDATE {table}
SET {lease_state} = ?8, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_owner} = NULL,
    {lease_attempt} = {lease_attempt} - 1{written_columns}{mirror_release}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?7 AND {lease_due_time} > ?5

-- :: find_earlier_settlement
SELECT {lease_state} <> 1 AND {lease_token} = ?4 AND {lease_fence} = ?7, {lease_state}, {lease_attempt}, {lease_owner} IS NULL
FROM {table}
WHERE {key_match}
