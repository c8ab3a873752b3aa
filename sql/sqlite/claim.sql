-- Leases ready items to one call. Runs once per call, inside the writer's transaction: `held` first, if the call names a
-- request id; `pick` finds the keys; `take` leases each, and `leased` reads it. (RETURNING would have the update run as one
-- that may have to be undone, which costs more than both.)
-- Parameters: ?1 to ?3 the key's values, ?4 the call's token, ?5 now (ms since 1970), ?6 expiry (ms), ?7 the worker,
--   ?8 the most rows.
-- Locks: the file's one write lock, taken by BEGIN IMMEDIATE before the first statement.
-- Indexes: token (held), ready (pick), the key (take, leased). INDEXED BY makes a missing index an error, and never a scan of
--   the table.
-- Unlike its twin: several statements, as there is no round trip to save and one writer at a time; the predicate on the
--   state is repeated in `take` all the same.

-- :: held
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_due_time}, {trace_parent}{columns}
FROM {table} INDEXED BY {token_index}
WHERE {lease_token} = ?4 AND {lease_state} = 1 AND {lease_due_time} > ?5
ORDER BY {held_order}

-- :: pick
SELECT {key}
FROM {table} INDEXED BY {ready_index}
WHERE {lease_state} = 0{key_present}
{order_by}
LIMIT ?8

-- :: take
UPDATE {table}
SET {lease_state} = 1, {lease_state_time} = ?5, {lease_due_time} = ?6, {lease_owner} = ?7, {lease_token} = ?4,
    {lease_fence} = {lease_fence} + 1, {lease_attempt} = {lease_attempt} + 1{mirror_leased}
WHERE {key_match} AND {lease_state} = 0

-- :: leased
SELECT {key}, {lease_fence}, {lease_attempt}, {lease_due_time}, {trace_parent}{columns}
FROM {table}
WHERE {key_match}
