-- Purpose: extends leases that are still held. One batch, one transaction.
-- Sections: `extend` is the batch. `extra_columns` and `extra_json` add the duration to the list of leases.sql.
-- Parameters: those of leases.sql. Each lease also has d: milliseconds from now until the new expiry. If renewals of the batch
--   store checkpoints, h is 1 if this one does, and c is the checkpoint, or NULL to remove the stored one. Otherwise
--   {written_checkpoint}, {checkpoint_of_json} and {checkpoint_json} are empty.
-- Results: for each extended lease its index, the server's time and the new expiry. If the list has more leases, a second result
--   has, for each other lease whose row exists, its index, the present state, and the reason if the lease was cancelled.
-- Locks: X on the extended rows, in the order of the key (leases.sql says how far that holds). Then S on the rows of lost leases.
-- Indexes: the key's.
-- Why {lock_wait}: see leases.sql.
-- Why a row with the fence, an owner and no token: only cancel.sql leaves it so. The next claim changes the fence.
-- Why a SELECT after the UPDATE, and not OUTPUT: see settle.sql.
-- Why the server's time in the result is SYSUTCDATETIME() and not @now: see claim.sql.

-- :: extra_columns
, DATEADD(millisecond, j.d, @now) AS lb_due{checkpoint_of_json}

-- :: extra_json
, d int '$.d'{checkpoint_json}

-- :: extend
/* lease-broker heartbeat {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {lock_wait}
DECLARE @now datetime2(3) = SYSUTCDATETIME();
BEGIN TRANSACTION;
UPDATE t
SET {lease_due_time} = l.lb_due{written_checkpoint}
FROM {lease_list}
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
SELECT l.lb_i, SYSUTCDATETIME() AS lb_now, t.{lease_due_time} AS lb_due
FROM {lease_list}
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
IF @@ROWCOUNT < @P5
    SELECT l.lb_i, t.{lease_state} AS lb_state,
        CASE WHEN t.{lease_fence} = l.lb_f AND t.{lease_token} IS NULL AND t.{lease_owner} IS NOT NULL THEN 1 ELSE 0 END AS lb_cancelled,
        t.{lease_error} AS lb_error
    FROM {lease_list}
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE 1 = CASE WHEN {is_held} THEN 0 ELSE 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
COMMIT TRANSACTION;
