-- Counts the items of each state and finds the longest-ready item and the longest-held lease.
-- Parameters: none. Locks: none (a read in WAL mode).
-- Reads the whole table for the counts: it runs when somebody asks, never on the way of a claim.

-- :: counts
SELECT {lease_state}, count(*) FROM {table} GROUP BY {lease_state}

-- :: oldest_ready
SELECT min({lease_state_time}) FROM {table} INDEXED BY {ready_index} WHERE {lease_state} = 0 AND {lease_state_time} > 0

-- :: oldest_lease
SELECT min({lease_state_time}) FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_state} = 1 AND {lease_due_time} > -9223372036854775808
