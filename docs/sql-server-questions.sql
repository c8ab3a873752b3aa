-- Questions that only a real SQL Server can answer.
--
-- For whom: a database administrator with a SQL Server (2017 to 2025) or an Azure SQL database, who wants to check what
-- lease-broker assumes about the engine. The project was developed on Babelfish, which ignores lock hints, so these points
-- rest on Microsoft's documentation alone.
--
-- How: run it in an empty scratch database, part by part, as its owner. Each part states the result that the broker relies
-- on. Nothing outside the scratch database is changed. The last statements drop every object.
--
-- If a result differs, please report it with the output of SELECT @@VERSION.

-- 1. Can a login with the rights of permissions.sql see the filter of an index?
-- Expected: first has_filter = 1 and filter_definition = NULL. After GRANT VIEW DEFINITION: the text ([s]=(0)).
-- If the first answer already has the text, permissions.sql could do without VIEW DEFINITION.
CREATE TABLE dbo.q1 (id int PRIMARY KEY, s smallint NOT NULL);
CREATE INDEX i1 ON dbo.q1 (id) WHERE s = 0;
CREATE USER lease_broker_question WITHOUT LOGIN;
GRANT SELECT, UPDATE, INSERT, DELETE ON dbo.q1 TO lease_broker_question;
GO
EXECUTE AS USER = 'lease_broker_question';
SELECT name, has_filter, filter_definition FROM sys.indexes WHERE object_id = OBJECT_ID('dbo.q1') AND index_id > 1;
REVERT;
GRANT VIEW DEFINITION ON dbo.q1 TO lease_broker_question;
EXECUTE AS USER = 'lease_broker_question';
SELECT name, has_filter, filter_definition FROM sys.indexes WHERE object_id = OBJECT_ID('dbo.q1') AND index_id > 1;
REVERT;
GO

-- 2. Is FORCESEEK refused on a filtered index without a predicate on its first column?
-- Expected: the first statement fails with error 8622, the second one runs. The broker uses the second form.
SELECT TOP (1) id FROM dbo.q1 WITH (UPDLOCK, ROWLOCK, READPAST, FORCESEEK, INDEX (i1)) WHERE s = 0 ORDER BY id;
GO
SELECT TOP (1) id FROM dbo.q1 WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (i1)) WHERE s = 0 ORDER BY id;
GO

-- 3. Does the driver read a UTF-8 column correctly?
-- Adopt dbo.q3 as a queue (schema apply), claim the row with `lease-broker claim`, and compare the two columns.
-- Expected: both columns are equal.
CREATE TABLE dbo.q3 (id int PRIMARY KEY, v varchar(40) COLLATE Latin1_General_100_CI_AS_SC_UTF8, n nvarchar(40));
INSERT dbo.q3 VALUES (1, N'żółw Ωмега 🦀', N'żółw Ωмега 🦀');
GO

-- 4. Does READPAST skip a locked row under optimized locking?
-- Needs SQL Server 2025 or Azure SQL. On 2025 first run:
--   ALTER DATABASE CURRENT SET ACCELERATED_DATABASE_RECOVERY = ON;
--   ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--   ALTER DATABASE CURRENT SET OPTIMIZED_LOCKING = ON;
CREATE TABLE dbo.q4 (id int PRIMARY KEY, s smallint NOT NULL, f bigint NOT NULL);
INSERT dbo.q4 VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);
CREATE INDEX i4 ON dbo.q4 (id) WHERE s = 0;
GO
-- Session A:
--   BEGIN TRANSACTION; UPDATE dbo.q4 SET f = 1 WHERE id = 1; INSERT dbo.q4 VALUES (0, 0, 0);
-- Session B, while A is open:
--   SET LOCK_TIMEOUT 2000; BEGIN TRANSACTION;
--   SELECT TOP (1) id, f FROM dbo.q4 WITH (UPDLOCK, ROWLOCK, READPAST, INDEX (i4)) WHERE s = 0 ORDER BY id;
--   ROLLBACK;
-- Expected: session B returns id 2 at once. It does not wait (LCK_M_S_XACT_*), and it returns neither 0 nor 1.
-- Then roll session A back.

