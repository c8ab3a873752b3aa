-- Counts the items of each state, and finds the ready item and the lease that have been so longest.
-- Parameters: none. Locks: S on the rows read; rows that others hold are skipped, for which READ_COMMITTED_SNAPSHOT has to be
--   overruled (READCOMMITTEDLOCK).
-- A table of up to 10000 rows is counted. Of a deeper one the numbers are those that the server keeps of each index (exact
--   but for transactions under way), and the ages those of the first 1000 ready items in the queue's order and of 10000
--   leases: the cost does not grow with the table. Babelfish keeps no numbers of filtered indexes, nor has a queue without
--   filtered indexes any: there the table is always counted, as it is for who asks for exact numbers.

-- :: stats
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
    SELECT t.{lease_state} AS lb_state, COUNT_BIG(*) AS lb_n FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST) GROUP BY t.{lease_state};
SELECT @now AS lb_now,
    (SELECT MIN(s.lb_since)
        FROM (SELECT TOP (1000) t.{lease_state_time} AS lb_since FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST{ready_hint})
            WHERE t.{lease_state} = 0 ORDER BY {pick_order}) AS s
        WHERE s.lb_since > '2000-01-01') AS lb_ready,
    (SELECT MIN(s.lb_since)
        FROM (SELECT TOP (10000) t.{lease_state_time} AS lb_since FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST{token_hint})
            WHERE t.{lease_state} = 1) AS s) AS lb_leased;
