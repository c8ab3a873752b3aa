-- Purpose: leases consecutive items of a group to one claim call, and ends the leases of such a run together. A run has no column of its
--   own: it is the leased rows that have one group and one lease token. This file has no statement of its own: in a queue with runs,
--   claim.sql, groups.sql, settle.sql, cancel.sql and reap.sql contain its sections.
-- Sections: a claim contains `declare_run` and `run_of_group`, which finds the items of a run in place of `head_of_group` (groups.sql),
--   `cut_runs`, which leaves out those behind one that is not leased, and `run_number`. The other operations contain `find_runs`: the
--   leases of all runs of which they end a lease, in their order. It contains `runs_of_list` (settlements) or `runs_of_ended`.
--   Then `mark_list`, `mark_due` or `mark_held` marks the leases that the operation does not end as it was asked, and those that it
--   releases. The last two begin with `number_ended`, which notes the leases that end. `in_order` is a condition on the list of
--   settlements, and `read_marks` tells which of them were not applied. `end_runs` releases the later leases, and `read_later` returns
--   them.
-- Parameters: those of the files that contain the sections. The list of a claim has x: the maximum number of items of a run, for one call.
--   {ended} is the table of the leases that end, @due or @held, and {number} the column that numbers them.
-- Results: `read_marks`: index of the settlement, and 1 if an earlier item of the run is leased, 0 if an earlier settlement of the list has
--   released the lease, as this one wants. `read_later`: -1, 0 and the lease, for each lease that was released.
-- Locks, in order: `find_runs`: U on the leased rows of the runs, in the order of the group. `end_runs`: X on those that it releases.
-- Indexes: busy (`find_runs`), group (`run_of_group`), the key (others). Without filtered indexes the group index serves for the busy one.
-- Why all leases of one group and one token are a run: a group has the leases of one claim at most, and a claim with runs has one call.
-- Why the columns of @run: lb_i and lb_kind are index and kind of the settlement, or the number of the lease that ends. lb_late is 1 for a
--   completion or failure if an earlier item of the run is in the list, behind this one. lb_mark is 1 if the settlement
--   is refused, 0 if the lease was released before, and 9 if it was lost. lb_later is 1 if the lease is released.
-- Why the first item of a run that is not completed decides: all items before it are completed by the batch. If it fails, the leases
--   behind it end with it. Otherwise it stays leased at least until the settlements before it in the list are applied, and no completion or
--   failure behind it is. A release needs no order: it ends its lease and those behind it.
-- Why released leases keep token and fence, as after a release: a late release is recognised, and other late settlements change nothing.
-- Why the number of the visit, times 100, numbers the items of a claim: a run has at most 100. So the items of a run are side by side.
-- Why a run ends at an item that is not leased: the item can be locked by another program, or be too large. Those behind it must wait.
-- Why the counts are compared: Babelfish ignores the lock hints, so another statement can end some of the leases between the steps. The
--   batch then throws 51224, is rolled back, and the broker runs it again.
-- Why CASE, TOP (@later_count) and the hints: see leases.sql. TOP never removes a row.

-- :: declare_run

DECLARE @most_run int = (SELECT COALESCE(MAX(CASE WHEN j.x > {max_run} THEN {max_run} ELSE j.x END), 1) FROM OPENJSON(@P6) WITH (x int '$.x') AS j);

-- :: run_of_group
IF @size > {pick_count} - @group_count SET @size = {pick_count} - @group_count;
                INSERT @claimable (lb_place, lb_turn, {key_names}, lb_group, lb_size)
                SELECT 0, @visits * 100 + m.lb_number, {m_key_names}, m.lb_group, 1
                FROM (SELECT TOP (@size) ROW_NUMBER() OVER (ORDER BY {t_group_order}) - 1 AS lb_number, {t_key_as_stored}, t.{group} AS lb_group
                    FROM {table} AS t WITH (READUNCOMMITTED{group_seek_hint})
                    WHERE t.{lease_state} = 0 AND t.{group} = {group_value}{key_not_null}
                    ORDER BY {t_group_order}) AS m
                OPTION (KEEPFIXED PLAN);