-- 5. Does RAISERROR in a trigger commit the statement that fired it, although XACT_ABORT is on?
-- Expected: committed = 1 without TRY/CATCH, and 0 with it. The broker adds TRY/CATCH if a table has triggers.
CREATE TABLE dbo.q5 (id int PRIMARY KEY);
GO
CREATE TRIGGER dbo.g5 ON dbo.q5 AFTER INSERT AS RAISERROR(N'no', 16, 1);
GO
SET XACT_ABORT ON;
BEGIN TRANSACTION;
INSERT dbo.q5 VALUES (1);
COMMIT TRANSACTION;
GO
SELECT COUNT(*) AS committed FROM dbo.q5;
GO
DELETE dbo.q5;
GO
SET XACT_ABORT ON;
BEGIN TRY
    BEGIN TRANSACTION;
    INSERT dbo.q5 VALUES (1);
    COMMIT TRANSACTION;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    THROW;
END CATCH;
GO
SELECT COUNT(*) AS committed FROM dbo.q5;
GO

-- 6. How much log and tempdb does one item cost?
-- Run the first query inside a transaction, before its COMMIT. Run the second one while about 200 claims per second arrive:
-- rows with resource_description 2:… are waits for tempdb.
SELECT d.database_id, d.database_transaction_log_record_count, d.database_transaction_log_bytes_used
FROM sys.dm_tran_database_transactions AS d
    INNER JOIN sys.dm_tran_session_transactions AS s ON s.transaction_id = d.transaction_id
WHERE s.session_id = @@SPID;
SELECT wait_type, resource_description, COUNT(*) AS waits
FROM sys.dm_os_waiting_tasks
WHERE wait_type LIKE N'PAGELATCH%'
GROUP BY wait_type, resource_description;
GO

-- 7. How many texts does Query Store hold for one operation?
-- Run it in the queue's database, with Query Store on. Expected: one text for each shape of a call.
SELECT q.query_hash, COUNT(*) AS texts
FROM sys.query_store_query AS q
    INNER JOIN sys.query_store_query_text AS t ON t.query_text_id = q.query_text_id
WHERE t.query_sql_text LIKE N'%lb[_]%'
GROUP BY q.query_hash
ORDER BY texts DESC;
GO

-- 8. Which edition number does this server report?
-- Expected: 3 for Enterprise and Developer, 2 for Standard, 4 for Express, 5 for Azure SQL Database, 8 for a managed
-- instance. A SQL database in Fabric: unknown, please report it.
SELECT SERVERPROPERTY('EngineEdition') AS engine_edition, @@VERSION AS version;
GO

-- 9. Are the broker's combinations of lock hints accepted?
-- Expected: no error. The broker uses both forms, the second without filtered indexes.
CREATE TABLE dbo.q9 (id int PRIMARY KEY, s smallint NOT NULL, d datetime2(3) NULL, f bigint NOT NULL);
CREATE INDEX i9 ON dbo.q9 (s, id);
INSERT dbo.q9 VALUES (1, 0, NULL, 0), (2, 0, NULL, 0);
GO
SELECT TOP (1) id, f FROM dbo.q9 AS t WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE t.s = 0 ORDER BY id;
SELECT TOP (1) id, f FROM dbo.q9 AS t WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (i9)) WHERE t.s = 0 ORDER BY id;
SELECT TOP (1) id, f FROM dbo.q9 AS t WITH (READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (i9)) WHERE t.s = 0 ORDER BY id;
GO

-- 10. Does a nonclustered columnstore index allow READPAST on the table?
-- Expected: all three statements run, because they read and change rows by other indexes. If one fails, schema check should refuse
-- such a table. Please report the error number.
CREATE NONCLUSTERED COLUMNSTORE INDEX c9 ON dbo.q9 (id, s, f);
GO
DECLARE @n int = 1;
SELECT TOP (@n) id, f FROM dbo.q9 AS t WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (i9)) WHERE t.s = 0 ORDER BY id;
UPDATE t SET f = f + 1 FROM (SELECT TOP (@n) 1 AS id) AS p INNER JOIN dbo.q9 AS t WITH (ROWLOCK) ON t.id = p.id OPTION (FORCE ORDER, LOOP JOIN);
DELETE t FROM (SELECT TOP (@n) 2 AS id) AS p INNER JOIN dbo.q9 AS t WITH (READPAST, ROWLOCK) ON t.id = p.id OPTION (FORCE ORDER, LOOP JOIN);
GO

