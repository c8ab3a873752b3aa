-- Purpose: count the items of each state, find the item that has been ready longest and the lease that has been held longest.
-- Sections: `count_all` counts exactly, if an operator asks for it. The others have a limit: `count_state` and `count_due`
--   count the entries of an index, `…_over_limit` looks for an entry beyond the limit, `…_in_sample` counts among the first
--   rows of several states, `oldest_…` finds the ages.
-- Parameters: ?1 the limit: maximum number of rows to count, or the size of the sample.
-- Locks: none; a read in WAL mode does not wait for a writer. All sections but `count_all` run in one read transaction, so that
--   they see the same data.
-- Indexes: `count_state` uses the index of the state (ready, token, due or dead). No filtered index holds only delayed items.
--   Their number is the result of `count_due` minus the number of leases. If there are too many leases to count, delayed items
--   are counted in a sample of the due index. No filtered index holds completed items either, so they are counted in a sample of
--   the table. If the indexes are not filtered, `count_state` uses the due index for both states. A count that uses an index
--   reads no row of the table, unless a column of the key can be NULL and is not in the index: rows with NULL there are no items.
-- Why `…_over_limit` runs first: it skips ?1 entries, which costs less than to count them. The count runs only if it finds no
--   row, so no count reads more than the limit.
-- Why every section but `count_all` has a limit: the cost must not grow with the table. `oldest_ready` looks at the first 1000
--   ready items in the queue's order, and at the last {last_sample}: an item that waits behind others all the time is among
--   them. The last sample is empty for a queue without an order. `oldest_lease` looks at 10000 leases. `count_all` reads the
--   whole table.
-- Why so many sections, unlike mssql/stats.sql: SQL Server stores the number of entries of each index, SQLite does not.

-- :: count_all
SELECT {lease_state}, count(*) FROM {table} WHERE 1 = 1{key_not_null} GROUP BY {lease_state}

-- :: count_state
SELECT count(*) FROM {table} INDEXED BY {state_index} WHERE {lease_state} = {state}{key_not_null}

-- :: state_over_limit
SELECT 1 FROM {table} INDEXED BY {state_index} WHERE {lease_state} = {state}{key_not_null} LIMIT 1 OFFSET ?1

-- :: count_due
SELECT count(*) FROM {table} INDEXED BY {due_index} WHERE {lease_state} IN (1, 2){key_not_null}

-- :: due_over_limit
SELECT 1 FROM {table} INDEXED BY {due_index} WHERE {lease_state} IN (1, 2){key_not_null} LIMIT 1 OFFSET ?1

-- :: delayed_in_sample
SELECT count(*), count(CASE lb_state WHEN 2 THEN 1 END)
FROM (SELECT {lease_state} AS lb_state FROM {table} INDEXED BY {due_index} WHERE {lease_state} IN (1, 2){key_not_null}
    ORDER BY {lease_due_time} DESC LIMIT ?1)

-- :: completed_in_sample
SELECT count(*), count(CASE lb_state WHEN 3 THEN 1 END)
FROM (SELECT {lease_state} AS lb_state FROM {table} NOT INDEXED WHERE 1 = 1{key_not_null} LIMIT ?1)

-- :: oldest_ready
SELECT min(lb_since)
FROM (SELECT lb_since
    FROM (SELECT {lease_state_time} AS lb_since FROM {table} INDEXED BY {ready_index} WHERE {lease_state} = 0{key_not_null}
        {order_by} LIMIT 1000)
    UNION ALL
    SELECT lb_since
    FROM (SELECT {lease_state_time} AS lb_since FROM {table} INDEXED BY {ready_index} WHERE {lease_state} = 0{key_not_null}
        {reverse_order_by} LIMIT {last_sample}))
WHERE lb_since > 0

-- :: oldest_lease
SELECT min(lb_since)
FROM (SELECT {lease_state_time} AS lb_since FROM {table} INDEXED BY {state_index} WHERE {lease_state} = 1 LIMIT 10000)
