-- Purpose: finds items of one state that fit a filter, page by page, and reads single items, for operators. One batch each. operation.sql
--   changes the items of an operation.
-- Sections: `search` is the batch of a page. {find_ranges} is a section `find_range` for each range of rows, in the order of the search:
--   {range} is one of the conditions that begin with `range_`, with the index of the walk. {fits} is an AND of the sections that begin
--   with `fits_`. `read_filter` is in the batch if the filter has columns, and `read_position` if the page begins after a row.
--   `find_keys` and `read_record` are batches of their own.
-- Parameters: @P1 to @P4 as in every statement with lists (sql/README.md). `search`: @P5: number of keys in @P6. @P6: JSON array with the
--   key of the last row of the page before, {k1 to k3}; empty for the first page. @P7: JSON array of one object, {c0, c1, …: the values of
--   columns}. @P8: maximum number of items. @P9: maximum number of rows to look at. @P10: time of that row. @P11: owner. @P12: part of the
--   error. @P13: first time of the state. @P14: time after the last one. @P15: time at which an operation was stored. @P16: least number of
--   attempts, or NULL. Times are ISO 8601 texts. A text is empty if it is not asked for (pause.sql has the reason).
--   `find_keys` and `read_record`: @P5: number of keys. @P6: JSON array of keys, {i: index, k1 to k3}.
-- Results: the server's time. Then, in the order of the search, the number of the row among those that were looked at, 1 if the row fits, else 0, and
--   the item: key, state, owner, time of the last change of state, due time, attempts, fence and error. The last row that was looked at is
--   among them whether it fits or not. `find_keys`: the time, and the index and the item of each key that has a row. `read_record`: the
--   same with the trace context, the size of the checkpoint and the columns.
-- Locks: none.
-- Indexes: dead, for dead items; due, for leased and delayed ones; ready, for ready items of a queue whose order is that of the key. For
--   others, with filtered_indexes = false, and if the column of the time is not datetime2(3), the key's.
-- Why READUNCOMMITTED: a page must not leave out rows that others have locked, as READPAST does: an operation would not change them. It
--   must not wait for a program that holds locks for long either. A row can have values that are rolled back. Whoever changes
--   it asks for its state and its fencing token again.
-- Why ranges: SQL Server seeks the rows after (time, key) only in two steps, those of the same time and those of later ones. A condition with OR reads every row of the
--   state, so a page would cost more the later it begins. A range that is not needed any more is not read.
-- Why the order has the key after the time: SQL Server adds the key of the clustered index to each index, so rows of one time are sorted by it
--   already. If the key of the queue is another one, the server sorts them. Babelfish sorts the rows of each time.
-- Why ROW_NUMBER and LEAD, and TOP twice: the server looks at rows one by one, and stops at the last item of the page, or at the last
--   row that may be looked at. LEAD finds the last row of a range, so that the program knows how far the search has come.
-- Why `fits_not_since` accepts a time after now: see operation.sql.
-- Why only datetime2(3): a position has milliseconds. Rows with finer times would be found again.
-- Why CHARINDEX and not LIKE: no character has a special meaning. The collation makes it exact, as in SQLite.
-- Why '20000101': it stands for a time that is not known (sql/README.md).
-- Why the state is a literal: a filtered index is used only if the statement names its condition with literals.
-- Why there is no FORCESEEK on a filtered index: the first page has nothing to seek in it, and SQL Server then refuses the hint.
-- Why KEEPFIXED PLAN, OPTIMIZE FOR and CASE: see leases.sql.

