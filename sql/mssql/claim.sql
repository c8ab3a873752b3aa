-- Leases ready items to several calls, and finds the leases of calls that are repeated. One batch, one transaction: `claim`, in
--   which `repeated` stands if any of the calls may be a repetition.
-- Parameters: @P1 to @P4 as for every list (sql/README.md), @P5 how many calls there are; @P6, a JSON array of calls
--   {o: ordinal, n: wanted, w: worker, t: token, d: ms, r: may be repeated}.
-- Locks, in order: an application lock for each token that may be repeated, in the tokens' order, so that of brokers that
--   get one request at the same time the first claims and the others find what it got (who waits for more than 5 s gets
--   nothing new); with claim_strategy = "app_lock" one of the queue; U, then X, on up to @total rows, by the ready index
--   and the key. READPAST skips rows that others hold: the fence, which the index has not, makes the pick look at the row
--   itself too.
-- Indexes: ready (pick), the key (take, answer), token (held).
-- Unlike its twin: one statement for all calls, as each round trip counts. Each call takes its share of what was picked, in the
--   calls' order. The predicate on the state is repeated in the update: an engine that ignores the hints would otherwise lease
--   a row twice; there the answer may have a lease of another claim's, which its token tells.
-- TOP with a count (@total, @P5) leaves no row out; leases.sql says what it is for, and what CASE is.

-- :: claim_lock
DECLARE @claim_lock_result int, @claim_lock_name nvarchar(255) = CONCAT(N'lease_broker_', OBJECT_ID({table_literal}), N'_', {state_column_literal});
EXEC @claim_lock_result = sp_getapplock @Resource = @claim_lock_name, @LockMode = 'Exclusive', @LockTimeout = 5000;
IF @claim_lock_result < 0 THROW 51222, N'other claims have held the application lock of this queue for 5 s', 1;

-- :: lease_columns
SELECT t.{lease_token} AS lb_t, @now AS lb_now, {t_key_as_names}, t.{lease_fence} AS lb_f, t.{lease_attempt} AS lb_a,
    t.{lease_due_time} AS lb_due, t.{trace_parent} AS lb_trace{t_data_columns}

-- :: find_retried_claims
DECLARE @retried TABLE (lb_t uniqueidentifier NOT NULL PRIMARY KEY, lb_o int NOT NULL);
INSERT @retried (lb_t, lb_o)
SELECT j.t, j.o FROM OPENJSON(@P6) WITH (o int '$.o', t uniqueidentifier '$.t', r bit '$.r') AS j WHERE j.r = 1;
DECLARE @answered TABLE (lb_o int NOT NULL PRIMARY KEY);
DECLARE @token uniqueidentifier, @token_lock_result int, @token_lock_name nvarchar(255);
WHILE 1 = 1
BEGIN
    SET @token = (SELECT TOP (1) r.lb_t FROM @retried AS r WHERE @token IS NULL OR r.lb_t > @token ORDER BY r.lb_t);
    IF @token IS NULL BREAK;
    SET @token_lock_name = N'lease_broker_' + CONVERT(nvarchar(36), @token);
    EXEC @token_lock_result = sp_getapplock @Resource = @token_lock_name, @LockMode = 'Exclusive', @LockTimeout = 5000;
    IF @token_lock_result < 0 INSERT @answered (lb_o) SELECT r.lb_o FROM @retried AS r WHERE r.lb_t = @token;
END;
SET @now = SYSUTCDATETIME();
{lease_columns}
FROM (SELECT TOP (@P5) * FROM @retried) AS r INNER JOIN {table} AS t WITH (ROWLOCK{token_hint}) ON t.{lease_token} = r.lb_t
WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now
ORDER BY r.lb_o, {queue_order}
OPTION (FORCE ORDER, LOOP JOIN);
INSERT @answered (lb_o)
SELECT DISTINCT r.lb_o
FROM (SELECT TOP (@P5) * FROM @retried) AS r INNER JOIN {table} AS t WITH (ROWLOCK{token_hint}) ON t.{lease_token} = r.lb_t
WHERE t.{lease_state} = 1 AND t.{lease_due_time} > @now AND r.lb_o NOT IN (SELECT a.lb_o FROM @answered AS a)
OPTION (FORCE ORDER, LOOP JOIN);

-- :: except_answered
WHERE j.o NOT IN (SELECT a.lb_o FROM @answered AS a)

-- :: claim
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
BEGIN TRANSACTION;
{find_retried_claims}DECLARE @total int = (SELECT COALESCE(SUM(j.n), 0) FROM OPENJSON(@P6) WITH (o int '$.o', n int '$.n') AS j {except_answered});
DECLARE @picked TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL);
{claim_lock}INSERT @picked (lb_p, {key_names}, lb_f)
SELECT TOP (@total) ROW_NUMBER() OVER (ORDER BY {pick_order}), {t_key_columns}, t.{lease_fence}
FROM {table} AS t WITH (UPDLOCK, ROWLOCK{skip_locked}{ready_hint})
WHERE t.{lease_state} = 0{key_not_null}
ORDER BY {pick_order};
UPDATE t
SET {lease_state} = 1, {lease_state_time} = @now, {lease_due_time} = p.lb_due, {lease_owner} = p.lb_w,
    {lease_token} = p.lb_t, {lease_fence} = t.{lease_fence} + 1, {lease_attempt} = t.{lease_attempt} + 1{mirror_leased}
FROM (SELECT TOP (@total) DATEADD(millisecond, c.d, @now) AS lb_due, c.t AS lb_t,
            TRANSLATE(c.w COLLATE Latin1_General_100_BIN2, @P1, @P2) AS lb_w, i.*
        FROM (SELECT j.w, j.t, j.d, j.n, SUM(j.n) OVER (ORDER BY j.o ROWS UNBOUNDED PRECEDING) AS lb_last
                FROM OPENJSON(@P6) WITH (o int '$.o', n int '$.n', w nvarchar(max) '$.w', t uniqueidentifier '$.t',
                    d int '$.d') AS j {except_answered}) AS c
            INNER JOIN @picked AS i ON i.lb_p > c.lb_last - c.n AND i.lb_p <= c.lb_last) AS p
    INNER JOIN {table} AS t ON {join_picked_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 0 AND t.{lease_fence} = p.lb_f THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN);
{lease_columns}
FROM (SELECT TOP (@total) * FROM @picked) AS p INNER JOIN {table} AS t ON {join_picked_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_fence} = p.lb_f + 1 THEN 1 END
ORDER BY p.lb_p
OPTION (FORCE ORDER, LOOP JOIN);
COMMIT TRANSACTION;
