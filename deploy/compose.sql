-- What deploy/compose.yaml runs once: a database with row versions for readers, and a login that owns it.
-- $(LEASE_BROKER_PASSWORD) comes from the environment of sqlcmd.
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
