-- Ends leases: completes, fails, releases. One batch, one transaction: `list`, then `end`, `delete` if the queue deletes, `sure`,
-- `archive` if the queue has one, one `follow_up` for each queue and list of columns, and `result`.
-- Parameters: @P1 to @P4 as for every list (sql/README.md); @P5, a JSON array of {i: place, k1 to k3: key, t: token,
--   f: fence, k: 0 complete, 1 fail, 2 release, n: new state, s: s until due, d: ms until due, e: error}; no two of the same key.
-- Locks, in order: U, then X, on the rows ended, in the order of the key, so that two lists never wait for each other; X on the
--   rows archived and added.
-- Indexes: the key's.
-- The token and the fence stay on the row, so that the same settlement sent again is known (`result`): a completion
--   leaves no attempts or the state 3, a failure leaves the attempts, a release leaves no owner.
-- FORCE ORDER with LOOP JOIN: the list drives and each row is sought by its key, so that nothing waits for a row that it does
--   not end. Token and fence stand in a CASE, as they are looked at and never sought: all leases of one claim have one token.
-- TOP (@listed) leaves no row out, but tells an engine that ignores those hints how few rows drive the join.
-- What is ended is known before it is changed, by the U locks. An engine that ignores them finds out in `sure`: the batch is
--   undone and sent again. So there is no OUTPUT, which Babelfish runs in joined updates only as a product with the whole
--   table, and which a table with triggers takes only INTO a table variable.

-- :: list
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @list TABLE (lb_i int NOT NULL, {key_declarations}, lb_t uniqueidentifier NOT NULL,
    lb_f bigint NOT NULL, lb_kind tinyint NOT NULL, lb_state tinyint NOT NULL, lb_due datetime2(3) NULL,
    lb_error nvarchar(1024) NULL, PRIMARY KEY ({key_names}, lb_i));
INSERT @list (lb_i, {key_names}, lb_t, lb_f, lb_kind, lb_state, lb_due, lb_error)
SELECT j.i, {key_of_j}, j.t, j.f, j.k, j.n, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)),
    LEFT(TRANSLATE(j.e COLLATE Latin1_General_100_BIN2, @P1, @P2), 1024)
FROM OPENJSON(@P5) WITH (i int '$.i', {key_json}, t uniqueidentifier '$.t', f bigint '$.f', k tinyint '$.k',
    n tinyint '$.n', s int '$.s', d int '$.d', e nvarchar(max) '$.e') AS j;
DECLARE @listed int = @@ROWCOUNT;
DECLARE @ended TABLE (lb_i int NOT NULL PRIMARY KEY);
DECLARE @changed int = 0;
BEGIN TRANSACTION;
INSERT @ended (lb_i)
SELECT l.lb_i
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t WITH (UPDLOCK, ROWLOCK) ON {t_is_l}
WHERE t.{lease_state} = 1 AND 1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END
    AND t.{lease_due_time} > @now
OPTION (FORCE ORDER, LOOP JOIN);

-- :: end
UPDATE t
SET {lease_state} = l.lb_state, {lease_state_time} = @now, {lease_due_time} = l.lb_due,
    {lease_owner} = CASE l.lb_kind WHEN 2 THEN NULL ELSE t.{lease_owner} END,
    {lease_attempt} = CASE WHEN l.lb_kind = 2 THEN t.{lease_attempt} - 1
        WHEN l.lb_kind = 0 AND l.lb_state <> 3 THEN 0 ELSE t.{lease_attempt} END,
    {lease_error} = CASE l.lb_kind WHEN 0 THEN NULL WHEN 1 THEN l.lb_error ELSE t.{lease_error} END{mirror_ended}
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t ON {t_is_l}
WHERE l.lb_i IN (SELECT e.lb_i FROM @ended AS e) AND {not_deleted}
    AND t.{lease_state} = 1 AND 1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN);
SET @changed = @changed + @@ROWCOUNT;

-- :: delete
DELETE t
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t ON {t_is_l}
WHERE l.lb_i IN (SELECT e.lb_i FROM @ended AS e) AND l.lb_kind = 0
    AND t.{lease_state} = 1 AND 1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN);
SET @changed = @changed + @@ROWCOUNT;

-- :: sure
IF @changed <> (SELECT COUNT(*) FROM @ended)
    THROW 51224, N'another settlement of one of these leases came at the same moment', 1;

-- :: archive
INSERT {archive} ({archive_columns})
SELECT {archive_of_t}
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t ON {t_is_l}
WHERE l.lb_i IN (SELECT e.lb_i FROM @ended AS e) AND l.lb_kind = 0
OPTION (FORCE ORDER, LOOP JOIN);
DELETE t
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t ON {t_is_l}
WHERE l.lb_i IN (SELECT e.lb_i FROM @ended AS e) AND l.lb_kind = 0
OPTION (FORCE ORDER, LOOP JOIN);

-- :: result
SELECT l.lb_i, l.lb_state
FROM @list AS l
WHERE l.lb_i IN (SELECT e.lb_i FROM @ended AS e)
UNION ALL
SELECT l.lb_i, t.{lease_state}
FROM (SELECT TOP (@listed) * FROM @list) AS l INNER JOIN {table} AS t ON {t_is_l}
WHERE l.lb_i NOT IN (SELECT e.lb_i FROM @ended AS e)
    AND 1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END
    AND (l.lb_kind = 0 AND (t.{lease_state} = 3
            OR t.{lease_state} IN (0, 2) AND t.{lease_attempt} = 0 AND t.{lease_owner} IS NOT NULL)
        OR l.lb_kind = 1 AND (t.{lease_state} = 4
            OR t.{lease_state} IN (0, 2) AND t.{lease_attempt} > 0 AND t.{lease_owner} IS NOT NULL)
        OR l.lb_kind = 2 AND t.{lease_state} IN (0, 2) AND t.{lease_owner} IS NULL)
OPTION (FORCE ORDER, LOOP JOIN);
