-- Purpose: ends leases: completes, fails or releases items, and adds the items that follow completions. One batch, one
--   transaction.
-- Sections, in this order:
--   1. `begin`.
--   2. If completions add items: `remember_ended`.
--   3. If settlements write columns: `read_long_texts` and `check_characters` of enqueue.sql, if a column needs them.
--      `update_ended`, unless the queue deletes completed rows and the list has only completions.
--   4. `delete_completed`, if the queue deletes completed rows and the list has completions.
--   5. `verify_count`.
--   6. `move_to_archive`, if the queue has an archive and the list has completions.
--   7. If completions add items: one `insert_follow_ups` (enqueue.sql) for each queue. It takes several if items name different columns, or
--      if ready and delayed ones take turns.
--   8. COMMIT. It is ROLLBACK while the broker searches for the follow-up that a constraint refused.
--   `extra_columns` and `extra_json` add fields to the list of leases.sql.
-- Parameters: those of leases.sql. Each lease also has k: 0 complete, 1 fail, 2 release; n: the new state; s and d: the delay
--   in seconds, and the milliseconds beyond; e: the error. If settlements of the batch write columns, h0 is 1 if this one
--   writes the first of them, c0 is the value (as in enqueue.sql), and so on. Only `update_ended` reads these fields;
--   {written_columns} sets the columns. No two leases have the same key. The lists of follow-ups begin at @P7.
--   A checkpoint of a failure or a release is written as one more of these columns. Without one, {clear_checkpoint} removes the
--   checkpoints of completed items, if the queue has checkpoints.
-- Results: index and new state of each lease that this batch ends, the time, and the worker that held it. If it ends fewer than the list has, a second result has
--   index and present state of each lease that an earlier settlement of the same kind ended, and index and NULL of each
--   completion whose key has no row.
-- Locks, in order: U on the rows of held leases, in the order of the key (leases.sql says how far that holds). X on the rows
--   of held leases. X on the rows added to the archive. X on the rows that follow-ups add.
-- Indexes: the key's.
-- Why the row keeps token and fence: a settlement that is sent again must be recognised. The row then shows which kind of
--   settlement ended the lease. After a completion its state is 3, or it has an owner and no attempts. After a failure its
--   state is 4, or it has an owner and attempts. After a release it has no owner.
-- Why two steps: `begin` reads the rows under U locks and returns them. `update_ended` and `delete_completed` change them. On
--   SQL Server both see the same rows. Babelfish ignores the lock hints, so `verify_count` compares both counts. If they
--   differ, it throws 51224, the batch is rolled back, and the broker runs it again.
-- Why follow-ups are added last: one that refers to the completed row, or has its key, finds the table as it stays. Before a DELETE that
--   cascades, its row would go with the completed one.
-- Why `move_to_archive` compares the number of rows: a unique index of the archive with IGNORE_DUP_KEY = ON drops a row with a
--   warning only, and the row would be deleted all the same. Error 51225 refuses the completion.
-- Why {clear_trace}: an item of a recurring queue is completed again and again. Each run gets a trace of its own.
-- Why no OUTPUT: Babelfish runs a joined UPDATE with OUTPUT as a product with the whole table. A table with triggers accepts
--   OUTPUT only with INTO a table variable.
-- Why IF around the changes, and why {lock_wait}: see leases.sql.

-- :: extra_columns
, j.k AS lb_kind, j.n AS lb_state, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)) AS lb_due,
        LEFT(TRANSLATE(j.e COLLATE Latin1_General_100_BIN2, @P1, @P2), 1024) AS lb_error

-- :: extra_json
, k tinyint '$.k', n tinyint '$.n', s int '$.s',
        d int '$.d', e nvarchar(max) '$.e'

-- :: begin
/* lease-broker settle {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {lock_wait}
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @changed_count int = 0;
BEGIN TRANSACTION;
{find_runs}SELECT l.lb_i, l.lb_state, @now AS lb_now, t.{lease_owner} AS lb_owner
FROM {lease_list}
    INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}) ON {join_list_on_key}
WHERE {is_held}{in_order}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
DECLARE @held_count int = @@ROWCOUNT;
IF @held_count < @P5
    SELECT l.lb_i, t.{lease_state} AS lb_state
    FROM {lease_list}
        LEFT JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE l.lb_kind = 0 AND {has_no_row} OR {is_same_lease}
        AND (l.lb_kind = 0 AND (t.{lease_state} = 3
                OR t.{lease_state} IN (0, 2) AND t.{lease_attempt} = 0 AND t.{lease_owner} IS NOT NULL)
            OR l.lb_kind = 1 AND (t.{lease_state} = 4
                OR t.{lease_state} IN (0, 2) AND t.{lease_attempt} > 0 AND t.{lease_owner} IS NOT NULL)
            OR l.lb_kind = 2 AND t.{lease_state} IN (0, 2) AND t.{lease_owner} IS NULL)
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));{read_marks}

-- :: remember_ended
DECLARE @ended TABLE (lb_i int NOT NULL PRIMARY KEY);
INSERT @ended (lb_i)
SELECT l.lb_i
FROM {lease_list}
    INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}) ON {join_list_on_key}
WHERE {is_held}{in_order}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));

-- :: update_ended
IF @held_count > 0
BEGIN
    UPDATE t
    SET {lease_state} = l.lb_state, {lease_state_time} = @now, {lease_due_time} = l.lb_due,
        {lease_owner} = CASE l.lb_kind WHEN 2 THEN NULL ELSE t.{lease_owner} END,
        {lease_attempt} = CASE WHEN l.lb_kind = 2 THEN t.{lease_attempt} - 1
            WHEN l.lb_kind = 0 AND l.lb_state <> 3 THEN 0 ELSE t.{lease_attempt} END,
        {lease_error} = CASE l.lb_kind WHEN 0 THEN NULL WHEN 1 THEN l.lb_error ELSE t.{lease_error} END{clear_checkpoint}{clear_trace}{written_columns}{mirror_ended}
    FROM {lease_list}
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE {is_held}{in_order}{except_deleted}
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
    SET @changed_count = @changed_count + @@ROWCOUNT;
END;

-- :: delete_completed
IF @held_count > 0
BEGIN
    DELETE t
    FROM {lease_list}
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE {is_held}{in_order} AND l.lb_kind = 0
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
    SET @changed_count = @changed_count + @@ROWCOUNT;
END;

-- :: verify_count
IF @changed_count <> @held_count
    THROW 51224, N'another settlement of one of these leases came at the same moment', 1;{end_runs}{read_later}

-- :: move_to_archive
IF @changed_count > 0
BEGIN
    INSERT {archive} ({archive_columns})
    SELECT {t_archive_columns}
    FROM {lease_list}
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE t.{lease_state} = 3 AND t.{lease_state_time} = @now AND {is_same_lease} AND l.lb_kind = 0
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
    DECLARE @archived_count int = @@ROWCOUNT;
    DELETE t
    FROM {lease_list}
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE t.{lease_state} = 3 AND t.{lease_state_time} = @now AND {is_same_lease} AND l.lb_kind = 0
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
    IF @@ROWCOUNT <> @archived_count
        THROW 51225, N'a unique index of the archive with IGNORE_DUP_KEY = ON dropped the row: it has this key already', 1;
END;
