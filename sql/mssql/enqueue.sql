-- Adds items, and items that follow from completions. One batch, one transaction.
-- The batch is `begin`, one `insert` for each list of columns that the items name, `end`; of a settlement, `follow_up`s.
-- Parameters: {parameter}, of each insert, a JSON array of {i: place, n: state, s: s until due, d: ms until due,
--   p: trace context, c0, c1, …: the values of the columns}. {group} numbers the inserts.
-- Locks: X on the rows added.
-- Row by row: the keys come back in the order of the items, whatever makes them (identity, sequence, NEWID()), and an
--   item that a constraint refuses is known by its place.

-- :: begin
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @group int = 0, @place int = 0, @count int = 0;
BEGIN TRY
BEGIN TRANSACTION;

-- :: insert
DECLARE @new{group} TABLE (lb_i int NOT NULL PRIMARY KEY, lb_n tinyint NOT NULL, lb_due datetime2(3) NULL,
    lb_p varchar(55) NULL{named_declarations});
DECLARE @keys{group} TABLE (lb_i int NOT NULL IDENTITY(0, 1), {key_declarations});
INSERT @new{group} (lb_i, lb_n, lb_due, lb_p{named_places})
SELECT j.i, j.n, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{named_of_j}
FROM OPENJSON({parameter}) WITH (i int '$.i', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{named_json}) AS j;
SELECT @group = {group}, @place = 0, @count = (SELECT COUNT(*) FROM @new{group});
WHILE @place < @count
BEGIN
    INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
    OUTPUT {inserted_key} INTO @keys{group} ({key_names})
    SELECT n.lb_n, @now, n.lb_due, n.lb_p{named_of_n}{mirror_values}
    FROM @new{group} AS n
    WHERE n.lb_i = @place;
    SET @place = @place + 1;
END;
SELECT {key_of_k} FROM @keys{group} AS k ORDER BY k.lb_i;

-- :: end
COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    DECLARE @number int = ERROR_NUMBER(), @message nvarchar(4000) = ERROR_MESSAGE();
    IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    SELECT 0, 0, 0, @group, @place, @number, @message;
END CATCH;

-- :: follow_up
INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
SELECT j.n, @now, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{named_of_j}{mirror_values}
FROM OPENJSON({parameter}) WITH (i int '$.i', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{named_json}) AS j
WHERE j.i IN (SELECT l.lb_i FROM @list AS l INNER JOIN @ended AS e ON {ended_e_is_l});
