-- Makes leases last until a new expiry, if they are still held. One batch, one transaction.
-- Parameters: @P1 to @P4 as for every list (sql/README.md); @P5, a JSON array of {i: place, k1 to k3: key, t: token,
--   f: fence, d: ms}; no lease twice.
-- Locks: X on the rows extended, in the order of the key. Index: the key's. (Token and fence stand in a CASE, as they are
--   looked at and never sought: all leases of one claim have one token.) TOP (@listed) is explained in settle.sql.

-- :: extend
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @list TABLE (lb_i int NOT NULL, {key_declarations}, lb_t uniqueidentifier NOT NULL,
    lb_f bigint NOT NULL, lb_due datetime2(3) NOT NULL, PRIMARY KEY ({key_names}, lb_i));
INSERT @list (lb_i, {key_names}, lb_t, lb_f, lb_due)
SELECT j.i, {key_of_j}, j.t, j.f, DATEADD(millisecond, j.d, @now)
FROM OPENJSON(@P5) WITH (i int '$.i', {key_json}, t uniqueidentifier '$.t', f bigint '$.f', d int '$.d') AS j;
DECLARE @listed int = @@ROWCOUNT;
BEGIN TRANSACTION;
UPDATE t
SET {lease_due_time} = l.lb_due
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t WITH (ROWLOCK) ON {t_is_l}
WHERE t.{lease_state} = 1 AND 1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END AND t.{lease_due_time} > @now
OPTION (FORCE ORDER, LOOP JOIN);
SELECT l.lb_i, @now AS lb_now, t.{lease_due_time} AS lb_due
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t ON {t_is_l}
WHERE t.{lease_state} = 1 AND 1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END AND t.{lease_due_time} > @now
OPTION (FORCE ORDER, LOOP JOIN);
COMMIT TRANSACTION;
