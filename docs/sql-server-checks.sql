-- Checks that the plans and the locks of lease-broker are as sql-server.md says.
--
-- For whom: a database administrator of a SQL Server (2017 to 2025) or an Azure SQL database on which a broker runs.
--
-- How: replace Rainfall_Events by the name of your queue's table, without its schema, and Work by the name of its database.
-- Run part by part in that database while the broker is busy. Parts 1 to 3 change nothing and read views of the server. They
-- need VIEW SERVER STATE; on Azure SQL Database VIEW DATABASE STATE. Part 4 needs ALTER ANY EVENT SESSION and creates an event
-- session, which its last statement drops; it is not for Azure SQL Database. Each part states the expected result. "Why" in
-- sql/mssql/leases.sql and claim.sql gives the reasons.
--
-- The tests in tests/sql_server run these parts on SQL Server and compare the results.

-- 1. Plans
-- One row for each statement of the broker on the table that is in the plan cache. `list` and `stats --exact` may scan.
-- Expected: prefetch, scans and lost_seeks are 0, and generation stays the same from day to day. sorted_rows is 0 for the
-- statements that begin with INSERT @picked or INSERT @due.
--   prefetch: joins that read ahead, and so lock rows that the statement does not take.
--   scans: operators that read the whole table.
--   lost_seeks: conversions of a column that prevent a seek.
--   sorted_rows: sorts of the table's rows before TOP has limited them.
DECLARE @table sysname = N'Rainfall_Events';
DECLARE @quoted nvarchar(258) = QUOTENAME(@table);
WITH XMLNAMESPACES (DEFAULT 'http://schemas.microsoft.com/sqlserver/2004/07/showplan'),
statements AS (
    SELECT q.plan_generation_num AS generation, q.execution_count AS executions, TRY_CONVERT(xml, p.query_plan) AS query_plan,
        SUBSTRING(x.text, q.statement_start_offset / 2 + 1, (CASE q.statement_end_offset WHEN -1 THEN DATALENGTH(x.text)
            ELSE q.statement_end_offset END - q.statement_start_offset) / 2 + 1) AS statement
    FROM sys.dm_exec_query_stats AS q
        CROSS APPLY sys.dm_exec_sql_text(q.sql_handle) AS x
        CROSS APPLY sys.dm_exec_text_query_plan(q.plan_handle, q.statement_start_offset, q.statement_end_offset) AS p
    WHERE p.dbid = DB_ID() AND x.text LIKE N'%lb[_]%' AND x.text NOT LIKE N'%dm[_]exec%')
SELECT LEFT(s.statement, 200) AS statement, s.generation, s.executions,
    s.query_plan.value('count(//NestedLoops[@WithOrderedPrefetch="1" or @WithOrderedPrefetch="true"
        or @WithUnorderedPrefetch="1" or @WithUnorderedPrefetch="true"])', 'int') AS prefetch,
    s.query_plan.value('count(//RelOp[@PhysicalOp="Table Scan" or @PhysicalOp="Clustered Index Scan"]
        [.//Object[@Table=sql:variable("@quoted")]])', 'int') AS scans,
    s.query_plan.value('count(//PlanAffectingConvert[@ConvertIssue="Seek Plan"])', 'int') AS lost_seeks,
    s.query_plan.value('count(//RelOp[@PhysicalOp="Sort"][not(.//RelOp[@PhysicalOp="Top"])]
        //Object[@Table=sql:variable("@quoted")])', 'int') AS sorted_rows
FROM statements AS s
WHERE CHARINDEX(@quoted, s.statement) > 0
ORDER BY s.executions DESC;
GO

-- 2. Locks at this moment
-- One row for each kind of lock that a broker holds or waits for. Its transactions are short, so run it several times.
-- Expected: KEY and RID in U or X, OBJECT and PAGE in IX or IU only, and APPLICATION for calls with a request id. PAGE in S, U
-- or X would make other claims wait. OBJECT in X is an escalation. With optimized locking, XACT takes the place of most X locks.
SELECT l.request_session_id, OBJECT_NAME(p.object_id) AS table_name, i.name AS index_name, l.resource_type, l.request_mode,
    l.request_status, COUNT(*) AS locks
FROM sys.dm_tran_locks AS l
    INNER JOIN sys.dm_exec_sessions AS s ON s.session_id = l.request_session_id
    LEFT JOIN sys.partitions AS p ON p.hobt_id = l.resource_associated_entity_id
    LEFT JOIN sys.indexes AS i ON i.object_id = p.object_id AND i.index_id = p.index_id
WHERE s.program_name = N'lease-broker' AND l.resource_database_id = DB_ID() AND l.resource_type <> N'DATABASE'
GROUP BY l.request_session_id, p.object_id, i.name, l.resource_type, l.request_mode, l.request_status
ORDER BY l.request_session_id, index_name, l.resource_type;
GO

-- 3. Escalations and waits for pages, since the table's metadata was last loaded into memory
-- Expected: escalations and page_lock_waits are 0, unless other programs lock pages or many rows. row_lock_waits grow if other
-- programs hold rows that the broker settles.
SELECT COALESCE(i.name, N'(heap)') AS index_name, SUM(o.index_lock_promotion_count) AS escalations,
    SUM(o.page_lock_wait_count) AS page_lock_waits, SUM(o.row_lock_wait_count) AS row_lock_waits,
    SUM(o.row_lock_wait_in_ms) AS row_lock_wait_ms
FROM sys.dm_db_index_operational_stats(DB_ID(), OBJECT_ID(N'Rainfall_Events'), NULL, NULL) AS o
    INNER JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id = o.index_id
GROUP BY i.name
ORDER BY index_name;
GO

-- 4. Events: recompilations, escalations, sorts that do not fit into memory, deadlocks
-- Start the event session when the broker has run for some minutes.
CREATE EVENT SESSION lease_broker_checks ON SERVER
ADD EVENT sqlserver.sql_statement_recompile (WHERE sqlserver.database_name = N'Work'
    AND sqlserver.client_app_name = N'lease-broker'),
ADD EVENT sqlserver.lock_escalation (WHERE sqlserver.database_name = N'Work'
    AND sqlserver.client_app_name = N'lease-broker'),
ADD EVENT sqlserver.sort_warning (WHERE sqlserver.database_name = N'Work'
    AND sqlserver.client_app_name = N'lease-broker'),
ADD EVENT sqlserver.user_event (WHERE sqlserver.database_name = N'Work'),
ADD EVENT sqlserver.xml_deadlock_report
ADD TARGET package0.ring_buffer
WITH (MAX_DISPATCH_LATENCY = 1 SECONDS);
ALTER EVENT SESSION lease_broker_checks ON SERVER STATE = START;
GO
-- 5. The events so far
-- Expected: no sql_statement_recompile, no lock_escalation, no sort_warning. The broker runs the victim of a deadlock again;
-- many xml_deadlock_report events are worth a look.
SELECT e.name, COUNT(*) AS events
FROM (SELECT n.event.value('@name', 'nvarchar(60)') AS name
    FROM (SELECT TRY_CONVERT(xml, t.target_data) AS content
        FROM sys.dm_xe_session_targets AS t
            INNER JOIN sys.dm_xe_sessions AS s ON s.address = t.event_session_address
        WHERE s.name = N'lease_broker_checks' AND t.target_name = N'ring_buffer') AS b
        CROSS APPLY b.content.nodes('/RingBufferTarget/event') AS n (event)) AS e
GROUP BY e.name
ORDER BY e.name;
GO
-- 6. The end
DROP EVENT SESSION lease_broker_checks ON SERVER;
GO
