-- The signing secrets and the row of the health check, each in a table of its own. Published: never changed, only followed by
-- another file.

-- The secrets that sign lease ids. A lease id holds the number of its secret. Times are in milliseconds since 1970.
CREATE TABLE lease_broker_secret (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id BETWEEN 0 AND 255),
    secret BLOB NOT NULL,
    made_time INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    retire_time INTEGER
);

-- Secret 0 is the secret that brokers have used so far, so that leases in flight stay valid.
INSERT INTO lease_broker_secret (id, secret) SELECT 0, value FROM lease_broker_meta WHERE name = 'secret';

-- One row. A health check writes it to test that the file accepts writes.
CREATE TABLE lease_broker_probe (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 0),
    writes INTEGER NOT NULL
);

INSERT INTO lease_broker_probe (id, writes) VALUES (0, 0);
