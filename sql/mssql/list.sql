-- Lists items of one state, the longest in it first. The state is a literal, so that the index of its rows is used.
-- Parameter: @P1 the most rows. Locks: S on the rows read; rows that others hold are skipped, for which
--   READ_COMMITTED_SNAPSHOT has to be overruled (READCOMMITTEDLOCK).
-- Indexes: dead for the dead, which it sorts too; of the other states the rows are sorted: it runs by hand.

-- :: list
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT TOP (@P1) SYSUTCDATETIME() AS lb_now, {t_key_as_names}, t.{lease_owner} AS lb_w, t.{lease_state_time} AS lb_since,
    t.{lease_due_time} AS lb_due, t.{lease_attempt} AS lb_a, t.{lease_fence} AS lb_f, t.{lease_error} AS lb_error
FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST)
WHERE t.{lease_state} = {state}
ORDER BY t.{lease_state_time}, {t_key_columns};
