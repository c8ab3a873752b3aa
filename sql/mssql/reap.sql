-- Purpose: ends expired leases, makes delayed items ready, and finds the next due time. The longest due rows come first, up to
--   a limit. One batch, one transaction.
-- Sections: `begin`, `pick_due`, `update_due`, `next_due`. With filtered_indexes = false: `begin`, `pick_due` once for each of
--   the two states, `keep_first_due`, `update_due`, `next_due_unfiltered`. `begin` and `update_due` contain sections of suspects.sql.
--   If a constraint or a trigger refuses a row, the batch fails. The broker then sends the batch for fewer and fewer rows, with
--   `skip_refused` behind the picks, until the rows that are left refuse their change. Then `begin`, the picks and `read_due` return their keys.
-- Parameters: @P1: maximum number of rows. @P2: number of attempts after which an item is dead; 0 means never. @P3: the latest time
--   that the clock can show unless it was stepped forward, in ms since 1970; NULL: not known; -1: it was stepped forward. With `skip_refused`, @P4: the number
--   of rows, those due longest, that stay as they are. @P1 counts them.
-- Results: each changed row as it was, with its new state. Then the server's time, the next due time or NULL, and the
--   number of leases that are due and that the batch left as they are, because the clock shows a later time than @P3. With `skip_refused`
--   the next due time is later than now. `read_due`: the keys of the rows.
-- Locks, in order: U, then X, on up to @P1 rows, through the due index and the key. READPAST skips rows that others have
--   locked. With filtered_indexes = false, U on up to @P1 rows of each state.
-- Indexes: due (`pick_due` and `next_due`), the key (`update_due`).
-- Why one `pick_due` for each state with filtered_indexes = false: the state leads the due index there. A single pick would
--   read, lock and sort all due rows of both states before it takes the first.
-- Why a step of the clock gives attempts back: it ends leases although their workers did nothing wrong. No item may die of it.
-- Why such leases are first left as they are: the clock is later than @P3 also if the server takes long until it reads the clock, for
--   example because it compiles the batch. Only the broker knows how long the batch took. It sends the batch again, with -1 if that time
--   does not explain the difference.
-- Why expiry clears the token: a late settlement by the worker must change nothing.
-- Why a delayed item that becomes ready keeps its token: a failure or a release that is sent again must be recognised.
-- Why the update checks state, fence and due time again: Babelfish ignores the lock hints, so another statement can change a
--   row between pick and update.
-- Why the number of changed rows is compared: the result has the picked rows, and each row may be reported by only one reaper. On
--   SQL Server the update changes each picked row. On Babelfish another reaper can pick the same rows and end them first. If the
--   update then changes none of the rows, none is reported. If it changes some, the batch throws 51224, is rolled back, and the
--   broker runs it again.
-- Why the result has the order of the pick, also among rows with one due time: `remember` adds suspects in that order. A reader
--   of the result then knows which of them a claim gets first.
-- Why TOP (@count) and the hints: see leases.sql. TOP (@count) never removes a row.
-- Why IF around the changes: see leases.sql.
-- Why the time is returned if no item is leased or delayed: retention deletes no item after a step of the clock, and reads the steps
--   from the reaper.

