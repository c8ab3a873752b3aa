-- Purpose: keeps the rows of operations on many items, and applies their batches.
-- Sections: `start`, `read`, `cancel_operation`, `take`, `list` and `read_orders` are one batch each, about rows of operations.
--   `apply` is the batch that changes items. It contains one of `redrive_items`, `cancel_items` and `purge_items`, the first and the last
--   with `find_items`.
-- Parameters: ids are texts (Babelfish 4.3 misreads a parameter of type uniqueidentifier).
--   `start`: @P1: id. @P2: queue. @P3: kind. @P4: definition. @P5: name of the caller. @P6: reason. @P7: the time after which an operation
--   that has ended is deleted, in seconds. `read`: @P1: id. `cancel_operation`: @P1: id. @P2: name of the caller.
--   `take`: @P1: id. @P2: broker. @P3: the time for which it holds the operation, in ms. @P4: the longest of such times.
--   `list` and `read_orders`: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of queues. @P6: JSON
--   array of queues, {q: name}. `list`: @P7: 1 to leave out those that have ended. @P8: id of the operation before the page; empty: the
--   first page. @P9: maximum number of rows. `read_orders`: @P7: broker. @P8: as @P4 of `take`.
--   `apply`: @P1 to @P6 as in cancel.sql; every item has a fencing token. @P7: JSON array of one object, {n: the new state, or the state of
--   the items to delete; s, d, e and m as in cancel.sql}. @P8: id. @P9: broker. @P10: number of batches before this one. @P11: the time
--   for which the broker keeps the operation, in ms. @P12: position, or empty. @P13: rows that were looked at. @P14: refused items. @P15: refusal, or empty.
--   @P16: the state in which the operation ends, or 0.
-- Results: `start`: 1 if the operation was stored, else 0; the operation with this id; the operation of this kind that the queue runs.
--   `read`, `cancel_operation`, `take` and `list`: operations, with the columns of the section `columns`. `read` and `list` have no
--   result if the table does not exist, or if the login may not see it. `read_orders`: 1 if the broker is told to drain, else 0;
--   then the operations of a known kind that no other broker holds, the oldest first. `apply`: the number of changed items, and then each
--   lease that was cancelled, as in cancel.sql. It has no result if the batch was not applied.
-- Locks, in order: `start`: U and X on old rows, skipping those that others have locked; X on the new row. `take`: U, then X, on a row,
--   skipping those that others have locked. `cancel_operation`: X on the row; it waits for the batch that runs. `apply`: X on the row of the operation;
--   then U, then X, on the items, in the order of the key. `read_orders`: S on one row at a time, skipping operations that others have
--   locked: a batch is running then.
-- Indexes: primary key (by id); unique (queue, slot) for operations that run; lease_broker_operation_time (start, list); the key's of
--   the items.
-- Why `slot`: it is the kind while the operation runs and the id afterwards. So the unique index refuses a second one of a kind, and
--   operations that run are found without those that have ended.
-- Why `start` uses no lock to keep two calls apart: the second fails with a duplicate key. The broker runs it again, and it finds the
--   row of the first one.
-- Why `take` and `read_orders` end a hold that is longer than the longest: it began before the clock was put back, and would last until
--   the clock reaches its end.
-- Why `apply` begins with the row of the operation: it asks for the holder, the number of the batch and the state, so a broker that has
--   lost the operation, or that sends a batch again because the answer was lost, changes nothing. If the first run has not committed yet, the second waits
--   here for it. A batch that was rolled back has not counted, and is applied.
-- Why the items are read once more: state, fencing token and time of an item can have changed since the broker has found it. With the time,
--   a redrive never meets the items that became dead after it was stored.
-- Why a time after now is accepted: the clock was put back since, so the item entered its state before the operation was stored. Otherwise
--   no operation would change it until the clock reaches that time. An item whose time the clock reaches while the operation runs is left out.
-- Why {redriven_attempt} and {redriven_checkpoint}: they are empty, or reset the attempts and remove the checkpoint.
-- Why a redrive clears the token: a late settlement of the last lease must change nothing.
-- Why the update checks state and fence again, why the counts are compared, and why CASE, TOP and the hints: see cancel.sql and leases.sql.
-- Why IF around the changes, and why {lock_wait}: see leases.sql. Why empty texts and not NULL: see pause.sql.

