-- Purpose: leases ready items to several calls, and returns the leases of calls that are sent again with the same request id.
--   One batch and one round trip. The batch commits one transaction, and then reads the leases.
-- Sections: `claim` is the batch. It contains `pick_ready` and `lease_columns`. With claim_strategy = "app_lock" it also
--   contains `claim_lock`. If any of the calls has a request id, it contains `find_retried_claims`, `except_answered` and
--   `read_retried_claims`. A claim that is tried again contains them too: the broker then treats every call as one with a request
--   id. In a queue with groups or limits the sections of groups.sql stand in place of `hold_claims` and `pick_ready`. If the items
--   can be larger than the responses, the batch also contains the sections that begin with `size_`, and `fit_items`,
--   `leased_items` and `read_passed_over`. `fit_items` contains `measure_items`, unless the bounds of the sizes are exact.
--   `set_full_aside` is a batch of its own. It runs after a claim that failed because a counter would overflow, and makes the
--   items with full counters dead. The sections of suspects.sql are in the batch too. @P1: the number of ready items to look at.
-- Parameters: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of calls. @P6: JSON array of calls, {o:
--   index of the call, n: items wanted, w: worker, t: token, d: lease duration in ms, r: whether the call has a request id}.
--   With `fit_items` also {b: the most bytes of the call's items, m: the most bytes of the items of all calls}.
-- Results: first a row lb_committed, which is 0. With `find_retried_claims`, the leases that the retried calls already hold. Then the
--   new leases. Each row begins with the token of its call and ends with the time since which the item was ready. Its name tells which
--   leases these are. With `read_passed_over`, a last result can follow, whose first column is lb_o, the index of a call: size and key
--   of an item that is too large for the call, or NULLs if more items may be ready for it. Before it a row can follow whose only column
--   is lb_made_dead, the number of items that became dead because of their size. If the queue is paused, the last result is a row whose
--   only column is lb_paused; an unpaused claim has no such result.
-- Locks, in order, after S for a moment on the row of the epoch:
--   1. For each call with a request id, in the order of the tokens: the application lock of its token.
--   2. With claim_strategy = "app_lock": the application lock of the queue. If it is not free, the batch fails with 51222 and the
--      broker runs it again. The batch waits at most 5 s for all its application locks together.
--   3. S on the row of lease_broker_queue that has the pause, or on the gap where it would be (pause.sql).
--   4. U, then X, on up to @total rows, through the ready index and the key. READPAST skips rows that others have locked. If
--      some of the rows are too large, U on up to 100 further rows.
--   COMMIT releases all of them. After it, S on one row at a time, unless the database has READ_COMMITTED_SNAPSHOT.
-- Indexes: ready (pick), the key (update and result), token (`find_retried_claims`, `read_retried_claims`). The primary key of
--   lease_broker_queue: one seek.
-- Why the pause is read last before the pick, and why S is held until COMMIT: see pause.sql. A paused queue gives no new lease.
--   A call with a request id still gets the leases that it holds.
-- Why full counters are set aside after an error, unlike in SQLite: the server refuses a number beyond the type of its column,
--   so the claim needs no condition that only damaged rows would meet.
-- Why COMMIT comes before the leases are read: a broker that receives the rows slowly, or is frozen, would otherwise hold X locks
--   on all of them, and with claim_strategy = "app_lock" the lock of the queue, until its connection ends. No other claim can
--   take the rows meanwhile, because they are leased.
-- Why lb_committed: the reading can fail for a row, for example if a computed column divides by zero. The error undoes no lease, so the
--   broker releases them. Without the row it could not tell such an error from one that was rolled back.
-- Why a failed batch is tried again with `find_retried_claims`: the error can come from the reading, after COMMIT. Each call then
--   finds its leases by its token, and gets new ones only if its token holds none. If the connection broke, the server may still
--   run the batch. Calls without a request id then only ask for the leases of their tokens (n is 0). If there are none, the
--   claim fails, and leases that the server makes later expire.
-- Why one lock per token: several brokers can receive the same request at the same time. The first one claims. The others wait
--   and then find the leases that it got. Without the lock, each would lease other items for the same request. A call
--   whose lock is not free within the 5 s gets no new lease.
-- Why the token locks are taken in the order of the tokens: two batches that share several tokens would otherwise wait for each
--   other.
-- Why one deadline for all application locks: waits of 5 s one after the other would last longer than the broker waits for a
--   reply.
-- Why @now is read again after the application locks: the wait can last seconds, and leases can expire in that time. A new lease
--   begins after the wait.
-- Why the server's time in the result is SYSUTCDATETIME(): the batch may also wait for locks on rows, and the worker must not
--   count that time as time left.
-- Why @fence: see epoch.sql.
-- Why the pick reads the fence: the ready index does not contain it, so the pick also visits and locks the row itself. With a
--   lock on the index entry alone, the pick would not notice that another transaction holds the row.
-- Why leases that are read again have no such time: the update has overwritten it.
-- Why the update checks state and fence again: Babelfish ignores the lock hints, so two claims can pick the same row. Without
--   the check both would lease it. With it, the last SELECT can still return a lease of the other claim. The broker recognises
--   such a row by its token and ignores it.
-- Why the last SELECT checks the fence: between COMMIT and the reading, a lease can end and another claim can take the row.
-- Why all calls share one statement, unlike in SQLite: each statement costs a round trip. The picked rows are numbered, and
--   each call takes as many as it wants, in the order of the calls.
-- Why TOP (@total), TOP (@P5), CASE and the hints: see leases.sql. TOP never removes a row from a join.
-- Why FORCESEEK only with filtered_indexes = false in the pick: the filter of the ready index leaves nothing to seek, and SQL
--   Server then refuses FORCESEEK. Without filters the state leads the index.
-- Why two batches: the sizes of columns cost time. If the types of the columns limit the size of a row so far that the items
--   that a claim asks for always fit, the broker sends the batch without sizes.
-- Why lb_bytes is first a bound, from DATALENGTH: it takes the length of a long value from its pointer and does not read the
--   value. Only if the bounds do not fit does `measure_items` convert texts to UTF-8, the encoding of a response. It converts
--   no more texts than can fit: an item has at least a third of its bound.
-- Why `measure_items` is not rendered for Babelfish: its DATALENGTH of a text already counts UTF-8. For SQL Server 2017, which
--   has no UTF-8 collations, a text counts as in UTF-16.
-- Why a loop over the calls: a call takes items until the next does not fit, and which one that is depends on what the calls
--   before it took. The loop runs only if the items of all calls do not fit.
-- Why CASE in the loop: Babelfish 4.3 ends the count of rows too late if a condition on ROW_NUMBER stands beside a second window.
-- Why READCOMMITTEDLOCK with READPAST: Microsoft documents READPAST together with READ_COMMITTED_SNAPSHOT only so.
-- Why IF around the changes: see leases.sql.

-- :: claim_lock
DECLARE @claim_lock_result int, @claim_lock_name nvarchar(255) = CONCAT(N'lease_broker_', OBJECT_ID({table_literal}), N'_', {state_column_literal}),
    @claim_lock_wait int = (SELECT MAX(w.lb_n) FROM (VALUES (0), (DATEDIFF(millisecond, SYSUTCDATETIME(), @lock_deadline))) AS w (lb_n));
EXEC @claim_lock_result = sp_getapplock @Resource = @claim_lock_name, @LockMode = 'Exclusive', @LockTimeout = @claim_lock_wait;
IF @claim_lock_result < 0 THROW 51222, N'other claims have held the application lock of this queue for 5 s', 1;
SET @now = SYSUTCDATETIME();

-- :: lease_columns
SELECT t.{lease_token} AS lb_t, SYSUTCDATETIME() AS lb_now, {t_key_as_names}, t.{lease_fence} AS lb_f, t.{lease_attempt} AS lb_a,
    t.{lease_due_time} AS lb_due, t.{trace_parent} AS lb_trace{t_checkpoint}{t_data_columns}{run_number}

-- :: find_retried_claims
DECLARE @retried TABLE (lb_t uniqueidentifier NOT NULL PRIMARY KEY, lb_o int NOT NULL);
INSERT @retried (lb_t, lb_o)
SELECT j.t, j.o FROM OPENJSON(@P6) WITH (o int '$.o', t uniqueidentifier '$.t', r bit '$.r') AS j WHERE j.r = 1;
DECLARE @answered TABLE (lb_o int NOT NULL PRIMARY KEY);
DECLARE @token uniqueidentifier, @token_lock_result int, @token_lock_wait int, @token_lock_name nvarchar(255);
WHILE 1 = 1
BEGIN
    SET @token = (SELECT TOP (1) r.lb_t FROM @retried AS r WHERE @token IS NULL OR r.lb_t > @token ORDER BY r.lb_t);
    IF @token IS NULL BREAK;
    SET @token_lock_name = N'lease_broker_' + CONVERT(nvarchar(36), @token);
    SET @token_lock_wait = (SELECT MAX(w.lb_n) FROM (VALUES (0), (DATEDIFF(millisecond, SYSUTCDATETIME(), @lock_deadline))) AS w (lb_n));
    EXEC @token_lock_result = sp_getapplock @Resource = @token_lock_name, @LockMode = 'Exclusive', @LockTimeout = @token_lock_wait;
    IF @token_lock_result < 0 INSERT @answered (lb_o) SELECT r.lb_o FROM @retried AS r WHERE r.lb_t = @token;
END;
SET @now = SYSUTCDATETIME();
INSERT @answered (lb_o)
SELECT DISTINCT r.lb_o
FROM (SELECT TOP (@P5) * FROM @retried) AS r INNER JOIN {table} AS t WITH (ROWLOCK{token_hint}) ON t.{lease_token} = r.lb_t
WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now AND r.lb_o NOT IN (SELECT a.lb_o FROM @answered AS a)
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));

