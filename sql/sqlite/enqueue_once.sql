-- Purpose: remember the requests that added items, so that a request that is sent again adds nothing.
-- Sections: `find` returns the request if it is remembered. `remember` stores it after its items were added, in the same
--   transaction. `forget` deletes requests whose time has passed.
-- Parameters: `find` and `remember`: ?1 queue; ?2 request id; ?3 digest of the items; ?4 keys of the items; ?5 time until which
--   the request is remembered (ms since 1970). `forget`: ?1 now (ms since 1970); ?2 maximum number of rows.
-- Locks: the write lock of the file.
-- Indexes: primary key (find, remember); lease_broker_request_expiry (forget).
-- Why `remember` is last and not first, as in the file for SQL Server: SQLite has one writer at a time, so nobody adds the
--   same request between `find` and `remember`. The keys are known by then.

-- :: find
SELECT digest, keys
FROM lease_broker_request
WHERE queue = ?1 AND request_id = ?2

-- :: remember
INSERT INTO lease_broker_request (queue, request_id, digest, keys, expire_time)
VALUES (?1, ?2, ?3, ?4, ?5)

-- :: forget
DELETE FROM lease_broker_request
WHERE (queue, request_id) IN (
    SELECT queue, request_id
    FROM lease_broker_request INDEXED BY lease_broker_request_expiry
    WHERE expire_time <= ?1
    ORDER BY expire_time
    LIMIT ?2
)
