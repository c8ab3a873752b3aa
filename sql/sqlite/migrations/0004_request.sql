-- The requests that added items, so that a request that is sent again adds nothing. Published: never changed, only followed by
-- another file.

-- One row per Enqueue call with a request id, until expire_time (ms since 1970). `keys` has the keys of the items, in the
-- format of src/lease_id/key_bytes.rs. `digest` is the SHA-256 hash of the items.
CREATE TABLE lease_broker_request (
    queue TEXT NOT NULL,
    request_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    keys BLOB NOT NULL,
    expire_time INTEGER NOT NULL,
    PRIMARY KEY (queue, request_id)
) WITHOUT ROWID;

-- Expired rows are found by it.
CREATE INDEX lease_broker_request_expiry ON lease_broker_request (expire_time);