-- 11. Can an index take the name of another one in one transaction, and do statements that name it in a hint go on?
-- Expected: the last statement runs. `schema apply` replaces an index in another order so.
CREATE INDEX i9_new ON dbo.q9 (s, id DESC);
GO
SET XACT_ABORT ON;
BEGIN TRANSACTION;
DROP INDEX i9 ON dbo.q9;
EXEC sp_rename N'dbo.q9.i9_new', N'i9', N'INDEX';
COMMIT TRANSACTION;
GO
SELECT TOP (1) id FROM dbo.q9 WITH (INDEX (i9)) WHERE s = 0;
GO

-- 12. Are messages English after SET LANGUAGE, whatever the login's language?
-- Expected: the first message is German, the second English. The broker sets us_english in each session.
SET LANGUAGE German;
BEGIN TRY INSERT dbo.q9 VALUES (1, 0, NULL, 0); END TRY BEGIN CATCH SELECT ERROR_MESSAGE() AS message; END CATCH;
SET LANGUAGE us_english;
BEGIN TRY INSERT dbo.q9 VALUES (1, 0, NULL, 0); END TRY BEGIN CATCH SELECT ERROR_MESSAGE() AS message; END CATCH;
GO

-- 13. Can a handle of sp_prepare be a parameter?
-- Expected: 7, and one text with sp_execute in the plan cache, whatever the handle.
DECLARE @h int;
EXEC sp_prepare @h OUTPUT, N'@P1 int', N'SELECT @P1 AS lb_n';
EXEC sp_executesql N'EXEC sp_execute @P2, @P1;', N'@P1 int, @P2 int', 7, @h;
SELECT t.text FROM sys.dm_exec_cached_plans AS p CROSS APPLY sys.dm_exec_sql_text(p.plan_handle) AS t WHERE t.text LIKE N'%sp[_]execute @P2%';
GO

-- 14. Does an index build let others pass while it waits? Needs Enterprise or Developer 2022, or Azure SQL.
-- Expected: no error. Hold a Sch-S lock in another session (BEGIN TRANSACTION; SELECT … WITH (HOLDLOCK)) while it runs: a third
-- session that reads the table does not wait.
EXEC (N'CREATE INDEX i9_low ON dbo.q9 (f) WITH (ONLINE = ON (WAIT_AT_LOW_PRIORITY (MAX_DURATION = 60 MINUTES, ABORT_AFTER_WAIT = NONE)))');
GO

-- 15. How does the driver get a json column? Needs SQL Server 2025 or Azure SQL.
-- Adopt dbo.q15, claim the row with `lease-broker claim`. Expected: j is the text. Then let a settlement write another text.
EXEC (N'CREATE TABLE dbo.q15 (id int PRIMARY KEY, j json); INSERT dbo.q15 VALUES (1, N''{"a": [1, "ż"]}'')');
GO

-- 16. Is a walk by a key of another code page a seek?
-- Run it in a database of another code page, such as one with the collation Cyrillic_General_100_CI_AS.
-- Expected: the row ß, and a seek without CONVERT_IMPLICIT on the column in the plan.
CREATE TABLE dbo.q16 (k varchar(10) COLLATE Latin1_General_100_CI_AS PRIMARY KEY);
INSERT dbo.q16 VALUES (N'Ä' COLLATE Latin1_General_100_CI_AS), (N'ß' COLLATE Latin1_General_100_CI_AS);
GO
DECLARE @k nvarchar(4000) = N'Ä';
SELECT t.k FROM dbo.q16 AS t
WHERE t.k > CONVERT(varchar(10), @k COLLATE Latin1_General_100_CI_AS) COLLATE Latin1_General_100_CI_AS ORDER BY t.k;
GO

