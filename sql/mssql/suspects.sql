-- Purpose: leases items whose last lease expired, the suspects, alone. `src/store/contract/suspects.rs` has the rule and its reason.
-- Sections: a claim contains `find_suspects` and `read_held_back`. If `find_suspects` finds an entry in the list of suspects, the claim
--   gives no new leases. The broker then sends a batch for each of its calls. It is the claim again, with `choose_share` and
--   `pick_share` in place of the pick, and with `note_lease`. `pick_share` contains the pick with `except_suspects`. The reaper
--   contains `remember`. It begins with `forget` as a transaction of its own. If the items can be larger than the responses,
--   `choose_share` contains `suspect_fits` and `waiting_that_fit`: a suspect that is too large for the call is one like other items for
--   it, so the call passes over it.
--   It also contains `leave_out` of left_out.sql: rows that refuse their leases are kept from the claim as suspects are.
-- Parameters: those of claim.sql and reap.sql. The list of `choose_share` has one call.
-- Results: a row with the column lb_held_back if suspects can have been kept from a call. It is 2 if a suspect waits that the call
--   does not get, or if the worker holds one, and 3 if a suspect is all that the call can get.
-- Locks, in order:
--   `choose_share`: the application lock of the queue's suspects, for up to 5 s. S for a moment on rows of the list. U on suspects up to
--   the first that can be leased. Then the locks of a claim, and X on a row of the list. COMMIT releases all of them.
--   `forget`: the same application lock, for up to 1 s. S for a moment on suspects, and X on rows of the list.
--   READPAST skips suspects that others have locked, except in claims with claim_strategy = "app_lock".
-- Indexes: lease_broker_suspect_wait (all reads of the list), the key, token (`choose_share`).
-- Why a list: no index of the queue finds suspects among ready items, and each claim must know whether there are any. The list is empty
--   while no lease expires, and then a claim only looks at its first entry.
-- Why an entry has the fencing token: it shows whether the row still has the lease that the entry is about. An entry without a worker is
--   valid while the row is ready and has its fencing token, and one with a worker while the row is leased and has it. Other entries
--   are ignored, and `forget` deletes them. So settlements need not know the list.
-- Why `find_suspects` comes after the pick: the reaper commits an entry together with the row that it makes ready. A claim that has
--   picked the row also finds the entry.
-- Why a batch for each call, unlike other claims: the leases that one call gets decide about the next call of the same worker.
-- Why the application lock: two claims of one worker, over two connections, would otherwise both find that it holds nothing.
-- Why `forget` takes the lock before any other: a claim that holds it waits for rows of the list.
-- Why `forget` waits for the lock, which it can do without: Babelfish 4.3 ends the whole server when a session has failed five times
--   to get an application lock. Claims hold it for a few milliseconds.
-- Why the leases of a worker are found by the index of the tokens: it holds all leases and nothing else. Only claims read it so while a
--   suspect waits, and only until they find a lease of the worker.
-- Why `choose_share` takes the U locks of the pick: a suspect that another program has locked is passed over, and the next one is leased.
--   With a read that waits, or one that finds locked rows, one open transaction would stop all claims of the queue.
-- Why READUNCOMMITTED for the leases of a worker: a row that a program has locked still has its lease. A settlement that is rolled
--   back at this moment can give the worker a suspect beside another item. That is a smaller harm than a wait.
-- Why LEFT JOIN in `waiting_that_fit`: a suspect that is locked now can be free when the other items are picked.
-- Why `forget` reads in two ways: READPAST leaves the entries of locked rows alone, but does not tell them from rows that are gone. If
--   a deletion is rolled back at this moment, its item is like others until its next lease expires.
-- Why `except_suspects` looks at the columns of the row first: most rows are not looked up then. A row with these columns is no
--   suspect without an entry: a redriven item can keep its attempts, and other programs write rows.
-- Why CONVERT: the keys are stored as sql_variant, as in lease_broker_request_key. A text first becomes nvarchar and gets the collation of
--   its column within the conversion to char or varchar. Converted directly, it would have the code page and the collation of the
--   database: letters would become question marks, and a and A one key.