-- :: read_retried_claims
IF EXISTS (SELECT 1 FROM @answered)
    {lease_columns}, CONVERT(datetime2(3), NULL) AS lb_again
    FROM (SELECT TOP (@P5) * FROM @retried WHERE lb_o IN (SELECT a.lb_o FROM @answered AS a)) AS r
        INNER JOIN {table} AS t WITH (ROWLOCK{token_hint}) ON t.{lease_token} = r.lb_t
    WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now
    ORDER BY r.lb_o, {queue_order}
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P5 = 1));

-- :: except_answered
WHERE j.o NOT IN (SELECT a.lb_o FROM @answered AS a)

-- :: pick_ready
INSERT @picked (lb_p, {key_names}, lb_f, lb_since{size_name})
SELECT TOP ({pick_count}) ROW_NUMBER() OVER (ORDER BY {pick_order}), {t_key_columns}, t.{lease_fence}, t.{lease_state_time}{size_value}
FROM {table} AS t WITH (UPDLOCK, ROWLOCK{skip_locked}{ready_hint})
WHERE t.{lease_state} = 0{key_not_null}{except_suspects}
ORDER BY {pick_order}
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR ({pick_count} = 1));

-- :: size_columns
, lb_bytes bigint NOT NULL, lb_slot int NULL