-- 17. Does retention with completed_index seek in both indexes?
-- Expected: no error 8622, and a plan with two index seeks that sorts no more than the rows of i17d.
CREATE TABLE dbo.q17 (id int NOT NULL PRIMARY KEY NONCLUSTERED, s smallint NOT NULL, w datetime2(3) NOT NULL);
INSERT dbo.q17 VALUES (1, 3, '20200101'), (2, 4, '20200102'), (3, 3, '20200102'), (4, 0, '20200103');
CREATE INDEX i17c ON dbo.q17 (w, id) WHERE s = 3;
CREATE INDEX i17d ON dbo.q17 (w) WHERE s = 4;
GO
DECLARE @n int = 500, @old datetime2(3) = SYSUTCDATETIME(), @w datetime2(3) = '20200101', @k int = 1;
SELECT TOP (@n) d.id, d.w
FROM (
    SELECT c.* FROM (
        SELECT TOP (@n) t.id, t.w FROM dbo.q17 AS t WITH (READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (i17c))
        WHERE t.s = 3 AND t.w > '20000101' AND t.w < @old AND t.w >= @w AND (t.w > @w OR t.id > @k) ORDER BY t.w, t.id
    ) AS c
    UNION ALL
    SELECT c.* FROM (
        SELECT TOP (@n) t.id, t.w FROM dbo.q17 AS t WITH (READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (i17d))
        WHERE t.s = 4 AND t.w > '20000101' AND t.w < @old AND t.w >= @w AND (t.w > @w OR t.id > @k) ORDER BY t.w, t.id
    ) AS c
) AS d
ORDER BY d.w, d.id
OPTION (KEEPFIXED PLAN, OPTIMIZE FOR (@n = 1));
GO

-- 18. What does a queue without a row in lease_broker_queue lock, and does the lock reach the row of the next queue?
-- Expected: a row with resource_type KEY and request_mode RangeS-S. In a second session, UPDATE dbo.q18 SET n = 1 WHERE q = N'b' waits
-- until the ROLLBACK. A broker gives each of its queues a row when it starts, so that this does not happen.
CREATE TABLE dbo.q18 (q nvarchar(128) PRIMARY KEY, n int NOT NULL);
INSERT dbo.q18 VALUES (N'b', 0);
BEGIN TRANSACTION;
SELECT n FROM dbo.q18 WITH (SERIALIZABLE, ROWLOCK) WHERE q = N'a';
SELECT resource_type, request_mode FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = 'KEY';
ROLLBACK TRANSACTION;
GO

-- 19. What does a login without UNMASK write back, and what does it see of a computed column?
-- Expected: the login sees xxxx in b. Masks may be stored in a of row 1 and in c: then a settlement that writes a column of other items
-- writes masks, and masked mirror and writable columns must be refused.
CREATE TABLE dbo.q19 (id int NOT NULL PRIMARY KEY, a nvarchar(20) MASKED WITH (FUNCTION = 'default()') NULL, b AS LEFT(a, 3), c nvarchar(20) NULL);
INSERT dbo.q19 (id, a) VALUES (1, N'first'), (2, N'second');
GRANT SELECT, UPDATE ON dbo.q19 TO lease_broker_question;
GO
EXECUTE AS USER = N'lease_broker_question';
UPDATE dbo.q19 SET a = CASE id WHEN 2 THEN N'new' ELSE a END, c = a;
SELECT id, b FROM dbo.q19;
REVERT;
SELECT id, a, c FROM dbo.q19;
GO

-- 20. Does an error in the reading after COMMIT leave the change? And is a column that is not stored computed only when it is read?
-- Expected: no error of the UPDATE, lb_committed is 0, then error 8134, and n is 1.
CREATE TABLE dbo.q20 (id int PRIMARY KEY, n int NOT NULL, bad AS 1 / id);
INSERT dbo.q20 (id, n) VALUES (0, 0);
GO
SET XACT_ABORT ON;
BEGIN TRANSACTION;
UPDATE dbo.q20 SET n = 1;
COMMIT TRANSACTION;
SELECT @@TRANCOUNT AS lb_committed;
SELECT bad FROM dbo.q20;
GO
SET XACT_ABORT OFF;
SELECT n FROM dbo.q20;
GO

-- Clean up.
DROP TABLE dbo.q20;
DROP TABLE dbo.q19;
DROP TABLE dbo.q18;
DROP TABLE dbo.q17;
DROP TABLE dbo.q16;
IF OBJECT_ID(N'dbo.q15') IS NOT NULL DROP TABLE dbo.q15;
DROP TABLE dbo.q9;
DROP TABLE dbo.q1;
DROP TABLE dbo.q3;
DROP TABLE dbo.q4;
DROP TABLE dbo.q5;
DROP USER lease_broker_question;
GO
