-- Purpose: grants a broker the least rights that `serve` needs, by a database role, lease_broker, with one user.
-- For database administrators. Change each line marked CHANGE, then run the script in the queues' database as its owner. You can
-- run it again at any time. Run it again when you add a queue.
--
-- Run it when the tables are ready. A login that may change the schema (part 5) first runs this command:
--   lease-broker schema apply --config FILE      creates the broker's own tables, lease_broker_*, and those of managed queues; adds
--                                                soft-lock columns, indexes and archives to adopted tables
-- After that the command finds nothing to change, and `serve` needs no right to change the schema.
--
-- Not needed: EXECUTE (sp_getapplock is public), any right on the server, any right on other tables.
-- Why VIEW DEFINITION on the queues' tables: any right on a table shows its columns, indexes and triggers, but SQL Server shows
-- the filter of an index only with this right. Without it the broker recognises its indexes by their names and logs a warning.
-- VIEW DEFINITION shows the definition of the table and none of its rows.
-- Why the rights are granted per table and not on the schema: a user that can read lease_broker_secret can forge
-- lease ids.
--
-- Babelfish 4.3 accepts all but VIEW DEFINITION: leave these lines out. There INSERT alone does not show an archive in the
-- catalogue, so archives get SELECT too.

-- 1. A login and its user. CHANGE the names and the password. Leave this part out if both exist.
-- Azure SQL Database: run CREATE LOGIN in master and the rest in the database, or create a contained user
-- (CREATE USER … WITH PASSWORD = …), or, for an access token, CREATE USER [name] FROM EXTERNAL PROVIDER.
-- Names of tables without a schema are looked up in the default schema. Use the same one for every broker on the database.
IF SUSER_ID(N'lease_broker_service') IS NULL                                                -- CHANGE
    CREATE LOGIN lease_broker_service WITH PASSWORD = N'<a long random password>';          -- CHANGE
GO
IF DATABASE_PRINCIPAL_ID(N'lease_broker_service') IS NULL                                   -- CHANGE
    CREATE USER lease_broker_service FOR LOGIN lease_broker_service WITH DEFAULT_SCHEMA = dbo;  -- CHANGE
GO

-- 2. The role and its member.
IF DATABASE_PRINCIPAL_ID(N'lease_broker') IS NULL
    CREATE ROLE lease_broker;
GO
ALTER ROLE lease_broker ADD MEMBER lease_broker_service;                                    -- CHANGE
GO

-- 3. The broker's own tables. Lease ids are authenticated with the rows of lease_broker_secret. The broker updates the row of
-- lease_broker_probe to test that the database accepts writes.
GRANT SELECT ON dbo.lease_broker_migration TO lease_broker;
GRANT SELECT ON dbo.lease_broker_secret TO lease_broker;
GRANT SELECT, UPDATE ON dbo.lease_broker_probe TO lease_broker;
-- A database that goes back in time is recognised by these (docs/backup.md).
GRANT SELECT ON dbo.lease_broker_epoch TO lease_broker;
GRANT SELECT, UPDATE ON dbo.lease_broker_generation TO lease_broker;
-- Brokers agree here which of them deletes old items (keep_for).
GRANT SELECT, INSERT, UPDATE ON dbo.lease_broker_retention TO lease_broker;
-- Enqueue calls with a request id are remembered here.
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.lease_broker_request TO lease_broker;
GRANT SELECT, INSERT, DELETE ON dbo.lease_broker_request_key TO lease_broker;
-- Items whose last lease has expired, so that they are leased alone.
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.lease_broker_suspect TO lease_broker;
-- Brokers list themselves here.
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.lease_broker_instance TO lease_broker;
-- Claims and inserts read here if their queue is paused.
GRANT SELECT, INSERT, UPDATE ON dbo.lease_broker_queue TO lease_broker;
-- Paused groups. Claims of a queue that has some read them.
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.lease_broker_group TO lease_broker;
-- The rates of groups. Claims of a queue whose groups have one write here.
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.lease_broker_group_rate TO lease_broker;
-- Operations on many items, such as a redrive by filter, are kept here.
GRANT SELECT, INSERT, UPDATE, DELETE ON dbo.lease_broker_operation TO lease_broker;
-- `stats`, `list` and `why` need only SELECT on the queues' tables. With SELECT on lease_broker_instance `why` also tells if a broker
-- runs. Grant these to the login of an operator:
--   GRANT SELECT ON dbo.Rainfall_Events TO an_operator; GRANT SELECT ON dbo.lease_broker_instance TO an_operator;
-- lease_broker_state is for people and reports: grant SELECT on it to those who need it.
GO

-- 4. The queues' tables. CHANGE: write these three lines for each table.
-- INSERT is for Enqueue and follow-up items. DELETE is for queues that delete or archive completed items, have keep_for, or are purged
-- by operators. Leave out a right that a queue does not use.
GRANT SELECT, UPDATE ON dbo.Rainfall_Events TO lease_broker;                                -- CHANGE
GRANT INSERT, DELETE ON dbo.Rainfall_Events TO lease_broker;                                -- CHANGE
GRANT VIEW DEFINITION ON dbo.Rainfall_Events TO lease_broker;                               -- CHANGE
-- CHANGE: uncomment this line if workers shall get a masked column, or if a table with one is archived. SQL Server 2022 and Azure SQL
-- can grant it for a table or a column too: GRANT UNMASK ON dbo.Rainfall_Events (Email) TO lease_broker;
-- GRANT UNMASK TO lease_broker;                                                            -- CHANGE
-- CHANGE: write this line for each archive.
GRANT INSERT, SELECT ON dbo.Rainfall_Events_Archive TO lease_broker;                        -- CHANGE
-- CHANGE: uncomment this line for each archive whose queue has keep_for = { archive = … }.
-- GRANT DELETE ON dbo.Rainfall_Events_Archive TO lease_broker;                             -- CHANGE
GO

-- 5. Changes of the schema: another login, used by a person or by a deployment. It needs these rights:
--   to change tables and create indexes                 ALTER on the table
--   to fill the new columns of existing rows            SELECT and UPDATE on the table
--   to create archives, managed tables, lease_broker_*  CREATE TABLE in the database, and ALTER, SELECT, INSERT, UPDATE
--                                                       and DELETE on the schema
-- These fixed roles have all of them. CHANGE the name and uncomment the lines:
-- ALTER ROLE db_ddladmin ADD MEMBER lease_broker_deployment;
-- ALTER ROLE db_datareader ADD MEMBER lease_broker_deployment;
-- ALTER ROLE db_datawriter ADD MEMBER lease_broker_deployment;
-- GO