-- :: size_name
, lb_bytes

-- :: size_value
, {bytes_bound}

-- :: leased_items
 WHERE lb_slot IS NULL OR lb_slot > 0

-- :: measure_items
UPDATE i
SET lb_bytes = {bytes_exact}
FROM (SELECT TOP (@pick) n.*,
            SUM(CASE WHEN n.lb_bytes / 3 <= @most THEN n.lb_bytes / 3 ELSE 0 END) OVER (ORDER BY n.lb_p ROWS UNBOUNDED PRECEDING)
                - n.lb_bytes / 3 AS lb_before
        FROM @picked AS n
        WHERE n.lb_bytes / 3 <= @most OR n.lb_bytes > {max_item_bytes}
        ORDER BY n.lb_p) AS p
    INNER JOIN {table} AS t WITH ({by_key}) ON {join_picked_on_key}
    INNER JOIN @picked AS i ON i.lb_p = p.lb_p
WHERE p.lb_before <= @all OR p.lb_bytes > {max_item_bytes}
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@pick = 1));

-- :: fit_items
DECLARE @pick int = @total, @room bigint, @least bigint, @most bigint, @all bigint, @found int, @call int, @wanted int, @bytes bigint,
    @slot int, @leased int = 0, @got int, @next int, @made_dead int = 0;
