-- Purpose: finds out why an item is not being claimed. Operators run it by hand. A login with SELECT on the table is enough.
-- Sections: `facts` is one batch: the row, a test for locks, the place of the item among the ready ones, and the brokers. If the test
--   finds a lock, `wait` waits for it on one session, and `find_blocker` asks on another session which session holds it.
--   `same_group` is a condition of the
--   place in a queue with groups, and `item_group` returns the group. `limits` is a batch for a queue with groups or limits. The state
--   of the group comes from group_list.sql. `wait_by_update` does the same as `wait` on Babelfish, which ignores lock hints; it needs UPDATE.
-- Parameters: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of keys, 1, or 0 if no row can have the key.
--   @P6: JSON array with the key, {i: 0, k1 to k3}. @P7: maximum number of ready items to read. @P8: the time without an
--   announcement after which a broker no longer counts as running, in seconds. `find_blocker`: @P1: the session that waits.
-- Results of `facts`: 1. the server's time, and 1 if no row was found and some row has NULL in the key. 2. The row. 3. The fence of
--   the row, or no row if a transaction has locked it. 4. The position of the item among the ready items that were read, from 1 or
--   NULL, and their number. In a queue with groups: the item's group. 5. The brokers, as in instance.sql. Without the table, or if the login may not see it, there is no
--   fifth result.
-- Results of `limits`: the limit of leases; items, microseconds and burst of the rate, and its arrival (groups.sql); the clock in the
--   unit of the arrival; the number of leases, up to the limit. NULL: there is no limit, or the login may not see it.
-- Results of `find_blocker`: the blocking session, its login, host and program, and the seconds since its last request began. The
--   blocking session is below 0 if no session holds the lock, for example because of an orphaned distributed transaction.
-- Locks: none on the row in `facts`, then X on it, which ends with the statement; READPAST skips it if it is locked. S on the ready
--   rows that are read; READPAST skips those that others have locked. `wait`: X on the row, for an instant, after a wait of at most
--   1 s. `wait_by_update`: the same, in a transaction that is rolled back.
-- Indexes: the key's (row, locks); ready (place). A search for NULL in the key reads the whole table if no index begins with the
--   column.
-- Why READUNCOMMITTED: the row can be locked, and the operator needs its values all the same. They can be those of a transaction that
--   is rolled back later.
-- Why XLOCK: claims skip a row with any lock that conflicts with their U lock, and wait for the locks of readers before the
--   update. X conflicts with all of these. A SELECT with XLOCK needs no other right than SELECT.
-- Why the test reads {lease_fence}: SQL Server may lock only the key of an index that has all the columns that are read.
-- Why `wait` has a wait, and `facts` none: the locks of brokers last milliseconds. A lock that lasts 1 s belongs to another program,
--   or to a broker that hangs.
-- Why `find_blocker` asks for a waiting session: sys.dm_exec_requests tells who blocks it, with any kind of lock. sys.dm_tran_locks
--   would need the hash of the row's key. Both show other sessions only with VIEW SERVER STATE, or VIEW DATABASE STATE on Azure SQL
--   Database. Babelfish lacks both.
-- Why the ready items are read as in claim.sql, with the same hint, conditions and order: the place must be that of a claim.
-- Why {same_group}: only the items of its own group come before an item. Groups take turns.
-- Why OBJECT_ID: a statement on a table that does not exist would fail, and with it the batch.
-- Why {key_list}, FORCE ORDER and the other hints: see cancel.sql and leases.sql.

