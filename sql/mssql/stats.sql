-- Counts the items of each state and finds the longest-ready item and the longest-held lease.
-- Parameters: none. Locks: S on the rows read, none under READ_COMMITTED_SNAPSHOT.
-- Reads an index of the whole table for the counts: it runs when somebody asks, never on the way of a claim.

-- :: stats
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
SELECT t.{lease_state} AS lb_state, COUNT_BIG(*) AS lb_n FROM {table} AS t WITH (READPAST) GROUP BY t.{lease_state};
SELECT @now,
    (SELECT MIN(t.{lease_state_time}) FROM {table} AS t WITH (READPAST) WHERE t.{lease_state} = 0
        AND t.{lease_state_time} > '2000-01-01'),
    (SELECT MIN(t.{lease_state_time}) FROM {table} AS t WITH (READPAST) WHERE t.{lease_state} = 1);
