-- Purpose: adds the items of a request with an id, unless the request was sent before. One batch, one transaction.
-- Sections of the batch: `begin` of enqueue.sql, `if_new`. Then, for each list of items, the sections of enqueue.sql and one of
--   `remember_given_keys`, `remember_identity_keys` and `remember_row_by_row_keys`. Then `if_remembered`,
--   `read_keys`, `end_if`, and COMMIT. `forget` is a batch of its own. It deletes requests whose time has passed.
-- Parameters: @P1 to @P5 and the lists as in enqueue.sql. After the lists: {queue_parameter}: queue. {request_parameter}: request
--   id, as text (Babelfish 4.3 misreads a parameter of type uniqueidentifier). {digest_parameter}: digest of the items.
--   {count_parameter}: number of items. {memory_parameter}: time for which the request is remembered, in seconds. `forget`: @P1:
--   maximum number of requests.
-- Results: 1 and the digest if the items were added; 0 and the digest of the remembered request if not. Then, if the items
--   were added, the keys of each list, in the order of its items; if not, all keys by their remembered places. `forget`: the number of requests that were deleted.
-- Locks, in order: S on the row that has the pause of the queue, unless the request is remembered; X on the row of the request; X on the added rows; X on the rows of the keys. `forget`: U and X on expired
--   requests, skipping those that others have locked, then X on the rows of their keys.
-- Indexes: primary keys; lease_broker_request_expiry (forget).
-- Why {refuse_items} stands below the IF: a request that was applied before answers with its keys although the queue is paused now.
-- Why the row of the request is inserted first: if the same request arrives twice at the same moment, the second batch waits here,
--   before it adds items. It then fails with a duplicate key, and the broker runs it again. It finds the request then.
-- Why the keys are in rows of sql_variant: this type keeps each value with its type, and every type that a key can have. The
--   server makes the keys, so the broker cannot send them with the request. SQLite's file stores them as bytes that the broker
--   makes.
-- Why a remembered key has not the place of its item in a list: a call that is sent again can have other lists, because the table has
--   changed since. item_list numbers the sets of columns that items name, for ready and delayed items apart, and item_position the items
--   of each.
-- Why `forget` adds up the items: one transaction deletes at most 2,000 keys, so that its locks do not escalate.

-- :: if_new
DECLARE @queue nvarchar(128) = {queue_parameter}, @request uniqueidentifier = CONVERT(uniqueidentifier, {request_parameter});
IF NOT EXISTS (SELECT 1 FROM lease_broker_request AS r WHERE r.queue = @queue AND r.request_id = @request)
BEGIN
{refuse_items}
INSERT lease_broker_request (queue, request_id, digest, item_count, expire_time)
VALUES (@queue, @request, {digest_parameter}, {count_parameter}, DATEADD(second, {memory_parameter}, @now));
SELECT 1 AS lb_n, {digest_parameter} AS lb_digest;

-- :: remember_given_keys
INSERT lease_broker_request_key (queue, request_id, item_list, item_position, {key_numbers})
SELECT @queue, @request, n.lb_l, n.lb_o, {n_key_columns}
FROM @new{list_number} AS n;

-- :: remember_identity_keys
INSERT lease_broker_request_key (queue, request_id, item_list, item_position, {key_numbers})
SELECT @queue, @request, n.lb_l, n.lb_o, {k_key_columns}
FROM (SELECT ROW_NUMBER() OVER (ORDER BY {k_key_columns}{key_direction}) AS lb_r, {k_key_columns} FROM @keys{list_number} AS k) AS k
    INNER JOIN @new{list_number} AS n ON n.lb_i = k.lb_r - 1;

-- :: remember_row_by_row_keys
INSERT lease_broker_request_key (queue, request_id, item_list, item_position, {key_numbers})
SELECT @queue, @request, n.lb_l, n.lb_o, {k_key_columns}
FROM @keys{list_number} AS k INNER JOIN @new{list_number} AS n ON n.lb_i = k.lb_i;

-- :: if_remembered
END
ELSE
BEGIN
SELECT 0 AS lb_n, r.digest AS lb_digest
FROM lease_broker_request AS r
WHERE r.queue = @queue AND r.request_id = @request;

-- :: read_keys
SELECT {k_key_values}
FROM (SELECT s.item_list AS lb_l, s.item_position AS lb_p, {s_key_as_names}
    FROM lease_broker_request_key AS s
    WHERE s.queue = @queue AND s.request_id = @request) AS k
ORDER BY k.lb_l, k.lb_p;

-- :: end_if
END;

-- :: forget
/* lease-broker forget requests */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @old TABLE (queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, request_id uniqueidentifier NOT NULL,
    PRIMARY KEY (queue, request_id));
BEGIN TRANSACTION;
INSERT @old (queue, request_id)
SELECT c.queue, c.request_id
FROM (SELECT e.queue, e.request_id, e.item_count,
        SUM(e.item_count) OVER (ORDER BY e.expire_time, e.queue, e.request_id ROWS UNBOUNDED PRECEDING) AS lb_sum
    FROM (SELECT TOP (@P1) r.queue, r.request_id, r.item_count, r.expire_time
        FROM lease_broker_request AS r WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE r.expire_time <= @now
        ORDER BY r.expire_time) AS e) AS c
WHERE c.lb_sum - c.item_count < 1000
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@P1 = 1));
DELETE k
FROM @old AS o INNER JOIN lease_broker_request_key AS k WITH (ROWLOCK) ON k.queue = o.queue AND k.request_id = o.request_id
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN);
DELETE r
FROM @old AS o INNER JOIN lease_broker_request AS r WITH (ROWLOCK) ON r.queue = o.queue AND r.request_id = o.request_id
OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN);
SELECT COUNT(*) AS lb_n FROM @old;
COMMIT TRANSACTION;
