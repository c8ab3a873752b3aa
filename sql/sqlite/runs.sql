-- Purpose: end the leases of a run. One claim leases consecutive items of a group together; these are a run. They have one lease token.
-- Sections: `find_run` returns the leases of the run of one item, in their order, and whether each is the item. `find_first` tells whether
--   a lease that is held is the first of its run. `release_later` releases one lease of a run. All run in the writer's transaction:
--   the first two before the statement that ends the lease of the item, the last after it. `run_number` is a column of
--   `find_retried_leases` (claim.sql): leases of one run have the same number, and items without a group have 0.
-- Parameters: ?1 to ?3 key values. `find_first` and `release_later`: ?4 lease token; ?5 now (ms since 1970); ?6 fencing token.
-- Locks: the write lock of the file.
-- Indexes: key, busy (`find_run`, `find_first`). Without filtered indexes the group index serves for the busy one.
-- Why a run needs no column of its own: a group has the leases of one claim at most, and a claim gives all its leases one token.
-- Why the token and the fence stay on the row: after a release they do too (settle.sql). A late release of the lease is recognized, and
--   any other late settlement of it changes nothing.

-- :: find_run
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_token}, {lease_owner}, {lease_state_time}, {lease_due_time}, {trace_parent},
    {key_match}
FROM {table} AS b INDEXED BY {busy_index}
WHERE {busy_states} AND b.{lease_state} = 1 AND b.{group} = (SELECT {group} FROM {table} WHERE {key_match} AND {lease_state} = 1)
    AND b.{lease_token} = (SELECT {lease_token} FROM {table} WHERE {key_match} AND {lease_state} = 1)
ORDER BY {group_order}

-- :: find_first
SELECT {key_match}
FROM {table} AS b INDEXED BY {busy_index}
WHERE {busy_states} AND b.{lease_state} = 1 AND b.{lease_token} = ?4
    AND b.{group} = (SELECT {group} FROM {table} WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?6
        AND {lease_due_time} > ?5)
ORDER BY {group_order}
LIMIT 1

-- :: release_later
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL,
    {lease_attempt} = {lease_attempt} - 1{mirror_ready}
WHERE {key_match} AND {lease_state} = 1 AND {lease_token} = ?4 AND {lease_fence} = ?6

-- :: run_number
, CASE WHEN {group} IS NULL THEN 0 ELSE dense_rank() OVER (ORDER BY {group} NULLS LAST) END
