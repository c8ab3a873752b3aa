-- Makes dead items ready, with all their attempts before them. The token goes too: a settlement of the lease that they
-- died by must find nothing.
-- Parameter: @P1 the most rows.
-- Locks, in order: U, then X, on the rows changed, by the dead index and the key; rows that others hold are skipped.

-- :: redrive
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @due TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL);
BEGIN TRANSACTION;
INSERT @due (lb_p, {key_names}, lb_f)
SELECT TOP (@P1) ROW_NUMBER() OVER (ORDER BY t.{lease_state_time}, {t_key_columns}), {t_key_columns}, t.{lease_fence}
FROM {table} AS t WITH (UPDLOCK, READPAST, ROWLOCK{dead_hint})
WHERE t.{lease_state} = 4
ORDER BY t.{lease_state_time}, {t_key_columns};
UPDATE t
SET {lease_state} = 0, {lease_state_time} = @now, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_attempt} = 0{mirror_redriven}
FROM @due AS d INNER JOIN {table} AS t ON {join_due_on_key}
WHERE 1 = CASE WHEN t.{lease_state} = 4 AND t.{lease_fence} = d.lb_f THEN 1 END
OPTION (FORCE ORDER, LOOP JOIN);
SELECT @@ROWCOUNT AS lb_n;
COMMIT TRANSACTION;