-- :: cut_runs
DELETE FROM @picked
WHERE lb_turn IN (SELECT c.lb_turn
    FROM @claimable AS c INNER JOIN @claimable AS b ON b.lb_place = 0 AND b.lb_turn / 100 = c.lb_turn / 100 AND b.lb_turn < c.lb_turn
    WHERE c.lb_place = 0 AND b.lb_turn NOT IN (SELECT i.lb_turn FROM (SELECT * FROM @picked{leased_items}) AS i WHERE i.lb_turn IS NOT NULL));

-- :: run_number
, CASE WHEN t.{group} IS NULL THEN 0 ELSE DENSE_RANK() OVER (ORDER BY CASE WHEN t.{group} IS NULL THEN 1 END, t.{group}) END AS lb_run

-- :: runs_of_list
SELECT DISTINCT t.{group} AS lb_group, t.{lease_token} AS lb_t
    FROM {lease_list} INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    WHERE {is_held} AND t.{group} IS NOT NULL

-- :: runs_of_ended
SELECT DISTINCT t.{group} AS lb_group, t.{lease_token} AS lb_t
    FROM {ended} AS d INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE t.{lease_state} = 1 AND t.{group} IS NOT NULL AND t.{lease_token} IS NOT NULL

-- :: find_runs
DECLARE @run TABLE (lb_r bigint NOT NULL, lb_n bigint NOT NULL, {key_declarations}, lb_f bigint NOT NULL, lb_attempt int NOT NULL,
    lb_t uniqueidentifier NULL, lb_owner nvarchar(128) NULL, lb_since datetime2(7) NULL, lb_due datetime2(7) NULL, lb_trace nvarchar(56) NULL,
    lb_i int NULL, lb_kind int NULL, lb_late int NULL, lb_mark int NULL, lb_later int NULL, PRIMARY KEY (lb_r, lb_n));
INSERT @run (lb_r, lb_n, {key_names}, lb_f, lb_attempt, lb_t, lb_owner, lb_since, lb_due, lb_trace)
SELECT DENSE_RANK() OVER (ORDER BY t.{lease_token}, t.{group}),
    ROW_NUMBER() OVER (PARTITION BY t.{lease_token}, t.{group} ORDER BY {t_group_order}), {t_key_columns}, t.{lease_fence},
    t.{lease_attempt}, t.{lease_token}, t.{lease_owner}, t.{lease_state_time}, t.{lease_due_time}, CONVERT(nvarchar(56), t.{trace_parent})
FROM ({runs_of}) AS m INNER JOIN {table} AS t WITH (UPDLOCK, ROWLOCK{busy_hint}) ON t.{group} = m.lb_group
WHERE {t_busy_states} AND t.{lease_state} = 1 AND t.{lease_token} = m.lb_t
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN);

-- :: mark_list
UPDATE o
SET lb_i = l.lb_i, lb_kind = l.lb_kind
FROM {lease_list}
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_list_on_key}
    INNER JOIN @run AS o ON {join_run_on_key}
WHERE {is_held}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
UPDATE o
SET lb_late = CASE WHEN o.lb_kind <> 2 AND EXISTS (SELECT 1 FROM @run AS e WHERE e.lb_r = o.lb_r AND e.lb_n < o.lb_n AND e.lb_i > o.lb_i)
    THEN 1 ELSE 0 END
