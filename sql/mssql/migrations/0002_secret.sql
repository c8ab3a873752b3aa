-- The signing secrets and the row of the health check, each in a table of its own. Published: never changed, only followed by
-- another file. Batches end at lines of GO.

-- The secrets that sign lease ids. A lease id holds the number of its secret.
CREATE TABLE lease_broker_secret (
    id smallint NOT NULL PRIMARY KEY CHECK (id BETWEEN 0 AND 255),
    secret varbinary(64) NOT NULL,
    made_time datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    retire_time datetime2(3) NULL
)
GO
-- Secret 0 is the secret that brokers have used so far, so that leases in flight stay valid.
INSERT lease_broker_secret (id, secret) SELECT 0, value FROM lease_broker_meta WHERE name = 'secret'
GO
-- One row. A health check writes it to test that the database accepts writes.
CREATE TABLE lease_broker_probe (
    id smallint NOT NULL PRIMARY KEY CHECK (id = 0),
    write_time datetime2(3) NOT NULL
)
GO
INSERT lease_broker_probe (id, write_time) VALUES (0, SYSUTCDATETIME())
