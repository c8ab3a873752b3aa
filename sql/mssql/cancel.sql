-- Purpose: takes the leases on given rows away from their workers. One batch, one transaction.
-- Sections: `key_list` is the list of rows. `cancel` is the batch. It contains `read_cancellation`, `end_held`, which contains the list,
--   and `read_ended`. An operation on many items contains these three too (operation.sql). {held_since} is empty, or a condition of
--   the operation.
-- Parameters: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of rows. @P6: JSON array of rows, {i: index
--   in the request, k1 to k3: key, f: fencing token of the lease, absent: the lease that is held}. @P7: JSON array of one object, {n: the new state; s and d: the delay
--   in seconds, and the milliseconds beyond; e: the reason; m: number of attempts after which an item is dead, 0 means never}.
-- Results: index and new state of each row whose lease was cancelled, and the lease. If the list has more rows, a second result has index and
--   present state of the others, and 1 if an earlier cancellation has ended the lease with this fencing token, 2 if an earlier entry of
--   the list names the row, else 0. A row that does not exist is in neither.
-- Locks, in order: U, then X, on the leased rows, in the order of the key (leases.sql says how far that holds).
-- Indexes: the key's.
-- Why the row keeps the owner, unlike after an expiry: a row without a token that has an owner was cancelled. A heartbeat of the
--   cancelled lease then returns the reason (heartbeat.sql).
-- Why the token is cleared: a late settlement by the worker must change nothing.
-- Why the update checks state and fence again, and why the counts are compared: Babelfish ignores the lock hints, so another
--   statement can change a row between both steps. The batch then throws 51224, is rolled back, and the broker runs it again.
-- Why rows are deleted from @held: several keys of the list can be equal to the key of one row, such as `a` and `A` in a collation without
--   case. The first of them counts.
-- Why CASE, TOP (@P5), TOP (@held_count) and the hints: see leases.sql. TOP never removes a row.
-- Why IF around the changes, and why {lock_wait}: see leases.sql.

-- :: key_list
(SELECT TOP (@P5) j.i AS lb_i, j.f AS lb_fence, {key_from_json}
    FROM OPENJSON(@P6) WITH (i int '$.i', f bigint '$.f', {key_json_schema}) AS j
    ORDER BY {key_names}) AS l

-- :: read_cancellation
DECLARE @next int, @due datetime2(3), @reason nvarchar(1024), @max_attempts int;
SELECT @next = j.n, @due = DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), @max_attempts = j.m,
    @reason = LEFT(TRANSLATE(j.e COLLATE Latin1_General_100_BIN2, @P1, @P2), 1024)
FROM OPENJSON(@P7) WITH (n int '$.n', s int '$.s', d int '$.d', e nvarchar(max) '$.e', m int '$.m') AS j;

-- :: end_held
DECLARE @held TABLE (lb_i int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, lb_attempt int NOT NULL, lb_t uniqueidentifier NULL, lb_owner nvarchar(128) NULL,
    lb_since datetime2(7) NULL, lb_due datetime2(7) NULL, lb_trace nvarchar(56) NULL, lb_next int NOT NULL);
INSERT @held (lb_i, {key_names}, lb_f, lb_attempt, lb_t, lb_owner, lb_since, lb_due, lb_trace, lb_next)
SELECT l.lb_i, {t_key_columns}, t.{lease_fence}, t.{lease_attempt}, t.{lease_token}, t.{lease_owner},
    t.{lease_state_time}, t.{lease_due_time}, CONVERT(nvarchar(56), t.{trace_parent}),
    CASE WHEN @max_attempts > 0 AND t.{lease_attempt} >= @max_attempts THEN 4 ELSE @next END
FROM {key_list}
    INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}) ON {join_list_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 1 AND (l.lb_fence IS NULL OR l.lb_fence = t.{lease_fence}){held_since} THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
SET @held_count = @@ROWCOUNT;
IF @held_count > 1
BEGIN
    DELETE @held WHERE lb_i NOT IN (SELECT MIN(d.lb_i) FROM @held AS d GROUP BY {d_key_columns});
    SET @held_count = @held_count - @@ROWCOUNT;
END;
{find_runs}IF @held_count > 0
BEGIN
    UPDATE t
    SET {lease_state} = d.lb_next, {lease_state_time} = @now, {lease_due_time} = CASE d.lb_next WHEN 2 THEN @due END,
        {lease_token} = NULL, {lease_error} = @reason{mirror_reaped}
    FROM (SELECT TOP (@held_count) * FROM @held ORDER BY {key_names}) AS d
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@held_count = 1));
    IF @@ROWCOUNT <> @held_count
        THROW 51224, N'a settlement of one of these leases came at the same moment', 1;
END;{end_runs}

-- :: read_ended
SELECT d.lb_i, d.lb_next AS lb_state, {d_key_values}, d.lb_f, d.lb_attempt, d.lb_t, d.lb_owner, d.lb_since, d.lb_due, d.lb_trace, @now AS lb_now FROM @held AS d;{read_later}

-- :: cancel
/* lease-broker cancel {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {lock_wait}
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @held_count int = 0;
{read_cancellation}
BEGIN TRANSACTION;
{end_held}
{read_ended}
IF @held_count < @P5
    SELECT l.lb_i, t.{lease_state} AS lb_state,
        CASE WHEN EXISTS (SELECT 1 FROM @held AS d WHERE {join_due_on_key}) THEN 2
            WHEN l.lb_fence = t.{lease_fence} AND t.{lease_state} <> 1 AND t.{lease_token} IS NULL AND t.{lease_owner} IS NOT NULL THEN 1
            ELSE 0 END AS lb_repeated
    FROM {key_list}
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE l.lb_i NOT IN (SELECT d.lb_i FROM @held AS d)
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
COMMIT TRANSACTION;
