-- Creates and fills the table that the clients of pgbench use directly. It has the soft-lock columns and partial
-- indexes of a queue's table in lease-broker. Parameter: rows.
DROP TABLE IF EXISTS items;

CREATE TABLE items (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    payload text NOT NULL,
    lease_state smallint NOT NULL DEFAULT 0,
    lease_state_time timestamptz(3) NOT NULL DEFAULT now(),
    lease_due_time timestamptz(3),
    lease_owner varchar(128),
    lease_token uuid,
    lease_fence bigint NOT NULL DEFAULT 0,
    lease_attempt int NOT NULL DEFAULT 0,
    lease_error varchar(1024),
    trace_parent varchar(55)
);

CREATE INDEX items_ready ON items (id) WHERE lease_state = 0;
CREATE INDEX items_due ON items (lease_due_time) WHERE lease_state IN (1, 2);
CREATE INDEX items_token ON items (lease_token) WHERE lease_state = 1;

INSERT INTO items (payload) SELECT repeat('x', 100) FROM generate_series(1, :rows);

VACUUM ANALYZE items;
CHECKPOINT;
