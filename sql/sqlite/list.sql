-- Lists items of one state, the longest in it first.
-- Parameters: ?1 the state, ?2 the most rows. Locks: none (a read in WAL mode).

-- :: list
SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
FROM {table}
WHERE {lease_state} = ?1
ORDER BY {lease_state_time}, {key}
LIMIT ?2
