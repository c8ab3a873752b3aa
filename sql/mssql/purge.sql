-- Purpose: deletes items that have been completed or dead for long, and old rows of the archive.
-- Sections: `begin`, which contains `bounded_now`, `read_position` (not for the first rows of the table), `visit`, `delete_old` are one batch, which visits the
--   next rows in the order of the key and deletes the old ones. If the queue has an index of completed items, `visit_old` is in the
--   place of `visit`, and visits only old rows in the order of their time, and then of the key. `delete_archived` deletes old rows of the archive and
--   `count_archived` counts them. `take_turn` makes a broker the only one that deletes old items of a queue, unless another one
--   is.
-- Parameters of the batch: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of keys. @P6: JSON array with
--   the row after which the visit starts, {k1 to k3, and t, its time, for `visit_old`}; empty for the first rows. @P7: maximum number of rows to visit. @P8, @P9: age
--   in seconds after which a completed and a dead item is old; NULL: never. @P10: 1 to delete, 0 to count. @P11: the latest time
--   that the clock can show unless it was stepped forward, in ms since 1970; NULL: not known.
-- Parameters of `delete_archived`: @P1: age in seconds after which a row is old; NULL: @P4 counts. @P2: maximum number of rows. @P3: as @P11.
--   @P4: time before which a row is old, as ISO 8601 text; empty: @P1 counts (pause.sql has the reason).
-- Parameters of `count_archived`: @P1: as @P4 of `delete_archived`.
-- Parameters of `take_turn`: @P1: queue. @P2: broker, as text (Babelfish 4.3 misreads a parameter of type uniqueidentifier). @P3:
--   duration of the turn in milliseconds. @P4: that of the longest turn.
-- Results: the number of rows visited, the number of old ones (deleted, or counted), and the key and, by
--   `visit_old`, the time of the last row visited; no row at the end. `delete_archived`, `count_archived`: a number of rows. `take_turn`: the server's time, the end of the
--   present turn, and 1 if it is this broker's.
-- Locks, in order: S on the visited rows, one after the other. Then U and X on the rows to delete and on their keys in all indexes
--   of the table. READPAST skips rows that others have locked; a later walk finds them.
-- Indexes: the key's (`visit`, `delete_old`); those of completed and of dead items (`visit_old`); the state time's of the archive.
-- Why at most 500 rows: a DELETE locks the row, its key in each index, and the rows of cascades. Escalation to a table lock begins
--   at 5,000 locks.
-- Why `visit` is in the order of the key: no index holds the completed items, because for most tables it would cost the completions
--   more than the walk costs.
-- Why `visit_old` has a position, although old rows go: a row whose deletion is refused stays.
-- Why `visit_old` merges two sorted lists: each comes from an index in its order, so that the server reads no more rows than it
--   returns. A condition IN (3, 4) would match neither filter.
-- Why FORCESEEK only after the first rows: without a condition on the key there is nothing to seek (error 8622).
-- Why the DELETE asks for state and time again: the row can have changed since it was visited.
-- Why a transaction around each DELETE: if a trigger raises an error, the batch rolls back (triggers.sql).
-- Why `take_turn` ends a turn that is longer than the longest: it was taken before the clock was put back, and would last until the clock
--   reaches its end.
-- Why `bounded_now`: a clock that was stepped forward makes every item old, and the reaper can see the step later than a walk.
-- Why the state time 2000-01-01 is not old: it means unknown (sql/README.md).
-- Why HOLDLOCK in `take_turn`: two brokers that add the first row at the same moment would break the primary key. Babelfish ignores
--   it: there one of them fails, and tries again later.
-- Why TOP, FORCE ORDER, LOOP JOIN and the other hints: see leases.sql.
-- Why IF around the changes: see leases.sql.

-- :: is_old
(t.{lease_state} = 3 AND t.{lease_state_time} < @completed OR t.{lease_state} = 4 AND t.{lease_state_time} < @dead) AND t.{lease_state_time} > '20000101'

-- :: bounded_now
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @latest_days int = {latest} / 86400000, @latest_millis int = {latest} % 86400000;
DECLARE @latest datetime2(3) = DATEADD(millisecond, @latest_millis, DATEADD(day, @latest_days, CONVERT(datetime2(3), '19700101')));
IF @latest < @now SET @now = @latest;

