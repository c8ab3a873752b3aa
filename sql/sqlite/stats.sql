-- Counts the items of each state and finds the longest-ready item and the longest-held lease.
-- Parameters: ?1 the most rows to count or to look at. Locks: none (reads of one moment, in WAL mode).
-- Indexes: each state's own (of_state): ready, token, due, dead; and due, whose entries less the leases are the delayed.
--   None has entries of the completed, nor ones of the delayed alone, unless indexes are not filtered; then the due index
--   counts them too. No row of the table is read for a state that an index counts.
-- `beyond` finds a row past the most first: to skip rows costs less than to count them, and no more are counted than that.
-- The cost does not grow with the table: what is counted is limited, and the ages are those of the first 1000 ready items in
--   the queue's order and of 10000 leases. But `all`, which runs when somebody asks for it, reads the whole table.
-- Unlike its twin: the server keeps numbers of its indexes, and SQLite does not.

-- :: all
SELECT {lease_state}, count(*) FROM {table} GROUP BY {lease_state}

-- :: of_state
SELECT count(*) FROM {table} INDEXED BY {state_index} WHERE {lease_state} = {state}

-- :: of_state_beyond
SELECT 1 FROM {table} INDEXED BY {state_index} WHERE {lease_state} = {state} LIMIT 1 OFFSET ?1

-- :: due
SELECT count(*) FROM {table} INDEXED BY {due_index} WHERE {lease_state} IN (1, 2)

-- :: due_beyond
SELECT 1 FROM {table} INDEXED BY {due_index} WHERE {lease_state} IN (1, 2) LIMIT 1 OFFSET ?1

-- :: delayed_among
SELECT count(*), count(CASE lb_state WHEN 2 THEN 1 END)
FROM (SELECT {lease_state} AS lb_state FROM {table} INDEXED BY {due_index} WHERE {lease_state} IN (1, 2)
    ORDER BY {lease_due_time} DESC LIMIT ?1)

-- :: completed_among
SELECT count(*), count(CASE lb_state WHEN 3 THEN 1 END)
FROM (SELECT {lease_state} AS lb_state FROM {table} NOT INDEXED LIMIT ?1)

-- :: oldest_ready
SELECT min(lb_since)
FROM (SELECT {lease_state_time} AS lb_since FROM {table} INDEXED BY {ready_index} WHERE {lease_state} = 0
    {order_by} LIMIT 1000)
WHERE lb_since > 0

-- :: oldest_lease
SELECT min(lb_since)
FROM (SELECT {lease_state_time} AS lb_since FROM {table} INDEXED BY {state_index} WHERE {lease_state} = 1 LIMIT 10000)
