-- Purpose: rolls back a batch when a trigger raises an error. It surrounds each batch that changes a table with enabled triggers.
--   Also the trials of `schema check --triggers`: changes like those of the broker, which are rolled back.
-- Sections: `roll_back_on_error`. {batch} is the batch. `try_update`, `try_delete` and `try_insert` are a batch each.
-- Parameters: those of the batch. The trials have none: {rows} is the number of rows.
-- Results: those of the batch. A trial: the number of changed rows.
-- Locks, indexes: those of the batch. A trial: X on up to two rows, which it finds in any order; READPAST skips rows that others
--   have locked. The locks end with the trial.
-- Why: RAISERROR in a trigger does not obey XACT_ABORT. SQL Server would continue with the batch and commit it, and the caller
--   would be told that the change was refused. In TRY, an error of severity 11 or more goes to CATCH. THROW then sends it with its
--   number and text.
-- Why only for tables with triggers: all other errors of these batches obey XACT_ABORT.
-- Why also on Babelfish, whose triggers end the batch at each error: the statements that ship are the ones that are tested.
-- Why two transactions in a trial: a trigger that commits ends the inner one, and its change is rolled back with the outer one.
-- Why `try_update` sets each column to its own value: triggers that ask which columns are set, by UPDATE(…), run as for the broker.

-- :: roll_back_on_error
BEGIN TRY
{batch}
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    THROW;
END CATCH;

-- :: try_update
/* lease-broker try triggers {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 10000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @rows int = {rows}, @changed int;
BEGIN TRANSACTION;
BEGIN TRANSACTION;
UPDATE TOP (@rows) t
SET {own_values}
FROM {table} AS t WITH (ROWLOCK, READPAST);
SET @changed = @@ROWCOUNT;
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
SELECT @changed AS lb_n;

-- :: try_delete
/* lease-broker try triggers {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 10000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @rows int = {rows}, @changed int;
BEGIN TRANSACTION;
BEGIN TRANSACTION;
DELETE TOP (@rows) t
FROM {table} AS t WITH (ROWLOCK, READPAST);
SET @changed = @@ROWCOUNT;
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
SELECT @changed AS lb_n;

-- :: try_insert
/* lease-broker try triggers {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 10000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @rows int = {rows}, @changed int;
BEGIN TRANSACTION;
BEGIN TRANSACTION;
INSERT {table} ({copied_columns})
SELECT TOP (@rows) {copied_columns} FROM {table} WITH (READPAST, READCOMMITTEDLOCK);
SET @changed = @@ROWCOUNT;
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
SELECT @changed AS lb_n;