-- :: begin
/* lease-broker purge {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
{bounded_now}
DECLARE @completed datetime2(3) = DATEADD(second, -@P8, @now), @dead datetime2(3) = DATEADD(second, -@P9, @now);
DECLARE @old int, @time {state_time_type}, {key_variables};
DECLARE @visited TABLE (
    lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_state smallint NOT NULL, lb_time {state_time_type} NULL
);

-- :: read_position
SELECT {key_into_variables}, @time = CONVERT({state_time_type}, p.lb_time, 126)
FROM (SELECT TOP (@P5) {key_from_json}, j.t AS lb_time FROM OPENJSON(@P6) WITH ({key_json_schema}, t varchar(33) '$.t') AS j) AS p
OPTION (OPTIMIZE FOR (@P5 = 1));

-- :: visit
INSERT @visited (lb_p, {key_names}, lb_state)
SELECT TOP (@P7) ROW_NUMBER() OVER (ORDER BY {t_key_columns}), {t_key_columns},
    CASE WHEN {is_old} THEN t.{lease_state} ELSE 0 END
FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK{walk_hint})
WHERE {after_position}{key_not_null}
ORDER BY {t_key_columns}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P7 = 1));
SET @old = (SELECT COUNT(*) FROM @visited WHERE lb_state > 0);

-- :: visit_old
INSERT @visited (lb_p, {key_names}, lb_state, lb_time)
SELECT TOP (@P7) ROW_NUMBER() OVER (ORDER BY d.lb_time, {d_key_columns}), {d_key_columns}, d.lb_state, d.lb_time
FROM (
    SELECT c.* FROM (
        SELECT TOP (@P7) {t_key_as_stored}, 3 AS lb_state, t.{lease_state_time} AS lb_time
        FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK{old_completed_hint})
        WHERE t.{lease_state} = 3 AND t.{lease_state_time} > '20000101' AND t.{lease_state_time} < @completed
            AND {after_time}{key_not_null}
        ORDER BY t.{lease_state_time}, {t_key_columns}
    ) AS c
    UNION ALL
    SELECT c.* FROM (
        SELECT TOP (@P7) {t_key_as_stored}, 4 AS lb_state, t.{lease_state_time} AS lb_time
        FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK{old_dead_hint})
        WHERE t.{lease_state} = 4 AND t.{lease_state_time} > '20000101' AND t.{lease_state_time} < @dead
            AND {after_time}{key_not_null}
        ORDER BY t.{lease_state_time}, {t_key_columns}
    ) AS c
) AS d
ORDER BY d.lb_time, {d_key_columns}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P7 = 1));
SET @old = (SELECT COUNT(*) FROM @visited);

-- :: delete_old
IF @P10 = 1 AND @old > 0
BEGIN
    BEGIN TRANSACTION;
    DELETE t
    FROM (SELECT TOP (@old) * FROM @visited AS v WHERE v.lb_state > 0 ORDER BY v.lb_p) AS d
        INNER JOIN {table} AS t WITH (READPAST, {by_key}) ON {join_due_on_key}
    WHERE t.{lease_state} = d.lb_state AND {is_old}
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@old = 1));
    SET @old = @@ROWCOUNT;
    COMMIT TRANSACTION;
END;
SELECT TOP (1) (SELECT COUNT(*) FROM @visited) AS lb_n, @old AS lb_old, {d_key_values}, CONVERT(varchar(33), d.lb_time, 126) AS lb_time
FROM @visited AS d
ORDER BY d.lb_p DESC;

-- :: delete_archived
/* lease-broker purge archive {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
{bounded_now}
DECLARE @before datetime2(3) = COALESCE(CONVERT(datetime2(3), NULLIF(@P4, N''), 126), DATEADD(second, -@P1, @now)), @old int;
BEGIN TRANSACTION;
DELETE TOP (@P2) a
FROM {archive} AS a WITH (ROWLOCK, READPAST{archive_hint})
WHERE a.{lease_state_time} < @before AND a.{lease_state_time} > '20000101'
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P2 = 1));
SET @old = @@ROWCOUNT;
COMMIT TRANSACTION;
SELECT @old AS lb_n;

-- :: count_archived
/* lease-broker purge archive {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @before datetime2(3) = CONVERT(datetime2(3), @P1, 126);
SELECT COUNT_BIG(*) AS lb_n
FROM {archive} AS a WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK{archive_hint})
WHERE a.{lease_state_time} < @before AND a.{lease_state_time} > '20000101'

-- :: take_turn
/* lease-broker purge turn {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @broker uniqueidentifier = CONVERT(uniqueidentifier, @P2);
BEGIN TRANSACTION;
UPDATE lease_broker_retention SET holder = @broker, until_time = DATEADD(millisecond, @P3, @now)
WHERE queue = @P1 AND (until_time <= @now OR until_time > DATEADD(millisecond, @P4, @now) OR holder = @broker);
INSERT lease_broker_retention (queue, holder, until_time)
SELECT @P1, @broker, DATEADD(millisecond, @P3, @now)
WHERE NOT EXISTS (SELECT 1 FROM lease_broker_retention WITH (UPDLOCK, HOLDLOCK) WHERE queue = @P1);
SELECT @now AS lb_now, r.until_time AS lb_due, CASE WHEN r.holder = @broker THEN 1 ELSE 0 END AS lb_n
FROM lease_broker_retention AS r
WHERE r.queue = @P1;
COMMIT TRANSACTION;
