-- Purpose: rolls back a batch when a trigger raises an error. It surrounds each batch that changes a table with enabled triggers.
-- Sections: `roll_back_on_error`. {batch} is the batch.
-- Parameters, results, locks, indexes: those of the batch.
-- Why: RAISERROR in a trigger does not obey XACT_ABORT. SQL Server would continue with the batch and commit it, and the caller
--   would be told that the change was refused. In TRY, an error of severity 11 or more goes to CATCH. THROW then sends it with its
--   number and text.
-- Why only for tables with triggers: all other errors of these batches obey XACT_ABORT.
-- Why also on Babelfish, whose triggers end the batch at each error: the statements that ship are the ones that are tested.

-- :: roll_back_on_error
BEGIN TRY
{batch}
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    THROW;
END CATCH;
