-- The brokers that run. Published: never changed, only followed by another file.

-- One row per broker process, by its random id. The broker writes seen_time every 5 s. Times are in ms since 1970. `settings` is a
-- JSON object with hashes of the settings of each queue, by the queue's name. Rows that are a day old are deleted.
CREATE TABLE lease_broker_instance (
    id BLOB PRIMARY KEY NOT NULL,
    version TEXT NOT NULL,
    address TEXT NOT NULL,
    start_time INTEGER NOT NULL,
    seen_time INTEGER NOT NULL,
    draining INTEGER NOT NULL,
    settings TEXT NOT NULL
) WITHOUT ROWID;