-- :: facts
/* lease-broker why {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @null_keys int = 0, @found int;
DECLARE @ready TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations});
SELECT @found = COUNT(*)
FROM {key_list}
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
IF @found = 0
    SET @null_keys = (SELECT COUNT(*) FROM (SELECT TOP (1) 1 AS lb_n FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK) WHERE {key_is_null}) AS n);
SELECT @now AS lb_now, @null_keys AS lb_n;
SELECT CONVERT(int, t.{lease_state}) AS lb_state, t.{lease_owner} AS lb_w, t.{lease_state_time} AS lb_since, t.{lease_due_time} AS lb_due,
    t.{lease_attempt} AS lb_a, t.{lease_fence} AS lb_f, t.{lease_error} AS lb_error,
    CASE WHEN t.{lease_token} IS NULL THEN 1 ELSE 0 END AS lb_n
FROM {key_list}
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
SELECT t.{lease_fence} AS lb_f
FROM {key_list}
    INNER JOIN {table} AS t WITH (XLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK{key_hint}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
INSERT @ready (lb_p, {key_names})
SELECT TOP (@P7) ROW_NUMBER() OVER (ORDER BY {pick_order}), {t_key_columns}
FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK{ready_hint})
WHERE t.{lease_state} = 0{key_not_null}{same_group}
ORDER BY {pick_order}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P7 = 1));
SELECT MIN(d.lb_p) AS lb_p, (SELECT COUNT(*) FROM @ready) AS lb_n
FROM {key_list}
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_list_on_key}
    INNER JOIN @ready AS d ON {join_due_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
{item_group}IF OBJECT_ID(N'lease_broker_instance') IS NOT NULL
    SELECT CONVERT(nvarchar(36), i.id) AS lb_id, CONVERT(nvarchar(64), i.version) AS lb_version, i.address AS lb_address,
        CONVERT(int, i.draining) AS lb_n, i.settings AS lb_settings, i.activity AS lb_activity
    FROM lease_broker_instance AS i
    WHERE i.seen_time > DATEADD(second, -@P8, @now) AND i.seen_time < DATEADD(second, @P8, @now);

-- :: item_group
SELECT t.{group} AS lb_group
FROM {key_list}
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));

-- :: limits
/* lease-broker why {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @max_leases bigint, @rate_items bigint, @rate_micros bigint, @rate_burst bigint, @arrival bigint;
IF OBJECT_ID(N'lease_broker_queue') IS NOT NULL
    SELECT @max_leases = q.max_leases, @rate_items = q.rate_items, @rate_micros = q.rate_micros, @rate_burst = q.rate_burst,
        @arrival = q.arrival
    FROM lease_broker_queue AS q
    WHERE q.queue = {queue_literal};
SELECT @max_leases AS lb_max, @rate_items AS lb_items, @rate_micros AS lb_micros, @rate_burst AS lb_burst, @arrival AS lb_arrival,
    DATEDIFF_BIG(microsecond, '2000-01-01', SYSUTCDATETIME()) AS lb_clock,
    (SELECT COUNT(*) FROM (SELECT TOP (COALESCE(@max_leases, 0)) 1 AS lb_one FROM {table} AS b WITH (READUNCOMMITTED{leased_hint})
            WHERE b.{lease_state} = 1) AS c) AS lb_n;

-- :: same_group
AND EXISTS (SELECT g.lb_group FROM (SELECT t.{group} AS lb_group FROM {key_list} INNER JOIN {table} AS t ON {join_list_on_key}) AS g
        INTERSECT SELECT t.{group})

-- :: wait
/* lease-broker why {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCK_TIMEOUT 1000;
SELECT t.{lease_fence} AS lb_f
FROM {key_list}
    INNER JOIN {table} AS t WITH (XLOCK, {by_key}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));

-- :: wait_by_update
/* lease-broker why {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCK_TIMEOUT 1000;
BEGIN TRANSACTION;
UPDATE t
SET {lease_fence} = t.{lease_fence}
FROM {key_list}
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
ROLLBACK TRANSACTION;

-- :: find_blocker
/* lease-broker why */
SET NOCOUNT ON;
SELECT CONVERT(int, r.blocking_session_id) AS lb_n, s.login_name AS lb_login, s.host_name AS lb_host, s.program_name AS lb_program,
    DATEDIFF(second, s.last_request_start_time, GETDATE()) AS lb_a
FROM sys.dm_exec_requests AS r
    LEFT JOIN sys.dm_exec_sessions AS s ON s.session_id = r.blocking_session_id
WHERE r.session_id = @P1 AND r.blocking_session_id <> 0;