DECLARE @calls TABLE (lb_o int NOT NULL PRIMARY KEY, lb_n int NOT NULL, lb_b bigint NOT NULL, lb_slot int NOT NULL);
DECLARE @passed TABLE (lb_o int NOT NULL, lb_p int NOT NULL);
SELECT @room = MAX(j.m), @least = MIN(j.b), @most = MAX(j.b), @all = SUM(j.b) FROM OPENJSON(@P6) WITH (b bigint '$.b', m bigint '$.m') AS j;
IF @room < @all SET @all = @room;
IF @all < @least SET @least = @all;
IF {max_item_bytes} < @least SET @least = {max_item_bytes};
IF (SELECT SUM(i.lb_bytes) FROM @picked AS i) > @least
BEGIN
    INSERT @calls (lb_o, lb_n, lb_b, lb_slot)
    SELECT j.o, j.n, j.b, SUM(j.n) OVER (ORDER BY j.o ROWS UNBOUNDED PRECEDING) - j.n
    FROM OPENJSON(@P6) WITH (o int '$.o', n int '$.n', b bigint '$.b') AS j {except_answered};
    {measure_items}IF EXISTS (SELECT 1 FROM @picked AS i WHERE i.lb_bytes > @least)
    BEGIN
        SET @pick = @total + {passed_over};
        DELETE FROM @picked;
        {pick_more}{measure_items}    END;
    SET @found = (SELECT COUNT(*) FROM @picked AS i);
    UPDATE @picked SET lb_slot = 0;
    IF EXISTS (SELECT 1 FROM @picked WHERE lb_bytes > {max_item_bytes})
    BEGIN
        UPDATE t
        SET {lease_state} = 4, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
            {lease_error} = CONCAT(N'the item has ', p.lb_bytes, N' {set_aside_text}'){mirror_set_aside}
        FROM (SELECT TOP (@pick) * FROM @picked WHERE lb_bytes > {max_item_bytes}) AS p
            INNER JOIN {table} AS t WITH ({by_key}) ON {join_picked_on_key}
        WHERE 1 = CASE WHEN t.{lease_state} = 0 AND t.{lease_fence} = p.lb_f THEN 1 END
        OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@pick = 1));
        SET @made_dead = @@ROWCOUNT;
    END;
    DELETE FROM @picked WHERE lb_bytes > {max_item_bytes};
    SET @call = (SELECT MIN(c.lb_o) FROM @calls AS c);
    WHILE @call IS NOT NULL
    BEGIN
        SELECT @wanted = c.lb_n, @bytes = c.lb_b, @slot = c.lb_slot FROM @calls AS c WHERE c.lb_o = @call;{bound_wanted}
        UPDATE i
        SET lb_slot = @slot + r.lb_k
        FROM (SELECT n.lb_p, ROW_NUMBER() OVER (ORDER BY n.lb_p) AS lb_k,
                    SUM(n.lb_bytes) OVER (ORDER BY n.lb_p ROWS UNBOUNDED PRECEDING) AS lb_sum
                FROM @picked AS n
                WHERE n.lb_slot = 0 AND n.lb_bytes <= @bytes) AS r
            INNER JOIN @picked AS i ON i.lb_p = r.lb_p
        WHERE 1 = CASE WHEN r.lb_k <= @wanted AND r.lb_sum <= @bytes AND (r.lb_sum <= @room OR @leased = 0 AND r.lb_k = 1) THEN 1 END;
        SET @got = @@ROWCOUNT;
        SET @leased = @leased + @got;
        SELECT @room = @room - COALESCE(SUM(i.lb_bytes), 0), @next = MAX(i.lb_p)
        FROM @picked AS i
        WHERE i.lb_slot > @slot AND i.lb_slot <= @slot + @wanted;
        IF @got < @wanted
        BEGIN
            SET @next = (SELECT MIN(i.lb_p) FROM @picked AS i WHERE i.lb_slot = 0 AND i.lb_bytes <= @bytes);
            IF @next IS NOT NULL OR @found >= @pick INSERT @passed (lb_o, lb_p) VALUES (@call, 0);
        END;
        INSERT @passed (lb_o, lb_p)
        SELECT @call, r.lb_p
        FROM (SELECT n.lb_p, ROW_NUMBER() OVER (ORDER BY n.lb_p) AS lb_k FROM @picked AS n
                WHERE n.lb_slot = 0 AND n.lb_bytes > @bytes AND (@next IS NULL OR n.lb_p < @next)) AS r
        WHERE 1 = CASE WHEN r.lb_k <= {named} THEN 1 END;
        SET @call = (SELECT MIN(c.lb_o) FROM @calls AS c WHERE c.lb_o > @call);
    END;
