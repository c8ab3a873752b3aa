-- Purpose: lists items of one state. The items that have been longest in the state come first.
-- Sections: `list`, rendered once for each state.
-- Parameters: @P1: maximum number of rows.
-- Results: for each item the server's time, the key, owner, time of the last change of state, due time, attempts, fence and
--   error.
-- Locks: S on the rows read. READPAST skips rows that others have locked.
-- Indexes: dead, for dead items, in its order. For the other states all rows of the state are sorted. This is acceptable
--   because a broker asks for the leases only, and only on a queue with `max_lease_age`.
-- Why the state is a literal: a filtered index is used only if the statement names its condition with literals.
-- Why READCOMMITTEDLOCK: READPAST skips rows only in reads that use locks. Without the hint, a database with
--   READ_COMMITTED_SNAPSHOT on reads row versions instead.

-- :: list
/* lease-broker list {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT TOP (@P1) SYSUTCDATETIME() AS lb_now, {t_key_as_names}, t.{lease_owner} AS lb_w, t.{lease_state_time} AS lb_since,
    t.{lease_due_time} AS lb_due, t.{lease_attempt} AS lb_a, t.{lease_fence} AS lb_f, t.{lease_error} AS lb_error
FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
WHERE t.{lease_state} = {state}
ORDER BY t.{lease_state_time}, {t_key_columns}
OPTION (OPTIMIZE FOR (@P1 = 1));
