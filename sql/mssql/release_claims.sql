-- Purpose: releases the leases that claim calls got and that are still held, at most 1,000 at a time. The callers of the claims did
--   not get the lease ids. One batch, one transaction.
-- Sections: `release_claims` is the batch. The broker runs it again until it releases fewer than 1,000 leases.
-- Parameters: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of claims. @P6: JSON array of claims, {i:
--   index of the request, t: token}. No token is in the list twice.
-- Results: index of the claim and the lease, for each released lease.
-- Locks, in order:
--   1. For each claim, in the order of the tokens: the application lock of its token. If it is not free, the batch fails with 51222
--      and the broker runs it again. The batch waits at most 5 s for all of them together.
--   2. U, then X, on up to 1,000 rows, through the token index and the key.
-- Indexes: token (`@held`), the key (update).
-- Why the application locks: a claim holds the lock of its token until it commits (claim.sql). Without the lock, this batch would not
--   see the leases of a claim that another broker is running, and they would stay with no worker.
-- Why the locks are taken in the order of the tokens, and why one deadline for all of them: see claim.sql.
-- Why at most 1,000 rows: SQL Server may otherwise lock the whole table (docs/sql-server.md).
-- Why the update checks the lease again, and why the counts are compared: Babelfish ignores the lock hints, so another statement can
--   change a row between both steps. The batch then throws 51224, is rolled back, and the broker runs it again.
-- Why CASE, TOP (@P5), TOP (@held_count) and the hints: see leases.sql. These two TOP never remove a row.
-- Why IF around the changes, and why {lock_wait}: see leases.sql.

-- :: release_claims
/* lease-broker release claims {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {lock_wait}
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @lock_deadline datetime2(3) = DATEADD(second, 5, @now);
DECLARE @claims TABLE (lb_t uniqueidentifier NOT NULL PRIMARY KEY, lb_i int NOT NULL);
DECLARE @held TABLE (lb_i int NOT NULL, {key_declarations}, lb_f bigint NOT NULL, lb_attempt int NOT NULL, lb_t uniqueidentifier NULL, lb_owner nvarchar(128) NULL,
    lb_since datetime2(7) NULL, lb_due datetime2(7) NULL, lb_trace nvarchar(56) NULL);
DECLARE @token uniqueidentifier, @token_lock_result int, @token_lock_wait int, @token_lock_name nvarchar(255);
BEGIN TRANSACTION;
INSERT @claims (lb_t, lb_i)
SELECT j.t, j.i FROM OPENJSON(@P6) WITH (i int '$.i', t uniqueidentifier '$.t') AS j;
WHILE 1 = 1
BEGIN
    SET @token = (SELECT TOP (1) c.lb_t FROM @claims AS c WHERE @token IS NULL OR c.lb_t > @token ORDER BY c.lb_t);
    IF @token IS NULL BREAK;
    SET @token_lock_name = N'lease_broker_' + CONVERT(nvarchar(36), @token);
    SET @token_lock_wait = (SELECT MAX(w.lb_n) FROM (VALUES (0), (DATEDIFF(millisecond, SYSUTCDATETIME(), @lock_deadline))) AS w (lb_n));
    EXEC @token_lock_result = sp_getapplock @Resource = @token_lock_name, @LockMode = 'Exclusive', @LockTimeout = @token_lock_wait;
    IF @token_lock_result < 0 THROW 51222, N'a claim has held the application lock of its token for 5 s', 1;
END;
SET @now = SYSUTCDATETIME();
INSERT @held (lb_i, {key_names}, lb_f, lb_attempt, lb_t, lb_owner, lb_since, lb_due, lb_trace)
SELECT TOP (1000) c.lb_i, {t_key_columns}, t.{lease_fence}, t.{lease_attempt}, t.{lease_token}, t.{lease_owner},
    t.{lease_state_time}, t.{lease_due_time}, CONVERT(nvarchar(56), t.{trace_parent})
FROM (SELECT TOP (@P5) * FROM @claims) AS c INNER JOIN {table} AS t WITH (UPDLOCK, ROWLOCK{token_hint}) ON t.{lease_token} = c.lb_t
WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
DECLARE @held_count int = @@ROWCOUNT;
IF @held_count > 0
BEGIN
    UPDATE t
    SET {lease_state} = 0, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL,
        {lease_attempt} = t.{lease_attempt} - 1{mirror_ready}
    FROM (SELECT TOP (@held_count) * FROM @held ORDER BY {key_names}) AS d
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_token} = d.lb_t AND t.{lease_fence} = d.lb_f AND t.{lease_due_time} > @now THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@held_count = 1));
    IF @@ROWCOUNT <> @held_count
        THROW 51224, N'another settlement of one of these leases came at the same moment', 1;
END;
SELECT d.lb_i, {d_key_values}, d.lb_f, d.lb_attempt, d.lb_t, d.lb_owner, d.lb_since, d.lb_due, d.lb_trace, @now AS lb_now FROM @held AS d;
COMMIT TRANSACTION;
