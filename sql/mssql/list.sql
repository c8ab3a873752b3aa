-- Purpose: lists items of one state for operators. The items that have been longest in the state come first, or a page of the items
--   in the order of the key.
-- Sections: `list`, rendered once for each state. `list_page` is a batch for any state; with `read_position` and the conditions that
--   the placeholder {after_position} stands for, the page begins after a key.
-- Parameters of `list`: @P1: maximum number of rows.
-- Parameters of `list_page`: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of keys. @P6: JSON array with
--   the key after which the page starts, {k1 to k3}; empty for the first page. @P7: maximum number of rows. @P8: state.
-- Results: for each item the server's time, the key, owner, time of the last change of state, due time, attempts, fence and
--   error.
-- Locks: S on the rows read. READPAST skips rows that others have locked.
-- Indexes: dead, for dead items, in its order. For the other states all rows of the state are sorted. This is acceptable
--   because the statement runs only when an operator asks. The key's (list_page).
-- Why the state is a literal: a filtered index is used only if the statement names its condition with literals.
-- Why READCOMMITTEDLOCK: READPAST skips rows only in reads that use locks. Without the hint, a database with
--   READ_COMMITTED_SNAPSHOT on reads row versions instead.
-- Why pages have the order of the key: a page can begin after any key, and all pages together read the table once. Items whose state
--   changes meanwhile do not move.
-- Why CASE around the state in a page, and why KEEPFIXED PLAN: see leases.sql. FORCESEEK: see purge.sql.

-- :: list
/* lease-broker list {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT TOP (@P1) SYSUTCDATETIME() AS lb_now, {t_key_as_names}, t.{lease_owner} AS lb_w, t.{lease_state_time} AS lb_since,
    t.{lease_due_time} AS lb_due, t.{lease_attempt} AS lb_a, t.{lease_fence} AS lb_f, t.{lease_error} AS lb_error
FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST)
WHERE t.{lease_state} = {state}
ORDER BY t.{lease_state_time}, {t_key_columns}
OPTION (OPTIMIZE FOR (@P1 = 1));

-- :: read_position
DECLARE {key_variables};
SELECT {key_into_variables}
FROM (SELECT TOP (@P5) {key_from_json} FROM OPENJSON(@P6) WITH ({key_json_schema}) AS j) AS p
OPTION (OPTIMIZE FOR (@P5 = 1));

-- :: list_page
/* lease-broker list {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
{read_position}SELECT TOP (@P7) SYSUTCDATETIME() AS lb_now, {t_key_as_names}, t.{lease_owner} AS lb_w, t.{lease_state_time} AS lb_since,
    t.{lease_due_time} AS lb_due, t.{lease_attempt} AS lb_a, t.{lease_fence} AS lb_f, t.{lease_error} AS lb_error
FROM {table} AS t WITH (READPAST, READCOMMITTEDLOCK{walk_hint})
WHERE {after_position}{key_not_null} AND 1 = CASE WHEN t.{lease_state} = @P8 THEN 1 END
ORDER BY {t_key_columns}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P7 = 1));
