-- Purpose: keeps the fencing tokens of a database that goes back in time apart from those that were given before.
-- Sections: `read` is one batch, on each new connection. The others are batches of their own, after a restore: `raise`, then for each
--   queue `find_leased` and, for 1,000 rows at a time, `end_leases`.
-- Parameters: `raise` and `find_leased`: @P1: fence of the new epoch. `end_leases`: @P1 to @P4 as in every statement with lists
--   (sql/README.md). @P5: number of rows. @P6: JSON array of rows, {k1 to k3: key}. @P7: fence of the new epoch.
-- Results: `read`: fence of the epoch; generation. `raise`: id, queue and kind of each operation that it cancels. `find_leased`: the key of
--   each leased row. `end_leases`: number of rows.
-- Locks: `raise`: X on the row of the epoch, then X on the rows of all brokers, then U and X on
--   the operations that run. `end_leases`: U and X on up to 1,000 rows.
-- Indexes: the key (`end_leases`). `find_leased` reads the whole table if it has no index of leases.
-- Why one row raises the tokens of all items: a restored database also has old tokens in rows that are inserted later, because keys
--   repeat.
-- Why `read` runs on each new connection: a database goes back in time by a restore, or by a failover to a replica, and both end all
--   connections.
-- Why `raise` cancels the operations of all queues: a broker would continue one that was cancelled since, or one whose changes are the
--   reason for the restore.
-- Why `end_leases` gives the attempt back: the item did not fail. The row has no token, so the worker that held the lease gets
--   LEASE_LOST.
-- Why leases with a greater fence stay: brokers that run already have given them, in the new epoch.
-- Why `end_leases` takes a list: a constraint or a trigger can refuse a row, and the server does not tell which. The broker then sends the
--   list in parts (src/store/mssql/parts.rs), and the row without its mirror columns.
-- Why IF around the changes, why CASE, TOP and the hints: see leases.sql.
-- Why at most 1,000 rows: SQL Server may otherwise lock the whole table (docs/sql-server.md).
-- Why the generation has a table of its own: each announcement locks its row. Claims read the row of the epoch.

-- :: read
/* lease-broker read epoch */
SELECT e.fence AS lb_f, g.generation AS lb_n FROM lease_broker_epoch AS e CROSS JOIN lease_broker_generation AS g;

-- :: raise
/* lease-broker raise epoch */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
BEGIN TRANSACTION;
UPDATE lease_broker_epoch SET fence = @P1, raise_time = SYSUTCDATETIME();
DELETE FROM lease_broker_instance;
SELECT CONVERT(nvarchar(36), o.id) AS lb_id, o.queue AS lb_queue, CONVERT(nvarchar(32), o.kind) AS lb_kind
FROM lease_broker_operation AS o WITH (UPDLOCK)
WHERE o.state = 0;
UPDATE lease_broker_operation
SET state = 2, slot = CONVERT(varchar(36), id), end_time = SYSUTCDATETIME(), holder = NULL, until_time = NULL, cancelled_by = N'restore'
WHERE state = 0;
COMMIT TRANSACTION;

-- :: find_leased
/* lease-broker find leases {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT {t_key_as_names} FROM {table} AS t WITH (ROWLOCK) WHERE t.{lease_state} = 1 AND t.{lease_fence} <= @P1 OPTION (KEEPFIXED PLAN);

-- :: end_leases
/* lease-broker end leases {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @count int;
DECLARE @held TABLE ({key_declarations}, lb_f bigint NOT NULL);
BEGIN TRANSACTION;
INSERT @held ({key_names}, lb_f)
SELECT {t_key_columns}, t.{lease_fence}
FROM (SELECT TOP (@P5) {key_from_json} FROM OPENJSON(@P6) WITH ({key_json_schema}) AS j ORDER BY {key_names}) AS l
    INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}) ON {join_list_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_fence} <= @P7 THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
SET @count = @@ROWCOUNT;
IF @count > 0
    UPDATE t
    SET {lease_state} = 0, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
        {lease_attempt} = t.{lease_attempt} - 1{mirror_ready}
    FROM (SELECT TOP (@count) * FROM @held) AS d INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@count = 1));
COMMIT TRANSACTION;
SELECT CONVERT(bigint, @count) AS lb_n;
