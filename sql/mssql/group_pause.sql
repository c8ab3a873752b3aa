-- Purpose: pauses a group of a queue, and ends its pause.
-- Sections: `pause` and `resume` are one batch each. Both contain `take_row` and `remove`.
-- Parameters: @P1: queue. @P2: group, as text. `pause`: @P3: end of the pause, as ISO 8601 text; empty: none. @P4: name of the
--   caller. @P5: reason.
-- Results: `pause`: 1 if the group is paused, or 0 if too many groups are, and the time. `resume`: the pause that it has ended:
--   time, end, caller and reason.
-- Locks, in order: X on the row of the queue until COMMIT, for which it waits until claims of the queue have committed. X on the
--   rows of the paused groups that are deleted or added.
-- Indexes: primary key, from which all rows of the queue are read, at most 1,000.
-- Why the row of the queue is updated first: claims update it first too. So no claim that begins after the answer leases an item of
--   a paused group.
-- Why {stored_group} converts by TRY_CONVERT: another queue can have groups of another type, and the order in which conditions are
--   evaluated is not fixed.

-- :: take_row
BEGIN TRANSACTION;
UPDATE lease_broker_queue SET claims = claims + 1 WHERE queue = @P1;
IF @@ROWCOUNT = 0 INSERT lease_broker_queue (queue) VALUES (@P1);
DECLARE @now datetime2(3) = SYSUTCDATETIME();

-- :: remove
DELETE g
FROM lease_broker_group AS g
WHERE g.queue = @P1 AND (g.paused_until <= @now OR {stored_group} = {group_value});

-- :: count
UPDATE lease_broker_queue SET paused_groups = (SELECT COUNT(*) FROM lease_broker_group AS g WHERE g.queue = @P1) WHERE queue = @P1;
COMMIT TRANSACTION;

-- :: pause
/* lease-broker pause group */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @group {group_variable} = {given_group}, @until datetime2(3) = CONVERT(datetime2(3), NULLIF(@P3, N''), 126), @is_paused int = 0;
{take_row}
{remove}
IF (SELECT COUNT(*) FROM lease_broker_group AS g WHERE g.queue = @P1) < {max_paused}
BEGIN
    INSERT lease_broker_group (queue, group_text, pause_time, paused_until, pause_actor, pause_reason)
    VALUES (@P1, @P2, @now, @until, @P4, @P5);
    SET @is_paused = 1;
END;
{count}
SELECT @is_paused AS lb_n, @now AS lb_now;

-- :: resume
/* lease-broker resume group */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @group {group_variable} = {given_group};
{take_row}
SELECT g.pause_time AS lb_since, g.paused_until AS lb_due, g.pause_actor AS lb_w, g.pause_reason AS lb_error
FROM lease_broker_group AS g
WHERE g.queue = @P1 AND {stored_group} = {group_value} AND (g.paused_until IS NULL OR g.paused_until > @now);
{remove}
{count}