-- :: begin
/* lease-broker reap {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @latest_days int = @P3 / 86400000, @latest_millis int = @P3 % 86400000;
DECLARE @is_stepped bit = CASE WHEN @now > DATEADD(millisecond, @latest_millis, DATEADD(day, @latest_days, CONVERT(datetime2(3), '19700101'))) THEN 1 ELSE 0 END, @unsure_count int = 0;
DECLARE @due TABLE (lb_p int NOT NULL IDENTITY(1, 1) PRIMARY KEY, {key_declarations},
    lb_f bigint NOT NULL, lb_attempt int NOT NULL, lb_t uniqueidentifier NULL, lb_owner nvarchar(128) NULL,
    lb_since datetime2(7) NULL, lb_due datetime2(7) NOT NULL, lb_trace nvarchar(56) NULL,
    lb_state tinyint NOT NULL, lb_next tinyint NOT NULL);
{forget}BEGIN TRANSACTION;

-- :: pick_due
INSERT @due ({key_names}, lb_f, lb_attempt, lb_t, lb_owner, lb_since, lb_due, lb_trace, lb_state, lb_next)
SELECT TOP (@P1) {t_key_columns}, t.{lease_fence}, t.{lease_attempt}, t.{lease_token}, t.{lease_owner},
    t.{lease_state_time}, t.{lease_due_time}, CONVERT(nvarchar(56), t.{trace_parent}),
    t.{lease_state}, CASE WHEN t.{lease_state} = 1 AND @P2 > 0 AND t.{lease_attempt} >= @P2 AND @is_stepped = 0 THEN 4 ELSE 0 END
FROM {table} AS t WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK{due_hint})
WHERE t.{lease_state} {states} AND t.{lease_due_time} <= @now
ORDER BY t.{lease_due_time}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));

-- :: keep_first_due
DELETE @due WHERE lb_p NOT IN (SELECT TOP (@P1) d.lb_p FROM @due AS d ORDER BY d.lb_due)
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));

-- :: skip_refused
DELETE @due WHERE lb_p IN (SELECT TOP (@P4) d.lb_p FROM @due AS d ORDER BY d.lb_due, d.lb_p)
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P4 = 1));

-- :: read_due
SELECT {d_key_values} FROM @due AS d ORDER BY d.lb_due, d.lb_p;
COMMIT TRANSACTION;

-- :: update_due
IF @is_stepped = 1 AND @P3 >= 0
BEGIN
    DELETE @due WHERE lb_state = 1;
    SET @unsure_count = @@ROWCOUNT;
END;
{find_runs}DECLARE @count int = (SELECT COUNT(*) FROM @due), @changed_count int = 0;
IF @count > 0
BEGIN
    UPDATE t
    SET {lease_state} = d.lb_next, {lease_state_time} = @now, {lease_due_time} = NULL,
        {lease_owner} = CASE d.lb_state WHEN 1 THEN NULL ELSE t.{lease_owner} END,
        {lease_token} = CASE d.lb_state WHEN 1 THEN NULL ELSE t.{lease_token} END,
        {lease_attempt} = CASE WHEN d.lb_state = 1 AND @is_stepped = 1 THEN t.{lease_attempt} - 1 ELSE t.{lease_attempt} END,
        {lease_error} = CASE WHEN d.lb_state <> 1 THEN t.{lease_error}
            WHEN d.lb_owner IS NULL THEN N'the lease expired'
            ELSE N'the lease of ' + d.lb_owner + N' expired' END{mirror_reaped}
    FROM (SELECT TOP (@count) * FROM @due) AS d INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE t.{lease_state} = d.lb_state AND t.{lease_fence} = d.lb_f AND t.{lease_due_time} <= @now
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@count = 1));
    SET @changed_count = @@ROWCOUNT;
    IF @changed_count > 0 AND @changed_count < @count
        THROW 51224, N'another statement changed some of the due rows at the same moment', 1;
{remember}
END;{end_runs}
SELECT {d_key_values}, d.lb_f, d.lb_attempt, d.lb_t, d.lb_owner, d.lb_since, d.lb_due, d.lb_trace, @now AS lb_now, d.lb_state, d.lb_next
FROM @due AS d
WHERE @changed_count > 0
ORDER BY d.lb_due, d.lb_p;

-- :: next_due
SELECT @now AS lb_now, (SELECT TOP (1) t.{lease_due_time}
    FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{due_hint})
    WHERE t.{lease_state} IN (1, 2) AND t.{lease_due_time} IS NOT NULL{after_now}
    ORDER BY t.{lease_due_time}) AS lb_due, @unsure_count AS lb_unsure
OPTION (KEEPFIXED PLAN);
COMMIT TRANSACTION;{read_later}

-- :: next_due_unfiltered
SELECT @now AS lb_now, MIN(n.lb_due) AS lb_due, @unsure_count AS lb_unsure
FROM (SELECT MIN(t.{lease_due_time}) AS lb_due FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{due_hint})
        WHERE t.{lease_state} = 1{after_now}
    UNION ALL
    SELECT MIN(t.{lease_due_time}) FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{due_hint})
        WHERE t.{lease_state} = 2{after_now}) AS n
OPTION (KEEPFIXED PLAN);
COMMIT TRANSACTION;{read_later}