-- :: columns
SELECT {top}CONVERT(nvarchar(36), o.id) AS lb_id, o.queue AS lb_queue, CONVERT(nvarchar(32), o.kind) AS lb_kind, o.definition AS lb_definition,
    o.actor AS lb_w, o.reason AS lb_reason, o.create_time AS lb_since, CONVERT(int, o.state) AS lb_state, o.end_time AS lb_end,
    o.batches AS lb_n, o.position AS lb_position, o.examined AS lb_examined, o.changed AS lb_changed, o.refused AS lb_refused,
    o.error AS lb_error, CONVERT(nvarchar(36), o.holder) AS lb_holder, o.cancelled_by AS lb_cancelled
FROM lease_broker_operation AS o

-- :: queues
SELECT CONVERT(nvarchar(128), TRANSLATE(j.q COLLATE Latin1_General_100_BIN2, @P1, @P2)) AS lb_queue
    FROM OPENJSON(@P6) WITH (q nvarchar(max) '$.q') AS j

-- :: start
/* lease-broker start operation */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @id uniqueidentifier = CONVERT(uniqueidentifier, @P1), @started int;
DECLARE @old datetime2(3) = DATEADD(second, -@P7, @now);
BEGIN TRANSACTION;
DELETE lease_broker_operation WITH (READPAST, ROWLOCK) WHERE create_time < @old AND end_time < @old;
INSERT lease_broker_operation (id, queue, kind, slot, definition, actor, reason, create_time)
SELECT @id, @P2, @P3, @P3, @P4, @P5, @P6, @now
WHERE NOT EXISTS (SELECT 1 FROM lease_broker_operation AS o WHERE o.id = @id)
    AND NOT EXISTS (SELECT 1 FROM lease_broker_operation AS o WHERE o.queue = @P2 AND o.slot = @P3);
SET @started = @@ROWCOUNT;
COMMIT TRANSACTION;
SELECT @started AS lb_n;
{columns}
WHERE o.id = @id;
{columns}
WHERE o.queue = @P2 AND o.slot = @P3;

-- :: read
/* lease-broker read operation */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
IF OBJECT_ID(N'lease_broker_operation') IS NOT NULL
    {columns}
    WHERE o.id = CONVERT(uniqueidentifier, @P1);

-- :: cancel_operation
/* lease-broker cancel operation */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @id uniqueidentifier = CONVERT(uniqueidentifier, @P1);
UPDATE lease_broker_operation
SET state = 2, slot = CONVERT(varchar(36), id), end_time = @now, holder = NULL, until_time = NULL, cancelled_by = @P2
WHERE id = @id AND state = 0;
{columns}
WHERE o.id = @id;

-- :: take
/* lease-broker take operation */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @broker uniqueidentifier = CONVERT(uniqueidentifier, @P2), @id uniqueidentifier;
BEGIN TRANSACTION;
SET @id = (SELECT o.id
    FROM lease_broker_operation AS o WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE o.id = CONVERT(uniqueidentifier, @P1) AND o.state = 0 AND (o.holder IS NULL OR o.holder = @broker OR o.until_time <= @now
        OR o.until_time > DATEADD(millisecond, @P4, @now)));
IF @id IS NOT NULL
BEGIN
    UPDATE lease_broker_operation SET holder = @broker, until_time = DATEADD(millisecond, @P3, @now)
    WHERE id = @id AND state = 0 AND (holder IS NULL OR holder = @broker OR until_time <= @now OR until_time > DATEADD(millisecond, @P4, @now));
    IF @@ROWCOUNT = 1
        {columns}
        WHERE o.id = @id;
END;
COMMIT TRANSACTION;

