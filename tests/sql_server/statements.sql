-- Purpose: the T-SQL of tests that run on SQL Server only. It is in a file of its own so that Microsoft's parser can check it on
--   machines without a server. Each section is one batch.

-- :: many_rows
-- Half of the rows are ready, half are dead.
WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 99),
    ids AS (SELECT a.i + 100 * b.i + 10000 * c.i + 1 AS id FROM n AS a CROSS JOIN n AS b CROSS JOIN n AS c WHERE c.i < 4)
INSERT item (id, lease_state)
SELECT id, CASE id % 2 WHEN 0 THEN 4 ELSE 0 END FROM ids;
GO

-- :: options_of_xml_methods
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- :: locks_seen
CREATE TABLE locks_seen (index_name nvarchar(128) NULL, resource_type nvarchar(60) NOT NULL, request_mode nvarchar(60) NOT NULL,
    locks int NOT NULL);
GO

-- :: watch_locks
-- The trigger runs inside the transaction of a claim, after its UPDATE, and remembers the locks of the claim on the table.
CREATE TRIGGER watch_locks ON item AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    INSERT locks_seen (index_name, resource_type, request_mode, locks)
    SELECT i.name, l.resource_type, l.request_mode, COUNT(*)
    FROM sys.dm_tran_locks AS l
        LEFT JOIN sys.partitions AS p ON p.hobt_id = l.resource_associated_entity_id
        LEFT JOIN sys.indexes AS i ON i.object_id = p.object_id AND i.index_id = p.index_id
    WHERE l.request_session_id = @@SPID AND l.resource_database_id = DB_ID()
        AND (p.object_id = OBJECT_ID(N'item')
            OR l.resource_type = N'OBJECT' AND l.resource_associated_entity_id = OBJECT_ID(N'item'))
    GROUP BY i.name, l.resource_type, l.request_mode;
END;
GO

-- :: end_earlier_events
IF EXISTS (SELECT * FROM sys.server_event_sessions AS s WHERE s.name = N'lease_broker_checks')
    DROP EVENT SESSION lease_broker_checks ON SERVER;
GO

-- :: mark_end_of_events
EXEC sp_trace_generateevent @event_class = 82, @userinfo = N'the load has ended';
GO

-- :: hold_first_row
BEGIN TRANSACTION;
UPDATE item SET payload = payload WHERE id = 1;
GO

-- :: hold_first_row_as_reader
-- Readers under this isolation keep S locks, which let claims pick the row and stop their update.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
BEGIN TRANSACTION;
SELECT id, payload FROM item WITH (ROWLOCK) WHERE id = 1;
GO

-- :: hold_first_page
BEGIN TRANSACTION;
UPDATE item WITH (PAGLOCK) SET payload = payload WHERE id = 1;
GO

-- :: masked_key
CREATE TABLE item (id int MASKED WITH (FUNCTION = 'default()') NOT NULL PRIMARY KEY, payload nvarchar(50));
GO

-- :: masked_data
CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50) MASKED WITH (FUNCTION = 'default()'), first AS LEFT(payload, 1));
GO

-- :: login_without_unmask
CREATE LOGIN lb_test_login WITH PASSWORD = N'Tests-only-2022', CHECK_POLICY = OFF;
CREATE USER lb_test_login FOR LOGIN lb_test_login;
GRANT SELECT, UPDATE, VIEW DEFINITION ON item TO lb_test_login;
GO

-- :: end_login_without_unmask
DROP USER lb_test_login;
DROP LOGIN lb_test_login;
GO

-- :: half_a_surrogate_pair
INSERT item (id, payload) VALUES (1, N'a' + NCHAR(0xD83D) + N'b');
GO
