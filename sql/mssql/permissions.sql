-- The least that a broker needs to serve: a database role, lease_broker, and a user in it. For a DBA, to be changed where
-- it says CHANGE and then run in the queues' database by its owner. It may be run again at any time, and has to be when a
-- queue is added.
--
-- Run it when the tables are ready. Whoever may change the schema (part 5) has then run, in this order,
--   lease-broker schema apply --config FILE      the soft-lock columns, indexes and archives of adopted tables
--   lease-broker stats --config FILE             the broker's own tables, lease_broker_*, and those of managed queues
-- Both find nothing to do from then on, and `serve` needs no right to change the schema.
--
-- Not needed: VIEW DEFINITION (a right on a table shows its columns, indexes and triggers, which is all that is asked of
-- the catalogue), EXECUTE (sp_getapplock is public), any right on the server, any right on other tables.
-- Table by table, and not on the schema: whoever can read lease_broker_meta can forge lease ids.
--
-- Babelfish 4.3 takes all of it. There INSERT alone does not show an archive in the catalogue, so it gets SELECT too.

-- 1. A login and its user. CHANGE the names and the password; leave the part out if they are there.
-- Azure SQL Database: run CREATE LOGIN in master and the rest in the database, or make a contained user
-- (CREATE USER … WITH PASSWORD = …), or, for an access token, CREATE USER [name] FROM EXTERNAL PROVIDER.
-- The default schema decides where unqualified names are looked for: the same for every broker on the database.
IF SUSER_ID(N'lease_broker_service') IS NULL                                                -- CHANGE
    CREATE LOGIN lease_broker_service WITH PASSWORD = N'<a long random password>';          -- CHANGE
GO
IF DATABASE_PRINCIPAL_ID(N'lease_broker_service') IS NULL                                   -- CHANGE
    CREATE USER lease_broker_service FOR LOGIN lease_broker_service WITH DEFAULT_SCHEMA = dbo;  -- CHANGE
GO

-- 2. The role, and who is in it.
IF DATABASE_PRINCIPAL_ID(N'lease_broker') IS NULL
    CREATE ROLE lease_broker;
GO
ALTER ROLE lease_broker ADD MEMBER lease_broker_service;                                    -- CHANGE
GO

-- 3. The broker's own tables. The row `secret` signs the lease ids; the row `probe` is written to find out whether the
-- database can be written to.
GRANT SELECT ON dbo.lease_broker_migration TO lease_broker;
GRANT SELECT ON dbo.lease_broker_meta TO lease_broker;
GRANT UPDATE (value) ON dbo.lease_broker_meta TO lease_broker;
-- lease_broker_state is for people and reports: grant SELECT on it to whom it may concern.
GO

-- 4. The queues' tables. CHANGE: these two lines for each.
-- INSERT is for Enqueue and follow-ups, DELETE for queues whose completion deletes or archives: leave out what a queue
-- does not do.
GRANT SELECT, UPDATE ON dbo.Rainfall_Events TO lease_broker;                                -- CHANGE
GRANT INSERT, DELETE ON dbo.Rainfall_Events TO lease_broker;                                -- CHANGE
-- CHANGE: this line for each archive.
GRANT INSERT, SELECT ON dbo.Rainfall_Events_Archive TO lease_broker;                        -- CHANGE
GO

-- 5. Changes of the schema: another login, used by hand or by a deployment. It has to be able to
--   change tables and make indexes                  ALTER on the table
--   fill the new columns of rows that are there     SELECT and UPDATE on the table
--   make archives, managed tables, lease_broker_*   CREATE TABLE in the database, and ALTER, SELECT, INSERT and UPDATE on
--                                                   the schema
-- The fixed roles that have all of this; CHANGE the name and uncomment:
-- ALTER ROLE db_ddladmin ADD MEMBER lease_broker_deployment;
-- ALTER ROLE db_datareader ADD MEMBER lease_broker_deployment;
-- ALTER ROLE db_datawriter ADD MEMBER lease_broker_deployment;
-- GO
