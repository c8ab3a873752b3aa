-- Purpose: counts the items of each state, and finds how long the oldest ready item and the oldest lease have been in their
--   state.
-- Sections: `stats`. {can_use_statistics} is 1 = 0 for exact counts, and for a queue without filtered indexes.
-- Parameters: none.
-- Results: state and number of items of each state that has any. Then one row: the server's time, since when the oldest ready
--   item and the oldest lease are in their state, and the milliseconds that the batch took.
-- Locks: S on the rows read. READPAST skips rows that others have locked.
-- Indexes: ready and token (ages). The row counts that the server keeps for all four indexes (numbers of a large table).
-- Why a table of more than 10,000 rows is not counted: the cost must not grow with the table. The server keeps the number of
--   rows of each index, exact except for running transactions. Each state follows from these numbers,
--   which include rows with NULL in a column of the key. Such rows are no items, and the other numbers leave them out.
-- Why the ages look at 2,000 leases, at the first 1,000 ready items in the queue's order and at the last {last_sample}: the same
--   reason. An item that waits behind others all the time is among the last. That sample is empty for a queue without an order.
-- Why a statement of its own for each age: SQL Server may keep the locks on all rows and index entries that a statement reads until
--   it ends, and replaces more than 5,000 by a lock on the table.
-- Why some tables are always counted: Babelfish keeps no row counts of filtered indexes, and without filtered indexes there is
--   no index per state. Exact counts are also for operators who ask for them.
-- Why READCOMMITTEDLOCK: READPAST skips rows only in reads that use locks. Without the hint, a database with
--   READ_COMMITTED_SNAPSHOT on reads row versions instead.

-- :: stats
/* lease-broker stats {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @all bigint, @ready bigint, @due bigint, @leased bigint, @dead bigint;
SELECT @all = SUM(CASE WHEN i.index_id IN (0, 1) THEN p.rows END), @ready = SUM(CASE i.name WHEN {ready_literal} THEN p.rows END),
    @due = SUM(CASE i.name WHEN {due_literal} THEN p.rows END), @leased = SUM(CASE i.name WHEN {token_literal} THEN p.rows END),
    @dead = SUM(CASE i.name WHEN {dead_literal} THEN p.rows END)
FROM sys.partitions AS p INNER JOIN sys.indexes AS i ON i.object_id = p.object_id AND i.index_id = p.index_id
WHERE p.object_id = OBJECT_ID({table_literal});
IF {can_use_statistics} AND @all > 10000 AND SERVERPROPERTY('babelfish') IS NULL
    SELECT v.lb_state, v.lb_n
    FROM (VALUES (0, @ready), (1, @leased), (2, @due - @leased), (3, @all - @ready - @due - @dead), (4, @dead))
        AS v (lb_state, lb_n)
    WHERE v.lb_n > 0;
ELSE
    SELECT t.{lease_state} AS lb_state, COUNT_BIG(*) AS lb_n FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
    WHERE 1 = 1{key_not_null} GROUP BY t.{lease_state};
DECLARE @since_ready datetime2(3), @since_leased datetime2(3);
SELECT @since_ready = MIN(s.lb_since)
FROM (SELECT f.lb_since
    FROM (SELECT TOP (1000) t.{lease_state_time} AS lb_since FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{ready_hint})
        WHERE t.{lease_state} = 0{key_not_null} ORDER BY {pick_order}) AS f
    UNION ALL
    SELECT l.lb_since
    FROM (SELECT TOP ({last_sample}) t.{lease_state_time} AS lb_since FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{ready_hint})
        WHERE t.{lease_state} = 0{key_not_null} ORDER BY {reverse_order}) AS l) AS s
WHERE s.lb_since > '2000-01-01';
SELECT @since_leased = MIN(s.lb_since)
FROM (SELECT TOP (2000) t.{lease_state_time} AS lb_since FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{leased_hint})
    WHERE t.{lease_state} = 1) AS s;
SELECT @now AS lb_now, @since_ready AS lb_ready, @since_leased AS lb_leased, DATEDIFF(MILLISECOND, @now, SYSUTCDATETIME()) AS lb_took;
