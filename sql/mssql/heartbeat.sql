-- Purpose: extends leases that are still held. One batch, one transaction.
-- Sections: `extend` is the batch. `extra_columns` and `extra_json` add the duration to the list of leases.sql.
-- Parameters: those of leases.sql. Each lease also has d: milliseconds from now until the new expiry.
-- Results: for each extended lease its index, the server's time and the new expiry.
-- Locks: X on the extended rows, in the order of the key (leases.sql says how far that holds).
-- Indexes: the key's.
-- Why a SELECT after the UPDATE, and not OUTPUT: see settle.sql.
-- Why the server's time in the result is SYSUTCDATETIME() and not @now: see claim.sql.

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
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
SELECT l.lb_i, SYSUTCDATETIME() AS lb_now, t.{lease_due_time} AS lb_due
FROM {lease_list}
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
COMMIT TRANSACTION;
