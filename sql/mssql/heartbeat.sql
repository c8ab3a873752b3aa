-- Makes leases last until a new expiry, if they are still held. One batch, one transaction.
-- Parameters: those of leases.sql, whose entries have d, the milliseconds until the new expiry.
-- Locks: X on the rows extended, in the order of the key. Index: the key's.

-- :: extra_columns
, DATEADD(millisecond, j.d, @now) AS lb_due

-- :: extra_json
, d int '$.d'

-- :: extend
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
BEGIN TRANSACTION;
UPDATE t
SET {lease_due_time} = l.lb_due
FROM {lease_list}
    INNER JOIN {table} AS t WITH (ROWLOCK) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN);
SELECT l.lb_i, @now AS lb_now, t.{lease_due_time} AS lb_due
FROM {lease_list}
    INNER JOIN {table} AS t ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN);
COMMIT TRANSACTION;
