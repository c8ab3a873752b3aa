-- The broker's own tables. Published: never changed, only followed by another file.

-- What every broker on this database shares; `secret` signs the lease ids.
CREATE TABLE lease_broker_meta (
    name TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) WITHOUT ROWID;

INSERT INTO lease_broker_meta (name, value) VALUES ('secret', randomblob(16)), ('probe', 0);

-- The names of the numbers in lease_state, for people and reports to join.
CREATE TABLE lease_broker_state (
    lease_state INTEGER PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE
);

INSERT INTO lease_broker_state (lease_state, name)
VALUES (0, 'ready'), (1, 'leased'), (2, 'delayed'), (3, 'completed'), (4, 'dead');
