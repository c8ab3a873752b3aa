-- Purpose: pauses a queue, ends its pause, and reads pauses. The batches that claim and that add items contain two of the sections.
-- Sections: `pause`, `resume` and `read_all` are one batch each. `hold_claims` is a part of claim.sql, and `tell_pause` follows the
--   COMMIT there. `refuse_items` is a part of enqueue.sql and enqueue_once.sql.
-- Parameters: `pause`: @P1: queue. @P2: mode (1 claims, 2 new items, 3 both). @P3: end of the pause, as ISO 8601 text; empty: none. @P4:
--   name of the caller. @P5: reason. `resume`: @P1: queue.
-- Results: `pause`: the time at which it began. `resume` and `read_all`: for each pause that has not ended, queue, mode, time, end,
--   caller and reason. `resume` returns the pause that it has ended. `read_all`: no result if the table does not exist, or if the login
--   may not see it. `tell_pause`: a row whose only column is lb_paused, if the queue is paused, and no result if it is not.
--   `refuse_items`: error 51226, whose text is the reason. Each % is U+FDD0 there.
-- Locks: `pause` and `resume`: U, then X, on the row of the queue; they wait for the claims that hold it. `hold_claims` and
--   `refuse_items`: S on the row until the end of the transaction; without a row, S on the row of the next queue and on the gap before
--   it. `read_all`: S on one row at a time, unless the database has READ_COMMITTED_SNAPSHOT.
-- Indexes: primary key. `read_all` reads the whole table, which has a row for each queue.
-- Why a claim holds S until its COMMIT: `pause` then waits for the claims that run, and a claim that begins later reads the pause. So no
--   claim gives a lease after `pause` has returned, at any broker. Claims do not wait for each other here.
-- Why SERIALIZABLE and not REPEATABLEREAD: a broker adds the row when it starts (`fill_row` in groups.sql), but somebody can delete it.
--   REPEATABLEREAD locks only rows that exist, and the first `pause` would not wait. If the row exists, both hints lock only the row. A
--   hint on the table counts also in a database with READ_COMMITTED_SNAPSHOT, where a read without it takes no lock.
-- Why U+FDD0: THROW takes % for a placeholder. No text has this character, and the broker replaces it again.
-- Why the row is read by the queue alone, and the mode is compared afterwards: SQL Server may give up the lock on a row that does not
--   fit the conditions of the statement.
-- Why @now is taken before the pause is read: Babelfish ignores the hints, and `pause` does not wait there. A claim that runs meanwhile
--   can still give a lease, but its claim time is before the answer of `pause`.
-- Why @total and not an end of the batch: the leases that a retried call holds already are returned as always.
-- Why the name of the queue is a literal: the text of a claim is one per queue anyway.
-- Why an empty text and not NULL: the driver sends a text that is NULL with a type that Babelfish does not know.
-- Why UPDLOCK with SERIALIZABLE in `pause`: of two calls that find no row, the second waits, and then finds the row of the first one. On
--   Babelfish the second can fail with a duplicate key. The broker runs it again.

-- :: pause
/* lease-broker pause */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @until datetime2(3) = CONVERT(datetime2(3), NULLIF(@P3, N''), 126);
BEGIN TRANSACTION;
UPDATE q
SET pause_mode = @P2, pause_time = @now, pause_until = @until, pause_actor = @P4, pause_reason = @P5
FROM lease_broker_queue AS q WITH (UPDLOCK, ROWLOCK, SERIALIZABLE)
WHERE q.queue = @P1;
IF @@ROWCOUNT = 0
    INSERT lease_broker_queue (queue, pause_mode, pause_time, pause_until, pause_actor, pause_reason)
    VALUES (@P1, @P2, @now, @until, @P4, @P5);
COMMIT TRANSACTION;
SELECT @now AS lb_now;

-- :: columns
q.queue AS lb_queue, CONVERT(int, q.pause_mode) AS lb_n, q.pause_time AS lb_since, q.pause_until AS lb_due, q.pause_actor AS lb_w,
    q.pause_reason AS lb_error
FROM lease_broker_queue AS q

-- :: resume
/* lease-broker resume */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
BEGIN TRANSACTION;
SELECT {columns} WITH (UPDLOCK, ROWLOCK)
WHERE q.queue = @P1 AND q.pause_mode IS NOT NULL AND (q.pause_until IS NULL OR q.pause_until > @now);
UPDATE lease_broker_queue SET pause_mode = NULL WHERE queue = @P1 AND pause_mode IS NOT NULL;
COMMIT TRANSACTION;

-- :: read_all
/* lease-broker read pauses */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
IF OBJECT_ID(N'lease_broker_queue') IS NOT NULL
    SELECT {columns}
    WHERE q.pause_mode IS NOT NULL AND (q.pause_until IS NULL OR q.pause_until > SYSUTCDATETIME())
    ORDER BY q.queue;

-- :: hold_claims
DECLARE @pause_mode int, @pause_until datetime2(3), @paused int = 0;
SELECT @pause_mode = q.pause_mode, @pause_until = q.pause_until
FROM lease_broker_queue AS q WITH (SERIALIZABLE, ROWLOCK)
WHERE q.queue = {queue_literal};
IF @pause_mode IN (1, 3) AND (@pause_until IS NULL OR @pause_until > @now)
    SELECT @paused = 1, @total = 0;

-- :: tell_pause
IF @paused = 1 SELECT 1 AS lb_paused;

-- :: refuse_items
DECLARE @pause_mode int, @pause_until datetime2(3), @pause_reason nvarchar(2048);
SELECT @pause_mode = q.pause_mode, @pause_until = q.pause_until, @pause_reason = q.pause_reason
FROM lease_broker_queue AS q WITH (SERIALIZABLE, ROWLOCK)
WHERE q.queue = {queue_literal};
IF @pause_mode IN (2, 3) AND (@pause_until IS NULL OR @pause_until > @now)
BEGIN
    SET @pause_reason = REPLACE(@pause_reason COLLATE Latin1_General_100_BIN2, N'%', NCHAR(64976));
    THROW 51226, @pause_reason, 1;
END;