-- :: find_suspects
DECLARE @is_held_back int = 0;
IF EXISTS (SELECT 1 FROM lease_broker_suspect AS s WHERE s.queue = {queue_literal})
BEGIN
    SET @is_held_back = CASE WHEN EXISTS (SELECT 1 FROM @picked) THEN 1 ELSE 0 END;
    DELETE FROM @picked;
END;

-- :: read_held_back
IF @is_held_back > 0 SELECT @is_held_back AS lb_held_back;

-- :: suspects_lock
CONCAT(N'lease_broker_suspects_', OBJECT_ID({table_literal}))

-- :: choose_share
DECLARE @is_held_back int = 0, @share varchar(8) = 'all', @holding varchar(8) = 'nothing', @suspects_lock_result int,
    @suspects_lock_name nvarchar(255) = {suspects_lock},
    @suspects_lock_wait int = (SELECT MAX(w.lb_n) FROM (VALUES (0), (DATEDIFF(millisecond, SYSUTCDATETIME(), @lock_deadline))) AS w (lb_n));
EXEC @suspects_lock_result = sp_getapplock @Resource = @suspects_lock_name, @LockMode = 'Exclusive', @LockTimeout = @suspects_lock_wait;
IF @suspects_lock_result < 0 THROW 51222, N'other claims have held the application lock of the suspects of this queue for 5 s', 1;
SET @now = SYSUTCDATETIME();
{leave_out}
DECLARE @worker nvarchar(128) = (SELECT TOP (1) TRANSLATE(j.w COLLATE Latin1_General_100_BIN2, @P1, @P2)
    FROM OPENJSON(@P6) WITH (w nvarchar(max) '$.w') AS j);
DECLARE @call_bytes bigint = (SELECT MIN(j.b) FROM OPENJSON(@P6) WITH (b bigint '$.b') AS j);
DECLARE @suspect TABLE ({key_declarations}, lb_id bigint NOT NULL, lb_f bigint NOT NULL, lb_ready datetime2(3) NOT NULL);
INSERT @suspect ({key_names}, lb_id, lb_f, lb_ready)
SELECT TOP (1) {d_key_columns}, d.id, d.fence, d.ready_time
FROM (SELECT s.id, s.fence, s.ready_time, {s_key_as_names} FROM lease_broker_suspect AS s
        WHERE s.queue = {queue_literal} AND s.worker IS NULL) AS d
    INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}{skip_locked}) ON {join_due_on_key}
WHERE t.{lease_state} = 0 AND t.{lease_fence} = d.fence{suspect_is_free}{suspect_fits} AND NOT {is_left_out}
ORDER BY d.ready_time, d.id
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN);
IF EXISTS (SELECT 1 FROM @suspect)
    SELECT TOP (1) @holding = 'items'
    FROM {table} AS t WITH (READUNCOMMITTED{leased_hint})
    WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now AND t.{lease_owner} COLLATE Latin1_General_100_BIN2 = @worker
    OPTION (KEEPFIXED PLAN);
SELECT TOP (1) @holding = 'suspect'
FROM (SELECT s.fence, {s_key_as_names} FROM lease_broker_suspect AS s
        WHERE s.queue = {queue_literal} AND s.worker = @worker) AS d
    INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_due_on_key}
WHERE t.{lease_state} = 1 AND t.{lease_fence} = d.fence AND t.{lease_due_time} > @now
OPTION (KEEPFIXED PLAN);
SET @share = CASE
    WHEN @holding = 'suspect' THEN 'nothing'
    WHEN NOT EXISTS (SELECT 1 FROM @suspect) THEN '{share_without_suspect}'
    WHEN @holding = 'nothing' THEN 'suspect'
    WHEN EXISTS (SELECT 1 FROM @suspect WHERE lb_ready <= DATEADD(millisecond, -{patience}, @now)) THEN 'nothing'
    ELSE 'others' END;
IF @has_left_out = 1 AND @share = 'all' SET @share = 'others';
DECLARE @waiting TABLE ({key_declarations}, lb_f bigint NOT NULL, PRIMARY KEY NONCLUSTERED ({key_names}, lb_f));
IF @share = 'others'
    INSERT @waiting ({key_names}, lb_f)
    SELECT DISTINCT {d_key_columns}, d.fence
    FROM (SELECT s.fence, {s_key_as_names} FROM lease_broker_suspect AS s
            WHERE s.queue = {queue_literal} AND s.worker IS NULL) AS d{waiting_that_fit};