FROM @run AS o
WHERE o.lb_i IS NOT NULL;
UPDATE o
SET lb_mark = CASE
        WHEN b.lb_kind = 1 AND b.lb_late = 0 AND b.lb_n < o.lb_n AND b.lb_i < o.lb_i OR EXISTS (SELECT 1 FROM @run AS e
                WHERE e.lb_r = o.lb_r AND e.lb_n < o.lb_n AND e.lb_i < o.lb_i AND e.lb_kind = 2)
            THEN CASE o.lb_kind WHEN 2 THEN 0 ELSE 9 END
        WHEN o.lb_kind = 2 OR o.lb_n = b.lb_n AND o.lb_late = 0 THEN NULL
        ELSE 1 END
FROM @run AS o INNER JOIN @run AS b ON b.lb_r = o.lb_r AND o.lb_n >= b.lb_n
WHERE o.lb_i IS NOT NULL AND (b.lb_i IS NULL OR b.lb_kind <> 0 OR b.lb_late = 1)
    AND NOT EXISTS (SELECT 1 FROM @run AS e WHERE e.lb_r = b.lb_r AND e.lb_n < b.lb_n AND (e.lb_i IS NULL OR e.lb_kind <> 0 OR e.lb_late = 1));
UPDATE o
SET lb_later = 1
FROM @run AS o
WHERE (o.lb_i IS NULL OR o.lb_mark IS NOT NULL)
    AND EXISTS (SELECT 1 FROM @run AS e WHERE e.lb_r = o.lb_r AND e.lb_n < o.lb_n AND e.lb_kind IN (1, 2) AND e.lb_mark IS NULL);

-- :: in_order
 AND l.lb_i NOT IN (SELECT o.lb_i FROM @run AS o WHERE o.lb_mark IS NOT NULL)

-- :: read_marks
SELECT o.lb_i, CONVERT(smallint, o.lb_mark) AS lb_state FROM @run AS o WHERE o.lb_mark IN (0, 1);

-- :: number_ended
UPDATE o
SET lb_i = d.{number}
FROM {ended} AS d
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    INNER JOIN @run AS o ON {join_run_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN);

-- :: mark_due
{number_ended}
UPDATE o
SET lb_later = 1
FROM @run AS o
WHERE o.lb_n > 1 AND EXISTS (SELECT 1 FROM @run AS e WHERE e.lb_r = o.lb_r AND e.lb_n <= o.lb_n AND e.lb_i IS NOT NULL);
DELETE FROM @due WHERE lb_p IN (SELECT o.lb_i FROM @run AS o WHERE o.lb_later = 1 AND o.lb_i IS NOT NULL);

-- :: mark_held
{number_ended}
UPDATE o
SET lb_later = 1
FROM @run AS o
WHERE EXISTS (SELECT 1 FROM @run AS e WHERE e.lb_r = o.lb_r AND e.lb_n < o.lb_n AND e.lb_i IS NOT NULL);
DELETE FROM @held WHERE lb_i IN (SELECT o.lb_i FROM @run AS o WHERE o.lb_later = 1 AND o.lb_i IS NOT NULL);
SET @held_count = @held_count - @@ROWCOUNT;

-- :: end_runs
DECLARE @later_count int = (SELECT COUNT(*) FROM @run AS o WHERE o.lb_later = 1);
IF @later_count > 0
BEGIN
    UPDATE t
    SET {lease_state} = 0, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL,
        {lease_attempt} = t.{lease_attempt} - 1{mirror_ready}
    FROM (SELECT TOP (@later_count) * FROM @run WHERE lb_later = 1 ORDER BY lb_r, lb_n) AS d
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_token} = d.lb_t AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@later_count = 1));
    IF @@ROWCOUNT <> @later_count
        THROW 51224, N'another operation ended leases of the same run at the same moment', 1;
END;

-- :: read_later
SELECT -1 AS lb_i, CONVERT(smallint, 0) AS lb_state, {d_key_values}, d.lb_f, d.lb_attempt, d.lb_t, d.lb_owner, d.lb_since, d.lb_due,
    d.lb_trace, @now AS lb_now
FROM @run AS d
WHERE d.lb_later = 1
ORDER BY d.lb_r, d.lb_n;
