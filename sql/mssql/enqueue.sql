-- Adds items, and items that follow from completions. One batch, one transaction.
-- The batch is `begin`; for each list of columns that the items name, `list` and one of `given`, `counted` and
--   `one_by_one`; then COMMIT, or ROLLBACK where only the item to blame for a refusal is looked for. Of a settlement,
--   `follow_up`s.
-- Parameters: @P1 to @P4 as for every list (sql/README.md); {parameter}, of each list, a JSON array of {i: place, n: state,
--   s: s until due, d: ms until due, p: trace context, c0, c1, …: the values of the columns}. {group} numbers the lists.
-- Locks: X on the rows added.
-- The keys come back in the order of the items, by three ways:
--   `given`: the items name all of the key. They are read from the list, whose columns are declared like the table's.
--   `counted`: the key is one identity column, whose values an INSERT … SELECT … ORDER BY gives out in that order.
--   `one_by_one`: anything else that makes a key (NEWID(), a sequence, a mixture).
-- OUTPUT goes INTO a table variable, as a table with triggers demands.
-- `letters` stands before items with texts for char and varchar columns: the server would store a question mark for a letter
--   that the column's character set lacks. (Babelfish stores the letter, and sends the question mark to who reads it.)

-- :: begin
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
BEGIN TRANSACTION;

-- :: list
{long_texts}
DECLARE @new{group} TABLE (lb_i int NOT NULL PRIMARY KEY, lb_n tinyint NOT NULL, lb_due datetime2(3) NULL,
    lb_p varchar(55) NULL{named_declarations});
{letters}INSERT @new{group} (lb_i, lb_n, lb_due, lb_p{named_places})
SELECT j.i, j.n, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{named_of_j}
FROM OPENJSON({parameter}) WITH (i int '$.i', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{named_json}) AS j;

-- :: long_texts
DECLARE @long{group} TABLE (lb_l int NOT NULL PRIMARY KEY, lb_x nvarchar(max) NOT NULL);
INSERT @long{group} (lb_l, lb_x)
SELECT CAST(x.[key] AS int), x.value
FROM OPENJSON(@P4) AS x;

-- :: letters
DECLARE @letters{group} nvarchar(200) = (SELECT TOP (1) N'column ''lb_c' + CONVERT(nvarchar(10), {lacking_of_j})
        + N''' has no such letter in its character set'
    FROM OPENJSON({parameter}) WITH (i int '$.i'{named_json}) AS j
    WHERE {lacking_of_j} IS NOT NULL);
IF @letters{group} IS NOT NULL THROW 51223, @letters{group}, 1;

-- :: given
INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
SELECT n.lb_n, @now, n.lb_due, n.lb_p{named_of_n}{mirror_values}
FROM @new{group} AS n
ORDER BY n.lb_i;
SELECT {key_of_n} FROM @new{group} AS n ORDER BY n.lb_i;

-- :: counted
DECLARE @keys{group} TABLE ({key_declarations}, PRIMARY KEY ({key_names}));
INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
OUTPUT {inserted_key} INTO @keys{group} ({key_names})
SELECT n.lb_n, @now, n.lb_due, n.lb_p{named_of_n}{mirror_values}
FROM @new{group} AS n
ORDER BY n.lb_i;
SELECT {key_of_k} FROM @keys{group} AS k ORDER BY {key_of_k}{counting};

-- :: one_by_one
DECLARE @keys{group} TABLE (lb_i int NOT NULL IDENTITY(0, 1), {key_declarations});
DECLARE @place{group} int = 0, @count{group} int = (SELECT COUNT(*) FROM @new{group});
WHILE @place{group} < @count{group}
BEGIN
    INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
    OUTPUT {inserted_key} INTO @keys{group} ({key_names})
    SELECT n.lb_n, @now, n.lb_due, n.lb_p{named_of_n}{mirror_values}
    FROM @new{group} AS n
    WHERE n.lb_i = @place{group};
    SET @place{group} = @place{group} + 1;
END;
SELECT {key_of_k} FROM @keys{group} AS k ORDER BY k.lb_i;

-- :: follow_up
{long_texts}
{letters}INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{named}{mirror_columns})
SELECT j.n, @now, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{named_of_j}{mirror_values}
FROM OPENJSON({parameter}) WITH (i int '$.i', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{named_json}) AS j
WHERE j.i IN (SELECT e.lb_i FROM @ended AS e);