END;

-- :: read_passed_over
IF @made_dead > 0 SELECT @made_dead AS lb_made_dead;
IF EXISTS (SELECT 1 FROM @passed)
    SELECT o.lb_o, k.lb_bytes, {k_key_values}
    FROM @passed AS o LEFT JOIN @picked AS k ON k.lb_p = o.lb_p
    ORDER BY o.lb_o, o.lb_p;

-- :: claim
/* lease-broker claim {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @lock_deadline datetime2(3) = DATEADD(second, 5, @now);
DECLARE @fence bigint = (SELECT e.fence FROM lease_broker_epoch AS e);
BEGIN TRANSACTION;
{find_retried_claims}DECLARE @total int = (SELECT COALESCE(SUM(j.n), 0) FROM OPENJSON(@P6) WITH (o int '$.o', n int '$.n') AS j {except_answered});
DECLARE @picked TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, lb_since datetime2(3) NULL{turn_column}{size_columns});
{claim_lock}{hold_claims}
{pick_ready}
{find_suspects}{fit_items}{cut_runs}IF EXISTS (SELECT 1 FROM @picked{leased_items})
    UPDATE t
    SET {lease_state} = 1, {lease_state_time} = @now, {lease_due_time} = p.lb_due, {lease_owner} = p.lb_w,
        {lease_token} = p.lb_t, {lease_fence} = CASE WHEN t.{lease_fence} < @fence THEN @fence ELSE t.{lease_fence} END + 1, {lease_attempt} = t.{lease_attempt} + 1{mirror_leased}
    FROM (SELECT TOP (@total) DATEADD(millisecond, c.d, @now) AS lb_due, c.t AS lb_t,
                TRANSLATE(c.w COLLATE Latin1_General_100_BIN2, @P1, @P2) AS lb_w, i.*
            FROM (SELECT j.w, j.t, j.d, j.n, SUM(j.n) OVER (ORDER BY j.o ROWS UNBOUNDED PRECEDING) AS lb_last
                    FROM OPENJSON(@P6) WITH (o int '$.o', n int '$.n', w nvarchar(max) '$.w', t uniqueidentifier '$.t',
                        d int '$.d') AS j {except_answered}) AS c
                INNER JOIN @picked AS i ON {slot} > c.lb_last - c.n AND {slot} <= c.lb_last) AS p
        INNER JOIN {table} AS t WITH ({by_key}) ON {join_picked_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 0 AND t.{lease_fence} = p.lb_f THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@total = 1));
{note_lease}{end_turn}COMMIT TRANSACTION;
SELECT @@TRANCOUNT AS lb_committed;
{read_retried_claims}{lease_columns}, p.lb_since
FROM (SELECT TOP (@total) * FROM @picked{leased_items}) AS p INNER JOIN {table} AS t WITH ({by_key}) ON {join_picked_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_fence} = CASE WHEN p.lb_f < @fence THEN @fence ELSE p.lb_f END + 1 THEN 1 END
ORDER BY p.lb_p
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@total = 1));{read_passed_over}
{read_held_back}
{tell_pause}{tell_limits}

-- :: set_full_aside
/* lease-broker set aside {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @changed_count bigint = 0;
DECLARE @picked TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, lb_since datetime2(3) NULL);
{pick_ready}
IF EXISTS (SELECT 1 FROM @picked)
BEGIN
    UPDATE t
    SET {lease_state} = 4, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
        {lease_error} = N'{full_counter_text}'{mirror_set_aside}
    FROM (SELECT TOP (@P1) * FROM @picked) AS p INNER JOIN {table} AS t WITH ({by_key}) ON {join_picked_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 0 AND (t.{lease_fence} = 9223372036854775807 OR t.{lease_attempt} = 2147483647) THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));
    SET @changed_count = @@ROWCOUNT;
END;
SELECT @changed_count AS lb_count;
