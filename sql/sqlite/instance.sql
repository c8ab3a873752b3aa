-- Purpose: list a broker process as running, and find the others.
-- Sections: `announce`, `forget` and `read_live`, in this order, in the writer's transaction. `list` returns every row, with the time
--   since it was seen (ms). `request_drain` tells a process to stop, and `is_told_to_drain` returns a row if one was told so.
-- Parameters: `announce`: ?1 id; ?2 version; ?3 address; ?4 now (ms since 1970); ?5 1 if the broker drains; ?6 settings (JSON); ?7
--   activity (JSON).
--   `forget`: ?1 time (ms since 1970); rows that were last seen earlier are deleted. `read_live`: ?1 and ?2 times;
--   rows that were seen between them are returned; ?3 id of the row to leave out.
--   `list`: ?1 now. `request_drain`, `is_told_to_drain`: ?1 id.
-- Locks: the write lock of the file; none (`list`).
-- Indexes: primary key. `forget` and `read_live` read the whole table, which has a row for each process of the last day.
-- Why `read_live` has a latest time: a row from further in the future is of a clock that was ahead, perhaps of a process that was killed.

-- :: announce
INSERT INTO lease_broker_instance (id, version, address, start_time, seen_time, draining, settings, activity)
VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET seen_time = excluded.seen_time, draining = excluded.draining, settings = excluded.settings,
    activity = excluded.activity

-- :: forget
DELETE FROM lease_broker_instance WHERE seen_time < ?1

-- :: read_live
SELECT id, version, address, draining, settings, activity FROM lease_broker_instance WHERE seen_time > ?1 AND seen_time < ?2 AND id <> ?3

-- :: list
SELECT id, version, address, draining, settings, activity, start_time, ?1 - seen_time FROM lease_broker_instance
ORDER BY seen_time DESC

-- :: request_drain
UPDATE lease_broker_instance SET drain = 1 WHERE id = ?1

-- :: is_told_to_drain
SELECT 1 FROM lease_broker_instance WHERE id = ?1 AND drain = 1
