-- Lists items of one state, the longest in it first.
-- Parameters: @P1 the state, @P2 the most rows. Locks: S on the rows read; rows that others hold are skipped.

-- :: list
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT TOP (@P2) SYSUTCDATETIME(), {key_of_t}, t.{lease_owner}, t.{lease_state_time}, t.{lease_due_time},
    t.{lease_attempt}, t.{lease_fence}, t.{lease_error}
FROM {table} AS t WITH (READPAST)
WHERE t.{lease_state} = @P1
ORDER BY t.{lease_state_time}, {key_of_t};
