-- The broker's own tables. Published: never changed, only followed by another file. Batches end at lines of GO.

-- What every broker on this database shares; `secret` signs the lease ids.
CREATE TABLE lease_broker_meta (
    name varchar(64) NOT NULL PRIMARY KEY,
    value varbinary(64) NOT NULL
)
GO
INSERT lease_broker_meta (name, value)
VALUES ('secret', CONVERT(varbinary(64), NEWID())), ('probe', CONVERT(varbinary(64), 0))
GO
-- The names of the numbers in lease_state, for people and reports to join.
CREATE TABLE lease_broker_state (
    lease_state smallint NOT NULL PRIMARY KEY,
    name varchar(16) NOT NULL UNIQUE
)
GO
INSERT lease_broker_state (lease_state, name)
VALUES (0, 'ready'), (1, 'leased'), (2, 'delayed'), (3, 'completed'), (4, 'dead')
