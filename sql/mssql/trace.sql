-- Purpose: keeps the traces of leases in their rows, so that the items' next leases continue them.
-- Sections: `extra_columns` and `extra_json` add the trace context to the list of leases.sql. `note_traces` stores the contexts of
--   leases whose rows have none. `find_expired_untraced` and `find_leased_untraced` return such leases: expired ones, and those
--   on given rows. The broker makes their contexts, which depend on its secret.
-- Parameters: `note_traces`: those of leases.sql; each lease also has c: the trace context. `find_expired_untraced`: @P1: maximum
--   number of rows. `find_leased_untraced`: @P1 to @P4 as in every statement with lists (sql/README.md); @P5 and @P6: the rows, as
--   in cancel.sql.
-- Results: key, fencing token, attempt and token of each lease that was found. `find_expired_untraced`: then the server's time.
-- Locks: U, then X, on the changed rows, in the order of the key (leases.sql says how far that holds). READPAST skips rows that others
--   have locked. None stays after a search.
-- Indexes: the key's (`note_traces`, `find_leased_untraced`), due (`find_expired_untraced`).
-- Why before the lease ends, and not with it: most leases need no note. The statement that ends a lease stays as it is for them.
-- Why also for expired leases: the reaper has not ended them, so no worker can have the item again.
-- Why IS NULL: a text that a producer has stored stays, even if it is no valid trace context.
-- Why READPAST: the operation that ends the leases runs after the note, and must not wait for a row that another program has locked. The
--   item's next lease then begins a trace of its own. Babelfish ignores READPAST, so {lock_wait} ends the wait there.
-- Why CASE, TOP (@P5), the other hints and {lock_wait}: see leases.sql.

-- :: extra_columns
, j.c AS lb_trace

-- :: extra_json
, c varchar(55) '$.c'

-- :: note_traces
/* lease-broker trace {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {lock_wait}
BEGIN TRANSACTION;
UPDATE t
SET {trace_parent} = l.lb_trace
FROM {lease_list}
    INNER JOIN {table} AS t WITH (READPAST, {by_key}) ON {join_list_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f AND t.{trace_parent} IS NULL THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
COMMIT TRANSACTION;

-- :: find_expired_untraced
/* lease-broker trace {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
SELECT TOP (@P1) {t_key_as_names}, t.{lease_fence} AS lb_f, t.{lease_attempt} AS lb_attempt, t.{lease_token} AS lb_t
FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK{due_hint})
WHERE t.{lease_state} {states} AND t.{lease_due_time} <= @now
    AND 1 = CASE WHEN t.{lease_state} = 1 AND t.{trace_parent} IS NULL THEN 1 END
ORDER BY t.{lease_due_time}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));
SELECT @now AS lb_now;

-- :: find_leased_untraced
/* lease-broker trace {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT {t_key_as_names}, t.{lease_fence} AS lb_f, t.{lease_attempt} AS lb_attempt, t.{lease_token} AS lb_t
FROM {key_list}
    INNER JOIN {table} AS t WITH (READPAST, READCOMMITTEDLOCK, {by_key}) ON {join_list_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{trace_parent} IS NULL THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
