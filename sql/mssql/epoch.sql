-- Purpose: keeps the fencing tokens of a database that goes back in time apart from those that were given before.
-- Sections: `read` is one batch, on each new connection. `raise` and, for each queue, `end_leases` are batches of their own, after a
--   restore. `end_leases` runs again until it changes no row.
-- Parameters: `raise`: @P1: fence.
-- Results: `read`: fence of the epoch; generation. `end_leases`: number of rows.
-- Locks: `raise`: X on the row of the epoch, then X on the rows of all brokers. `end_leases`: U and X on up to 1,000 rows.
-- Indexes: none. `end_leases` reads the whole table: a restored table can lack the indexes.
-- Why one row raises the tokens of all items: a restored database also has old tokens in rows that are inserted later, because keys
--   repeat.
-- Why `read` runs on each new connection: a database goes back in time by a restore, or by a failover to a replica, and both end all
--   connections.
-- Why `end_leases` gives the attempt back: the item did not fail. The row has no token, so the worker that held the lease gets
--   LEASE_LOST.
-- Why at most 1,000 rows: SQL Server may otherwise lock the whole table (docs/sql-server.md).
-- Why the generation has a table of its own: each announcement locks its row. Claims read the row of the epoch.

-- :: read
SELECT e.fence AS lb_f, g.generation AS lb_n FROM lease_broker_epoch AS e CROSS JOIN lease_broker_generation AS g;

-- :: raise
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
BEGIN TRANSACTION;
UPDATE lease_broker_epoch SET fence = @P1, raise_time = SYSUTCDATETIME();
DELETE FROM lease_broker_instance;
COMMIT TRANSACTION;

-- :: end_leases
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
UPDATE TOP (1000) t
SET {lease_state} = 0, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_attempt} = t.{lease_attempt} - 1{mirror_redriven}
FROM {table} AS t
WHERE t.{lease_state} = 1;
SELECT CONVERT(bigint, @@ROWCOUNT) AS lb_n;
