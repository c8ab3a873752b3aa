-- Purpose: adds items, and items that follow completions. One batch, one transaction.
-- Sections of an enqueue: `begin`, and `refuse_items` of pause.sql. Then, for items that follow each other, name the same columns, and
--   have the same mirror columns, `item_list` and one of `insert_given_keys`, `insert_identity_keys` and `insert_row_by_row`. Then COMMIT. It is ROLLBACK
--   while the broker searches for the item that a constraint refused.
-- Sections of a settlement: settle.sql contains `insert_follow_ups`.
-- Sections inside these: `read_long_texts`, if a column can hold more than 4,000 characters; `check_characters`, if a column is
--   char or varchar; `verify_list`, `verify_row` and `verify_follow_ups`, if the table has an index with IGNORE_DUP_KEY = ON.
-- Parameters: @P1 to @P5 as in every statement with lists (sql/README.md). {list_parameter}, one for each list: a JSON array of
--   items, {i: index, n: state, s and d: the delay in seconds and the milliseconds beyond, p: trace context, c0, c1, …: the
--   values}. In an enqueue i is the index in the list, and l and o are the
--   place among remembered keys (enqueue_once.sql). In a settlement i is the index of the completion, and o that in
--   the list. {list_number} numbers
--   the lists and makes the names of variables unique.
-- Results: for each list the keys, in the order of its items. `insert_follow_ups` returns none.
-- Locks, in order: S on the row that has the pause of the queue, until the end of the transaction (pause.sql); X on the added rows.
-- Indexes: the primary key of lease_broker_queue: one seek.
-- Why only items that follow each other share an INSERT: the keys of an identity column, or of a sequence, then have the order of the call.
--   The broker adds NULL for columns without a default that only other items name, so that few lists are needed. After 8 lists it no
--   longer keeps the order.
-- Why follow-ups do not ask for the pause: the completion that adds them would be refused, and its work done again.
-- Why three ways to insert: the keys must come back in the order of the items.
--   `insert_given_keys`: the items name the whole key. The keys are read from @new, whose columns have the types of the
--     table's.
--   `insert_identity_keys`: the key is one identity column. INSERT … SELECT … ORDER BY assigns its values in that order, so the
--     keys are sorted by value.
--   `insert_row_by_row`: all other keys (NEWID(), a sequence, a mixture). Only one row at a time shows which item got which
--     key.
-- Why `verify_…` compare the number of rows: a unique index with IGNORE_DUP_KEY = ON drops a row with a warning only. The batch
--   would commit, and the caller would get the key of a row that is not there. With error 51225 the whole batch is rolled back
--   and the item is refused.
-- Why OUTPUT has INTO a table variable: a table with triggers accepts no other form.
-- Why `check_characters`: the server silently stores a question mark for a character that the code page of a char or varchar
--   column lacks. Babelfish stores the character and sends the question mark to each reader.

-- :: begin
/* lease-broker enqueue {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
BEGIN TRANSACTION;

-- :: item_list
{read_long_texts}
DECLARE @new{list_number} TABLE (lb_i int NOT NULL PRIMARY KEY, lb_l int NOT NULL, lb_o int NOT NULL, lb_n tinyint NOT NULL, lb_due datetime2(3) NULL,
    lb_p varchar(55) NULL{item_declarations});
{check_characters}INSERT @new{list_number} (lb_i, lb_l, lb_o, lb_n, lb_due, lb_p{item_names})
SELECT j.i, j.l, j.o, j.n, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{item_values}
FROM OPENJSON({list_parameter}) WITH (i int '$.i', l int '$.l', o int '$.o', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{item_json_schema}) AS j;

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
ORDER BY n.lb_i;{verify_list}
SELECT {n_key_columns} FROM @new{list_number} AS n ORDER BY n.lb_i;

-- :: insert_identity_keys
DECLARE @keys{list_number} TABLE ({key_declarations}, PRIMARY KEY ({key_names}));
INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
OUTPUT {inserted_key_columns} INTO @keys{list_number} ({key_names})
SELECT n.lb_n, @now, n.lb_due, n.lb_p{n_item_columns}{mirror_values}
FROM @new{list_number} AS n
ORDER BY n.lb_i;{verify_list}
SELECT {k_key_values} FROM @keys{list_number} AS k ORDER BY {k_key_columns}{key_direction};

-- :: insert_row_by_row
DECLARE @keys{list_number} TABLE (lb_i int NOT NULL IDENTITY(0, 1), {key_declarations});
DECLARE @index{list_number} int = 0, @count{list_number} int = (SELECT COUNT(*) FROM @new{list_number});
WHILE @index{list_number} < @count{list_number}
BEGIN
    INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
    OUTPUT {inserted_key_columns} INTO @keys{list_number} ({key_names})
    SELECT n.lb_n, @now, n.lb_due, n.lb_p{n_item_columns}{mirror_values}
    FROM @new{list_number} AS n
    WHERE n.lb_i = @index{list_number};{verify_row}
    SET @index{list_number} = @index{list_number} + 1;
END;
SELECT {k_key_values} FROM @keys{list_number} AS k ORDER BY k.lb_i;

-- :: insert_follow_ups
{read_long_texts}
{check_characters}INSERT {table} ({lease_state}, {lease_state_time}, {lease_due_time}, {trace_parent}{item_columns}{mirror_columns})
SELECT j.n, @now, DATEADD(millisecond, j.d, DATEADD(second, j.s, @now)), j.p{item_values}{mirror_values}
FROM OPENJSON({list_parameter}) WITH (i int '$.i', o int '$.o', n tinyint '$.n', s int '$.s', d int '$.d', p varchar(55) '$.p'{item_json_schema}) AS j
WHERE j.i IN (SELECT e.lb_i FROM @ended AS e)
ORDER BY j.o;{verify_follow_ups}

-- :: verify_list
IF @@ROWCOUNT <> (SELECT COUNT(*) FROM @new{list_number})
    THROW 51225, N'a unique index with IGNORE_DUP_KEY = ON dropped the row: it has this key already', 1;

-- :: verify_row
IF @@ROWCOUNT = 0
    THROW 51225, N'a unique index with IGNORE_DUP_KEY = ON dropped the row: it has this key already', 1;

-- :: verify_follow_ups
IF @@ROWCOUNT <> (SELECT COUNT(*) FROM OPENJSON({list_parameter}) WITH (i int '$.i') AS j WHERE j.i IN (SELECT e.lb_i FROM @ended AS e))
    THROW 51225, N'a unique index with IGNORE_DUP_KEY = ON dropped the row: it has this key already', 1;
