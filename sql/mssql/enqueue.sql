-- Adds items, and items that follow from completions. One batch, one transaction.
-- The batch is `begin`; for each list of columns that the items name, `list` and one of `given`, `counted` and
--   `one_by_one`; then COMMIT, or ROLLBACK where only the item to blame for a refusal is looked for. Of a settlement,
--   `follow_up`s.
-- Parameters: @P1 to @P4 as for every list (sql/README.md); {list_parameter}, of each list, a JSON array of {i: place, n: state,
--   s: s until due, d: ms until due, p: trace context, c0, c1, …: the values of the columns}. {list_number} numbers the lists.
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

-- :: item_list
{read_long_texts}
DECLARE @new{list_number} TABLE (lb_i int NOT NULL PRIMARY KEY, lb_n tinyint NOT NULL, lb_due datetime2(3) NULL,
    lb_p varchar(55) NULL{item_declarations});
{check_characters}INSERT @new{list_number} (lb_i, lb_n, lb_due, lb_p{item_names})
SELECT j.i, j.n, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{item_values}
FROM OPENJSON({list_parameter}) WITH (i int '$.i', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{item_json_schema}) AS j;

-- :: read_long_texts
DECLARE @long_texts{list_number} TABLE (lb_l int NOT NULL PRIMARY KEY, lb_x nvarchar(max) NOT NULL);
INSERT @long_texts{list_number} (lb_l, lb_x)
SELECT CAST(x.[key] AS int), x.value
FROM OPENJSON(@P4) AS x;

-- :: check_characters
DECLARE @bad_characters{list_number} nvarchar(200) = (SELECT TOP (1) N'column ''lb_c' + CONVERT(nvarchar(10), {bad_character_index})
        + N''' has no such letter in its character set'
    FROM OPENJSON({list_parameter}) WITH (i int '$.i'{item_json_schema}) AS j
    WHERE {bad_character_index} IS NOT NULL);
IF @bad_characters{list_number} IS NOT NULL THROW 51223, @bad_characters{list_number}, 1;

-- :: insert_given_keys
INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
SELECT n.lb_n, @now, n.lb_due, n.lb_p{n_item_columns}{mirror_values}
FROM @new{list_number} AS n
ORDER BY n.lb_i;
SELECT {n_key_columns} FROM @new{list_number} AS n ORDER BY n.lb_i;

-- :: insert_identity_keys
DECLARE @keys{list_number} TABLE ({key_declarations}, PRIMARY KEY ({key_names}));
INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
OUTPUT {inserted_key_columns} INTO @keys{list_number} ({key_names})
SELECT n.lb_n, @now, n.lb_due, n.lb_p{n_item_columns}{mirror_values}
FROM @new{list_number} AS n
ORDER BY n.lb_i;
SELECT {k_key_columns} FROM @keys{list_number} AS k ORDER BY {k_key_columns}{key_direction};

-- :: insert_row_by_row
DECLARE @keys{list_number} TABLE (lb_i int NOT NULL IDENTITY(0, 1), {key_declarations});
DECLARE @index{list_number} int = 0, @count{list_number} int = (SELECT COUNT(*) FROM @new{list_number});
WHILE @index{list_number} < @count{list_number}
BEGIN
    INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
    OUTPUT {inserted_key_columns} INTO @keys{list_number} ({key_names})
    SELECT n.lb_n, @now, n.lb_due, n.lb_p{n_item_columns}{mirror_values}
    FROM @new{list_number} AS n
    WHERE n.lb_i = @index{list_number};
    SET @index{list_number} = @index{list_number} + 1;
END;
SELECT {k_key_columns} FROM @keys{list_number} AS k ORDER BY k.lb_i;

-- :: insert_follow_ups
{read_long_texts}
{check_characters}INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
SELECT j.n, @now, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{item_values}{mirror_values}
FROM OPENJSON({list_parameter}) WITH (i int '$.i', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{item_json_schema}) AS j
WHERE j.i IN (SELECT e.lb_i FROM @ended AS e);
