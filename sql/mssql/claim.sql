-- Leases ready items to several calls, and finds the leases of calls that are repeated. One batch, one transaction.
-- Parameters: @P1 to @P4 as for every list (sql/README.md); @P5, a JSON array of calls {o: ordinal, n: wanted, w: worker,
--   t: token, d: ms, r: may be repeated}.
-- Locks, in order: an application lock for each token that may be repeated, in the tokens' order, so that of brokers that
--   get one request at the same time the first claims and the others find what it got (who waits for more than 5 s gets
--   nothing new); with claim_strategy = "app_lock" one of the queue; U, then X, on up to @total rows, by the ready index
--   and the key. READPAST skips rows that others hold: the fence, which the index has not, makes the pick look at the row
--   itself too.
-- Indexes: ready (pick), the key (take), token (held, result).
-- Unlike its twin: one statement for all calls, as each round trip counts. The predicate on the state is repeated in the
--   update: an engine that ignores the hints would otherwise lease a row twice.
-- TOP with a count (@total, @asking) leaves no row out. It tells an engine that plans by cost whatever the hints say, as
--   Babelfish does, how few rows drive the join: it would take a table variable for a large one, and read all ready rows.

-- :: turn
DECLARE @turn int, @queue nvarchar(255) = CONCAT(N'lease_broker_', OBJECT_ID({table_literal}), N'_', {state_literal});
EXEC @turn = sp_getapplock @Resource = @queue, @LockMode = 'Exclusive', @LockTimeout = 5000;
IF @turn < 0 THROW 51222, N'other claims have held the application lock of this queue for 5 s', 1;

-- :: claim
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @calls TABLE (lb_o int NOT NULL PRIMARY KEY, lb_n int NOT NULL, lb_w nvarchar(128) NOT NULL,
    lb_t uniqueidentifier NOT NULL, lb_d int NOT NULL, lb_r bit NOT NULL);
INSERT @calls (lb_o, lb_n, lb_w, lb_t, lb_d, lb_r)
SELECT j.o, j.n, TRANSLATE(j.w COLLATE Latin1_General_100_BIN2, @P1, @P2), j.t, j.d, j.r
FROM OPENJSON(@P5) WITH (o int '$.o', n int '$.n', w nvarchar(max) '$.w', t uniqueidentifier '$.t', d int '$.d',
    r bit '$.r') AS j;
DECLARE @asking int = @@ROWCOUNT;
BEGIN TRANSACTION;
IF EXISTS (SELECT 1 FROM @calls WHERE lb_r = 1)
BEGIN
    DECLARE @asked uniqueidentifier, @got int;
    WHILE 1 = 1
    BEGIN
        SET @asked = (SELECT TOP (1) c.lb_t FROM @calls AS c WHERE c.lb_r = 1 AND (@asked IS NULL OR c.lb_t > @asked)
            ORDER BY c.lb_t);
        IF @asked IS NULL BREAK;
        DECLARE @resource nvarchar(255) = N'lease_broker_' + CONVERT(nvarchar(36), @asked);
        EXEC @got = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockTimeout = 5000;
        IF @got < 0 UPDATE @calls SET lb_n = 0 WHERE lb_t = @asked;
    END;
    SET @now = SYSUTCDATETIME();
    DECLARE @held TABLE (lb_o int NOT NULL PRIMARY KEY);
    INSERT @held (lb_o)
    SELECT DISTINCT c.lb_o
    FROM (SELECT TOP (@asking) * FROM @calls) AS c INNER JOIN {table} AS t WITH (ROWLOCK{token_hint}) ON t.{lease_token} = c.lb_t
    WHERE c.lb_r = 1 AND t.{lease_state} = 1 AND t.{lease_due_time} > @now
    OPTION (FORCE ORDER, LOOP JOIN);
    UPDATE @calls SET lb_n = 0 WHERE lb_o IN (SELECT h.lb_o FROM @held AS h);
END;
DECLARE @ranges TABLE (lb_first int NOT NULL PRIMARY KEY, lb_last int NOT NULL, lb_w nvarchar(128) NOT NULL,
    lb_t uniqueidentifier NOT NULL, lb_due datetime2(3) NOT NULL);
INSERT @ranges (lb_first, lb_last, lb_w, lb_t, lb_due)
SELECT SUM(c.lb_n) OVER (ORDER BY c.lb_o ROWS UNBOUNDED PRECEDING) - c.lb_n + 1,
    SUM(c.lb_n) OVER (ORDER BY c.lb_o ROWS UNBOUNDED PRECEDING), c.lb_w, c.lb_t,
    DATEADD(millisecond, c.lb_d, @now)
FROM @calls AS c
WHERE c.lb_n > 0;
DECLARE @total int = (SELECT COALESCE(SUM(c.lb_n), 0) FROM @calls AS c);
DECLARE @picked TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, UNIQUE ({key_names}));
{turn}INSERT @picked (lb_p, {key_names}, lb_f)
SELECT TOP (@total) ROW_NUMBER() OVER (ORDER BY {pick_order}), {key_of_t}, t.{lease_fence}
FROM {table} AS t WITH (UPDLOCK, ROWLOCK{skip_locked}{ready_hint})
WHERE t.{lease_state} = 0{key_present}
ORDER BY {pick_order};
UPDATE t
SET {lease_state} = 1, {lease_state_time} = @now, {lease_due_time} = p.lb_due, {lease_owner} = p.lb_w,
    {lease_token} = p.lb_t, {lease_fence} = t.{lease_fence} + 1, {lease_attempt} = t.{lease_attempt} + 1{mirror_leased}
FROM (SELECT TOP (@total) r.lb_due, r.lb_w, r.lb_t, i.*
        FROM @ranges AS r INNER JOIN @picked AS i ON i.lb_p BETWEEN r.lb_first AND r.lb_last) AS p
    INNER JOIN {table} AS t ON {t_is_p}
WHERE t.{lease_state} = 0 AND t.{lease_fence} = p.lb_f
OPTION (FORCE ORDER, LOOP JOIN);
SELECT c.lb_o, @now AS lb_now, {key_as_names}, t.{lease_fence} AS lb_f, t.{lease_attempt} AS lb_a, t.{lease_due_time} AS lb_due,
    t.{trace_parent} AS lb_trace{columns_of_t}
FROM (SELECT TOP (@asking) * FROM @calls) AS c
    INNER JOIN {table} AS t WITH (ROWLOCK{token_hint}) ON t.{lease_token} = c.lb_t
    LEFT JOIN @picked AS p ON {t_is_p}
WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now
ORDER BY c.lb_o, p.lb_p, {held_order}
OPTION (FORCE ORDER, LOOP JOIN);
COMMIT TRANSACTION;
