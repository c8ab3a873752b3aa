-- Creates a database and the broker's login, which owns it. The service `prepare` in deploy/compose.yaml runs this script.
-- READ_COMMITTED_SNAPSHOT lets readers see row versions instead of waiting for locks.
-- sqlcmd replaces $(LEASE_BROKER_PASSWORD) with the environment variable of that name.
IF DB_ID(N'Work') IS NULL
    CREATE DATABASE Work;
GO
IF (SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = N'Work') = 0
    ALTER DATABASE Work SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE;
GO
IF SUSER_ID(N'lease_broker_service') IS NULL
    CREATE LOGIN lease_broker_service WITH PASSWORD = N'$(LEASE_BROKER_PASSWORD)';
GO
USE Work;
GO
IF DATABASE_PRINCIPAL_ID(N'lease_broker_service') IS NULL
    CREATE USER lease_broker_service FOR LOGIN lease_broker_service WITH DEFAULT_SCHEMA = dbo;
ALTER ROLE db_owner ADD MEMBER lease_broker_service;
GO