-- :: list
/* lease-broker list operations */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @before datetime2(3), @id uniqueidentifier = CONVERT(uniqueidentifier, NULLIF(@P8, N''));
IF OBJECT_ID(N'lease_broker_operation') IS NOT NULL
BEGIN
    SELECT @before = o.create_time FROM lease_broker_operation AS o WHERE o.id = @id;
    {columns}
    WHERE o.queue IN ({queues}) AND (@P7 = 0 OR o.state = 0)
        AND (@before IS NULL OR o.create_time < @before OR o.create_time = @before AND o.id < @id)
    ORDER BY o.create_time DESC, o.id DESC
    OPTION (OPTIMIZE FOR (@P9 = 1));
END;

-- :: read_orders
/* lease-broker read orders */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @broker uniqueidentifier = CONVERT(uniqueidentifier, @P7);
SELECT CASE WHEN EXISTS (SELECT 1 FROM lease_broker_instance AS i WHERE i.id = @broker AND i.drain = 1) THEN 1 ELSE 0 END AS lb_drain;
{columns} WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK)
WHERE o.slot IN ({slots}) AND o.queue IN ({queues}) AND (o.holder IS NULL OR o.holder = @broker OR o.until_time <= @now
    OR o.until_time > DATEADD(millisecond, @P8, @now))
ORDER BY o.create_time, o.id;

-- :: apply
/* lease-broker apply operation {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {lock_wait}
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @id uniqueidentifier = CONVERT(uniqueidentifier, @P8), @created datetime2(3),
    @held_count int = 0;
{read_cancellation}
BEGIN TRANSACTION;
UPDATE lease_broker_operation
SET batches = batches + 1, until_time = DATEADD(millisecond, @P11, @now), position = NULLIF(@P12, N''), examined = examined + @P13,
    refused = refused + @P14, error = COALESCE(error, NULLIF(@P15, N''))
WHERE id = @id AND state = 0 AND holder = CONVERT(uniqueidentifier, @P9) AND batches = @P10;
IF @@ROWCOUNT = 1
BEGIN
    SELECT @created = o.create_time FROM lease_broker_operation AS o WHERE o.id = @id;
    {change_items}
    UPDATE lease_broker_operation
    SET changed = changed + @held_count, state = @P16, slot = CASE WHEN @P16 = 0 THEN slot ELSE CONVERT(varchar(36), id) END,
        end_time = CASE WHEN @P16 <> 0 THEN @now END, holder = CASE WHEN @P16 = 0 THEN holder END,
        until_time = CASE WHEN @P16 = 0 THEN until_time END
    WHERE id = @id;
    SELECT @held_count AS lb_n;
    {read_ended}
END;
COMMIT TRANSACTION;

-- :: find_items
INSERT @held (lb_i, {key_names}, lb_f, lb_next)
SELECT l.lb_i, {t_key_columns}, t.{lease_fence}, @next
FROM {key_list}
    INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}) ON {join_list_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = {state} AND t.{lease_fence} = l.lb_fence{held_since} THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
SET @held_count = @@ROWCOUNT;

-- :: redrive_items
DECLARE @held TABLE (lb_i int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, lb_next int NOT NULL);
{find_items}
IF @held_count > 0
BEGIN
    UPDATE t
    SET {lease_state} = d.lb_next, {lease_state_time} = @now, {lease_due_time} = CASE d.lb_next WHEN 2 THEN @due END, {lease_owner} = NULL,
        {lease_token} = NULL{redriven_attempt}{redriven_checkpoint}{mirror_reaped}
    FROM (SELECT TOP (@held_count) * FROM @held ORDER BY {key_names}) AS d
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 4 AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@held_count = 1));
    IF @@ROWCOUNT <> @held_count
        THROW 51224, N'another change of one of these items came at the same moment', 1;
END;

-- :: purge_items
DECLARE @held TABLE (lb_i int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, lb_next int NOT NULL);
{find_items}
IF @held_count > 0
BEGIN
    DELETE t
    FROM (SELECT TOP (@held_count) * FROM @held ORDER BY {key_names}) AS d
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = d.lb_next AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@held_count = 1));
    IF @@ROWCOUNT <> @held_count
        THROW 51224, N'another change of one of these items came at the same moment', 1;
END;
