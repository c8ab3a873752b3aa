-- Purpose: makes dead items ready, with all their attempts again. The longest dead come first; with filtered_indexes = false, the
--   first in the order of the queue. One batch, one transaction.
-- Sections: `redrive`.
-- Parameters: @P1: maximum number of rows.
-- Results: the number of changed rows.
-- Locks, in order: U, then X, on the changed rows, through the index of the pick and the key. READPAST skips rows that others have
--   locked.
-- Indexes: dead (pick), the key (update). With filtered_indexes = false there is no dead index. The ready index, which the state
--   leads, then serves the pick.
-- Why the pick has the order of its index and no other: a sort would read and lock all dead rows, however few are asked for.
-- Why {redriven_checkpoint}: it is empty, or removes the checkpoint if the operator asks for that.
-- Why the token is cleared: a late settlement of the last lease must change nothing.
-- Why the update checks state and fence again, and why CASE, TOP and the hints: see claim.sql and leases.sql.
-- Why IF around the changes: see leases.sql.

-- :: redrive
/* lease-broker redrive {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @due TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL);
BEGIN TRANSACTION;
DECLARE @changed_count int = 0;
INSERT @due (lb_p, {key_names}, lb_f)
SELECT TOP (@P1) ROW_NUMBER() OVER (ORDER BY {redrive_order}), {t_key_columns}, t.{lease_fence}
FROM {table} AS t WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK{dead_hint})
WHERE t.{lease_state} = 4
ORDER BY {redrive_order}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));
IF EXISTS (SELECT 1 FROM @due)
BEGIN
    UPDATE t
    SET {lease_state} = 0, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
        {lease_attempt} = 0{redriven_checkpoint}{mirror_redriven}
    FROM (SELECT TOP (@P1) * FROM @due) AS d INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 4 AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));
    SET @changed_count = @@ROWCOUNT;
END;
SELECT @changed_count AS lb_n;
COMMIT TRANSACTION;
