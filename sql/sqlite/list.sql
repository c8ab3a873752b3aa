-- Lists items of one state, the longest in it first. The state is a literal, so that the index of its rows is used.
-- Parameter: ?1 the most rows. Locks: none (a read in WAL mode).
-- Indexes: dead for the dead, which it sorts too. Ready, leased and delayed items are sorted, but of more than 10000 (or of
--   more than are asked for) only the first of the state's index: ready items in the queue's order, leases by token, delayed
--   items by due time, where the leases that are due before them are looked at too. Completed items have no index: the whole
--   table is read, and they are sorted. It runs by hand.

-- :: first
SELECT *
FROM (SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
    FROM {table} INDEXED BY {state_index}
    WHERE {lease_state} {index_holds} AND {lease_state} = {state}
    LIMIT max(?1, 10000))
ORDER BY {lease_state_time}, {key}
LIMIT ?1

-- :: dead
SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
FROM {table} INDEXED BY {dead_index}
WHERE {lease_state} = 4
ORDER BY {lease_state_time}
LIMIT ?1

-- :: completed
SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
FROM {table}
WHERE {lease_state} = 3
ORDER BY {lease_state_time}, {key}
LIMIT ?1
