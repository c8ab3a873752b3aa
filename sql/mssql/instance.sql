-- Purpose: lists a broker process as running, raises the generation of the database, and finds the others. `list` returns every row.
--   `request_drain` tells a process to stop. One batch each. operation.sql has the batch in which a broker reads that.
-- Sections: `announce`; `list`; `request_drain`.
-- Parameters: @P1: id, as text (Babelfish 4.3 misreads a parameter of type uniqueidentifier). @P2: version. @P3: address. @P4: 1 if
--   the broker drains, otherwise 0. @P5: settings, as JSON. @P6: the time without an announcement after which a broker no longer
--   counts as running, in seconds. @P7: the time after which its row is deleted, in seconds. @P8: activity, as JSON. `request_drain`: @P1: id.
-- Results: fence of the epoch and generation. Then id as text, version, address, draining (0 or 1), settings and activity of each other
--   broker that runs. `list`: the time; then the same, the time of the start, and the milliseconds since it was seen. It has no
--   second result if the table does not exist, or if the login may not see it. `request_drain`: the number of changed rows.
-- Locks: X on the row of the generation; then X on the row of this broker; then U and X on old rows, skipping those that others have locked; then S on the rows.
-- Indexes: primary key. DELETE and SELECT read the whole table, which has a row for each process of the last day.
-- Why a broker from the future does not run: its row is of a clock that was ahead, perhaps of a process that was killed.
-- Why no transaction around the batch: a broker that kept its own row locked while it reads the others' could deadlock with
--   another one.

-- :: announce
/* lease-broker announce */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @id uniqueidentifier = CONVERT(uniqueidentifier, @P1);
UPDATE lease_broker_generation SET generation = generation + 1;
SELECT e.fence AS lb_f, g.generation AS lb_n FROM lease_broker_epoch AS e CROSS JOIN lease_broker_generation AS g;
UPDATE lease_broker_instance SET seen_time = @now, draining = @P4, settings = @P5, activity = @P8 WHERE id = @id;
IF @@ROWCOUNT = 0
    INSERT lease_broker_instance (id, version, address, start_time, seen_time, draining, settings, activity)
    VALUES (@id, @P2, @P3, @now, @now, @P4, @P5, @P8);
DELETE lease_broker_instance WITH (READPAST, ROWLOCK) WHERE seen_time < DATEADD(second, -@P7, @now);
SELECT CONVERT(nvarchar(36), i.id) AS lb_id, CONVERT(nvarchar(64), i.version) AS lb_version, i.address AS lb_address,
    CONVERT(int, i.draining) AS lb_n, i.settings AS lb_settings, i.activity AS lb_activity
FROM lease_broker_instance AS i
WHERE i.seen_time > DATEADD(second, -@P6, @now) AND i.seen_time < DATEADD(second, @P6, @now) AND i.id <> @id;

-- :: list
/* lease-broker list brokers */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
SELECT @now AS lb_now;
IF OBJECT_ID(N'lease_broker_instance') IS NOT NULL
    SELECT CONVERT(nvarchar(36), i.id) AS lb_id, CONVERT(nvarchar(64), i.version) AS lb_version, i.address AS lb_address,
        CONVERT(int, i.draining) AS lb_n, i.settings AS lb_settings, i.activity AS lb_activity, i.start_time AS lb_start,
        DATEDIFF_BIG(millisecond, i.seen_time, @now) AS lb_since
    FROM lease_broker_instance AS i
    ORDER BY i.seen_time DESC;

-- :: request_drain
/* lease-broker drain broker */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
UPDATE lease_broker_instance SET drain = 1 WHERE id = CONVERT(uniqueidentifier, @P1);
SELECT @@ROWCOUNT AS lb_n;