-- :: search
/* lease-broker search {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @time datetime2(3) = CONVERT(datetime2(3), NULLIF(@P10, N''), 126), @owner nvarchar(4000) = @P11,
    @part nvarchar(4000) = @P12, @since datetime2(3) = CONVERT(datetime2(3), NULLIF(@P13, N''), 126), @before datetime2(3) = CONVERT(datetime2(3), NULLIF(@P14, N''), 126),
    @stored datetime2(3) = CONVERT(datetime2(3), NULLIF(@P15, N''), 126), @attempt bigint = @P16, @limit int = @P8, @room int = @P9, @seen int = 0;
DECLARE @found TABLE (lb_p int NOT NULL PRIMARY KEY, lb_fits int NOT NULL, {key_declarations}, lb_state int NULL, lb_w nvarchar(max) NULL,
    lb_since datetime2(7) NULL, lb_due datetime2(7) NULL, lb_a bigint NULL, lb_f bigint NULL, lb_error nvarchar(max) NULL);
{read_filter}{read_position}{find_ranges}
SELECT @now AS lb_now;
SELECT k.lb_p, k.lb_fits, {k_key_values}, k.lb_state, k.lb_w, k.lb_since, k.lb_due, k.lb_a, k.lb_f, k.lb_error
FROM @found AS k
ORDER BY k.lb_p;

-- :: read_position
DECLARE {key_variables};
SELECT {key_into_variables}
FROM (SELECT TOP (@P5) {key_from_json} FROM OPENJSON(@P6) WITH ({key_json_schema}) AS j) AS p
OPTION (OPTIMIZE FOR (@P5 = 1));

-- :: read_filter
DECLARE {filter_variables};
SELECT {filter_into_variables}
FROM OPENJSON(@P7) WITH ({filter_json_schema}) AS j;

-- :: find_range
IF @limit > 0 AND @room > 0
BEGIN
    INSERT @found (lb_p, lb_fits, {key_names}, lb_state, lb_w, lb_since, lb_due, lb_a, lb_f, lb_error)
    SELECT TOP (@limit) @seen + s.lb_p, s.lb_fits, {s_key_columns}, s.lb_state, s.lb_w, s.lb_since, s.lb_due, s.lb_a, s.lb_f, s.lb_error
    FROM (SELECT TOP (@room) ROW_NUMBER() OVER (ORDER BY {search_order}) AS lb_p, LEAD(1) OVER (ORDER BY {search_order}) AS lb_next,
            CASE WHEN {fits} THEN 1 ELSE 0 END AS lb_fits, {t_key_as_stored}, t.{lease_state} AS lb_state, t.{lease_owner} AS lb_w,
            t.{lease_state_time} AS lb_since, t.{lease_due_time} AS lb_due, t.{lease_attempt} AS lb_a, t.{lease_fence} AS lb_f,
            t.{lease_error} AS lb_error
        FROM {table} AS t WITH (READUNCOMMITTED{range_hint})
        WHERE {range}{key_not_null}
        ORDER BY {search_order}) AS s
    WHERE 1 = CASE WHEN s.lb_fits = 1 OR s.lb_next IS NULL OR s.lb_p = @room THEN 1 END
    ORDER BY s.lb_p
    OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@limit = 1, @room = 1));
    SELECT @limit = @P8 - COALESCE(SUM(k.lb_fits), 0), @room = @P9 - COALESCE(MAX(k.lb_p), 0), @seen = COALESCE(MAX(k.lb_p), 0) FROM @found AS k;
END;

-- :: range_dead
t.{lease_state} = 4

-- :: range_due
t.{lease_state} IN (1, 2)

-- :: range_ready
t.{lease_state} = 0

-- :: range_all
1 = 1

-- :: range_after_key
 AND {after_position}

-- :: range_same_time
 AND t.{search_time} = @time AND {beyond_position}

-- :: range_later
 AND t.{search_time} > @time

-- :: range_earlier
 AND t.{search_time} < @time

-- :: range_same_no_time
 AND t.{search_time} IS NULL AND {beyond_position}

-- :: range_any_time
 AND t.{search_time} IS NOT NULL

-- :: range_no_time
 AND t.{search_time} IS NULL

-- :: range_since
 AND t.{lease_state_time} >= @since

-- :: range_before
 AND t.{lease_state_time} < @before

-- :: fits_state
t.{lease_state} = {state}

-- :: fits_owner
t.{lease_owner} COLLATE Latin1_General_100_BIN2 = @owner

-- :: fits_error
CHARINDEX(@part COLLATE Latin1_General_100_BIN2, t.{lease_error} COLLATE Latin1_General_100_BIN2) > 0

-- :: fits_since
t.{lease_state_time} >= @since AND t.{lease_state_time} > '20000101'

-- :: fits_before
t.{lease_state_time} < @before AND t.{lease_state_time} > '20000101'

-- :: fits_attempt
t.{lease_attempt} >= @attempt

-- :: fits_not_since
(t.{lease_state_time} IS NULL OR t.{lease_state_time} <= @stored OR t.{lease_state_time} > @now)

-- :: item_columns
{t_key_as_names}, CONVERT(int, t.{lease_state}) AS lb_state, t.{lease_owner} AS lb_w, t.{lease_state_time} AS lb_since,
    t.{lease_due_time} AS lb_due, CONVERT(bigint, t.{lease_attempt}) AS lb_a, t.{lease_fence} AS lb_f, t.{lease_error} AS lb_error

-- :: find_keys
/* lease-broker find keys {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT SYSUTCDATETIME() AS lb_now;
SELECT l.lb_i, {item_columns}
FROM {key_list}
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_list_on_key}
ORDER BY l.lb_i
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));

-- :: read_record
/* lease-broker read item {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT SYSUTCDATETIME() AS lb_now;
SELECT l.lb_i, {item_columns},
    t.{trace_parent} AS lb_trace, {checkpoint_bytes} AS lb_n{t_data_columns}
FROM {key_list}
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_list_on_key}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));