IF @share = 'others'
    INSERT @waiting ({key_names}, lb_f)
    SELECT {d_key_columns}, d.lb_f FROM @left_out AS d
    WHERE NOT EXISTS (SELECT 1 FROM @waiting AS w WHERE {same_key_as_waiting} AND w.lb_f = d.lb_f);
SET @is_held_back = CASE WHEN @share = 'all' THEN 0 WHEN @share = 'suspect' THEN 3 WHEN @share = 'nothing' OR EXISTS (SELECT 1 FROM @suspect) THEN 2 ELSE 1 END;{tell_busy_suspects}

-- :: suspect_fits

    AND NOT ({bytes} > @call_bytes AND {bytes} <= {max_item_bytes})

-- :: waiting_that_fit

        LEFT JOIN {table} AS t WITH ({by_key}{skip_locked}) ON {join_due_on_key}
    WHERE {has_no_row} OR (1 = 1{suspect_fits})
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN)

-- :: except_suspects
 AND (@share = 'all' OR NOT ((@has_left_out = 1 OR t.{lease_attempt} > 0 AND t.{lease_owner} IS NULL AND t.{lease_token} IS NULL)
        AND EXISTS (SELECT 1 FROM @waiting AS d WHERE {join_due_on_key} AND d.lb_f >= t.{lease_fence})))

-- :: pick_share
IF @share = 'suspect'
    INSERT @picked (lb_p, {key_names}, lb_f, lb_since{size_name})
    SELECT TOP ({pick_count}) 1, {t_key_columns}, t.{lease_fence}, t.{lease_state_time}{size_value}
    FROM (SELECT TOP (1) * FROM @suspect) AS d INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}{skip_locked}) ON {join_due_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 0 AND t.{lease_fence} = d.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR ({pick_count} = 1));
ELSE IF @share <> 'nothing'
    {pick_ready}

-- :: note_lease
IF @share = 'suspect' AND EXISTS (SELECT 1 FROM @picked{leased_items})
    UPDATE lease_broker_suspect
    SET worker = @worker, fence = CASE WHEN fence < @fence THEN @fence ELSE fence END + 1
    WHERE id = (SELECT TOP (1) d.lb_id FROM @suspect AS d);

-- :: remember
    IF @changed_count > 0 AND @is_stepped = 0
        INSERT lease_broker_suspect (queue, ready_time, fence, {key_numbers})
        SELECT {queue_literal}, @now, d.lb_f, {d_key_columns}
        FROM @due AS d
        WHERE d.lb_state = 1 AND d.lb_next = 0
        ORDER BY d.lb_p;

-- :: forget
IF EXISTS (SELECT 1 FROM lease_broker_suspect AS s WHERE s.queue = {queue_literal})
BEGIN
    BEGIN TRANSACTION;
    DECLARE @suspects_lock_result int, @suspects_lock_name nvarchar(255) = {suspects_lock};
    EXEC @suspects_lock_result = sp_getapplock @Resource = @suspects_lock_name, @LockMode = 'Exclusive', @LockTimeout = 1000;
    IF @suspects_lock_result >= 0
        DELETE FROM lease_broker_suspect
        WHERE id IN (
            SELECT d.id
            FROM (SELECT s.id, {s_key_as_names} FROM lease_broker_suspect AS s WHERE s.queue = {queue_literal}) AS d
                LEFT JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_due_on_key}
            WHERE {has_no_row}
            UNION ALL
            SELECT d.id
            FROM (SELECT s.id, s.worker, s.fence, {s_key_as_names} FROM lease_broker_suspect AS s WHERE s.queue = {queue_literal}) AS d
                INNER JOIN {table} AS t WITH (READPAST, READCOMMITTEDLOCK, {by_key}) ON {join_due_on_key}
            WHERE t.{lease_fence} <> d.fence OR t.{lease_state} <> CASE WHEN d.worker IS NULL THEN 0 ELSE 1 END)
        OPTION (KEEPFIXED PLAN);
    COMMIT TRANSACTION;
END;
