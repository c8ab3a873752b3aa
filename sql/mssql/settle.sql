-- Ends leases: completes, fails, releases. One batch, one transaction: `begin`; where completions add items, `note` and one
--   `follow_up` for each queue and list of columns; `end` and `delete`, whichever the list's endings ask for; `sure`; `archive`
--   if the queue has one.
-- Parameters: those of leases.sql, whose entries have k: 0 complete, 1 fail, 2 release; n: new state; s: s until due; d: ms
--   until due; e: error. No two have the same key.
-- Locks, in order: U, then X, on the rows ended, in the order of the key; X on the rows added and archived.
-- Indexes: the key's.
-- The token and the fence stay on the row, so that the same settlement sent again is known: a completion leaves no attempts or
--   the state 3, a failure leaves the attempts, a release leaves no owner.
-- What is ended is answered before it is changed, and held by the U locks. An engine that ignores them finds out in `sure`: the
--   batch is undone and sent again. So there is no OUTPUT, which Babelfish runs in joined updates only as a product with the
--   whole table, and which a table with triggers takes only INTO a table variable.

-- :: extra_columns
, j.k AS lb_kind, j.n AS lb_state, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)) AS lb_due,
        LEFT(TRANSLATE(j.e COLLATE Latin1_General_100_BIN2, @P1, @P2), 1024) AS lb_error

-- :: extra_json
, k tinyint '$.k', n tinyint '$.n', s int '$.s',
        d int '$.d', e nvarchar(max) '$.e'

-- :: begin
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @changed int = 0;
BEGIN TRANSACTION;
SELECT l.lb_i, l.lb_state
FROM {lease_list}
    INNER JOIN {table} AS t WITH (UPDLOCK, ROWLOCK) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN);
DECLARE @held int = @@ROWCOUNT;
IF @held < @P5
    SELECT l.lb_i, t.{lease_state} AS lb_state
    FROM {lease_list}
        INNER JOIN {table} AS t ON {join_list_on_key}
    WHERE {is_same_lease}
        AND (l.lb_kind = 0 AND (t.{lease_state} = 3
                OR t.{lease_state} IN (0, 2) AND t.{lease_attempt} = 0 AND t.{lease_owner} IS NOT NULL)
            OR l.lb_kind = 1 AND (t.{lease_state} = 4
                OR t.{lease_state} IN (0, 2) AND t.{lease_attempt} > 0 AND t.{lease_owner} IS NOT NULL)
            OR l.lb_kind = 2 AND t.{lease_state} IN (0, 2) AND t.{lease_owner} IS NULL)
    OPTION (FORCE ORDER, LOOP JOIN);

-- :: remember_ended
DECLARE @ended TABLE (lb_i int NOT NULL PRIMARY KEY);
INSERT @ended (lb_i)
SELECT l.lb_i
FROM {lease_list}
    INNER JOIN {table} AS t WITH (UPDLOCK, ROWLOCK) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN);

-- :: update_ended
UPDATE t
SET {lease_state} = l.lb_state, {lease_state_time} = @now, {lease_due_time} = l.lb_due,
    {lease_owner} = CASE l.lb_kind WHEN 2 THEN NULL ELSE t.{lease_owner} END,
    {lease_attempt} = CASE WHEN l.lb_kind = 2 THEN t.{lease_attempt} - 1
        WHEN l.lb_kind = 0 AND l.lb_state <> 3 THEN 0 ELSE t.{lease_attempt} END,
    {lease_error} = CASE l.lb_kind WHEN 0 THEN NULL WHEN 1 THEN l.lb_error ELSE t.{lease_error} END{mirror_ended}
FROM {lease_list}
    INNER JOIN {table} AS t ON {join_list_on_key}
WHERE {is_held}{except_deleted}
OPTION (FORCE ORDER, LOOP JOIN);
SET @changed = @changed + @@ROWCOUNT;

-- :: delete_completed
DELETE t
FROM {lease_list}
    INNER JOIN {table} AS t ON {join_list_on_key}
WHERE {is_held} AND l.lb_kind = 0
OPTION (FORCE ORDER, LOOP JOIN);
SET @changed = @changed + @@ROWCOUNT;

-- :: verify_count
IF @changed <> @held
    THROW 51224, N'another settlement of one of these leases came at the same moment', 1;

-- :: move_to_archive
INSERT {archive} ({archive_columns})
SELECT {t_archive_columns}
FROM {lease_list}
    INNER JOIN {table} AS t ON {join_list_on_key}
WHERE t.{lease_state} = 3 AND t.{lease_state_time} = @now AND {is_same_lease} AND l.lb_kind = 0
OPTION (FORCE ORDER, LOOP JOIN);
DELETE t
FROM {lease_list}
    INNER JOIN {table} AS t ON {join_list_on_key}
WHERE t.{lease_state} = 3 AND t.{lease_state_time} = @now AND {is_same_lease} AND l.lb_kind = 0
OPTION (FORCE ORDER, LOOP JOIN);
